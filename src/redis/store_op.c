/* redis/store_op.c - see store_op.h. */
#include "redis/store_op.h"
#include "redis/resp.h"

/* KEYS: gen, dirty, held, batches, the pending hash, its lock. ARGV: registry prefix, fields_max. Answers gen, dirty
 * (0 1), held (0 1), the lock's PTTL, the key's type, {field, value, ...}, {{id, registered, {field, value, ...}}, ...};
 * an empty array: too many fields. */
static const char store_script[] =
    "#!lua flags=no-writes\n"
    "local key, prefix, most, fields = KEYS[5], ARGV[1], tonumber(ARGV[2]), 0\n"
    "local function hash(name)\n"
    "  if redis.call('TYPE', name).ok ~= 'hash' then return {} end\n"
    "  fields = fields + redis.call('HLEN', name)\n"
    "  if fields > most then return {} end\n"
    "  return redis.call('HGETALL', name)\n"
    "end\n"
    "local pending, batches = hash(key), {}\n"
    "for _, id in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do\n"
    "  local registered = redis.call('HGET', prefix .. id, '=' .. key)\n"
    "  if registered then batches[#batches + 1] = {id, registered, hash(key .. '_' .. id)} end\n"
    "end\n"
    "if fields > most then return {} end\n"
    "return {redis.call('GET', KEYS[1]) or '0', redis.call('ZSCORE', KEYS[2], key) and 1 or 0,\n"
    "        redis.call('ZSCORE', KEYS[3], key) and 1 or 0, redis.call('PTTL', KEYS[6]),\n"
    "        redis.call('TYPE', key).ok, pending, batches}\n";

static bool batch_tell(struct redis_store *s, const struct redis_reply *r)
{
    struct batch_id id;
    int64_t registered;
    if (!reply_is_array(r, 3) || !batch_id_read(r->elements[0].str, &id)) return false;
    if (!reply_integer(&r->elements[1], &registered) || r->elements[2].type != REDIS_ARRAY) return false;
    s->batch(s->arg, &id, registered);
    const struct redis_reply *list = &r->elements[2];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        s->claimed(s->arg, &id, list->elements[i].str, list->elements[i + 1].str);
    return true;
}

static bool head_file(struct redis_store *s, const struct redis_reply *r)
{
    int64_t dirty, held;
    if (!reply_integer(&r->elements[0], &s->gen) || !reply_integer(&r->elements[1], &dirty)) return false;
    if (!reply_integer(&r->elements[2], &held) || !reply_integer(&r->elements[3], &s->lock_ms)) return false;
    s->dirty = dirty != 0;
    s->held = held != 0;
    s->exists = !slice_eq(r->elements[4].str, SLICE("none"));
    s->other = s->exists && !slice_eq(r->elements[4].str, SLICE("hash"));
    return r->elements[5].type == REDIS_ARRAY && r->elements[6].type == REDIS_ARRAY;
}

static bool store_file(struct redis_store *s, const struct redis_reply *r)
{
    s->too_many = reply_is_array(r, 0);
    if (s->too_many) return true;
    if (!reply_is_array(r, 7) || !head_file(s, r)) return false;
    const struct redis_reply *pending = &r->elements[5], *batches = &r->elements[6];
    for (size_t i = 0; i + 1 < pending->n; i += 2)
        s->pending(s->arg, pending->elements[i].str, pending->elements[i + 1].str);
    for (size_t i = 0; i < batches->n; i++)
        if (!batch_tell(s, &batches->elements[i])) return false;
    return true;
}

static void on_store(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_store *s = arg;
    (void)l, (void)at;
    s->lost = !store_file(s, r);
    if (s->lost) reply_why(r, s->text, sizeof s->text);
    s->done(s);
}

void redis_store(struct redis_link *l, struct redis_store *s)
{
    struct buf *out = redis_link_begin(l);
    s->text[0] = '\0';
    resp_eval(out, SLICE(store_script), 6, 2);
    RESP_LIT(out, KEY_GEN);
    RESP_LIT(out, KEY_DIRTY);
    RESP_LIT(out, KEY_HELD);
    RESP_LIT(out, KEY_BATCHES);
    resp_slice(out, s->key);
    resp_slice(out, s->lock);
    RESP_LIT(out, KEY_BATCH_PREFIX);
    resp_int(out, s->fields_max);
    redis_link_expect(l, 1, on_store, s);
    redis_link_flush(l);
}
