/* conf/value.c - see value.h. */
#include "conf/value.h"

#include "base/heap.h"
#include "base/slice.h"

#include <ctype.h>
#include <stdlib.h>

#define TEXT_MOST 255 /* of a map's value */

/* The n-th of "a|b|c"; p NULL: there are fewer. */
static struct slice value_word(const char *words, int n)
{
    for (; n > 0; n--) {
        words = strchr(words, '|');
        if (words == NULL) return slice_of(NULL, 0);
        words++;
    }
    return slice_of(words, strcspn(words, "|"));
}

struct unit {
    const char *name;
    int64_t of; /* ms, or bytes */
};
static const struct unit durations[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};
#define UNITS(table) (sizeof(table) / sizeof((table)[0]))

/* Canonical digits and exactly one unit, nothing between. False: it is not that, or too big. */
static bool unit_read(struct slice text, const struct unit *units, size_t n, int64_t *out)
{
    size_t digits = 0;
    while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
        digits++;
    int64_t count;
    if (!num_parse(slice_of(text.p, digits), &count)) return false;
    struct slice unit = slice_of(text.p + digits, text.n - digits);
    for (size_t i = 0; i < n; i++)
        if (slice_eq(unit, slice_str(units[i].name))) return !__builtin_mul_overflow(count, units[i].of, out);
    return false;
}

static void unit_write(int64_t value, const struct unit *units, size_t n, struct buf *out)
{
    size_t i = 0;
    while (i + 1 < n && (value == 0 || value % units[i].of != 0))
        i++;
    buf_int(out, value / units[i].of);
    buf_put_slice(out, slice_str(units[i].name));
}

/* A duration; whole seconds only. */
static bool unit_read_seconds(struct slice text, int64_t *seconds)
{
    int64_t ms;
    if (!unit_read(text, durations, UNITS(durations), &ms) || ms % 1000 != 0) return false;
    *seconds = ms / 1000;
    return true;
}

/* Appended in the biggest unit that leaves no rest. */
static void unit_write_ms(int64_t ms, struct buf *out)
{
    unit_write(ms, durations, UNITS(durations), out);
}

