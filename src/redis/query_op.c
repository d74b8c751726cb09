/* redis/query_op.c - see query_op.h. What each kind of read asks, and how it goes on. */
#include "redis/query_op.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"
#include "redis/ask.h"
#include "series/names.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- what the reads share. Each end is the last line: r may be gone after it. --- */

static void query_end(struct redis_query *r, enum ask_outcome outcome)
{
    struct query_answer answer = r->answer; /* r may be gone after came */
    r->outcome = outcome;
    if (outcome != ASK_DONE) r->answer.n = 0;
    buf_free(&r->key);
    buf_free(&r->last);
    buf_free(&r->last_score);
    r->came(r, false);
    query_answer_free(&answer);
}

/* There is more: ask() asks for it. */
static void query_more(struct redis_query *r, void (*ask)(struct redis_query *r))
{
    r->next = ask;
    r->came(r, true);
}

/* reply NULL: the link was lost; else no answer to go on with. */
static void query_fail(struct redis_query *r, const struct redis_answer *reply)
{
    /* Redis adds to an error inside a script its place in the script: of no use to a client. */
    static const char mark[] = " script: ";
    if (reply == NULL) return query_end(r, ASK_REDIS_DOWN);
    struct redis_answer cleaned = *reply;
    if (reply->type == REDIS_ERROR) {
        const char *at = memmem(reply->str.p, reply->str.n, mark, sizeof mark - 1);
        if (at != NULL) cleaned.str.n = (size_t)(at - reply->str.p);
        answer_why(&cleaned, r->text, sizeof r->text);
    } else {
        snprintf(r->text, sizeof r->text, "ERR Redis gave an answer of an unexpected shape");
    }
    query_end(r, ASK_FAILED);
}

static void query_refuse(struct redis_query *r, const char *format, ...) REDIS_FORMAT(2, 3);
static void query_refuse(struct redis_query *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->text, sizeof r->text, format, args);
    va_end(args);
    query_end(r, ASK_FAILED);
}

/* The key holds what is not ours. */
static void query_refuse_key(struct redis_query *r, struct slice key, struct slice held)
{
    char shown_key[100], shown_held[40];
    query_refuse(r, "ERR key '%s' holds '%s', which tallyd did not write; another program uses that key",
                 slice_show(key, 90, shown_key, sizeof shown_key),
                 slice_show(held, 30, shown_held, sizeof shown_held));
}

/* A score as text: its whole seconds, or hits. Values that Redis in Action's readers or other programs wrote may have fractions. */
static bool query_score(const struct redis_answer *reply, int64_t *out)
{
    char text[64], *rest;
    if (!answer_is(reply, REDIS_STRING) || reply->str.n >= sizeof text) return false;
    if (num_parse(reply->str, out)) return true;
    memcpy(text, reply->str.p, reply->str.n);
    text[reply->str.n] = '\0';
    double v = strtod(text, &rest);
    if (rest == text || *rest != '\0' || !(v > -9e18 && v < 9e18)) return false;
    *out = (int64_t)v;
    if ((double)*out > v) --*out; /* down, also below 0 */
    return true;
}

/* Begins an empty key in r->key, for a name_...() to fill. */
static struct buf *query_key(struct redis_query *r)
{
    buf_reset(&r->key);
    return &r->key;
}

/* --- The samples of a series, as Redis in Action's get_counter reads them: the whole hash, sorted by time. Also the names of all
 * series: known: has only scores of 0, so it is in the order of its members' bytes, and ZRANGEBYLEX reads it in pages. A name
 * that exists all the time is in the answer once. --- */

#define NAMES_A_PAGE 1000

struct sample {
    int64_t slot, n;
};

