/* series/places.c - see places.h. */
#include "series/places.h"

#include "base/slice.h"
#include "series/day.h"

#define STORE SLICE("store")
#define NAME_MOST 64
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

/* A number of days or hours since 1970 as digits. */
static void time_write(enum value_kind kind, int64_t units, char digits[PLAIN_BYTES])
{
    int64_t days = kind == VALUE_DATE ? units : units / 24;
    int64_t v = day_of_number(days);
    if (kind == VALUE_HOUR) v = v * 100 + units % 24;
    char text[21];
    memcpy(digits, text, num_write(v, text));
}

static bool counted_plain(const struct value_type *t, struct slice text, char digits[PLAIN_BYTES])
{
    int64_t v, unit = unit_of(t), last = day_number(DAY_LAST) * (t->kind == VALUE_DATE ? 1 : 24);
    if (!num_parse(text, &v) || v < 0 || v % unit != 0 || v / unit > last) return false;
    time_write(t->kind, v / unit, digits);
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

static bool is_place_name(struct slice s)
{
    if (s.n == 0 || s.n > NAME_MOST) return false;
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
    if (!is_place_name(name))
        return "may hold '<' and '>' only around the name of a placeholder, of a-z 0-9 _";
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

bool place_takes(const struct places *p, uint32_t i, char c)
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

static bool value_fits(const struct places *p, uint32_t i, struct slice value)
{
    char digits[PLAIN_BYTES];
    struct slice plain;
    if (!value_plain(&p->at[i].type, value, digits, &plain)) return false;
    for (size_t k = 0; p->at[i].type.kind == VALUE_TEXT && k < value.n; k++)
        if (!place_takes(p, i, value.p[k])) return false;
    return true;
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
        if (!value_fits(p, i, values[i])) return false;
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
