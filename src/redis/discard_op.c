/* redis/discard_op.c - the end of a batch in Redis. A script, not a MULTI: while Redis is full it refuses to queue any
 * command (processCommand: queueing takes memory), even UNLINK, and the discard is what frees memory. */
#include "redis/discard_op.h"
#include "redis/lua.h"
#include "redis/request.h"

static void discard_put(struct buf *out, struct slice tag, const struct batch *b)
{
    char hex[33];
    struct buf name = {0};
    batch_id_hex(&b->id, hex);
    size_t renamed = 0;
    for (size_t i = 0; i < b->hashes_n; i++)
        renamed += !b->hashes[i].packed;
    request_eval(out, lua_discard, 2 + renamed, 1);
    name_batch(&name, &b->id);
    request_key(out, tag, buf_slice(&name));
    REQUEST_KEY(out, tag, KEY_BATCHES);
    for (size_t i = 0; i < b->hashes_n; i++) {
        if (b->hashes[i].packed) continue;
        buf_reset(&name);
        name_claimed(&name, batch_hash_name(b, i), &b->id);
        request_key(out, tag, buf_slice(&name));
    }
    request_text(out, hex);
    buf_free(&name);
}

static void on_discarded(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct discard *d = arg;
    (void)l, (void)at;
    d->done_ok = answer_is(r, REDIS_INTEGER);
    if (d->done_ok)
        CRASH(discard_done);
    else
        answer_why(r, d->text, sizeof d->text);
    d->done(d); /* last line: d may be gone after it */
}

void redis_discard(struct redis_link *l, struct discard *d)
{
    d->done_ok = false;
    d->text[0] = '\0';
    discard_put(redis_link_begin(l), redis_tag(l), d->batch);
    redis_link_expect(l, 1, on_discarded, d);
    CRASH(discard_before_send);
    redis_link_crash_after(l, CRASH_discard_after_send);
    redis_link_flush(l);
}
