/* http/api_counts.c - series, timeboxes, events and visitors: the door's own commands as JSON, or as CSV. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"
#include "http/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NO_TYPE slice_of("", 0)
#define DAYS_MOST 366
#define SECOND_MOST INT64_C(253402300799) /* the last one of 9999 */

struct digits { /* a number as a word of a request */
    char text[21];
    struct slice s;
};

static struct slice word_of(int64_t v, struct digits *d)
{
    return d->s = slice_of(d->text, num_write(v, d->text));
}

static bool is_given(const struct exchange *x, const char *name)
{
    struct slice value;
    return target_arg(&x->target, name, &value);
}

/* [[time,count],...] of a flat array. */
static void pairs_put(struct json *j, const char *key, const redisReply *reply)
{
    json_open(j, key, '[');
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        json_open(j, NULL, '[');
        json_int(j, NULL, reply->element[i]->integer);
        json_int(j, NULL, reply->element[i + 1]->integer);
        json_close(j, ']');
    }
    json_close(j, ']');
}

/* 2014-09-20T13:00:00Z, hits of a flat array. */
static void pairs_put_csv(struct csv *c, const redisReply *reply)
{
    csv_text(c, SLICE("time"));
    csv_text(c, SLICE("hits"));
    csv_end(c);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        char text[32];
        time_t at_s = (time_t)reply->element[i]->integer;
        struct tm tm;
        size_t n = gmtime_r(&at_s, &tm) == NULL ? 0 : strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
        csv_text(c, slice_of(text, n));
        csv_int(c, reply->element[i + 1]->integer);
        csv_end(c);
    }
}

/* --- series --- */

struct known_series { /* of SERIES.LIST, a "<precision>:<name>" */
    struct slice name;
    int64_t precision;
};

static int series_by_name(const void *a, const void *b)
{
    const struct known_series *x = a, *y = b;
    int order = slice_cmp_bytes(x->name, y->name);
    return order != 0 ? order : (x->precision > y->precision) - (x->precision < y->precision);
}

static bool series_split(const redisReply *member, struct known_series *out)
{
    const char *colon = member->str == NULL ? NULL : memchr(member->str, ':', member->len);
    if (colon == NULL) return false;
    size_t head = (size_t)(colon - member->str);
    out->name = slice_of(colon + 1, member->len - head - 1);
    return num_parse(slice_of(member->str, head), &out->precision);
}

/* Those that the asker may see and that begin with prefix, sorted; heap. */
static struct known_series *series_choose(struct exchange *x, const redisReply *reply, struct slice prefix,
                                          size_t *n)
{
    const struct counters *counters = x->http->where->counters;
    struct known_series *all = heap_alloc((reply->elements + 1) * sizeof *all);
    struct slice bound = who_store(&x->who);
    *n = 0;
    for (size_t i = 0; i < reply->elements; i++) {
        struct known_series *s = &all[*n];
        if (!series_split(reply->element[i], s) || !slice_starts(s->name, prefix)) continue;
        *n += bound.p == NULL || name_is_of(counters, OP_SERIES, s->name, NO_TYPE, bound);
    }
    qsort(all, *n, sizeof *all, series_by_name);
    return all;
}

/* Series i and the same one's other precisions; returns the next one. */
static size_t series_put(struct json *j, const struct known_series *all, size_t n, size_t i)
{
    struct slice name = all[i].name;
    json_open(j, NULL, '{');
    json_slice(j, "name", name);
    json_open(j, "precisions", '[');
    for (; i < n && slice_eq(all[i].name, name); i++)
        json_int(j, NULL, all[i].precision);
    json_close(j, ']');
    json_close(j, '}');
    return i;
}

