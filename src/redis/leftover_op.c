/* redis/leftover_op.c - the claim of what others left, one script; like claim_op.c it looks first, and writes
 * the registry before it renames. Values go to tally:accepted by HINCRBY, one by one: exact in 64 bits, and
 * what is no integer answers an error that is counted, not followed. */
#include "redis/leftover_op.h"
#include "redis/registry.h"
#include "redis/resp.h"
#include "series/batch.h"

#define FIELDS_MAX 20000 /* HINCRBYs of one script, a few ms each thousand */

/* KEYS: gen, batches, registry, accepted, then leftover and claimed name of each. ARGV: counter, format,
 * owner, fields_max, id, accept (0 1), then the pending hash of each. Answers renamed, left, fields, odd
 * values. */
static const char leftover_script[] =
    "#!lua flags=allow-oom\n"
    "local counter, format, owner, fields_max, id = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]\n"
    "local accept, gen_key, batches, registry, accepted = ARGV[6] == '1', KEYS[1], KEYS[2], KEYS[3], "
    "KEYS[4]\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "if redis.call('EXISTS', registry) == 1 then return redis.error_reply('ERR batch ' .. id .. ' stands') "
    "end\n"
    "redis.call('HGET', accepted, counter)\n"
    "local take, seen, fields, left, odd = {}, {}, 0, 0, 0\n"
    "for i = 7, #ARGV do\n"
    "  local from, to = KEYS[2 * i - 9], KEYS[2 * i - 8]\n"
    "  if redis.call('TYPE', from).ok == 'hash' and redis.call('EXISTS', to) == 0 then\n"
    "    local n = redis.call('HLEN', from)\n"
    "    if seen[ARGV[i]] or (#take > 0 and fields + n > fields_max) then left = #ARGV - i + 1 break end\n"
    "    seen[ARGV[i]] = true\n"
    "    fields = fields + n\n"
    "    take[#take + 1] = {from, to, ARGV[i], n}\n"
    "  end\n"
    "end\n"
    "if #take == 0 then return {0, left, 0, 0} end\n"
    "local gen = redis.call('INCR', gen_key)\n"
    "redis.call('ZADD', batches, now, id)\n"
    "redis.call('HSET', registry, 'format', format, 'counter', counter, 'gen', gen, 'owner', owner,\n"
    "           'lowest_ms', string.format('%.0f', now))\n"
    "for _, h in ipairs(take) do redis.call('HSET', registry, '=' .. h[3], h[4]) end\n"
    "for _, h in ipairs(take) do\n"
    "  if accept then\n"
    "    for _, v in ipairs(redis.call('HVALS', h[1])) do\n"
    "      local r = redis.pcall('HINCRBY', accepted, counter, v)\n"
    "      if type(r) == 'table' and r.err then odd = odd + 1 end\n"
    "    end\n"
    "  end\n"
    "  redis.call('RENAMENX', h[1], h[2])\n"
    "end\n"
    "return {#take, left, fields, odd}\n";

static void keys_put(struct buf *out, const struct redis_leftover *o, struct buf *name)
{
    RESP_LIT(out, KEY_GEN);
    RESP_LIT(out, KEY_BATCHES);
    name_batch(name, &o->id);
    resp_slice(out, buf_slice(name));
    RESP_LIT(out, KEY_ACCEPTED);
    for (uint32_t i = 0; i < o->n; i++) {
        resp_slice(out, o->names[i]);
        buf_reset(name);
        name_claimed(name, o->pendings[i], &o->id);
        resp_slice(out, buf_slice(name));
    }
}

static void args_put(struct buf *out, const struct redis_leftover *o, struct buf *name)
{
    char hex[33];
    batch_id_hex(&o->id, hex);
    resp_slice(out, o->counter->name);
    resp_int(out, BATCH_FORMAT);
    buf_reset(name);
    name_owner(name, o->life);
    resp_slice(out, buf_slice(name));
    resp_int(out, FIELDS_MAX);
    resp_text(out, hex);
    resp_int(out, o->accept);
    for (uint32_t i = 0; i < o->n; i++)
        resp_slice(out, o->pendings[i]);
}

static bool answer_file(struct redis_leftover *o, const struct redis_reply *r)
{
    int64_t v[4];
    if (!reply_is_array(r, 4)) return false;
    for (int i = 0; i < 4; i++)
        if (!reply_integer(&r->elements[i], &v[i]) || v[i] < 0) return false;
    o->renamed = (uint32_t)v[0];
    o->left = (uint32_t)v[1];
    o->fields = (uint64_t)v[2];
    o->odd = (uint32_t)v[3];
    o->outcome = o->renamed > 0 ? CLAIM_STANDS : CLAIM_EMPTY;
    return true;
}

static void on_claimed(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_leftover *o = arg;
    (void)l, (void)at;
    if (r == NULL || !answer_file(o, r)) {
        o->outcome = reply_is(r, REDIS_ERROR) ? CLAIM_REFUSED : CLAIM_GONE;
        reply_why(r, o->text, sizeof o->text);
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
    resp_eval(out, SLICE(leftover_script), 4 + 2 * (size_t)o->n, 6 + (size_t)o->n);
    keys_put(out, o, &name);
    args_put(out, o, &name);
    buf_free(&name);
    redis_link_expect(l, 1, on_claimed, o);
    redis_link_flush(l);
}
