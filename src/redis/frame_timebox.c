/* redis/frame_timebox.c - timeboxes: `tb.<name>` holds the buckets by their time, `pv.<name>` the same buckets by their hits. A hit
 * on a bucket that is known to stand in both is a plain ZINCRBY, 2.4 times cheaper; the script is for all others.
 * What stands in the end does not depend on the order of the hits: the newest `keep` buckets, each with all of its
 * hits, since a bucket among the newest of all is among the newest at any time before.
 * A plain hit of a tallyd that died behind it, on a bucket that was deleted meanwhile or had made room, stands in `pv.`
 * alone, and nobody owes its place: the script that brings the name's next new bucket puts such hits right. */
#include "redis/frame_parts_in.h"

/* Those that the script is for. */
static struct frame_op *next_scripted(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_TIMEBOX, op);
    while (next != NULL && next->stands)
        next = op_next(f, OP_TIMEBOX, next);
    return next;
}

static void script_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l,
                       size_t n)
{
    const struct frame_op *op;
    request_eval(out, lua_frame_timebox, 2 * n, 1 + 2 * n);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        OP_KEY(out, name, name_buckets(name, FRAME_NAME(f, op)));
        OP_KEY(out, name, name_bucket_hits(name, FRAME_NAME(f, op)));
    }
    request_int(out, l->timebox_keep);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        request_int(out, op->at);
        if (op->owed)
            request_slice(out, SLICE(""));
        else
            request_int(out, op->delta);
    }
}

static void hits_put(struct buf *out, struct buf *name, const struct frame *f, const struct frame_op *op)
{
    BUF_LIT(out, "*4\r\n$7\r\nZINCRBY\r\n");
    OP_KEY(out, name, name_bucket_hits(name, FRAME_NAME(f, op)));
    request_int(out, op->delta);
    request_int(out, op->at);
}

uint32_t timeboxes_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l)
{
    uint32_t lines = 0, scripted = 0;
    for (const struct frame_op *op = op_next(f, OP_TIMEBOX, NULL); op != NULL;
         op = op_next(f, OP_TIMEBOX, op)) {
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
static void script_file(struct frame *f, const struct redis_answer *r, uint32_t n)
{
    const struct redis_answer *each = answer_is_array(r, n) ? r->elements : NULL;
    for (struct frame_op *op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        const struct redis_answer *own = each != NULL ? each++ : r;
        if (op->owed) continue;
        op->late = own->type == REDIS_NIL;
        if (own == r || (!op->late && !answer_integer(own, &op->value))) op_fail(f, op, own);
    }
}

const struct redis_answer *timeboxes_file(struct frame *f, const struct redis_answer *r)
{
    uint32_t scripted = 0;
    for (struct frame_op *op = op_next(f, OP_TIMEBOX, NULL); op != NULL; op = op_next(f, OP_TIMEBOX, op)) {
        if (!op->stands) {
            scripted++;
            continue;
        }
        if (answer_integer(r, &op->value))
            op->fresh = op->value == op->delta;
        else
            op_fail(f, op, r);
        r++;
    }
    if (scripted > 0) script_file(f, r++, scripted);
    return r;
}
