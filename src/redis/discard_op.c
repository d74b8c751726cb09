/* redis/discard_op.c - the end of a batch in Redis. UNLINK, DEL and ZREM are no denyoom commands: it works
 * when Redis is full. */
#include "redis/discard_op.h"
#include "redis/resp.h"

#define NAMES_A_COMMAND 500

static uint32_t unlinks_put(struct buf *out, const struct batch *b)
{
    struct buf name = {0};
    uint32_t lines = 0;
    for (size_t at = 0; at < b->hashes_n; lines++) {
        size_t n = b->hashes_n - at < NAMES_A_COMMAND ? b->hashes_n - at : NAMES_A_COMMAND;
        resp_array(out, n + 1);
        RESP_LIT(out, "UNLINK");
        for (; n > 0; n--, at++) {
            buf_reset(&name);
            name_claimed(&name, batch_hash_name(b, at), &b->id);
            resp_slice(out, buf_slice(&name));
        }
    }
    buf_free(&name);
    return lines;
}

static uint32_t registry_put(struct buf *out, const struct batch *b)
{
    char hex[33];
    struct buf name = {0};
    name_batch(&name, &b->id);
    batch_id_hex(&b->id, hex);
    resp_array(out, 2);
    RESP_LIT(out, "DEL");
    resp_slice(out, buf_slice(&name));
    resp_array(out, 3);
    RESP_LIT(out, "ZREM");
    RESP_LIT(out, KEY_BATCHES);
    resp_text(out, hex);
    buf_free(&name);
    return 2;
}

static void on_line(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_discard *d = arg;
    (void)l;
    if (r != NULL && at < d->lines) {
        if (r->type == REDIS_ERROR && d->text[0] == '\0') reply_why(r, d->text, sizeof d->text);
        return;
    }
    d->done_ok = r != NULL && reply_is_array(r, d->lines - 1);
    for (size_t i = 0; d->done_ok && i < r->n; i++)
        d->done_ok = r->elements[i].type == REDIS_INTEGER;
    if (!d->done_ok && d->text[0] == '\0') reply_why(r, d->text, sizeof d->text);
    if (d->done_ok) CRASH(discard_done);
    d->done(d);
}

void redis_discard(struct redis_link *l, struct redis_discard *d)
{
    struct buf *out = redis_link_begin(l);
    d->done_ok = false;
    d->text[0] = '\0';
    resp_words(out, "MULTI");
    d->lines = 1 + unlinks_put(out, d->batch);
    d->lines += registry_put(out, d->batch);
    resp_words(out, "EXEC");
    redis_link_expect(l, d->lines + 1, on_line, d);
    CRASH(discard_before_send);
    redis_link_crash_after(l, CRASH_discard_after_send);
    redis_link_flush(l);
}