static int sample_cmp(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

static void on_samples(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    (void)l, (void)at;
    if (!answer_is(reply, REDIS_ARRAY)) return query_fail(r, reply);
    struct sample *all = heap_alloc((reply->n / 2 + 1) * sizeof *all);
    size_t n = 0;
    const struct redis_answer *odd = NULL; /* the first text that is no integer */
    for (size_t i = 0; odd == NULL && i + 1 < reply->n; i += 2) {
        const struct redis_answer *slot = &reply->elements[i], *count = slot + 1;
        struct sample s;
        if (!answer_integer(slot, &s.slot))
            odd = slot;
        else if (!answer_integer(count, &s.n))
            odd = count;
        else if (s.slot >= r->query->from && s.slot <= r->query->to)
            all[n++] = s;
    }
    qsort(all, n, sizeof *all, sample_cmp);
    for (size_t i = 0; odd == NULL && i < n; i++) {
        query_put_number(&r->answer, all[i].slot);
        query_put_number(&r->answer, all[i].n);
    }
    heap_free(all);
    if (odd == NULL)
        query_end(r, ASK_DONE);
    else
        query_refuse_key(r, buf_slice(&r->key), odd->str);
}

static void query_samples(struct redis_query *r)
{
    name_samples(query_key(r), r->query->precision_s, r->query->name);
    redis_write(r->link, "HGETALL {}%.*s", SLICE_ARG(buf_slice(&r->key)));
    redis_link_ask(r->link, 1, on_samples, r);
}

/* --- names --- */

static void query_names(struct redis_query *r);

/* False: a name does not sort after the previous one, so the scores cannot all be 0. */
static bool names_page_file(struct redis_query *r, const struct redis_answer *page)
{
    for (size_t i = 0; i < page->n; i++) {
        struct slice name = page->elements[i].str;
        if (r->begun && slice_cmp_bytes(name, buf_slice(&r->last)) <= 0) return false;
        r->begun = true;
        buf_reset(&r->last);
        buf_put_slice(&r->last, name);
        query_put_text(&r->answer, name);
    }
    return true;
}

static void on_page(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    (void)l, (void)at;
    if (!answer_is(reply, REDIS_ARRAY))
        query_fail(r, reply);
    else if (!names_page_file(r, reply))
        query_refuse(r, "ERR a name in '" KEY_KNOWN "' has a score other than 0; ZADD it again with 0");
    else if (reply->n < NAMES_A_PAGE)
        query_end(r, ASK_DONE);
    else if (r->answer.texts.n > r->limits->read.texts_max)
        query_refuse(r,
                     "ERR there are more than %zu series, too many for one answer (limits.memory); read them "
                     "in Redis with ZSCAN " KEY_KNOWN,
                     r->answer.n);
    else
        query_more(r, query_names);
}

static void query_names(struct redis_query *r)
{
    redis_write(r->link, "ZRANGEBYLEX {}" KEY_KNOWN " %s%.*s + LIMIT 0 %d", r->begun ? "(" : "-",
                SLICE_ARG(buf_slice(&r->last)), NAMES_A_PAGE);
    redis_link_ask(r->link, 1, on_page, r);
}

/* --- A timebox: tb.<name> has its buckets, pv.<name> their hits, both always the same buckets. One script reads what needs both,
 * so that no read falls between a new bucket and the trim of an old one. A timebox of more than a thousand buckets is read from
 * bucket to bucket: none twice, none newer than the first read, and none that was removed meanwhile. --- */

#define BUCKETS_A_PIECE 1000

static void recent_ask(struct redis_query *r);

static int64_t buckets_left(const struct redis_query *r)
{
    return r->query->limit - (int64_t)(r->answer.n / 2);
}

static void on_buckets(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    (void)l, (void)at;
    if (!answer_is(reply, REDIS_ARRAY)) return query_fail(r, reply);
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        int64_t bucket, hits;
        if (!answer_integer(&reply->elements[i], &bucket) || !query_score(&reply->elements[i + 1], &hits))
            return query_refuse_key(r, buf_slice(&r->key), reply->elements[i].str);
        query_put_number(&r->answer, bucket);
        query_put_number(&r->answer, hits);
        r->at = bucket;
    }
    if (r->query->kind != QUERY_TIMEBOX_RECENT || reply->n < 2 * BUCKETS_A_PIECE || buckets_left(r) == 0) {
        query_end(r, ASK_DONE);
        return;
    }
    r->begun = true;
    query_more(r, recent_ask);
}

