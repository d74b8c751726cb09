/* redis/leftover_op.c - the claim of hashes that other programs left, one script. Like claim_op.c it reads first, and
 * writes the registry before it renames. Values go to tally:accepted by HINCRBY, one by one: exact in 64 bits. A value
 * that is no integer gets an error, which is counted and otherwise ignored. */
#include "redis/leftover_op.h"
#include "redis/lua.h"
#include "redis/registry.h"
#include "redis/request.h"
#include "series/batch.h"

#define FIELDS_MAX 20000 /* HINCRBYs of one script, a few ms each thousand */

static void leftover_keys_put(struct buf *out, struct slice tag, const struct redis_leftover *o,
                              struct buf *name)
{
    REQUEST_KEY(out, tag, KEY_GEN);
    REQUEST_KEY(out, tag, KEY_GENS);
    REQUEST_KEY(out, tag, KEY_BATCHES);
    name_batch(name, &o->id);
    request_key(out, tag, buf_slice(name));
    REQUEST_KEY(out, tag, KEY_ACCEPTED);
    for (uint32_t i = 0; i < o->n; i++) {
        request_key(out, tag, o->names[i]);
        buf_reset(name);
        name_claimed(name, o->pendings[i], &o->id);
        request_key(out, tag, buf_slice(name));
    }
}

static void leftover_args_put(struct buf *out, const struct redis_leftover *o, struct buf *name)
{
    char hex[33];
    batch_id_hex(&o->id, hex);
    request_slice(out, o->counter->name);
    request_int(out, BATCH_FORMAT);
    buf_reset(name);
    name_owner(name, o->life);
    request_slice(out, buf_slice(name));
    request_int(out, FIELDS_MAX);
    request_text(out, hex);
    request_int(out, o->accept);
    request_int(out, GENS_KEPT);
    for (uint32_t i = 0; i < o->n; i++)
        request_slice(out, o->pendings[i]);
}

static bool answer_file(struct redis_leftover *o, const struct redis_answer *r)
{
    int64_t v[4];
    if (!answer_is_array(r, 4)) return false;
    for (int i = 0; i < 4; i++)
        if (!answer_integer(&r->elements[i], &v[i]) || v[i] < 0) return false;
    o->renamed = (uint32_t)v[0];
    o->left = (uint32_t)v[1];
    o->fields = (uint64_t)v[2];
    o->odd = (uint32_t)v[3];
    o->outcome = o->renamed > 0 ? CLAIM_STANDS : CLAIM_EMPTY;
    return true;
}

static void leftover_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_leftover *o = arg;
    (void)l, (void)at;
    if (r == NULL || !answer_file(o, r)) {
        o->outcome = answer_is(r, REDIS_ERROR) ? CLAIM_REFUSED : CLAIM_GONE;
        answer_why(r, o->text, sizeof o->text);
    }
    o->done(o);
}

void redis_leftover(struct redis_link *l, struct redis_leftover *o)
{
    PRE(o->n > 0 && o->n <= CLAIM_HASHES_MAX);
    struct buf *out = redis_link_begin(l);
    struct buf name = {0};
    o->renamed = o->left = o->odd = 0;
    o->fields = 0;
    o->text[0] = '\0';
    request_eval(out, lua_leftover, 5 + 2 * (size_t)o->n, 7 + (size_t)o->n);
    leftover_keys_put(out, redis_tag(l), o, &name);
    leftover_args_put(out, o, &name);
    buf_free(&name);
    redis_link_ask(l, 1, leftover_done, o);
}
