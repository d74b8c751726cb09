/* series/places.c - see counter.h. */
#include "series/counter.h"

#include "base/heap.h"
#include "base/slice.h"
#include "series/names.h"

#define STORE SLICE("store")
#define HOUR_S 3600

/* --- kinds and spellings --- */

static const struct {
    const char *text;
    struct value_type type;
} types[] = {{"integer", {VALUE_INTEGER, SPELLED_DIGITS, 0}},
             {"text", {VALUE_TEXT, SPELLED_DIGITS, 0}},
             {"date", {VALUE_DATE, SPELLED_DIGITS, 0}},
             {"date 20240501", {VALUE_DATE, SPELLED_DIGITS, 0}},
             {"date 2024-05-01", {VALUE_DATE, SPELLED_DASHES, 0}},
             {"date seconds", {VALUE_DATE, SPELLED_SECONDS, 0}},
             {"date milliseconds", {VALUE_DATE, SPELLED_MS, 0}},
             {"hour", {VALUE_HOUR, SPELLED_DIGITS, 0}},
             {"hour 2024050113", {VALUE_HOUR, SPELLED_DIGITS, 0}},
             {"hour 2024-05-01 13", {VALUE_HOUR, SPELLED_DASHES, ' '}},
             {"hour 2024-05-01T13", {VALUE_HOUR, SPELLED_DASHES, 'T'}},
             {"hour 2024-05-01-13", {VALUE_HOUR, SPELLED_DASHES, '-'}},
             {"hour seconds", {VALUE_HOUR, SPELLED_SECONDS, 0}},
             {"hour milliseconds", {VALUE_HOUR, SPELLED_MS, 0}},
             {"month", {VALUE_MONTH, SPELLED_DIGITS, 0}},
             {"month 202405", {VALUE_MONTH, SPELLED_DIGITS, 0}},
             {"month 2024-05", {VALUE_MONTH, SPELLED_DASHES, 0}}};

bool value_type_parse(struct slice text, struct value_type *out)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!slice_eq(text, slice_str(types[i].text))) continue;
        *out = types[i].type;
        return true;
    }
    return false;
}