static struct slice spaces_trim(struct slice s)
{
    while (s.n > 0 && s.p[0] == ' ')
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n > 0 && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

/* Takes the text before the first sep, or all of it, off rest. False: there was no sep, so nothing is left. */
static bool value_cut(struct slice *rest, char sep, struct slice *head)
{
    const char *at = rest->n == 0 ? NULL : memchr(rest->p, sep, rest->n);
    size_t n = at == NULL ? rest->n : (size_t)(at - rest->p);
    *head = spaces_trim(slice_of(rest->p, n));
    *rest = at == NULL ? slice_of(NULL, 0) : slice_of(at + 1, rest->n - n - 1);
    return at != NULL;
}

static bool number_add(const struct conf_row *row, struct slice text, struct conf_numbers *out,
                       const char **why)
{
    int64_t value;
    if (!num_parse(text, &value) || value < row->least || value > row->most) return false;
    for (size_t i = 0; i < out->n; i++)
        if (out->all[i] == value) {
            *why = "a list with the same number twice";
            return false;
        }
    if (out->n == CONF_NUMBERS_MAX) {
        *why = "a list that is too long";
        return false;
    }
    out->all = heap_realloc(out->all, (out->n + 1) * sizeof(*out->all));
    out->all[out->n++] = value;
    return true;
}

/* Adds the numbers of "1, 5, 60"; each must be within the row's bounds, and new. False: *why may say what the text is
 * instead; some may have been added. */
static bool numbers_read(const struct conf_row *row, struct slice text, struct conf_numbers *out,
                         const char **why)
{
    bool good, more;
    do {
        struct slice number;
        more = value_cut(&text, ',', &number);
        good = number_add(row, number, out, why);
    } while (good && more);
    return good;
}

static bool tier_read(const struct conf_row *row, struct slice text, struct conf_tier *out)
{
    struct slice window;
    value_cut(&text, ' ', &window);
    return unit_read_seconds(window, &out->window_s) && unit_read_seconds(spaces_trim(text), &out->keep_s) &&
           out->window_s >= row->least && out->window_s <= out->keep_s && out->keep_s <= row->most;
}

static bool tier_follows(const struct conf_tiers *before, const struct conf_tier *tier, const char **why)
{
    if (before->n == 0) return true;
    const struct conf_tier *last = &before->all[before->n - 1];
    if (tier->window_s <= last->window_s)
        *why = "a list whose windows do not grow from one tier to the next";
    else if (tier->keep_s < last->keep_s)
        *why = "a list that keeps bigger windows for a shorter time than smaller ones";
    else if (before->n == CONF_TIERS_MAX)
        *why = "a list that is too long";
    else
        return true;
    return false;
}

/* "5s 30d, 1h 365d": windows grow from tier to tier, and so does the time they are kept, or it stays equal. out gets
 * all of them or, on false, none. */
static bool tiers_read(const struct conf_row *row, struct slice text, struct conf_tiers *out,
                       const char **why)
{
    struct conf_tiers tiers = {.all = heap_zalloc(CONF_TIERS_MAX * sizeof(*tiers.all))};
    bool good, more;
    do {
        struct slice part;
        struct conf_tier tier;
        more = value_cut(&text, ',', &part);
        good = tier_read(row, part, &tier) && tier_follows(&tiers, &tier, why);
        if (good) tiers.all[tiers.n++] = tier;
    } while (good && more);
    if (good)
        *out = tiers;
    else
        heap_free(tiers.all);
    return good;
}

/* Not empty, no control bytes */
static bool text_printable(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f) return false;
    return text.n > 0;
}

/* Adds one text, within the row's lengths and not there yet; false as numbers_read. */
static bool texts_read(const struct conf_row *row, struct slice text, struct conf_texts *out,
                       const char **why)
{
    if (!text_printable(text) || (int64_t)text.n < row->least || (int64_t)text.n > row->most) return false;
    for (size_t i = 0; i < out->n; i++)
        if (slice_eq(slice_str(out->all[i]), text)) {
            *why = "a list with the same text twice";
            return false;
        }
    if (out->n == CONF_TEXTS_MAX) {
        *why = "a list that is too long";
        return false;
    }
    out->all = heap_realloc(out->all, (out->n + 1) * sizeof(*out->all));
    out->all[out->n++] = heap_strndup(text.p, text.n);
    return true;
}

static void texts_free(struct conf_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        heap_free(texts->all[i]);
    heap_free(texts->all);
}

/* "5s 30d, 1h 365d" */
static void tiers_write(const struct conf_tiers *tiers, struct buf *out)
{
    buf_put_char(out, '"');
    for (size_t i = 0; i < tiers->n; i++) {
        if (i > 0) BUF_LIT(out, ", ");
        unit_write_ms(tiers->all[i].window_s * 1000, out);
        buf_put_char(out, ' ');
        unit_write_ms(tiers->all[i].keep_s * 1000, out);
    }
    buf_put_char(out, '"');
}

static bool word_read(const struct conf_row *row, struct slice text, int *out)
{
    struct slice word;
    for (int i = 0; (word = value_word(row->expect, i)).p != NULL; i++)
        if (slice_eq(word, text)) {
            *out = i;
            return true;
        }
    return false;
}

/* 1..64 letters, digits and the other characters. */
static bool text_name_valid(struct slice text, const char *others)
{
    if (text.n == 0 || text.n > 64) return false;
    for (size_t i = 0; i < text.n; i++)
        if (!isalnum((unsigned char)text.p[i]) && (text.p[i] == '\0' || strchr(others, text.p[i]) == NULL))
            return false;
    return true;
}

