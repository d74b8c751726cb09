/* redis/store_op.c - see store_op.h. */
#include "redis/store_op.h"
#include "redis/lua.h"
#include "redis/request.h"

static bool store_batch_tell(struct redis_store *s, const struct redis_answer *r)
{
    struct batch_id id;
    int64_t registered;
    if (!answer_is_array(r, 3) || !batch_id_read(r->elements[0].str, &id)) return false;
    if (!answer_integer(&r->elements[1], &registered) || r->elements[2].type != REDIS_ARRAY) return false;
    s->batch(s->arg, &id, registered);
    const struct redis_answer *list = &r->elements[2];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        s->claimed(s->arg, &id, list->elements[i].str, list->elements[i + 1].str);
    return true;
}

static bool head_file(struct redis_store *s, const struct redis_answer *r)
{
    int64_t dirty, held;
    if (!answer_integer(&r->elements[0], &s->gen) || !answer_integer(&r->elements[1], &dirty)) return false;
    if (!answer_integer(&r->elements[2], &held) || !answer_integer(&r->elements[3], &s->lock_ms))
        return false;
    s->dirty = dirty != 0;
    s->held = held != 0;
    s->exists = !slice_eq(r->elements[4].str, SLICE("none"));
    s->other = s->exists && !slice_eq(r->elements[4].str, SLICE("hash"));
    return r->elements[5].type == REDIS_ARRAY && r->elements[6].type == REDIS_ARRAY;
}

static bool store_file(struct redis_store *s, const struct redis_answer *r)
{
    s->too_many = answer_is_array(r, 0);
    if (s->too_many) return true;
    if (!answer_is_array(r, 7) || !head_file(s, r)) return false;
    const struct redis_answer *pending = &r->elements[5], *batches = &r->elements[6];
    for (size_t i = 0; i + 1 < pending->n; i += 2)
        s->pending(s->arg, pending->elements[i].str, pending->elements[i + 1].str);
    for (size_t i = 0; i < batches->n; i++)
        if (!store_batch_tell(s, &batches->elements[i])) return false;
    return true;
}

static void store_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_store *s = arg;
    (void)l, (void)at;
    s->lost = !store_file(s, r);
    if (s->lost) answer_why(r, s->text, sizeof s->text);
    s->done(s);
}

void redis_store(struct redis_link *l, struct redis_store *s)
{
    struct buf *out = redis_link_begin(l);
    s->text[0] = '\0';
    request_eval(out, lua_store, 6, 2);
    REQUEST_KEY(out, redis_tag(l), KEY_GEN);
    REQUEST_KEY(out, redis_tag(l), KEY_DIRTY);
    REQUEST_KEY(out, redis_tag(l), KEY_HELD);
    REQUEST_KEY(out, redis_tag(l), KEY_BATCHES);
    request_key(out, redis_tag(l), s->key);
    request_key(out, redis_tag(l), s->lock);
    REQUEST_KEY(out, redis_tag(l), KEY_BATCH_PREFIX);
    request_int(out, s->fields_max);
    redis_link_ask(l, 1, store_done, s);
}