void run_series_names(struct exchange *x, struct worker *w)
{
    int64_t limit;
    size_t n, i = 0;
    struct slice prefix = slice_of("", 0), words[] = {SLICE("SERIES.LIST")};
    target_arg(&x->target, "prefix", &prefix);
    if (!exchange_number(x, "limit", 1, 10000, 1000, &limit)) return;
    redisReply *reply = exchange_ask(x, w, words, 1);
    if (reply == NULL) return;
    struct known_series *all = series_choose(x, reply, prefix, &n);
    struct json j = exchange_json(x, '{');
    json_open(&j, "series", '[');
    for (; i < n && limit > 0; limit--)
        i = series_put(&j, all, n, i);
    json_close(&j, ']');
    json_bool(&j, "more", i < n);
    json_close(&j, '}');
    heap_free(all);
    freeReplyObject(reply);
}

/* from and to in seconds, as words after the existing ones. */
static bool span_words(struct exchange *x, int64_t *from, int64_t *to)
{
    if (!exchange_number(x, "from", 0, SECOND_MOST, 0, from) ||
        !exchange_number(x, "to", 0, SECOND_MOST, SECOND_MOST, to))
        return false;
    if (*from <= *to) return true;
    return exchange_refuse(x, 400, "correct the range, or leave it out",
                           "from is after to; the first second comes first");
}

void run_series(struct exchange *x, struct worker *w)
{
    struct digits a, b;
    int64_t from, to, precision;
    struct slice name = exchange_part(x, 0);
    bool csv;
    if (!exchange_sees_name(x, OP_SERIES, name, NO_TYPE) || !exchange_wants_csv(x, &csv) ||
        !span_words(x, &from, &to))
        return;
    struct slice words[] = {SLICE("SERIES.GET"), name,        exchange_part(x, 1), SLICE("FROM"),
                            word_of(from, &a),   SLICE("TO"), word_of(to, &b)};
    redisReply *reply = exchange_ask(x, w, words, 7);
    if (reply == NULL) return;
    bool read = num_parse(words[2], &precision);
    if (csv) {
        struct csv c = exchange_csv(x, name, words[2]);
        pairs_put_csv(&c, reply);
    } else {
        struct json j = exchange_json(x, '{');
        json_slice(&j, "name", name);
        json_int(&j, "precision", read ? precision : 0);
        pairs_put(&j, "samples", reply);
        json_close(&j, '}');
    }
    freeReplyObject(reply);
}

/* --- timeboxes --- */

static const char *const orders[] = {"recent", "top", "bottom"};

/* Which order; 3: refused. */
static size_t order_read(struct exchange *x, int64_t *n, int64_t *offset)
{
    size_t order = 0, given = 0;
    for (size_t i = 0; i < 3; i++)
        if (is_given(x, orders[i])) order = i, given++;
    if (given > 1 || (order > 0 && is_given(x, "offset")))
        exchange_refuse(x, 400, "leave one of them out",
                        "give only one of recent, top and bottom; offset goes with recent");
    else if (exchange_number(x, orders[order], 1, 10000, 60, n) &&
             exchange_number(x, "offset", 0, 1000000, 0, offset))
        return order;
    return 3;
}

void run_timebox(struct exchange *x, struct worker *w)
{
    struct digits a, b;
    int64_t n, offset;
    struct slice name = exchange_part(x, 0);
    bool csv;
    if (!exchange_sees_name(x, OP_TIMEBOX, name, NO_TYPE) || !exchange_wants_csv(x, &csv)) return;
    size_t order = order_read(x, &n, &offset);
    if (order == 3) return;
    struct slice recent[] = {SLICE("BOX.RECENT"), name, word_of(offset, &a), word_of(n, &b)};
    struct slice extreme[] = {order == 1 ? SLICE("BOX.TOP") : SLICE("BOX.BOTTOM"), name, b.s};
    redisReply *reply = order == 0 ? exchange_ask(x, w, recent, 4) : exchange_ask(x, w, extreme, 3);
    if (reply == NULL) return;
    if (csv) {
        struct csv c = exchange_csv(x, name, slice_str(orders[order]));
        pairs_put_csv(&c, reply);
    } else {
        struct json j = exchange_json(x, '{');
        json_slice(&j, "name", name);
        json_text(&j, "order", orders[order]);
        json_int(&j, "width", x->http->where->counters->ops->timebox_width_s);
        pairs_put(&j, "buckets", reply);
        json_close(&j, '}');
    }
    freeReplyObject(reply);
}

