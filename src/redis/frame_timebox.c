/* redis/frame_timebox.c - timeboxes: `tb.<name>` holds the buckets by their time, `pv.<name>` the same buckets by their
 * hits. A hit on a bucket that is known to be in both is a plain ZINCRBY, 2.4 times cheaper; all others go through the
 * script. The result does not depend on the order of the hits: the newest `keep` buckets, each with all of its hits,
 * since a bucket among the newest of all is among the newest at any time before. A tallyd may die after a plain hit on
 * a bucket that was deleted or trimmed meanwhile. The hit is then in `pv.` alone, and no process owes its entry in
 * `tb.`: the script that adds the name's next new bucket corrects such hits. */
#include "redis/frame_parts.h"
#include "redis/lua.h"

/* Those that the script is for. */
static struct frame_op *next_scripted(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_TIMEBOX, op);
    while (next != NULL && next->stands)
        next = op_next(f, OP_TIMEBOX, next);
    return next;
}

uint32_t timeboxes_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    size_t n = 0;
    const struct frame_op *op;
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op))
        n++;
    if (n == 0) return 0;
    request_eval(out, lua_frame_timebox, 2 * n, 1 + 2 * n);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        OP_KEY(out, fr->tag, &fr->scratch, name_buckets(&fr->scratch, FRAME_NAME(f, op)));
        OP_KEY(out, fr->tag, &fr->scratch, name_bucket_hits(&fr->scratch, FRAME_NAME(f, op)));
    }
    request_int(out, fr->limits->timebox_keep);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        request_int(out, op->which);
        if (op->owed)
            request_slice(out, SLICE(""));
        else
            request_int(out, op->delta);
    }
    return 1;
}

static bool bucket_take(struct frame *f, struct frame_op *op, const struct redis_answer *r,
                        const struct op_limits *l)
{
    (void)f, (void)l;
    op->late = r->type == REDIS_NIL;
    return op->late || answer_integer(r, &op->value);
}

void timeboxes_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    op_script_file(f, next_scripted, fr->limits, r, bucket_take);
}

static bool is_plain(const struct frame_op *op)
{
    return op->kind == OP_TIMEBOX && op->stands && !op->silent;
}

uint32_t timebox_hits_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    uint32_t n = 0;
    for (const struct frame_op *op = f->ops; op < f->ops + f->ops_n; op++) {
        if (!is_plain(op)) continue;
        BUF_LIT(out, "*4\r\n$7\r\nZINCRBY\r\n");
        OP_KEY(out, fr->tag, &fr->scratch, name_bucket_hits(&fr->scratch, FRAME_NAME(f, op)));
        request_int(out, op->delta);
        request_int(out, op->which);
        n++;
    }
    return n;
}

void timebox_hits_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)fr, (void)n;
    for (struct frame_op *op = f->ops; op < f->ops + f->ops_n; op++) {
        if (!is_plain(op)) continue;
        if (answer_integer(r, &op->value))
            op->fresh = op->value == op->delta;
        else
            op_fail(f, op, r);
        r++;
    }
}
