/* redis/claim_op.c - the claim (sync/README.md, rules S2 and S3), one script. It looks first and writes then, and writes the
 * registry before it renames: RENAMENX of a hash that is there to a name that is not cannot fail, so an error
 * leaves no hash renamed and unregistered. Sent whole with EVAL: a NOSCRIPT, and with it the question whether
 * to send it again behind later frames, cannot happen; an id goes out once. */
#include "base/heap.h"
#include "base/log.h"
#include "redis/frame_in.h"
#include "redis/registry.h"
#include "redis/resp.h"
#include "series/batch.h"

#define KEYS_FIXED 4
#define ARGS_FIXED 7

/* KEYS: dirty, gen, batches, registry, then pending, claimed, lock of each hash. ARGV: counter, format,
 * owner, instance, every_s, fields_max, id. Answers renamed, left, fields, gen, then up to ten keys that are
 * no hashes. The calls with many arguments go in pieces of 500: unpack() has a bound near 8,000. */
static const char claim_script[] =
    "#!lua flags=allow-oom\n"
    "local counter, format, owner, instance = ARGV[1], ARGV[2], ARGV[3], ARGV[4]\n"
    "local every_s, fields_max, id = ARGV[5], tonumber(ARGV[6]), ARGV[7]\n"
    "local dirty, gen_key, batches, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "if redis.call('EXISTS', registry) == 1 then return redis.error_reply('ERR batch ' .. id .. ' stands') "
    "end\n"
    "local take, seen, gone, odd, fields, left, lowest = {}, {}, {}, {}, 0, 0, now\n"
    "for i = 5, #KEYS, 3 do\n"
    "  local kind = redis.call('TYPE', KEYS[i]).ok\n"
    "  if kind ~= 'hash' then\n"
    "    gone[#gone + 1] = KEYS[i]\n"
    "    if kind ~= 'none' and #odd < 10 then odd[#odd + 1] = KEYS[i] end\n"
    "  elseif not seen[KEYS[i]] and redis.call('EXISTS', KEYS[i + 1]) == 0 then\n"
    "    local n = redis.call('HLEN', KEYS[i])\n"
    "    if #take > 0 and fields + n > fields_max then left = (#KEYS - i + 1) / 3 break end\n"
    "    seen[KEYS[i]] = true\n"
    "    fields = fields + n\n"
    "    take[#take + 1] = {i, n}\n"
    "    local score = tonumber(redis.call('ZSCORE', dirty, KEYS[i]) or now)\n"
    "    if score < lowest then lowest = score end\n"
    "  end\n"
    "end\n"
    "local function in_pieces(list, ...)\n"
    "  for at = 1, #list, 500 do\n"
    "    local call = {...}\n"
    "    for i = at, math.min(at + 499, #list) do call[#call + 1] = list[i] end\n"
    "    redis.call(unpack(call))\n"
    "  end\n"
    "end\n"
    "local gen = 0\n"
    "if #take > 0 then\n"
    "  gen = redis.call('INCR', gen_key)\n"
    "  redis.call('ZADD', batches, now, id)\n"
    "  redis.call('HSET', registry, 'format', format, 'counter', counter, 'gen', gen, 'owner', owner,\n"
    "             'lowest_ms', string.format('%.0f', lowest))\n"
    "  local lengths = {}\n"
    "  for _, h in ipairs(take) do\n"
    "    lengths[#lengths + 1] = '=' .. KEYS[h[1]]\n"
    "    lengths[#lengths + 1] = h[2]\n"
    "  end\n"
    "  in_pieces(lengths, 'HSET', registry)\n"
    "  for _, h in ipairs(take) do\n"
    "    redis.call('RENAMENX', KEYS[h[1]], KEYS[h[1] + 1])\n"
    "    gone[#gone + 1] = KEYS[h[1]]\n"
    "    redis.call('SET', KEYS[h[1] + 2], instance, 'EX', every_s)\n"
    "  end\n"
    "end\n"
    "in_pieces(gone, 'ZREM', dirty)\n"
    "return {#take, left, fields, gen, unpack(odd)}\n";

static void names_put(struct redis_frames *fr, struct buf *out, const struct claim *c)
{
    for (uint32_t i = 0; i < c->keys_n; i++) {
        resp_slice(out, c->keys[i]);
        buf_reset(&fr->scratch);
        name_claimed(&fr->scratch, c->keys[i], &c->id);
        resp_slice(out, buf_slice(&fr->scratch));
        buf_reset(&fr->scratch);
        counter_lock_name(c->counter, c->keys[i], &fr->scratch);
        resp_slice(out, buf_slice(&fr->scratch));
    }
}