static int64_t last_rank(int64_t first, int64_t n)
{
    int64_t last;
    return __builtin_add_overflow(first, n - 1, &last) ? INT64_MAX : last;
}

static void recent_ask(struct redis_query *r)
{
    int64_t left = buckets_left(r), first = r->begun ? 0 : r->query->offset;
    name_buckets(query_key(r), r->query->name);
    buf_reset(&r->last);
    name_bucket_hits(&r->last, r->query->name);
    struct buf *out = redis_write(
        r->link, "EVAL %.*s 2 {}%.*s {}%.*s %" PRId64 " %" PRId64 " +%zu", SLICE_ARG(lua_query_timebox),
        SLICE_ARG(buf_slice(&r->key)), SLICE_ARG(buf_slice(&r->last)), first,
        last_rank(first, left < BUCKETS_A_PIECE ? left : BUCKETS_A_PIECE), (size_t)r->begun);
    if (r->begun) request_int(out, r->at);
    redis_link_ask(r->link, 1, on_buckets, r);
}

static void query_timebox(struct redis_query *r)
{
    if (r->query->kind == QUERY_TIMEBOX_RECENT)
        recent_ask(r);
    else {
        /* One command, so it is of one moment, however long the timebox. */
        name_bucket_hits(query_key(r), r->query->name);
        redis_write(r->link, "%s {}%.*s %" PRId64 " %" PRId64 " WITHSCORES",
                    r->query->kind == QUERY_TIMEBOX_TOP ? "ZREVRANGE" : "ZRANGE",
                    SLICE_ARG(buf_slice(&r->key)), r->query->offset,
                    last_rank(r->query->offset, r->query->limit));
        redis_link_ask(r->link, 1, on_buckets, r);
    }
}

/* --- The events of a time, in pieces. Each begins after the last event of the previous one, found again by its rank. So an event
 * that exists all the time is in the answer once, whatever is added or removed. --- */

#define EVENTS_A_PIECE 64

static void query_events(struct redis_query *r);

static uint32_t piece_size(const struct redis_query *r)
{
    const struct query *q = r->query;
    int64_t left = q->limit < 0 ? r->limits->read.most : q->limit - (int64_t)(r->answer.n / 2);
    return left < EVENTS_A_PIECE ? (uint32_t)left : EVENTS_A_PIECE;
}

/* False: the reply holds something that is no event. */
static bool piece_file(struct redis_query *r, const struct redis_answer *list)
{
    for (size_t i = 0; i + 1 < list->n; i += 2) {
        int64_t second;
        if (!query_score(&list->elements[i + 1], &second)) return false;
        query_put_text(&r->answer, list->elements[i].str);
        query_put_number(&r->answer, second);
    }
    if (list->n == 0) return true;
    buf_reset(&r->last);
    buf_put_slice(&r->last, list->elements[list->n - 2].str);
    buf_reset(&r->last_score);
    buf_put_slice(&r->last_score, list->elements[list->n - 1].str);
    return true;
}

static void on_piece(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    const struct redis_answer *list;
    int64_t left;
    (void)l, (void)at;
    if (!answer_scan(reply, "(ia)", &left, &list) || !piece_file(r, list)) return query_fail(r, reply);
    int64_t n = (int64_t)list->n / 2;
    if (r->query->limit < 0 && (int64_t)r->answer.n / 2 - n + left > r->limits->read.most) {
        query_refuse(r,
                     "ERR more than %u events in that time; ask for a shorter one, or for a "
                     "part: LIMIT offset count",
                     r->limits->read.most);
    } else if (r->answer.texts.n > r->limits->read.texts_max) {
        query_refuse(r,
                     "ERR more than %u bytes of ids (limits.memory); ask for a shorter time, or for a "
                     "part: LIMIT offset count",
                     r->limits->read.texts_max);
    } else if (left <= n || piece_size(r) == 0) {
        query_end(r, ASK_DONE);
    } else {
        r->begun = true;
        query_more(r, query_events);
    }
}

