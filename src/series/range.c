/* series/range.c - see range.h. */
#include "series/range.h"

#include "base/slice.h"
#include "series/names.h"

#include <stdio.h>

static int64_t field_number(struct slice field)
{
    int64_t digits = 0;
    for (size_t i = 0; i < field.n; i++)
        digits = digits * 10 + (field.p[i] - '0');
    return digits;
}

static const char *const range_units[][2] = {
    [FIELD_DATE] = {"day", "days"}, [FIELD_HOUR] = {"hour", "hours"}, [FIELD_MONTH] = {"month", "months"}};

/* A field of that kind, from 1970 on. */
static bool in_range_kind(enum field_kind kind, struct slice text)
{
    return field_valid(kind, text) && field_number(slice_of(text.p, 4)) >= DAY_FIRST / 10000;
}

static int64_t field_place(enum field_kind kind, struct slice field)
{
    int64_t digits = field_number(field);
    if (kind == FIELD_MONTH) return (digits / 100 - 1970) * 12 + digits % 100 - 1;
    return kind == FIELD_DATE ? day_number(digits) : day_number(digits / 100) * 24 + digits % 100;
}

/* The field that now_s is in. */
static int64_t place_now(enum field_kind kind, int64_t now_s)
{
    char text[21];
    if (kind != FIELD_MONTH) return now_s / (kind == FIELD_DATE ? DAY_S : 3600);
    return field_place(kind, slice_of(text, num_write(day_of_s(now_s) / 100, text)));
}

static bool end_read(enum field_kind kind, const char *name, struct slice text, int64_t *out, char *why,
                     size_t size)
{
    char shown[24];
    if (text.p == NULL) return true;
    if (in_range_kind(kind, text)) {
        *out = field_place(kind, text);
        return true;
    }
    snprintf(why, size, "%s is \"%s\", expected %s, from 1970 on", name,
             slice_show(text, 16, shown, sizeof shown), field_kind_expected(kind));
    return false;
}

bool range_read(enum field_kind kind, struct slice from, struct slice to, int64_t now_s, size_t standard,
                struct range *out, char *why, size_t why_size)
{
    PRE(kind == FIELD_DATE || kind == FIELD_HOUR || kind == FIELD_MONTH);
    int64_t last = place_now(kind, now_s), first = 0;
    if (!end_read(kind, "to", to, &last, why, why_size)) return false;
    first = last - (int64_t)standard + 1;
    if (!end_read(kind, "from", from, &first, why, why_size)) return false;
    if (first < 0) first = 0;
    if (first > last)
        snprintf(why, why_size, "from is after to; the first %s comes first", range_units[kind][0]);
    else if (last - first >= RANGE_MAX)
        snprintf(why, why_size, "that is %lld %s; at most %d come at once", (long long)(last - first + 1),
                 range_units[kind][1], RANGE_MAX);
    else
        *out = (struct range){kind, first, (size_t)(last - first + 1)};
    return first <= last && last - first < RANGE_MAX;
}

size_t range_field(const struct range *r, size_t i, char out[RANGE_FIELD_BYTES])
{
    PRE(i < r->n);
    int64_t at = r->first + (int64_t)i;
    int64_t digits = r->kind == FIELD_MONTH  ? (1970 + at / 12) * 100 + at % 12 + 1
                     : r->kind == FIELD_DATE ? day_of_number(at)
                                             : day_of_number(at / 24) * 100 + at % 24;
    char text[21];
    size_t n = num_write(digits, text);
    PRE(n < RANGE_FIELD_BYTES);
    memcpy(out, text, n);
    out[n] = '\0';
    return n;
}

bool range_index(const struct range *r, struct slice field, size_t *i)
{
    if (!in_range_kind(r->kind, field)) return false;
    int64_t at = field_place(r->kind, field) - r->first;
    if (at < 0 || (size_t)at >= r->n) return false;
    *i = (size_t)at;
    return true;
}
