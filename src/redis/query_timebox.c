/* redis/query_timebox.c - a timebox: tb.<name> has its buckets, pv.<name> their hits, both always the same buckets. One
 * script reads what needs both, so that no read falls between a new bucket and the trim of an old one. A timebox of
 * more than a thousand buckets is read from bucket to bucket: none twice, none newer than the first read, and none that
 * was removed meanwhile. */
#include "base/slice.h"
#include "redis/query_in.h"
#include "series/names.h"

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
    if (!answer_is(reply, REDIS_ARRAY)) {
        query_fail(r, reply);
        return;
    }
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        int64_t bucket, hits;
        if (!answer_integer(&reply->elements[i], &bucket) || !query_score(&reply->elements[i + 1], &hits)) {
            /* no timebox of tallyd's */
            query_refuse_key(r, buf_slice(&r->key), reply->elements[i].str);
            return;
        }
        query_put_number(&r->answer, bucket);
        query_put_number(&r->answer, hits);
        r->at = bucket;
    }
    if (r->query->kind != QUERY_TIMEBOX_RECENT || reply->n < 2 * BUCKETS_A_PIECE || buckets_left(r) == 0) {
        query_finish(r);
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
    struct buf *out = redis_link_begin(r->link);
    int64_t left = buckets_left(r), first = r->begun ? 0 : r->query->offset;
    request_eval(out, lua_query_timebox, 2, r->begun ? 3 : 2);
    name_buckets(query_key(r), r->query->name);
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    buf_reset(&r->last);
    name_bucket_hits(&r->last, r->query->name);
    request_key(out, redis_tag(r->link), buf_slice(&r->last));
    request_int(out, first);
    request_int(out, last_rank(first, left < BUCKETS_A_PIECE ? left : BUCKETS_A_PIECE));
    if (r->begun) request_int(out, r->at);
    redis_link_ask(r->link, 1, on_buckets, r);
}

void query_timebox(struct redis_query *r)
{
    if (r->query->kind == QUERY_TIMEBOX_RECENT)
        recent_ask(r);
    else {
        /* One command, so it is of one moment, however long the timebox. */
        struct buf *out = redis_link_begin(r->link);
        request_array(out, 5);
        request_text(out, r->query->kind == QUERY_TIMEBOX_TOP ? "ZREVRANGE" : "ZRANGE");
        name_bucket_hits(query_key(r), r->query->name);
        request_key(out, redis_tag(r->link), buf_slice(&r->key));
        request_int(out, r->query->offset);
        request_int(out, last_rank(r->query->offset, r->query->limit));
        REQUEST_LIT(out, "WITHSCORES");
        redis_link_ask(r->link, 1, on_buckets, r);
    }
}