/* The value of the n <= 8 digits at p; -1 when one of them is not a digit. */
static int digits_value(const char *p, size_t n)
{
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

static bool month_valid(const char *p)
{
    int month = digits_value(p + 4, 2);
    return digits_value(p, 4) >= 1000 && month >= 1 && month <= 12;
}

static bool date_valid(const char *p)
{
    static const int days_of[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (!month_valid(p)) return false;
    int year = digits_value(p, 4), month = digits_value(p + 4, 2), day = digits_value(p + 6, 2);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day >= 1 && day <= days_of[month - 1] + (leap && month == 2 ? 1 : 0);
}

bool date_is(struct slice text)
{
    return text.n == 8 && date_valid(text.p);
}

static bool hour_valid(const char *p)
{
    int hour = digits_value(p + 8, 2);
    return date_valid(p) && hour >= 0 && hour <= 23;
}

static bool is_counted(const struct value_type *t)
{
    return t->spelling == SPELLED_SECONDS || t->spelling == SPELLED_MS;
}

const char *value_shape(const struct value_type *t)
{
    if (t->kind == VALUE_INTEGER || t->kind == VALUE_TEXT || is_counted(t)) return NULL;
    bool dashes = t->spelling == SPELLED_DASHES;
    if (t->kind == VALUE_MONTH) return dashes ? "dddd-dd" : "dddddd";
    if (t->kind == VALUE_DATE) return dashes ? "dddd-dd-dd" : "dddddddd";
    if (!dashes) return "dddddddddd";
    return t->before_hour == 'T'   ? "dddd-dd-ddTdd"
           : t->before_hour == '-' ? "dddd-dd-dd-dd"
                                   : "dddd-dd-dd dd";
}

static bool shaped_plain(const struct value_type *t, struct slice text, char digits[PLAIN_BYTES])
{
    const char *shape = value_shape(t);
    size_t n = 0;
    if (text.n != strlen(shape)) return false;
    for (size_t i = 0; i < text.n; i++) {
        if (shape[i] == 'd')
            digits[n++] = text.p[i];
        else if (text.p[i] != shape[i])
            return false;
    }
    return t->kind == VALUE_MONTH ? month_valid(digits)
                                  : (t->kind == VALUE_DATE ? date_valid(digits) : hour_valid(digits));
}

static int64_t unit_of(const struct value_type *t)
{
    int64_t ms = t->spelling == SPELLED_MS ? 1000 : 1;
    return (t->kind == VALUE_DATE ? DAY_S : HOUR_S) * ms;
}

static bool counted_plain(const struct value_type *t, struct slice text, char digits[PLAIN_BYTES])
{
    int64_t v, unit = unit_of(t), last = day_number(DAY_LAST) * (t->kind == VALUE_DATE ? 1 : 24);
    if (!num_parse(text, &v) || v < 0 || v % unit != 0 || v / unit > last) return false;
    int64_t units = v / unit; /* days or hours since 1970 */
    int64_t plain =
        t->kind == VALUE_DATE ? day_of_number(units) : day_of_number(units / 24) * 100 + units % 24;
    char text_plain[21];
    memcpy(digits, text_plain, num_write(plain, text_plain));
    return true;
}

static size_t digits_of(enum value_kind kind)
{
    return kind == VALUE_DATE ? 8 : kind == VALUE_HOUR ? 10 : 6;
}

bool value_plain(const struct value_type *type, struct slice text, char digits[PLAIN_BYTES],
                 struct slice *plain)
{
    int64_t v;
    *plain = text;
    if (type->kind == VALUE_INTEGER) return num_parse(text, &v) && v >= 0;
    if (type->kind == VALUE_TEXT) return text.n >= 1 && text.n <= TEXT_BYTES_MAX;
    *plain = slice_of(digits, digits_of(type->kind));
    return (is_counted(type) ? counted_plain : shaped_plain)(type, text, digits);
}

void value_spell(const struct value_type *type, struct slice digits, struct buf *out)
{
    int64_t v;
    PRE(digits.n == digits_of(type->kind));
    if (is_counted(type)) {
        bool good = num_parse(digits, &v);
        PRE(good);
        int64_t units = type->kind == VALUE_DATE ? day_number(v) : day_number(v / 100) * 24 + v % 100;
        buf_int(out, units * unit_of(type));
        return;
    }
    for (const char *shape = value_shape(type), *d = digits.p; *shape != '\0'; shape++)
        buf_put_char(out, *shape == 'd' ? *d++ : *shape);
}

/* --- parsing --- */

bool name_valid(struct slice s)
{
    if (s.n == 0 || s.n > NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') && s.p[i] != '_')
            return false;
    return true;
}

static const char *text_fault(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == '<' || text.p[i] == '>')
            return "may hold '<' and '>' only around the name of a placeholder, of a-z 0-9 _";
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f) return "may not hold control bytes";
    return NULL;
}

static const char *place_fault(const struct places *p, struct slice name)
{
    if (!name_valid(name)) return "may hold '<' and '>' only around the name of a placeholder, of a-z 0-9 _";
    if (places_find(p, name) != NULL) return "names a placeholder twice";
    if (p->n == PLACES_MAX) return "has more than 6 placeholders";
    if (p->n > 0 && p->text[p->n].n == 0)
        return "has nothing between two placeholders, so it is not known where one ends";
    return NULL;
}

bool places_parse(struct slice text, struct places *out, const char **why)
{
    struct slice rest = text;
    *out = (struct places){.n = 0};
    for (;;) {
        const char *open = rest.n == 0 ? NULL : memchr(rest.p, '<', rest.n);
        size_t n = open == NULL ? rest.n : (size_t)(open - rest.p);
        const char *close = open == NULL ? NULL : memchr(open, '>', rest.n - n);
        if (close == NULL) n = rest.n;
        out->text[out->n] = slice_of(rest.p, n);
        *why = text_fault(out->text[out->n]);
        if (*why != NULL || close == NULL) break;
        struct slice name = slice_of(open + 1, (size_t)(close - open) - 1);
        *why = place_fault(out, name);
        if (*why != NULL) break;
        out->at[out->n++].name = name;
        rest = slice_of(close + 1, rest.n - n - name.n - 2);
    }
    if (*why == NULL && text.n == 0) *why = "is empty";
    return *why == NULL;
}

const struct place *places_find(const struct places *p, struct slice name)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (slice_eq(p->at[i].name, name)) return &p->at[i];
    return NULL;
}

