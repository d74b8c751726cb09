/* redis/hash_op.c - HGETALL. */
#include "redis/hash_op.h"
#include "redis/resp.h"

static void on_hash(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_hash *h = arg;
    (void)l, (void)at;
    h->done(h, r);
}

void redis_hash(struct redis_link *l, struct redis_hash *h)
{
    struct buf *out = redis_link_begin(l);
    resp_array(out, 2);
    RESP_LIT(out, "HGETALL");
    resp_slice(out, h->key);
    redis_link_expect(l, 1, on_hash, h);
    redis_link_flush(l);
}