static bool text_valid(const struct conf_row *row, struct slice text)
{
    switch (row->kind) {
    case KIND_INSTANCE:
        return text_name_valid(text, "._-");
    case KIND_IDENTIFIER:
        for (size_t i = 0; row->most > 0 && i < text.n; i++)
            if (!isalpha((unsigned char)text.p[i]) || (int64_t)i == row->most) return false;
        return text_name_valid(text, "_$");
    case KIND_HASH:
        return text.n > 0 && text.p[0] == '$' && text_printable(text);
    case KIND_PATTERN:
        return text_printable(text) && (int64_t)text.n <= row->most;
    default:
        return text_printable(text);
    }
}

/* Of "{ table, id, name }". */
struct slice value_lookup_name(const struct conf_row *row, size_t i)
{
    const char *at = row->expect;
    PRE(row->kind == KIND_LOOKUP && i < CONF_LOOKUP_NAMES);
    for (;; i--) {
        at += strspn(at, "{ ,");
        size_t n = strcspn(at, " ,}");
        if (i == 0) return slice_of(at, n);
        at += n;
    }
}

bool value_lookup_set(const struct conf_row *row, size_t i, struct slice text, void *base)
{
    struct conf_lookup *to = conf_member(row, base);
    PRE(row->kind == KIND_LOOKUP && i < CONF_LOOKUP_NAMES);
    if (!text_name_valid(text, "_$")) return false;
    heap_free(to->names[i]);
    to->names[i] = heap_strndup(text.p, text.n);
    return true;
}

/* An item of a list is a column. */
bool value_map_add(const struct conf_row *row, struct slice name, struct slice text, void *base)
{
    struct conf_map *to = conf_member(row, base);
    PRE(row->kind == KIND_MAP);
    if (!text_name_valid(name, "_$") || !text_printable(text) || text.n > TEXT_MOST) return false;
    if (to->n > 0 && slice_eq(slice_str(to->all[to->n - 1].name), name)) {
        struct buf joined = {0};
        if (!text_name_valid(text, "_$")) return false;
        buf_printf(&joined, "%s," SLICE_FMT, to->all[to->n - 1].value, SLICE_ARG(text));
        heap_free(to->all[to->n - 1].value);
        to->all[to->n - 1].value = heap_strndup(joined.p, joined.n);
        buf_free(&joined);
        return true;
    }
    if (to->n == CONF_MAP_MAX) return false;
    to->all = heap_realloc(to->all, (to->n + 1) * sizeof *to->all);
    to->all[to->n++] = (struct conf_pair){heap_strndup(name.p, name.n), heap_strndup(text.p, text.n)};
    return true;
}

static bool number_read(const struct conf_row *row, struct slice text, bool quoted, int64_t *out)
{
    int64_t value = 0;
    bool read;
    switch (row->kind) {
    case KIND_NUMBER:
        read = !quoted && num_parse(text, &value);
        break;
    case KIND_SIZE:
        /* GiB, MiB, KiB, B */
        read = unit_read(text, sizes, UNITS(sizes), &value);
        break;
    case KIND_SECONDS:
        read = unit_read_seconds(text, &value);
        break;
    default:
        read = unit_read(text, durations, UNITS(durations), &value);
        break;
    }
    if (!read || value < row->least || value > row->most) return false;
    *out = value;
    return true;
}

bool value_listed(const struct conf_row *row)
{
    return row->kind == KIND_ADDRESSES || row->kind == KIND_NUMBERS || row->kind == KIND_TEXTS;
}

bool value_secret(const struct conf_row *row)
{
    return row->kind == KIND_URL || row->kind == KIND_PATH || row->kind == KIND_HASH;
}

