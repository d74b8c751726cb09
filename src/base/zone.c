/* base/zone.c - see zone.h. Bytes are checked before use: a damaged file is refused, as a file of another kind is. */
#include "base/zone.h"

#include "base/heap.h"
#include "base/slice.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY_S 86400
#define FILE_BYTES_MAX (1 << 20)
#define HEADER_BYTES 44
#define OFFSET_MOST_S (26 * 3600)
#define YEAR_EVENTS 6 /* begin and end of summer time, of three years */

/* ---- the calendar, of any year ---- */

/* Days from 1970-01-01 to that day of the proleptic Gregorian calendar. */
static int64_t days_of(int64_t year, int32_t month, int32_t day)
{
    int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t year_of(int64_t at_s)
{
    int64_t days = floor_div(at_s, DAY_S), year = 1970 + floor_div(days, 366);
    while (days_of(year + 1, 1, 1) <= days)
        year++;
    return year;
}

/* ---- the rule ---- */

static int64_t month_day(const struct zone_date *d, int64_t year)
{
    int64_t first = days_of(year, d->month, 1);
    int64_t next = d->month == 12 ? days_of(year + 1, 1, 1) : days_of(year, d->month + 1, 1);
    int64_t weekday = ((first + 4) % 7 + 7) % 7; /* 1970-01-01 was a Thursday */
    int64_t day = first + (d->day - weekday + 7) % 7 + 7 * (d->week - 1);
    return day >= next ? day - 7 : day;
}

/* Local seconds since 1970. */
static int64_t date_s(const struct zone_date *d, int64_t year)
{
    int64_t day = days_of(year, 1, 1);
    if (d->kind == ZONE_MONTH)
        day = month_day(d, year);
    else if (d->kind == ZONE_JULIAN)
        day += d->day - 1 + (is_leap(year) && d->day >= 60);
    else
        day += d->day;
    return day * DAY_S + d->at_s;
}

struct event {
    int64_t at_s;
    bool summer; /* begins */
};

/* If summer time ends and begins at the same moment, it goes on. */
static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->at_s != y->at_s) return x->at_s < y->at_s ? -1 : 1;
    return (int)x->summer - (int)y->summer;
}

static int32_t rule_offset(const struct zone *z, int64_t at_s, int64_t *from_s, int64_t *until_s)
{
    struct event events[YEAR_EVENTS];
    if (!z->has_summer) return z->standard_s;
    int64_t year = year_of(at_s) - 1;
    for (size_t i = 0; i < YEAR_EVENTS; i += 2, year++) {
        events[i] = (struct event){date_s(&z->begins, year) - z->standard_s, true};
        events[i + 1] = (struct event){date_s(&z->ends, year) - z->summer_s, false};
    }
    qsort(events, YEAR_EVENTS, sizeof events[0], by_time);
    size_t i = 0;
    while (i < YEAR_EVENTS && events[i].at_s <= at_s)
        i++;
    if (i > 0 && events[i - 1].at_s > *from_s) *from_s = events[i - 1].at_s;
    if (i < YEAR_EVENTS) *until_s = events[i].at_s;
    bool summer = i > 0 ? events[i - 1].summer : !events[0].summer;
    return summer ? z->summer_s : z->standard_s;
}

int32_t zone_offset(const struct zone *z, int64_t at_s, int64_t *from_s, int64_t *until_s)
{
    int64_t from = INT64_MIN, until = INT64_MAX;
    size_t low = 0, high = z->n; /* the first change after at_s */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (z->at_s[middle] <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0) from = z->at_s[low - 1];
    if (low < z->n) until = z->at_s[low];
    int32_t offset = low > 0 ? z->after_s[low - 1] : z->before_s;
    if (low == z->n && z->has_rule) offset = rule_offset(z, at_s, &from, &until);
    if (from_s != NULL) *from_s = from;
    if (until_s != NULL) *until_s = until;
    return offset;
}

int64_t zone_day(const struct zone *z, int64_t at_s)
{
    int64_t from, t = at_s, day = floor_div(at_s + zone_offset(z, at_s, NULL, NULL), DAY_S);
    for (;;) {
        int64_t begins = day * DAY_S - zone_offset(z, t, &from, NULL);
        if (begins >= from) return begins;
        if (floor_div(from - 1 + zone_offset(z, from - 1, NULL, NULL), DAY_S) != day) return from;
        t = from - 1;
    }
}

