/* redis/hash_op.c - HGETALL. */
#include "redis/hash_op.h"
#include "redis/request.h"

static void hash_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_hash *h = arg;
    (void)l, (void)at;
    h->done(h, r);
}

void redis_hash(struct redis_link *l, struct redis_hash *h)
{
    struct buf *out = redis_link_begin(l);
    request_array(out, 2);
    REQUEST_LIT(out, "HGETALL");
    request_key(out, redis_tag(l), h->key);
    redis_link_ask(l, 1, hash_done, h);
}
