/* redis/op_box.c - timeboxes: `tb.<name>` holds the buckets by their time, `pv.<name>` the same buckets by their hits.
 * What stands in the end does not depend on the order of the hits: the newest `keep` buckets, each with all of its
 * hits, since a bucket among the newest of all is among the newest at any time before. */
#include "redis/op_in.h"

/* KEYS: tb, pv of each op. ARGV: keep, then bucket, n of each. Answers for each: the bucket's hits, nil when it is older
 * than all that are kept, or an error. Scores are doubles: beyond 2^53 a hit might not count, so that overflows. */
static const char box_script[] = OP_SCRIPT_HEAD
    "local keep = tonumber(ARGV[1])\n"
    "local function trim(tb, pv)\n"
    "  local over = call('ZCARD', tb) - keep\n"
    "  while over > 0 do\n"
    "    local oldest = call('ZRANGE', tb, 0, math.min(over, 1000) - 1)\n"
    "    call('ZREM', tb, unpack(oldest))\n"
    "    call('ZREM', pv, unpack(oldest))\n"
    "    over = over - #oldest\n"
    "  end\n"
    "end\n"
    "local function add(tb, pv, bucket, n)\n"
    "  local stands, hits = call('ZSCORE', tb, bucket), call('ZSCORE', pv, bucket)\n"
    "  if bad(stands) then return stands end\n"
    "  if bad(hits) then return hits end\n"
    "  local sum = (tonumber(hits) or 0) + n\n"
    "  if sum % 1 ~= 0 then return redis.error_reply('ERR timebox value is not an integer') end\n"
    "  if math.abs(sum) >= 9007199254740992 then\n"
    "    return redis.error_reply('ERR increment or decrement would overflow')\n"
    "  end\n"
    "  if not stands then\n"
    "    local oldest = call('ZRANGE', tb, -keep, -keep, 'WITHSCORES')[2]\n"
    "    if oldest and tonumber(bucket) < tonumber(oldest) then return false end\n"
    "  end\n"
    "  hits = call('ZINCRBY', pv, n, bucket)\n"
    "  if not stands and not bad(hits) then\n"
    "    call('ZADD', tb, bucket, bucket)\n"
    "    trim(tb, pv)\n"
    "  end\n"
    "  return hits\n"
    "end\n"
    "for i = 1, #KEYS, 2 do out[#out + 1] = add(KEYS[i], KEYS[i + 1], ARGV[i + 1], ARGV[i + 2]) end\n"
    "return out\n";

void boxes_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l)
{
    size_t n = ops_of(f, OP_BOX);
    const struct frame_op *op;
    resp_eval(out, SLICE(box_script), 2 * n, 1 + 2 * n);
    for (op = op_next(f, OP_BOX, NULL); op != NULL; op = op_next(f, OP_BOX, op)) {
        OP_KEY(out, name, name_buckets(name, FRAME_NAME(f, op)));
        OP_KEY(out, name, name_bucket_hits(name, FRAME_NAME(f, op)));
    }
    resp_int(out, l->box_keep);
    for (op = op_next(f, OP_BOX, NULL); op != NULL; op = op_next(f, OP_BOX, op)) {
        resp_int(out, op->at);
        resp_int(out, op->delta);
    }
}

bool box_take(struct frame *f, struct frame_op *op, const struct redis_reply *r, const struct op_limits *l)
{
    (void)f, (void)l;
    op->late = r->type == REDIS_NIL;
    return op->late || reply_integer(r, &op->value);
}
