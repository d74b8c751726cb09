/* redis/read_box.c - a timebox: tb.<name> has its buckets, pv.<name> their hits, both always the same buckets. What
 * needs both is read by one script, so that no look falls between a new bucket and the trim of an old one. A box of
 * more than a thousand buckets is read on from bucket to bucket: none twice, none younger than the first look, and none
 * that went meanwhile. */
#include "base/num.h"
#include "redis/read_in.h"
#include "series/names.h"

#define BUCKETS_A_PIECE 1000

static void recent_ask(struct redis_read *r);

/* False: what stands there is no box of ours; r is refused. */
static bool buckets_file(struct redis_read *r, const struct redis_reply *reply)
{
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        int64_t bucket, hits;
        if (!reply_integer(&reply->elements[i], &bucket) || !read_score(&reply->elements[i + 1], &hits)) {
            read_refuse_key(r, buf_slice(&r->key), reply->elements[i].str);
            return false;
        }
        read_put_number(&r->answer, bucket);
        read_put_number(&r->answer, hits);
        r->at = bucket;
    }
    return true;
}

static int64_t buckets_left(const struct redis_read *r)
{
    return r->query->limit - (int64_t)(r->answer.n / 2);
}

static void on_buckets(struct redis_link *l, void *arg, const struct redis_reply *reply, uint32_t at)
{
    struct redis_read *r = arg;
    (void)l, (void)at;
    if (!reply_is(reply, REDIS_ARRAY)) {
        read_fail(r, reply);
        return;
    }
    if (!buckets_file(r, reply)) return;
    if (r->query->kind != READ_BOX_RECENT || reply->n < 2 * BUCKETS_A_PIECE || buckets_left(r) == 0) {
        read_finish(r);
        return;
    }
    r->begun = true;
    recent_ask(r);
}

static int64_t last_rank(int64_t first, int64_t n)
{
    int64_t last;
    return __builtin_add_overflow(first, n - 1, &last) ? INT64_MAX : last;
}

static void recent_ask(struct redis_read *r)
{
    struct buf *out = redis_link_begin(r->link);
    int64_t left = buckets_left(r), first = r->begun ? 0 : r->query->offset;
    resp_eval(out, lua_query_timebox, 2, r->begun ? 3 : 2);
    name_buckets(read_key(r), r->query->name);
    resp_slice(out, buf_slice(&r->key));
    buf_reset(&r->last);
    name_bucket_hits(&r->last, r->query->name);
    resp_slice(out, buf_slice(&r->last));
    resp_int(out, first);
    resp_int(out, last_rank(first, left < BUCKETS_A_PIECE ? left : BUCKETS_A_PIECE));
    if (r->begun) resp_int(out, r->at);
    redis_link_expect(r->link, 1, on_buckets, r);
    redis_link_flush(r->link);
}

/* One command, so of one moment, however long the box. */
static void extreme_ask(struct redis_read *r)
{
    struct buf *out = redis_link_begin(r->link);
    resp_array(out, 5);
    resp_text(out, r->query->kind == READ_BOX_TOP ? "ZREVRANGE" : "ZRANGE");
    name_bucket_hits(read_key(r), r->query->name);
    resp_slice(out, buf_slice(&r->key));
    resp_int(out, r->query->offset);
    resp_int(out, last_rank(r->query->offset, r->query->limit));
    RESP_LIT(out, "WITHSCORES");
    redis_link_expect(r->link, 1, on_buckets, r);
    redis_link_flush(r->link);
}

void read_box(struct redis_read *r)
{
    if (r->query->kind == READ_BOX_RECENT)
        recent_ask(r);
    else
        extreme_ask(r);
}