/* <instance> in it is the name that the environment gives, so that several tallyds have one file. */
static const char *address_read(struct slice text, struct address *out)
{
    const struct slice mark = SLICE("<instance>");
    const char *at = memmem(text.p, text.n, mark.p, mark.n), *name = getenv(CONF_INSTANCE_ENVIRONMENT);
    if (at == NULL) return address_parse(text, out);
    if (name == NULL || name[0] == '\0')
        return "an address with <instance>, which nothing names (put " CONF_INSTANCE_ENVIRONMENT
               "=1 before the command for the unit tallyd@1)";
    struct buf named = {0};
    buf_printf(&named, "%.*s%s%.*s", (int)(at - text.p), text.p, name,
               (int)(text.p + text.n - at - (ptrdiff_t)mark.n), at + mark.n);
    const char *why = address_parse(buf_slice(&named), out);
    buf_free(&named);
    return why;
}

static bool address_add(struct conf_addresses *list, struct slice text, const char **why)
{
    struct address a;
    *why = address_read(text, &a);
    if (*why != NULL) return false;
    list->all = heap_realloc(list->all, (list->n + 1) * sizeof *list->all);
    list->all[list->n++] = a;
    return true;
}

bool value_read(const struct conf_row *row, struct slice text, bool quoted, void *base, const char **why)
{
    void *to = conf_member(row, base);
    switch (row->kind) {
    case KIND_ADDRESSES:
        return address_add(to, text, why);
    case KIND_URL:
    case KIND_HASH:
    case KIND_PATH:
    case KIND_INSTANCE:
    case KIND_PATTERN:
    case KIND_IDENTIFIER:
        if (!text_valid(row, text)) return false;
        *(char **)to = heap_strndup(text.p, text.n);
        return true;
    case KIND_NUMBER:
    case KIND_MS:
    case KIND_SECONDS:
    case KIND_SIZE:
        return number_read(row, text, quoted, to);
    case KIND_NUMBERS:
        return !quoted && numbers_read(row, text, to, why);
    case KIND_TIERS:
        return tiers_read(row, text, to, why);
    case KIND_TEXTS:
        return texts_read(row, text, to, why);
    case KIND_WORD:
        return word_read(row, text, to);
    case KIND_LOOKUP: /* a map: value_lookup_set() */
    case KIND_MAP:    /* value_map_add() */
        return false;
    }
    UNREACHABLE();
}

void conf_quoted_put(struct slice text, struct buf *out)
{
    buf_put_char(out, '"');
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '"' || text.p[i] == '\\') buf_put_char(out, '\\');
        buf_put_char(out, text.p[i]);
    }
    buf_put_char(out, '"');
}

/* ["one", "two"], [1, 5, 60] */
static void list_write(const struct conf_row *row, const void *list, size_t n, struct buf *out)
{
    buf_put_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0) BUF_LIT(out, ", ");
        if (row->kind == KIND_NUMBERS)
            buf_int(out, ((const struct conf_numbers *)list)->all[i]);
        else if (row->kind == KIND_TEXTS)
            conf_quoted_put(slice_str(((const struct conf_texts *)list)->all[i]), out);
        else
            conf_quoted_put(slice_str(((const struct conf_addresses *)list)->all[i].text), out);
    }
    buf_put_char(out, ']');
}

/* False: it was not given. */
static bool lookup_write(const struct conf_row *row, const struct conf_lookup *lookup, struct buf *out)
{
    if (lookup->names[0] == NULL) return false;
    for (size_t i = 0; i < CONF_LOOKUP_NAMES; i++) {
        struct slice name = value_lookup_name(row, i);
        buf_printf(out, "%s" SLICE_FMT ": ", i == 0 ? "{ " : ", ", SLICE_ARG(name));
        conf_quoted_put(slice_str(lookup->names[i]), out);
    }
    BUF_LIT(out, " }");
    return true;
}

void value_map_put(const struct conf_map *map, size_t i, struct buf *out)
{
    const struct conf_pair *pair = &map->all[i];
    buf_printf(out, "%s: ", pair->name);
    bool list = strchr(pair->value, ',') != NULL && strpbrk(pair->value, " '\"[]{}:#") == NULL;
    if (list)
        buf_printf(out, "[%s]", pair->value);
    else
        conf_quoted_put(slice_str(pair->value), out);
}

