/* redis/op_visitors.c - unique visitors of a day: bits of a string for integers under the limit, exact; a HyperLogLog
 * for the others. Who is new moves a counter's pending hash, its share of tally:accepted and the dirty index in the same
 * script, so bit and counter move together or not at all. */
#include "redis/op_in.h"

/* KEYS: accepted, dirty, then bits, sketch, pending hash of each op (the bits again when it moves none). ARGV: now in
 * ms, then for each: day, counter ("": moves none), b, t, then b offsets, t texts. Answers for each a '0' or '1' a visitor,
 * those in bits first, or an error. What the counter moves is looked at first, then the bits' type when there is a sketch
 * besides; the sketch is written before the bits, since only doing shows whether it is one. share: whose share of accepted
 * was found good. */
static const char visitors_script[] = OP_SCRIPT_HEAD
    "local a, share = 2, nil\n"
    "local function whole(n)\n"
    "  return #n <= 20 and (n == '0' or string.match(n, '^%-?[1-9]%d*$'))\n"
    "end\n"
    "local function holds_not(key, field)\n"
    "  local r = call('HGET', key, field)\n"
    "  if bad(r) then return r end\n"
    "  if r and not whole(r) then return redis.error_reply('ERR hash value is not an integer') end\n"
    "  if r and tonumber(r) > 9.2e18 then\n"
    "    return redis.error_reply('ERR increment or decrement would overflow')\n"
    "  end\n"
    "end\n"
    "local function moves_not(pending, day, counter)\n"
    "  if share ~= counter then\n"
    "    local r = call('ZCARD', KEYS[2])\n"
    "    r = bad(r) and r or holds_not(KEYS[1], counter)\n"
    "    if r then return r end\n"
    "    share = counter\n"
    "  end\n"
    "  return holds_not(pending, day)\n"
    "end\n"
    "local function move(pending, day, counter, n)\n"
    "  call('HINCRBY', pending, day, n)\n"
    "  call('HINCRBY', KEYS[1], counter, n)\n"
    "  call('ZADD', KEYS[2], 'NX', ARGV[1], pending)\n"
    "end\n"
    "local function add(bits, sketch, pending, day, counter, first, texts, last)\n"
    "  local answer, new = {}, 0\n"
    "  local r = texts > first and texts <= last and call('GETBIT', bits, 0)\n"
    "  if bad(r) then return r end\n"
    "  r = counter ~= '' and moves_not(pending, day, counter)\n"
    "  if r then return r end\n"
    "  for i = texts, last do\n"
    "    r = call('PFADD', sketch, ARGV[i])\n"
    "    if bad(r) then return r end\n"
    "    answer[i - first + 1] = r\n"
    "    new = new + r\n"
    "  end\n"
    "  for i = first, texts - 1, 500 do\n"
    "    local command = {'BITFIELD', bits}\n"
    "    for j = i, math.min(i + 499, texts - 1) do\n"
    "      for _, word in ipairs({'SET', 'u1', ARGV[j], 1}) do command[#command + 1] = word end\n"
    "    end\n"
    "    r = call(unpack(command))\n"
    "    if bad(r) then return r end\n"
    "    for j, before in ipairs(r) do\n"
    "      answer[i - first + j] = 1 - before\n"
    "      new = new + 1 - before\n"
    "    end\n"
    "  end\n"
    "  if new > 0 and counter ~= '' then move(pending, day, counter, new) end\n"
    "  return table.concat(answer)\n"
    "end\n"
    "for k = 3, #KEYS, 3 do\n"
    "  local first = a + 4\n"
    "  local texts = first + ARGV[a + 2]\n"
    "  local behind = texts + ARGV[a + 3]\n"
    "  out[#out + 1] = add(KEYS[k], KEYS[k + 1], KEYS[k + 2], ARGV[a], ARGV[a + 1], first, texts, behind - "
    "1)\n"
    "  a = behind\n"
    "end\n"
    "return out\n";

static bool is_bit(const struct op_item *item, const struct op_limits *l)
{
    return item->text_n == 0 && item->at >= 0 && item->at < (int64_t)l->uniq_limit;
}

static uint32_t bits_count(const struct frame *f, const struct frame_op *op, const struct op_limits *l)
{
    uint32_t n = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        n += is_bit(&f->items[i], l);
    return n;
}

/* Those in bits, or the others: an integer beyond the limit is sketched by its digits. */
static void visitors_of(struct buf *out, const struct frame *f, const struct frame_op *op,
                        const struct op_limits *l, bool bits)
{
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (is_bit(item, l) != bits) continue;
        if (item->text_n > 0)
            resp_slice(out, FRAME_TEXT(f, item->text_at, item->text_n));
        else
            resp_int(out, item->at);
    }
}

static void keys_put(struct buf *out, struct buf *name, const struct frame *f, const struct frame_op *op)
{
    OP_KEY(out, name, name_visitors(name, FRAME_NAME(f, op), op->at));
    OP_KEY(out, name, name_visitors_sketch(name, FRAME_NAME(f, op), op->at));
    if (op->counter != NULL)
        resp_slice(out, FRAME_TEXT(f, op->key_at, op->key_n));
    else
        OP_KEY(out, name, name_visitors(name, FRAME_NAME(f, op), op->at));
}

void visitors_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l)
{
    size_t keys = 2, args = 1;
    const struct frame_op *op;
    for (op = op_next(f, OP_UNIQ, NULL); op != NULL; op = op_next(f, OP_UNIQ, op)) {
        keys += 3;
        args += 4 + (size_t)op->items_n;
    }
    resp_eval(out, SLICE(visitors_script), keys, args);
    RESP_LIT(out, KEY_ACCEPTED);
    RESP_LIT(out, KEY_DIRTY);
    for (op = op_next(f, OP_UNIQ, NULL); op != NULL; op = op_next(f, OP_UNIQ, op))
        keys_put(out, name, f, op);
    resp_int(out, f->dirty_ms);
    for (op = op_next(f, OP_UNIQ, NULL); op != NULL; op = op_next(f, OP_UNIQ, op)) {
        uint32_t bits = bits_count(f, op, l);
        resp_int(out, op->at);
        resp_slice(out, op->counter != NULL ? op->counter->name : SLICE(""));
        resp_int(out, bits);
        resp_int(out, op->items_n - bits);
        visitors_of(out, f, op, l, true);
        visitors_of(out, f, op, l, false);
    }
}

bool visitors_take(struct frame *f, struct frame_op *op, const struct redis_reply *r,
                   const struct op_limits *l)
{
    uint32_t bit = 0, other = bits_count(f, op, l);
    if (r->type != REDIS_STRING || r->str.n != op->items_n) return false;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        struct op_item *item = &f->items[i];
        item->value = r->str.p[is_bit(item, l) ? bit++ : other++] == '1';
    }
    return true;
}
