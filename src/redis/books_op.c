/* redis/books_op.c - scripts that only read; flags=no-writes lets them run when Redis is full, or its disk
 * is. */
#include "redis/books_op.h"
#include "base/num.h"
#include "redis/resp.h"
#include "series/counter.h"
#include <stdio.h>

/* KEYS: gen, accepted, dirty, held, batches. ARGV: registry prefix, dirty_max, fields_max. Answers gen, how many
 * dirty, and unless these or their fields are too many: accepted, {{name, {field, value, ...}}, ...}, {{id, counter, gen, {{pending,
 * {...}}, ...}}, ...}. */
static const char books_script[] =
    "#!lua flags=no-writes\n"
    "local prefix, dirty_max, fields_max, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 0\n"
    "local gen = redis.call('GET', KEYS[1]) or '0'\n"
    "local n = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])\n"
    "if n > dirty_max then return {gen, n} end\n"
    "local function hash(name)\n"
    "  if redis.call('TYPE', name).ok ~= 'hash' then return {} end\n"
    "  fields = fields + redis.call('HLEN', name)\n"
    "  if fields > fields_max then return {} end\n"
    "  return redis.call('HGETALL', name)\n"
    "end\n"
    "local pending, seen = {}, {}\n"
    "for k = 3, 4 do\n"
    "  for _, name in ipairs(redis.call('ZRANGE', KEYS[k], 0, -1)) do\n"
    "    if not seen[name] then pending[#pending + 1] = {name, hash(name)} end\n"
    "    seen[name] = true\n"
    "  end\n"
    "end\n"
    "local batches = {}\n"
    "for _, id in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do\n"
    "  local is, counter, of, claimed = redis.call('HGETALL', prefix .. id), '', '0', {}\n"
    "  for i = 1, #is, 2 do\n"
    "    if is[i] == 'counter' then counter = is[i + 1] end\n"
    "    if is[i] == 'gen' then of = is[i + 1] end\n"
    "    if string.sub(is[i], 1, 1) == '=' then\n"
    "      local name = string.sub(is[i], 2)\n"
    "      claimed[#claimed + 1] = {name, hash(name .. '_' .. id)}\n"
    "    end\n"
    "  end\n"
    "  batches[#batches + 1] = {id, counter, of, claimed}\n"
    "end\n"
    "if fields > fields_max then return {gen, n} end\n"
    "return {gen, n, redis.call('HGETALL', KEYS[2]), pending, batches}\n";

/* A reply of ours is a tree of known shape; what has another shape is looked at no further. */
static bool is_pair(const struct redis_reply *r)
{
    return reply_is_array(r, 2) && r->elements[1].type == REDIS_ARRAY;
}

static void accepted_tell(struct redis_books *b, const struct redis_reply *list)
{
    for (size_t i = 0; i + 1 < list->n; i += 2)
        b->accepted(b->arg, list->elements[i].str, list->elements[i + 1].str);
}

static void pending_tell(struct redis_books *b, const struct redis_reply *hash)
{
    const struct redis_reply *list = &hash->elements[1];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        b->pending(b->arg, hash->elements[0].str, list->elements[i].str, list->elements[i + 1].str);
}

static void claimed_tell(struct redis_books *b, const struct batch_id *id, const struct redis_reply *hash)
{
    const struct redis_reply *list = &hash->elements[1];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        b->claimed(b->arg, id, hash->elements[0].str, list->elements[i].str, list->elements[i + 1].str);
}

static bool batch_tell(struct redis_books *b, const struct redis_reply *r)
{
    struct batch_id id;
    int64_t gen = 0;
    if (!reply_is_array(r, 4) || !batch_id_read(r->elements[0].str, &id)) return false;
    if (!reply_integer(&r->elements[2], &gen) || r->elements[3].type != REDIS_ARRAY) return false;
    b->batch(b->arg, &id, r->elements[1].str, gen);
    for (size_t i = 0; i < r->elements[3].n; i++) {
        if (!is_pair(&r->elements[3].elements[i])) return false;
        claimed_tell(b, &id, &r->elements[3].elements[i]);
    }
    return true;
}