/* --- events --- */

static struct json events_begin(struct exchange *x)
{
    struct json j = exchange_json(x, '{');
    json_slice(&j, "name", exchange_part(x, 0));
    json_slice(&j, "type", exchange_part(x, 1));
    return j;
}

static void counts_answer(struct exchange *x, struct worker *w)
{
    struct digits a, b;
    int64_t span, window;
    if (!exchange_number(x, "span", 1, INT64_MAX, 0, &span) ||
        !exchange_number(x, "window", 1, INT64_MAX, 0, &window))
        return;
    if (span == 0 || window == 0 || span / window > 10000) {
        exchange_refuse(x, 400, "ask with a span and a window of which it has 1 to 10000",
                        "span and window go together; at most 10000 windows come at once");
        return;
    }
    struct slice words[] = {SLICE("EVENT.COUNT"), exchange_part(x, 0), exchange_part(x, 1), word_of(span, &a),
                            word_of(window, &b)};
    redisReply *reply = exchange_ask(x, w, words, 5);
    if (reply == NULL) return;
    struct json j = events_begin(x);
    json_int(&j, "window", window);
    json_open(&j, "counts", '[');
    for (size_t i = 0; i < reply->elements; i++)
        json_int(&j, NULL, reply->element[i]->integer);
    json_close(&j, ']');
    json_close(&j, '}');
    freeReplyObject(reply);
}

static void events_answer(struct exchange *x, struct worker *w)
{
    struct digits a, b, c, d;
    int64_t from, to, limit, offset;
    if (!span_words(x, &from, &to) || !exchange_number(x, "limit", 1, 10000, 1000, &limit) ||
        !exchange_number(x, "offset", 0, 1000000, 0, &offset))
        return;
    struct slice words[] = {SLICE("EVENT.RANGE"), exchange_part(x, 0), exchange_part(x, 1),
                            word_of(from, &a),    word_of(to, &b),     SLICE("LIMIT"),
                            word_of(offset, &c),  word_of(limit, &d)};
    redisReply *reply = exchange_ask(x, w, words, 8);
    if (reply == NULL) return;
    struct json j = events_begin(x);
    json_open(&j, "events", '[');
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        json_open(&j, NULL, '{');
        json_slice(&j, "id", slice_of(reply->element[i]->str, reply->element[i]->len));
        json_int(&j, "time", reply->element[i + 1]->integer);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    freeReplyObject(reply);
}

void run_events(struct exchange *x, struct worker *w)
{
    bool counts = is_given(x, "span") || is_given(x, "window");
    bool events = is_given(x, "from") || is_given(x, "to") || is_given(x, "limit") || is_given(x, "offset");
    if (!exchange_sees_name(x, OP_EVENT, exchange_part(x, 0), exchange_part(x, 1))) return;
    if (counts == events)
        exchange_refuse(x, 400, "ask with span and window, or with from and to",
                        "span and window give counts, from and to give events; one of the two");
    else if (counts)
        counts_answer(x, w);
    else
        events_answer(x, w);
}

/* --- visitors --- */

/* answers[0] of all days together, then one a day; all of them, or refused. */
static bool days_ask(struct exchange *x, struct worker *w, const struct range *r, redisReply **answers)
{
    struct slice(*words)[4] = heap_alloc((r->n + 1) * sizeof *words);
    const struct slice **all = heap_alloc((r->n + 1) * sizeof *all);
    size_t *ns = heap_alloc((r->n + 1) * sizeof *ns);
    char(*fields)[RANGE_FIELD_BYTES] = heap_alloc(r->n * sizeof *fields);
    for (size_t i = 0; i <= r->n; i++) {
        size_t first = i == 0 ? 0 : i - 1, last = i == 0 ? r->n - 1 : i - 1;
        if (i > 0) range_field(r, first, fields[first]);
        words[i][0] = SLICE("UNIQ.COUNT");
        words[i][1] = exchange_part(x, 0);
        words[i][2] = slice_of(fields[first], 8);
        words[i][3] = slice_of(fields[last], 8);
        all[i] = words[i];
        ns[i] = 4;
    }
    bool answered = door_ask_all(&w->door, all, ns, r->n + 1, answers);
    heap_free(words);
    heap_free(all);
    heap_free(ns);
    heap_free(fields);
    if (!answered) exchange_refuse_reply(x, NULL);
    return answered;
}