/* ---- the rule's text: <+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45 ---- */

struct text {
    const char *p, *end;
};

static bool sign_take(struct text *t, char c)
{
    if (t->p == t->end || *t->p != c) return false;
    t->p++;
    return true;
}

static bool number_take(struct text *t, int32_t most, int32_t *out)
{
    const char *from = t->p;
    for (*out = 0; t->p < t->end && *t->p >= '0' && *t->p <= '9' && *out <= most; t->p++)
        *out = *out * 10 + (*t->p - '0');
    return t->p > from && *out <= most;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool zone_name_take(struct text *t)
{
    const char *from = t->p;
    if (!sign_take(t, '<')) {
        while (t->p < t->end && is_letter(*t->p))
            t->p++;
        return t->p - from >= 3;
    }
    while (t->p < t->end && *t->p != '>')
        t->p++;
    return sign_take(t, '>');
}

/* [+-]hh[:mm[:ss]] */
static bool time_take(struct text *t, int32_t *out)
{
    int32_t part[3] = {0, 0, 0};
    bool minus = sign_take(t, '-');
    if (!minus) (void)sign_take(t, '+');
    if (!number_take(t, 167, &part[0])) return false;
    for (size_t i = 1; i < 3 && sign_take(t, ':'); i++)
        if (!number_take(t, 59, &part[i])) return false;
    *out = part[0] * 3600 + part[1] * 60 + part[2];
    if (minus) *out = -*out;
    return true;
}

static bool month_take(struct text *t, struct zone_date *out)
{
    out->kind = ZONE_MONTH;
    return number_take(t, 12, &out->month) && out->month >= 1 && sign_take(t, '.') &&
           number_take(t, 5, &out->week) && out->week >= 1 && sign_take(t, '.') &&
           number_take(t, 6, &out->day);
}

static bool date_take(struct text *t, struct zone_date *out)
{
    *out = (struct zone_date){.kind = ZONE_DAY, .at_s = 2 * 3600};
    bool read;
    if (!sign_take(t, ',')) return false;
    if (sign_take(t, 'M'))
        read = month_take(t, out);
    else if (sign_take(t, 'J'))
        out->kind = ZONE_JULIAN, read = number_take(t, 365, &out->day) && out->day >= 1;
    else
        read = number_take(t, 365, &out->day);
    return read && (!sign_take(t, '/') || time_take(t, &out->at_s));
}

/* Offsets are given west of UTC. An empty text is no rule. */
static bool rule_read(struct slice text, struct zone *z)
{
    struct text t = {text.p, text.p + text.n};
    if (text.n == 0) return true;
    z->has_rule = true;
    if (!zone_name_take(&t) || !time_take(&t, &z->standard_s)) return false;
    z->standard_s = -z->standard_s;
    z->summer_s = z->standard_s + 3600;
    if (t.p == t.end) return true;
    z->has_summer = true;
    if (!zone_name_take(&t)) return false;
    if (t.p < t.end && *t.p != ',') {
        if (!time_take(&t, &z->summer_s)) return false;
        z->summer_s = -z->summer_s;
    }
    return date_take(&t, &z->begins) && date_take(&t, &z->ends) && t.p == t.end;
}

/* ---- the file ---- */

struct counts { /* of a header */
    uint32_t utc, standard, leap, time, type, characters;
};

static uint64_t big_endian(const char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (uint8_t)p[i];
    return v;
}

/* A header at the front of *rest, which it takes off. */
static bool header_take(struct slice *rest, struct counts *c)
{
    uint32_t *const each[] = {&c->utc, &c->standard, &c->leap, &c->time, &c->type, &c->characters};
    if (rest->n < HEADER_BYTES || memcmp(rest->p, "TZif", 4) != 0 || rest->p[4] < '2') return false;
    for (size_t i = 0; i < 6; i++) {
        *each[i] = (uint32_t)big_endian(rest->p + 20 + 4 * i, 4);
        if (*each[i] > FILE_BYTES_MAX) return false;
    }
    *rest = slice_of(rest->p + HEADER_BYTES, rest->n - HEADER_BYTES);
    return true;
}

/* Size of the data after a header whose times have this many bytes. */
static uint64_t block_bytes(const struct counts *c, size_t time_bytes)
{
    return (uint64_t)c->time * (time_bytes + 1) + (uint64_t)c->type * 6 + c->characters +
           (uint64_t)c->leap * (time_bytes + 4) + c->standard + c->utc;
}

static bool changes_read(struct slice data, const struct counts *c, struct zone *z)
{
    const char *indexes = data.p + 8 * (size_t)c->time, *types = indexes + c->time;
    z->n = c->time;
    z->at_s = heap_alloc((z->n + 1) * sizeof *z->at_s);
    z->after_s = heap_alloc((z->n + 1) * sizeof *z->after_s);
    z->before_s = (int32_t)big_endian(types, 4);
    for (size_t i = 0; i < z->n; i++) {
        size_t type = (uint8_t)indexes[i];
        if (type >= c->type) return false;
        z->at_s[i] = (int64_t)big_endian(data.p + 8 * i, 8);
        z->after_s[i] = (int32_t)big_endian(types + 6 * type, 4);
        if (i > 0 && z->at_s[i] <= z->at_s[i - 1]) return false;
        if (z->after_s[i] < -OFFSET_MOST_S || z->after_s[i] > OFFSET_MOST_S) return false;
    }
    return z->before_s >= -OFFSET_MOST_S && z->before_s <= OFFSET_MOST_S;
}

/* Leap seconds are in none of the system's own zones: its clock does not count them. */
static bool parts_read(struct slice rest, struct zone *z)
{
    struct counts c;
    if (!header_take(&rest, &c)) return false;
    uint64_t skip = block_bytes(&c, 4);
    if (skip > rest.n) return false;
    rest = slice_of(rest.p + skip, rest.n - skip);
    if (!header_take(&rest, &c) || c.type == 0 || c.leap > 0) return false;
    uint64_t size = block_bytes(&c, 8);
    if (size + 2 > rest.n || !changes_read(rest, &c, z)) return false;
    struct slice foot = slice_of(rest.p + size, rest.n - size);
    if (foot.p[0] != '\n' || foot.p[foot.n - 1] != '\n') return false;
    return rule_read(slice_of(foot.p + 1, foot.n - 2), z);
}

bool zone_read(struct slice bytes, struct zone *out)
{
    *out = (struct zone){.n = 0};
    if (parts_read(bytes, out)) return true;
    zone_free(out);
    return false;
}

void zone_free(struct zone *z)
{
    heap_free(z->at_s);
    heap_free(z->after_s);
    *z = (struct zone){.n = 0};
}

/* IANA's names begin with a capital; "posix/", "right/", "localtime" and other files beside them do not. */
static bool zone_name_valid(struct slice name)
{
    if (name.n == 0 || name.n > ZONE_NAME_MAX || name.p[0] < 'A' || name.p[0] > 'Z') return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool parts = c == '/' && i + 1 < name.n && name.p[i - 1] != '/';
        if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '+' && c != '-' && c != '_' && !parts)
            return false;
    }
    return true;
}