/* --- matching --- */

/* May the i-th value, a text, hold this byte? */
static bool place_takes(const struct places *p, uint32_t i, char c)
{
    bool last = i + 1 == p->n, store = slice_eq(p->at[i].name, STORE);
    if ((unsigned char)c < ' ' || c == 0x7f) return false;
    if (store && (c == ':' || c == '{' || c == '}')) return false;
    return last ? p->text[p->n].n == 0 || c != ':' : c != p->text[i + 1].p[0];
}

/* How many bytes at the begin of s are the i-th value, which is not the last? A number ends with its digits, a time of digits and
 * dashes where it must, a text before the next byte of the pattern. */
static size_t value_bytes(const struct places *p, uint32_t i, struct slice s)
{
    const struct value_type *t = &p->at[i].type;
    size_t n = 0;
    if (t->kind == VALUE_INTEGER || (t->kind != VALUE_TEXT && is_counted(t)))
        while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
            n++;
    else if (t->kind == VALUE_TEXT)
        while (n < s.n && place_takes(p, i, s.p[n]))
            n++;
    else
        n = strlen(value_shape(t));
    return n;
}

bool places_match(const struct places *p, struct slice text, struct slice values[PLACES_MAX])
{
    struct slice rest = text, tail = p->text[p->n];
    for (uint32_t i = 0; i < p->n; i++) {
        if (!slice_starts(rest, p->text[i])) return false;
        rest = slice_of(rest.p + p->text[i].n, rest.n - p->text[i].n);
        size_t n = i + 1 < p->n ? value_bytes(p, i, rest) : rest.n - (tail.n < rest.n ? tail.n : rest.n);
        if (n > rest.n) return false;
        values[i] = slice_of(rest.p, n);
        struct slice value = values[i];
        char digits[PLAIN_BYTES];
        struct slice plain;
        if (!value_plain(&p->at[i].type, value, digits, &plain)) return false;
        for (size_t k = 0; p->at[i].type.kind == VALUE_TEXT && k < value.n; k++)
            if (!place_takes(p, i, value.p[k])) return false;
        rest = slice_of(rest.p + n, rest.n - n);
    }
    return slice_eq(rest, tail);
}

void places_put(const struct places *p, const struct slice values[], struct buf *out)
{
    for (uint32_t i = 0; i < p->n; i++) {
        buf_put_slice(out, p->text[i]);
        buf_put_slice(out, values[i]);
    }
    buf_put_slice(out, p->text[p->n]);
}

/* Its texts are slices of one text. */
void places_text(const struct places *p, struct buf *out)
{
    const char *begin = p->text[0].p, *end = p->text[p->n].p + p->text[p->n].n;
    buf_put(out, begin, (size_t)(end - begin));
}

/* Can two patterns make the same name? Each is an automaton over bytes: its texts, and values that may go on or end. A
 * breadth-first search over both at once finds the shortest name, if there is one. */

#define HIGHEST "9223372036854775807" /* a 64-bit integer's digits */
#define HIGHEST_N 19
/* With fewer bytes in both patterns the shortest name that both make has no text beyond its bound: of all other values the shortest
 * that are needed have at most 13 bytes. */
#define LONG_BYTES (TEXT_BYTES_MAX - 2 * PLACES_MAX * 13)

/* Piece 2i is text[i], piece 2i + 1 the i-th value. In a text `at` is the next byte; in a value 0 says that it has none yet. */
struct overlap_spot {
    uint16_t piece, at;
};

struct overlap_node {
    struct overlap_spot a, b;
    uint32_t from; /* the node before it */
    char byte;
};

struct search {
    const struct places *a, *b;
    struct overlap_node *all;
    uint32_t n, cap;
    uint32_t *seen; /* open addressing: 1 + a node's place; as many as twice the room of all */
    bool long_names;
};

