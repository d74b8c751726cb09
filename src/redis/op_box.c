/* redis/op_box.c - timeboxes: `tb.<name>` holds the buckets by their time, `pv.<name>` the same buckets by their hits. A hit
 * on a bucket that is known to stand in both is a plain ZINCRBY, 2.4 times cheaper; the script is for all others.
 * What stands in the end does not depend on the order of the hits: the newest `keep` buckets, each with all of its
 * hits, since a bucket among the newest of all is among the newest at any time before.
 * A plain hit of a tallyd that died behind it, on a bucket that was deleted meanwhile or had made room, stands in `pv.`
 * alone, and nobody owes its place: the script that brings the name's next new bucket puts such hits right. */
#include "redis/op_in.h"

/* KEYS: tb, pv of each op. ARGV: keep, then bucket, n of each; n empty: none, its place in tb alone, when it has hits.
 * Answers for each: the bucket's hits, nil when it is older than all that are kept (then it has none, also when somebody
 * left some there), or an error. Scores are doubles: beyond 2^53 a hit might not count, so that overflows. */
static const char box_script[] = OP_SCRIPT_HEAD
    "local keep = tonumber(ARGV[1])\n"
    "local function trim(tb, pv, over)\n"
    "  while over > 0 do\n"
    "    local oldest = call('ZRANGE', tb, 0, math.min(over, 1000) - 1)\n"
    "    call('ZREM', tb, unpack(oldest))\n"
    "    call('ZREM', pv, unpack(oldest))\n"
    "    over = over - #oldest\n"
    "  end\n"
    "end\n"
    "local function mend(tb, pv)\n" /* answers how many buckets stand */
    "  local standing = call('ZCARD', tb)\n"
    "  if call('ZCARD', pv) <= standing then return standing end\n"
    "  for _, bucket in ipairs(call('ZDIFF', 2, pv, tb)) do\n"
    "    if #bucket < 16 and string.match(bucket, '^%d+$') then\n"
    "      standing = standing + call('ZADD', tb, bucket, bucket)\n"
    "    end\n"
    "  end\n"
    "  trim(tb, pv, standing - keep)\n"
    "  return math.min(standing, keep)\n"
    "end\n"
    "local function add(tb, pv, bucket, n)\n"
    "  local stands, hits = call('ZSCORE', tb, bucket), call('ZSCORE', pv, bucket)\n"
    "  if bad(stands) then return stands end\n"
    "  if bad(hits) then return hits end\n"
    "  if n == '' then\n"
    "    if stands or not hits then return hits end\n"
    "    n = 0\n"
    "  end\n"
    "  local sum = (tonumber(hits) or 0) + n\n"
    "  if sum % 1 ~= 0 then return redis.error_reply('ERR timebox value is not an integer') end\n"
    "  if math.abs(sum) >= 9007199254740992 then\n"
    "    return redis.error_reply('ERR increment or decrement would overflow')\n"
    "  end\n"
    "  local standing = stands or mend(tb, pv)\n"
    "  if not stands and standing >= keep then\n"
    "    local oldest = call('ZRANGE', tb, -keep, -keep, 'WITHSCORES')[2]\n"
    "    if oldest and tonumber(bucket) < tonumber(oldest) then\n"
    "      if hits then call('ZREM', pv, bucket) end\n"
    "      return false\n"
    "    end\n"
    "  end\n"
    "  hits = call('ZINCRBY', pv, n, bucket)\n"
    "  if not stands and not bad(hits) then\n"
    "    trim(tb, pv, standing + call('ZADD', tb, bucket, bucket) - keep)\n"
    "  end\n"
    "  return hits\n"
    "end\n"
    "for i = 1, #KEYS, 2 do out[#out + 1] = add(KEYS[i], KEYS[i + 1], ARGV[i + 1], ARGV[i + 2]) end\n"
    "return out\n";

/* Those that the script is for. */
static struct frame_op *next_scripted(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_BOX, op);
    while (next != NULL && next->stands)
        next = op_next(f, OP_BOX, next);
    return next;
}

static void script_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l,
                       size_t n)
{
    const struct frame_op *op;
    resp_eval(out, SLICE(box_script), 2 * n, 1 + 2 * n);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        OP_KEY(out, name, name_buckets(name, FRAME_NAME(f, op)));
        OP_KEY(out, name, name_bucket_hits(name, FRAME_NAME(f, op)));
    }
    resp_int(out, l->box_keep);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        resp_int(out, op->at);
        if (op->owed)
            resp_slice(out, SLICE(""));
        else
            resp_int(out, op->delta);
    }
}

static void hits_put(struct buf *out, struct buf *name, const struct frame *f, const struct frame_op *op)
{
    BUF_LIT(out, "*4\r\n$7\r\nZINCRBY\r\n");
    OP_KEY(out, name, name_bucket_hits(name, FRAME_NAME(f, op)));
    resp_int(out, op->delta);
    resp_int(out, op->at);
}

uint32_t boxes_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l)
{
    uint32_t lines = 0, scripted = 0;
    for (const struct frame_op *op = op_next(f, OP_BOX, NULL); op != NULL; op = op_next(f, OP_BOX, op)) {
        if (op->stands)
            hits_put(out, name, f, op), lines++;
        else
            scripted++;
    }
    if (scripted == 0) return lines;
    script_put(out, name, f, l, scripted);
    return lines + 1;
}

/* What is owed has no value, and an error there is the next hit's as well. */
static void script_file(struct frame *f, const struct redis_reply *r, uint32_t n)
{
    const struct redis_reply *each = reply_is_array(r, n) ? r->elements : NULL;
    for (struct frame_op *op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        const struct redis_reply *own = each != NULL ? each++ : r;
        if (op->owed) continue;
        op->late = own->type == REDIS_NIL;
        if (own == r || (!op->late && !reply_integer(own, &op->value))) op_fail(f, op, own);
    }
}

const struct redis_reply *boxes_file(struct frame *f, const struct redis_reply *r)
{
    uint32_t scripted = 0;
    for (struct frame_op *op = op_next(f, OP_BOX, NULL); op != NULL; op = op_next(f, OP_BOX, op)) {
        if (!op->stands) {
            scripted++;
            continue;
        }
        if (reply_integer(r, &op->value))
            op->fresh = op->value == op->delta;
        else
            op_fail(f, op, r);
        r++;
    }
    if (scripted > 0) script_file(f, r++, scripted);
    return r;
}