static void count_put(struct json *j, const redisReply *r)
{
    json_int(j, "count", r->element[0]->integer);
    json_bool(j, "exact", strcmp(r->element[1]->str, "exact") == 0);
}

static void uniques_put(struct exchange *x, const struct range *r, redisReply *const *answers)
{
    char field[RANGE_FIELD_BYTES];
    struct json j = exchange_json(x, '{');
    json_slice(&j, "name", exchange_part(x, 0));
    json_slice(&j, "from", slice_of(field, range_field(r, 0, field)));
    json_slice(&j, "to", slice_of(field, range_field(r, r->n - 1, field)));
    count_put(&j, answers[0]);
    json_open(&j, "days", '[');
    for (size_t i = 0; i < r->n; i++) {
        json_open(&j, NULL, '{');
        json_slice(&j, "day", slice_of(field, range_field(r, i, field)));
        count_put(&j, answers[i + 1]);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

static void uniques_put_csv(struct exchange *x, const struct range *r, redisReply *const *answers)
{
    char f[RANGE_FIELD_BYTES], day[16];
    struct csv c = exchange_csv(x, exchange_part(x, 0), SLICE("days"));
    csv_text(&c, SLICE("day"));
    csv_text(&c, SLICE("visitors"));
    csv_text(&c, SLICE("exact"));
    csv_end(&c);
    for (size_t i = 0; i < r->n; i++) {
        range_field(r, i, f);
        snprintf(day, sizeof day, "%.4s-%.2s-%.2s", f, f + 4, f + 6);
        csv_text(&c, slice_str(day));
        csv_int(&c, answers[i + 1]->element[0]->integer);
        csv_text(&c, strcmp(answers[i + 1]->element[1]->str, "exact") == 0 ? SLICE("yes") : SLICE("no"));
        csv_end(&c);
    }
}

static void uniques_answer(struct exchange *x, struct worker *w, const struct range *r, bool csv)
{
    redisReply **answers = heap_zalloc((r->n + 1) * sizeof *answers);
    if (days_ask(x, w, r, answers)) {
        size_t i = 0;
        while (i <= r->n && answers[i]->type == REDIS_REPLY_ARRAY && answers[i]->elements == 2 &&
               answers[i]->element[1]->str != NULL)
            i++;
        if (i > r->n) {
            (csv ? uniques_put_csv : uniques_put)(x, r, answers);
        } else {
            exchange_refuse_reply(x, answers[i]);
            answers[i] = NULL;
        }
        for (i = 0; i <= r->n; i++)
            freeReplyObject(answers[i]);
    }
    heap_free(answers);
}

void run_uniques(struct exchange *x, struct worker *w)
{
    char why[160];
    struct range r;
    struct slice from = slice_of(NULL, 0), to = from, name = exchange_part(x, 0);
    target_arg(&x->target, "from", &from);
    target_arg(&x->target, "to", &to);
    bool csv;
    if (!exchange_sees_name(x, OP_UNIQ, name, NO_TYPE) || !exchange_wants_csv(x, &csv)) return;
    if (!range_read(FIELD_DATE, from, to, wall_ms() / 1000, 30, &r, why, sizeof why))
        exchange_refuse(x, 400, "correct the range, or leave it out", "%s", why);
    else if (r.n > DAYS_MOST)
        exchange_refuse(x, 400, "ask for fewer days", "that is %zu days; at most %d are united at once", r.n,
                        DAYS_MOST);
    else
        uniques_answer(x, w, &r, csv);
}