static struct overlap_spot normal(const struct places *p, struct overlap_spot s)
{
    if (s.piece % 2 == 0 && s.piece / 2 < p->n && s.at == p->text[s.piece / 2].n)
        return (struct overlap_spot){(uint16_t)(s.piece + 1), 0};
    return s;
}

/* A text's `at` is its length or, where no name is long enough to pass a text's bound, whether it has a byte: with that there are
 * far fewer spots. */
static bool value_step(const struct places *p, uint32_t i, uint16_t *at, char c, bool long_names)
{
    const struct value_type *t = &p->at[i].type;
    const char *shape = value_shape(t);
    if (t->kind == VALUE_TEXT) {
        *at = long_names ? (uint16_t)(*at + 1) : 1;
        return *at <= TEXT_BYTES_MAX && place_takes(p, i, c);
    }
    if (shape == NULL) {
        /* An integer's `at`: 1 is the digit 0, otherwise how many digits, and whether they are below, as or above those of HIGHEST. */
        if (c < '0' || c > '9' || *at == 1) return false;
        if (*at == 0 && c == '0') return *at = 1, true;
        unsigned digits = *at == 0 ? 0 : (*at - 2U) / 3 + 1, order = *at == 0 ? 1 : (*at - 2U) % 3;
        if (digits == HIGHEST_N) return false;
        if (order == 1) order = c < HIGHEST[digits] ? 0 : c > HIGHEST[digits] ? 2 : 1;
        *at = (uint16_t)(2 + digits * 3 + order);
        return true;
    }
    char wanted = shape[*at];
    if (wanted == '\0' || (wanted == 'd' ? c < '0' || c > '9' : c != wanted)) return false;
    ++*at;
    return true;
}

static bool value_may_end(const struct places *p, uint32_t i, uint16_t at)
{
    const char *shape = value_shape(&p->at[i].type);
    if (shape != NULL) return shape[at] == '\0';
    return at > 0 && (p->at[i].type.kind == VALUE_TEXT || at < 2 + (HIGHEST_N - 1) * 3 + 2);
}

static bool text_step(const struct places *p, struct overlap_spot s, char c, struct overlap_spot *out)
{
    struct slice text = p->text[s.piece / 2];
    if (s.at >= text.n || text.p[s.at] != c) return false;
    *out = normal(p, (struct overlap_spot){s.piece, (uint16_t)(s.at + 1)});
    return true;
}

/* Where the byte leads to: up to two spots. */
static size_t spot_step(const struct places *p, struct overlap_spot s, char c, bool long_names,
                        struct overlap_spot out[2])
{
    size_t n = 0;
    if (s.piece % 2 == 0) return text_step(p, s, c, out);
    out[0] = s;
    n += value_step(p, s.piece / 2, &out[0].at, c, long_names);
    if (!value_may_end(p, s.piece / 2, s.at)) return n;
    return n + text_step(p, (struct overlap_spot){(uint16_t)(s.piece + 1), 0}, c, &out[n]);
}

static bool spot_ends(const struct places *p, struct overlap_spot s)
{
    if (s.piece == 2 * p->n) return s.at == p->text[p->n].n;
    return s.piece + 1U == 2 * p->n && p->text[p->n].n == 0 && value_may_end(p, s.piece / 2, s.at);
}

static bool spots_same(const struct overlap_node *x, const struct overlap_node *y)
{
    return x->a.piece == y->a.piece && x->a.at == y->a.at && x->b.piece == y->b.piece && x->b.at == y->b.at;
}

/* Where node is in seen, or would be. */
static uint32_t *seen_find(const struct search *s, const struct overlap_node *node)
{
    uint64_t bits = ((uint64_t)node->a.piece << 48 | (uint64_t)node->a.at << 32 |
                     (uint64_t)node->b.piece << 16 | node->b.at);
    size_t i = (size_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 44) & (2 * s->cap - 1);
    while (s->seen[i] != 0 && !spots_same(&s->all[s->seen[i] - 1], node))
        i = (i + 1) & (2 * s->cap - 1);
    return &s->seen[i];
}