static void query_events(struct redis_query *r)
{
    const struct query *q = r->query;
    name_events(query_key(r), q->name, q->type);
    struct buf *out = redis_write(r->link, "EVAL %.*s 1 {}%.*s %" PRId64 " %" PRId64 " %" PRId64 " %u +%zu",
                                  SLICE_ARG(lua_query_events), SLICE_ARG(buf_slice(&r->key)), q->from, q->to,
                                  q->offset, piece_size(r), r->begun ? (size_t)2 : 0);
    if (r->begun) {
        request_slice(out, buf_slice(&r->last_score));
        request_slice(out, buf_slice(&r->last));
    }
    redis_link_ask(r->link, 1, on_piece, r);
}

/* --- How many events fell into each window, in pieces of a hundred at most. Closed windows are in the hash statcache:<type>,
 * field <name>:<start>:<window>. Its field <name>:windows has their sizes, from which the script that adds a late event finds
 * what to drop. One script counts and caches a window, so no event falls between the two. Not cached: the open window; a window
 * some of whose events the cleaner may have deleted; a size beyond the first SIZES_MAX, since each size costs every late event a
 * look; windows without events, so that a read stores no more than the events do. --- */

#define WINDOWS_A_PIECE 100
#define COUNTED_A_PIECE 10 /* of them, those that are not in the cache */
#define SIZES_MAX 32

static uint32_t windows_size(const struct redis_query *r)
{
    return r->left < WINDOWS_A_PIECE ? r->left : WINDOWS_A_PIECE;
}

static void windows_ask(struct redis_query *r);

static void windows_done(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    int64_t count;
    (void)l, (void)at;
    if (!answer_is(reply, REDIS_ARRAY) || reply->n < 2 || reply->n > 1 + windows_size(r) ||
        !answer_integer(&reply->elements[0], &r->at))
        return query_fail(r, reply);
    for (size_t i = 1; i < reply->n; i++) {
        if (!answer_integer(&reply->elements[i], &count)) return query_fail(r, reply);
        query_put_number(&r->answer, count);
    }
    r->at += (int64_t)(reply->n - 1) * r->query->window_s;
    r->left -= (uint32_t)(reply->n - 1);
    r->begun = true;
    if (r->left == 0)
        query_end(r, ASK_DONE);
    else
        query_more(r, windows_ask);
}

static void windows_ask(struct redis_query *r)
{
    const struct query *q = r->query;
    char from[24] = "";
    name_events(query_key(r), q->name, q->type);
    buf_reset(&r->last);
    name_windows(&r->last, q->type);
    redis_write(r->link, "EVAL %.*s 2 {}%.*s {}%.*s %.*s %" PRId64 " %u %u %.*s %" PRId64 " %d %d",
                SLICE_ARG(lua_query_windows), SLICE_ARG(buf_slice(&r->key)), SLICE_ARG(buf_slice(&r->last)),
                SLICE_ARG(q->name), q->window_s, windows_size(r), q->windows_n,
                r->begun ? (int)num_write(r->at, from) : 0, from, r->limits->events_keep_s, SIZES_MAX,
                COUNTED_A_PIECE);
    redis_link_ask(r->link, 1, windows_done, r);
}

static void query_windows(struct redis_query *r)
{
    PRE(r->query->windows_n > 0 && r->query->windows_n <= r->limits->read.most && r->query->window_s > 0);
    r->left = r->query->windows_n;
    windows_ask(r);
}

/* --- The different visitors of a day, or of several. The union of the bitmaps counts visitors with an id of their own exactly,
 * the union of the sketches estimates the others. No visitor is in both. When a union is too much for one script it grows in
 * temporary keys, step by step. These have a TTL, so that a cut leaves nothing. --- */

