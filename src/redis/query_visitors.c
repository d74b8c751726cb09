/* redis/query_visitors.c - the different visitors of a day, or of several. The union of the bitmaps counts visitors
 * with an id of their own exactly, the union of the sketches estimates the others. No visitor is in both. When a
 * union is too much for one script it grows in temporary keys, step by step. These have a TTL, so that a cut leaves
 * nothing. */
#include "base/clock.h"
#include "redis/query_in.h"
#include "series/names.h"

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

static bool step_file(struct redis_query *r, const struct redis_answer *reply, int64_t *count)
{
    int64_t v[4];
    for (size_t i = 0; i < 4; i++)
        if (!answer_is_array(reply, 4) || !answer_integer(&reply->elements[i], &v[i])) return false;
    if (v[0] < 1 || v[0] > step_days(r)) return false;
    r->at += v[0];
    r->has_bits = v[1] != 0;
    r->has_sketch = v[2] != 0;
    *count = v[3];
    return true;
}

static void on_step(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    int64_t count;
    (void)l, (void)at;
    if (!step_file(r, reply, &count)) {
        query_fail(r, reply);
    } else if (days_left(r) > 0) {
        query_more(r, step_ask);
    } else {
        query_put_number(&r->answer, count);
        query_put_text(&r->answer, r->has_sketch ? SLICE("estimated") : SLICE("exact"));
        query_finish(r);
    }
}

static void step_keys_put(struct redis_query *r, struct buf *out)
{
    struct slice id = slice_of(r->temporary, sizeof r->temporary);
    name_temporary(query_key(r), id, SLICE("bits"));
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    name_temporary(query_key(r), id, SLICE("hll"));
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    for (int64_t n = step_days(r), i = 0; i < n; i++) {
        int64_t day = day_of_number(r->at + i);
        name_visitors(query_key(r), r->query->name, day);
        request_key(out, redis_tag(r->link), buf_slice(&r->key));
        name_visitors_sketch(query_key(r), r->query->name, day);
        request_key(out, redis_tag(r->link), buf_slice(&r->key));
    }
}

static void step_ask(struct redis_query *r)
{
    struct buf *out = redis_link_begin(r->link);
    request_eval(out, lua_query_visitors, 2 + 2 * (size_t)step_days(r), 6);
    step_keys_put(r, out);
    request_int(out, r->has_bits);
    request_int(out, r->has_sketch);
    request_int(out, STEP_BYTES);
    request_int(out, SKETCH_BYTES);
    request_int(out, TEMPORARY_S);
    request_int(out, step_days(r) == days_left(r));
    redis_link_ask(r->link, 1, on_step, r);
}

void query_visitors(struct redis_query *r)
{
    uint8_t id[16];
    rand_bytes(id, sizeof id);
    hex_write(id, sizeof id, r->temporary);
    r->at = day_number(r->query->from);
    PRE(days_left(r) > 0 && days_left(r) <= r->limits->read.days);
    step_ask(r);
}