static void node_add(struct search *s, struct overlap_node node)
{
    if (s->n == s->cap) {
        s->cap = s->cap == 0 ? 64 : 2 * s->cap;
        s->all = heap_realloc(s->all, s->cap * sizeof *s->all);
        heap_free(s->seen);
        s->seen = heap_zalloc(2 * (size_t)s->cap * sizeof *s->seen);
        for (uint32_t i = 0; i < s->n; i++)
            *seen_find(s, &s->all[i]) = i + 1;
    }
    uint32_t *seen = seen_find(s, &node);
    if (*seen != 0) return;
    s->all[s->n++] = node;
    *seen = s->n;
}

static void node_follow(struct search *s, uint32_t at, char c)
{
    struct overlap_spot a[2], b[2];
    const struct overlap_node node = s->all[at];
    size_t a_n = spot_step(s->a, node.a, c, s->long_names, a),
           b_n = a_n == 0 ? 0 : spot_step(s->b, node.b, c, s->long_names, b);
    for (size_t i = 0; i < a_n; i++)
        for (size_t k = 0; k < b_n; k++)
            node_add(s, (struct overlap_node){a[i], b[k], at, c});
}

/* The byte that a spot in a text takes; of one in a value, that which begins the text behind it. '\0': there is none. */
static char byte_of(const struct places *p, struct overlap_spot s)
{
    struct slice text = p->text[(s.piece + 1) / 2];
    size_t at = s.piece % 2 == 0 ? s.at : 0;
    return at < text.n ? text.p[at] : '\0';
}

/* In two values all bytes but these are alike; of three letters one is in no text behind them. */
static void node_follow_all(struct search *s, uint32_t at)
{
    static const char some[] = "0123456789-: T{}xyz";
    struct overlap_spot a = s->all[at].a, b = s->all[at].b;
    char of_a = byte_of(s->a, a), of_b = byte_of(s->b, b);
    if (a.piece % 2 == 0 || b.piece % 2 == 0) {
        node_follow(s, at, a.piece % 2 == 0 ? of_a : of_b);
        return;
    }
    for (size_t i = 0; i < sizeof some - 1; i++)
        node_follow(s, at, some[i]);
    if (memchr(some, of_a, sizeof some) == NULL) node_follow(s, at, of_a);
    if (memchr(some, of_b, sizeof some) == NULL && of_b != of_a) node_follow(s, at, of_b);
}

static void search_name_put(const struct search *s, uint32_t at, struct buf *out)
{
    size_t begin = out->n;
    for (; at > 0; at = s->all[at].from)
        buf_put_char(out, s->all[at].byte);
    for (size_t i = begin, k = out->n; i + 1 < k; i++, k--) {
        char c = out->p[i];
        out->p[i] = out->p[k - 1];
        out->p[k - 1] = c;
    }
}

static size_t texts_bytes(const struct places *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i <= p->n; i++)
        n += p->text[i].n;
    return n;
}

bool places_overlap(const struct places *a, const struct places *b, struct buf *both)
{
    struct search s = {.a = a, .b = b, .long_names = texts_bytes(a) + texts_bytes(b) > LONG_BYTES};
    bool found = false;
    node_add(&s, (struct overlap_node){normal(a, (struct overlap_spot){0, 0}),
                                       normal(b, (struct overlap_spot){0, 0}), 0, 0});
    for (uint32_t at = 0; at < s.n && !found; at++) {
        found = spot_ends(a, s.all[at].a) && spot_ends(b, s.all[at].b);
        if (found && both != NULL) search_name_put(&s, at, both);
        if (!found) node_follow_all(&s, at);
    }
    heap_free(s.seen);
    heap_free(s.all);
    return found;
}

bool places_can_begin(const struct places *p, struct slice lead)
{
    struct places all = {.text = {lead}, .n = 0};
    if (places_overlap(p, &all, NULL)) return true;
    all.at[0].type.kind = VALUE_TEXT;
    all.text[1] = SLICE("");
    all.n = 1;
    return places_overlap(p, &all, NULL);
}