static bool zone_file_read(struct slice name, struct buf *out)
{
    const char *directory = getenv("TZDIR"); /* as the C library has it */
    char path[4096];
    snprintf(path, sizeof path, "%s/" SLICE_FMT, directory != NULL ? directory : ZONE_DIRECTORY,
             SLICE_ARG(name));
    FILE *f = fopen(path, "re");
    if (f == NULL) return false;
    size_t n;
    do {
        n = fread(buf_reserve(out, 4096), 1, 4096, f);
        out->n += n;
    } while (n > 0 && out->n <= FILE_BYTES_MAX);
    bool read = !ferror(f) && out->n <= FILE_BYTES_MAX;
    fclose(f);
    return read;
}

enum err zone_load(struct slice name, struct zone *out, struct error *e)
{
    struct buf bytes = {0};
    *out = (struct zone){.n = 0};
    bool utc = slice_eq(name, SLICE("UTC"));
    bool read =
        utc || (zone_name_valid(name) && zone_file_read(name, &bytes) && zone_read(buf_slice(&bytes), out));
    buf_free(&bytes);
    if (!read)
        return error_set(e, ERR_CONFIG,
                         "\"%s\" is not a time zone of this system, expected a name such as Europe/Berlin; "
                         "the names are in " ZONE_DIRECTORY
                         " (package tzdata; old names as US/Eastern: tzdata-legacy)",
                         SLICE_SHOW(name, ZONE_NAME_MAX));
    memcpy(out->name, name.p, name.n);
    return ERR_NONE;
}