/* False: it was not given. */
static bool map_write(const struct conf_map *map, struct buf *out)
{
    for (size_t i = 0; i < map->n; i++) {
        buf_put_slice(out, slice_str(i == 0 ? "{ " : ", "));
        value_map_put(map, i, out);
    }
    if (map->n > 0) BUF_LIT(out, " }");
    return map->n > 0;
}

bool value_write(const struct conf_row *row, const void *base, struct buf *out)
{
    const void *from = (const char *)base + row->at;
    size_t n;
    switch (row->kind) {
    case KIND_ADDRESSES:
    case KIND_TEXTS:
        n = row->kind == KIND_TEXTS ? ((const struct conf_texts *)from)->n
                                    : ((const struct conf_addresses *)from)->n;
        list_write(row, from, n, out);
        return n > 0;
    case KIND_URL:
    case KIND_HASH:
    case KIND_PATH:
    case KIND_INSTANCE:
    case KIND_PATTERN:
    case KIND_IDENTIFIER:
        if (*(char *const *)from == NULL) return false;
        conf_quoted_put(slice_str(*(char *const *)from), out);
        return true;
    case KIND_NUMBER:
        if (*(const int64_t *)from < row->least) return false; /* left out */
        buf_int(out, *(const int64_t *)from);
        return true;
    case KIND_MS:
        unit_write_ms(*(const int64_t *)from, out);
        return true;
    case KIND_SECONDS:
        unit_write_ms(*(const int64_t *)from * 1000, out);
        return true;
    case KIND_SIZE:
        unit_write(*(const int64_t *)from, sizes, UNITS(sizes), out);
        return true;
    case KIND_NUMBERS:
        list_write(row, from, ((const struct conf_numbers *)from)->n, out);
        return true;
    case KIND_TIERS:
        tiers_write(from, out);
        return true;
    case KIND_LOOKUP:
        return lookup_write(row, from, out);
    case KIND_MAP:
        return map_write(from, out);
    case KIND_WORD:
        buf_put_slice(out, value_word(row->expect, *(const int *)from));
        return true;
    }
    UNREACHABLE();
}

static void addresses_free(struct conf_addresses *list)
{
    for (size_t i = 0; i < list->n; i++)
        address_free(&list->all[i]);
    heap_free(list->all);
    *list = (struct conf_addresses){0};
}

static void lookup_free(struct conf_lookup *lookup)
{
    for (size_t i = 0; i < CONF_LOOKUP_NAMES; i++)
        heap_free(lookup->names[i]);
    *lookup = (struct conf_lookup){0};
}

static void map_free(struct conf_map *map)
{
    for (size_t i = 0; i < map->n; i++) {
        heap_free(map->all[i].name);
        heap_free(map->all[i].value);
    }
    heap_free(map->all);
    *map = (struct conf_map){0};
}

void value_free(const struct conf_row *row, void *base)
{
    void *at = conf_member(row, base);
    switch (row->kind) {
    case KIND_ADDRESSES:
        addresses_free(at);
        return;
    case KIND_URL:
    case KIND_HASH:
    case KIND_PATH:
    case KIND_INSTANCE:
    case KIND_PATTERN:
    case KIND_IDENTIFIER:
        heap_free(*(char **)at);
        return;
    case KIND_NUMBERS:
        heap_free(((struct conf_numbers *)at)->all);
        return;
    case KIND_TIERS:
        heap_free(((struct conf_tiers *)at)->all);
        return;
    case KIND_TEXTS:
        texts_free(at);
        return;
    case KIND_LOOKUP:
        lookup_free(at);
        return;
    case KIND_MAP:
        map_free(at);
        return;
    default:
        return;
    }
}
