/* redis/read_box.c - a timebox: tb.<name> has its buckets, pv.<name> their hits, both always the same buckets. What
 * needs both is read by one script, so that no look falls between a new bucket and the trim of an old one. */
#include "base/num.h"
#include "redis/read_in.h"
#include "series/names.h"

/* KEYS: buckets, hits. ARGV: first and last rank, the newest being 0. Answers bucket, hits, bucket, hits ... */
static const char recent_script[] = "#!lua flags=no-writes\n"
                                    "local buckets = redis.call('ZREVRANGE', KEYS[1], ARGV[1], ARGV[2])\n"
                                    "local out = {}\n"
                                    "for at = 1, #buckets, 1000 do\n"
                                    "  local to = math.min(at + 999, #buckets)\n"
                                    "  local hits = redis.call('ZMSCORE', KEYS[2], unpack(buckets, at, to))\n"
                                    "  for i = at, to do\n"
                                    "    out[2 * i - 1] = buckets[i]\n"
                                    "    out[2 * i] = hits[i - at + 1] or '0'\n"
                                    "  end\n"
                                    "end\n"
                                    "return out\n";

static void on_buckets(struct redis_link *l, void *arg, const struct redis_reply *reply, uint32_t at)
{
    struct redis_read *r = arg;
    (void)l, (void)at;
    if (!reply_is(reply, REDIS_ARRAY)) {
        read_fail(r, reply);
        return;
    }
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        int64_t bucket, hits;
        if (!reply_integer(&reply->elements[i], &bucket) || !read_score(&reply->elements[i + 1], &hits)) {
            read_refuse_key(r, buf_slice(&r->key), reply->elements[i].str);
            return;
        }
        read_put_number(&r->answer, bucket);
        read_put_number(&r->answer, hits);
    }
    read_finish(r);
}

static int64_t last_rank(const struct read_query *q)
{
    int64_t last;
    return __builtin_add_overflow(q->offset, q->limit - 1, &last) ? INT64_MAX : last;
}

static void recent_put(struct redis_read *r, struct buf *out)
{
    resp_eval(out, SLICE(recent_script), 2, 2);
    name_bucket_hits(read_key(r), r->query->name);
    struct slice hits = buf_slice(&r->key);
    name_buckets(&r->last, r->query->name);
    resp_slice(out, buf_slice(&r->last));
    resp_slice(out, hits);
}

static void extreme_put(struct redis_read *r, struct buf *out)
{
    resp_array(out, 5);
    if (r->query->kind == READ_BOX_TOP)
        RESP_LIT(out, "ZREVRANGE");
    else
        RESP_LIT(out, "ZRANGE");
    name_bucket_hits(read_key(r), r->query->name);
    resp_slice(out, buf_slice(&r->key));
}

void read_box(struct redis_read *r)
{
    struct buf *out = redis_link_begin(r->link);
    bool recent = r->query->kind == READ_BOX_RECENT;
    if (recent)
        recent_put(r, out);
    else
        extreme_put(r, out);
    resp_int(out, r->query->offset);
    resp_int(out, last_rank(r->query));
    if (!recent) RESP_LIT(out, "WITHSCORES");
    redis_link_expect(r->link, 1, on_buckets, r);
    redis_link_flush(r->link);
}