#define STEP_DAYS 366            /* whose keys one step names */
#define STEP_BYTES (4 << 20)     /* of bitmaps that one step reads */
#define SKETCH_BYTES (128 << 10) /* merging a sketch takes as long as this many bytes of bitmaps */
#define TEMPORARY_S 60

static int64_t days_left(const struct redis_query *r)
{
    return day_number(r->query->to) - r->at + 1;
}

static int64_t step_days(const struct redis_query *r)
{
    int64_t left = days_left(r);
    return left < STEP_DAYS ? left : STEP_DAYS;
}

static void step_ask(struct redis_query *r);

static void on_step(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    int64_t days, bits, sketch, count;
    (void)l, (void)at;
    if (!answer_scan(reply, "(iiii)", &days, &bits, &sketch, &count) || days < 1 || days > step_days(r))
        return query_fail(r, reply);
    r->at += days;
    r->has_bits = bits != 0;
    r->has_sketch = sketch != 0;
    if (days_left(r) > 0) return query_more(r, step_ask);
    query_put_number(&r->answer, count);
    query_put_text(&r->answer, r->has_sketch ? SLICE("estimated") : SLICE("exact"));
    query_end(r, ASK_DONE);
}

static void step_ask(struct redis_query *r)
{
    struct buf *out = redis_link_begin(r->link);
    struct slice tag = redis_tag(r->link), id = slice_of(r->temporary, sizeof r->temporary);
    request_eval(out, lua_query_visitors, 2 + 2 * (size_t)step_days(r), 6);
    name_temporary(query_key(r), id, SLICE("bits"));
    request_key(out, tag, buf_slice(&r->key));
    name_temporary(query_key(r), id, SLICE("hll"));
    request_key(out, tag, buf_slice(&r->key));
    for (int64_t n = step_days(r), i = 0; i < n; i++) {
        int64_t day = day_of_number(r->at + i);
        name_visitors(query_key(r), r->query->name, day);
        request_key(out, tag, buf_slice(&r->key));
        name_visitors_sketch(query_key(r), r->query->name, day);
        request_key(out, tag, buf_slice(&r->key));
    }
    request_int(out, r->has_bits);
    request_int(out, r->has_sketch);
    request_int(out, STEP_BYTES);
    request_int(out, SKETCH_BYTES);
    request_int(out, TEMPORARY_S);
    request_int(out, step_days(r) == days_left(r));
    redis_link_ask(r->link, 1, on_step, r);
}

static void query_visitors(struct redis_query *r)
{
    uint8_t id[16];
    rand_bytes(id, sizeof id);
    hex_write(id, sizeof id, r->temporary);
    r->at = day_number(r->query->from);
    PRE(days_left(r) > 0 && days_left(r) <= r->limits->read.days);
    step_ask(r);
}

/* --- their begin --- */

void redis_query(struct redis_link *l, struct redis_query *r)
{
    static void (*const begin[])(struct redis_query *) = {
        [QUERY_SERIES] = query_samples,         [QUERY_NAMES] = query_names,
        [QUERY_TIMEBOX_RECENT] = query_timebox, [QUERY_TIMEBOX_TOP] = query_timebox,
        [QUERY_TIMEBOX_BOTTOM] = query_timebox, [QUERY_EVENTS] = query_events,
        [QUERY_WINDOWS] = query_windows,        [QUERY_VISITORS] = query_visitors,
    };
    if (r->next != NULL) return r->next(r);
    r->link = l;
    r->answer = (struct query_answer){0};
    r->key = r->last = r->last_score = (struct buf){0};
    r->begun = r->has_bits = r->has_sketch = false;
    r->at = 0;
    r->text[0] = '\0';
    PRE((size_t)r->query->kind < sizeof begin / sizeof begin[0]);
    begin[r->query->kind](r);
}