static bool books_file(struct redis_books *b, const struct redis_reply *r)
{
    int64_t dirty;
    if (!reply_is(r, REDIS_ARRAY) || r->n < 2) return false;
    if (!reply_integer(&r->elements[0], &b->gen) || !reply_integer(&r->elements[1], &dirty)) return false;
    b->dirty = (uint64_t)dirty;
    b->too_many = r->n == 2;
    if (b->too_many) return true;
    for (size_t i = 2; i < 5; i++)
        if (r->n != 5 || r->elements[i].type != REDIS_ARRAY) return false;
    accepted_tell(b, &r->elements[2]);
    for (size_t i = 0; i < r->elements[3].n; i++) {
        if (!is_pair(&r->elements[3].elements[i])) return false;
        pending_tell(b, &r->elements[3].elements[i]);
    }
    for (size_t i = 0; i < r->elements[4].n; i++)
        if (!batch_tell(b, &r->elements[4].elements[i])) return false;
    return true;
}

static void on_books(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_books *b = arg;
    (void)l, (void)at;
    b->lost = !books_file(b, r);
    if (b->lost) reply_why(r, b->text, sizeof b->text);
    b->done(b);
}

void redis_books(struct redis_link *l, struct redis_books *b)
{
    struct buf *out = redis_link_begin(l);
    b->too_many = false;
    b->gen = 0;
    b->dirty = 0;
    b->text[0] = '\0';
    resp_eval(out, SLICE(books_script), 5, 3);
    RESP_LIT(out, KEY_GEN);
    RESP_LIT(out, KEY_ACCEPTED);
    RESP_LIT(out, KEY_DIRTY);
    RESP_LIT(out, KEY_HELD);
    RESP_LIT(out, KEY_BATCHES);
    RESP_LIT(out, KEY_BATCH_PREFIX);
    resp_int(out, b->dirty_max);
    resp_int(out, b->fields_max > 0 ? b->fields_max : DELTA_MAX);
    redis_link_expect(l, 1, on_books, b);
    redis_link_flush(l);
}

/* --- a live total --- */

/* KEYS: gen, batches, the pending hash. ARGV: registry prefix, fields. Answers gen, values, {{id, {values}},
 * ...}; or Redis' own WRONGTYPE, as HMGET says it. */
static const char total_script[] = "#!lua flags=no-writes\n"
                                   "local prefix, batches, key = ARGV[1], {}, KEYS[3]\n"
                                   "local function values(name)\n"
                                   "  return redis.pcall('HMGET', name, unpack(ARGV, 2))\n"
                                   "end\n"
                                   "local pending = values(key)\n"
                                   "if pending.err then return pending end\n"
                                   "for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do\n"
                                   "  if redis.call('HEXISTS', prefix .. id, '=' .. key) == 1 then\n"
                                   "    local claimed = values(key .. '_' .. id)\n"
                                   "    if claimed.err then return claimed end\n"
                                   "    batches[#batches + 1] = {id, claimed}\n"
                                   "  end\n"
                                   "end\n"
                                   "return {redis.call('GET', KEYS[1]) or '0', pending, batches}\n";

static bool total_file(struct redis_total *t, const struct redis_reply *r)
{
    if (!reply_is_array(r, 3) || !reply_integer(&r->elements[0], &t->gen)) return false;
    if (!reply_is_array(&r->elements[1], t->fields_n) || r->elements[2].type != REDIS_ARRAY) return false;
    for (uint32_t i = 0; i < t->fields_n; i++)
        t->pending(t->arg, i, r->elements[1].elements[i].str);
    for (size_t b = 0; b < r->elements[2].n; b++) {
        const struct redis_reply *of = &r->elements[2].elements[b];
        struct batch_id id;
        if (!is_pair(of) || of->elements[1].n != t->fields_n || !batch_id_read(of->elements[0].str, &id))
            return false;
        for (uint32_t i = 0; i < t->fields_n; i++)
            t->claimed(t->arg, &id, i, of->elements[1].elements[i].str);
    }
    return true;
}

static void on_total(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_total *t = arg;
    (void)l, (void)at;
    t->cut = r == NULL;
    t->lost = !total_file(t, r);
    if (t->lost) reply_why(r, t->text, sizeof t->text);
    t->done(t);
}

void redis_total(struct redis_link *l, struct redis_total *t)
{
    PRE(t->fields_n > 0 && t->fields_n <= TOTAL_FIELDS_MAX);
    struct buf *out = redis_link_begin(l);
    t->text[0] = '\0';
    resp_eval(out, SLICE(total_script), 3, 1 + (size_t)t->fields_n);
    RESP_LIT(out, KEY_GEN);
    RESP_LIT(out, KEY_BATCHES);
    resp_slice(out, t->key);
    RESP_LIT(out, KEY_BATCH_PREFIX);
    for (uint32_t i = 0; i < t->fields_n; i++)
        resp_slice(out, t->fields[i]);
    redis_link_expect(l, 1, on_total, t);
    redis_link_flush(l);
}