static void claim_put(struct redis_frames *fr, struct buf *out, const struct claim *c)
{
    char hex[33];
    batch_id_hex(&c->id, hex);
    resp_eval(out, SLICE(claim_script), KEYS_FIXED + 3 * (size_t)c->keys_n, ARGS_FIXED);
    RESP_LIT(out, KEY_DIRTY);
    RESP_LIT(out, KEY_GEN);
    RESP_LIT(out, KEY_BATCHES);
    buf_reset(&fr->scratch);
    name_batch(&fr->scratch, &c->id);
    resp_slice(out, buf_slice(&fr->scratch));
    names_put(fr, out, c);
    resp_slice(out, c->counter->name);
    resp_int(out, BATCH_FORMAT);
    buf_reset(&fr->scratch);
    name_owner(&fr->scratch, fr->life);
    resp_slice(out, buf_slice(&fr->scratch));
    resp_slice(out, fr->life->instance);
    resp_int(out, c->counter->every_s);
    resp_int(out, CLAIM_FIELDS_MAX);
    resp_text(out, hex);
}

static void odd_tell(const struct claim *c, const struct redis_reply *r)
{
    char key[200];
    for (size_t i = 4; i < r->n; i++) {
        if (r->elements[i].type != REDIS_STRING) continue;
        slice_show(r->elements[i].str, 150, key, sizeof key);
        log_event(LOG_WARN, "not_a_hash", "counter=" SLICE_FMT " key=%s next=%s", SLICE_ARG(c->counter->name),
                  LOGQ(key), LOGQ("taken out of the dirty index; rename or delete the key"));
    }
}

/* False: no answer of our script. */
static bool claim_file(struct claim *c, const struct redis_reply *r)
{
    int64_t v[4];
    if (!reply_is(r, REDIS_ARRAY) || r->n < 4) return false;
    for (int i = 0; i < 4; i++)
        if (!reply_integer(&r->elements[i], &v[i]) || v[i] < 0) return false;
    if (v[0] + v[1] > c->keys_n) return false;
    c->outcome = v[0] > 0 ? CLAIM_STANDS : CLAIM_EMPTY;
    c->renamed = (uint32_t)v[0];
    c->left = (uint32_t)v[1];
    c->fields = (uint64_t)v[2];
    odd_tell(c, r);
    return true;
}

static struct claim *claim_pop(struct redis_frames *fr)
{
    PRE(fr->claims_n > 0);
    struct claim *c = fr->claims[0];
    fr->claims_n--;
    memmove(fr->claims, fr->claims + 1, fr->claims_n * sizeof(struct claim *));
    return c;
}

static void on_claim(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    struct claim *c = claim_pop(fr);
    (void)at;
    if (r == NULL) return; /* down() tells; whether the registry stands is looked for on the next link */
    c->text[0] = '\0';
    if (r->type == REDIS_ERROR) {
        c->outcome = CLAIM_REFUSED;
        c->renamed = c->left = 0;
        c->fields = 0;
        reply_why(r, c->text, sizeof c->text);
        frames_cut_if_unfit(fr, r);
    } else if (!claim_file(c, r)) {
        redis_link_cut(l, "MASTERDOWN Redis answered a claim oddly; it is looked for again");
        return;
    }
    CRASH(claim_done);
    fr->on_claim(fr->arg, c);
}

static void claim_push(struct redis_frames *fr, struct claim *c)
{
    if (fr->claims_n == fr->claims_cap) {
        fr->claims_cap = fr->claims_cap == 0 ? 8 : 2 * fr->claims_cap;
        fr->claims = heap_realloc(fr->claims, fr->claims_cap * sizeof(struct claim *));
    }
    fr->claims[fr->claims_n++] = c;
}

void redis_frames_claim(struct redis_frames *fr, struct claim *c)
{
    PRE(c->keys_n > 0 && c->keys_n <= CLAIM_HASHES_MAX);
    claim_push(fr, c);
    claim_put(fr, redis_link_begin(fr->link), c);
    redis_link_expect(fr->link, 1, on_claim, fr);
    CRASH(claim_before_send);
    redis_link_crash_after(fr->link, CRASH_claim_after_send);
    redis_link_flush(fr->link);
}
