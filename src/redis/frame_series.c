/* redis/frame_series.c - series, which need no script: measured, a plain HINCRBY in a MULTI costs Redis two thirds of
 * one called from Lua. What a journal holds of one name goes home together, so its seconds share the HINCRBYs of all
 * coarser slots. So an op on a series is not all or nothing: when one precision's key has another type, the client gets
 * the error, and the other precisions have counted. */
#include "base/heap.h"
#include "redis/frame_parts.h"
#include <stdlib.h>

/* Does the frame say that name and precision are known? */
static bool says_known(const struct frame *f, const struct op_limits *l, const struct frame_op *op,
                       uint32_t i)
{
    return (op->known >> i & 1) != 0 && (op->owed || op_keeps(l, i, op->which, f->dirty_ms / 1000));
}

/* Has the op a command of its own? An op that joins the previous one has none. */
static bool moves(const struct frame *f, const struct op_limits *l, const struct frame_op *op, uint32_t i)
{
    return !op->owed && op_keeps(l, i, op->which, f->dirty_ms / 1000) && !op_joins(op, l->precisions[i]);
}

/* By how much: with those that join it. */
static int64_t moves_by(const struct frame *f, const struct op_limits *l, const struct frame_op *op,
                        uint32_t i)
{
    int64_t n = op->delta;
    while (++op < f->ops + f->ops_n && op_joins(op, l->precisions[i]))
        n += op->delta;
    return n;
}

struct saying { /* an op that may say that its precisions are known */
    struct slice name;
    const struct frame_op *op;
};

static int saying_order(const void *a, const void *b)
{
    return slice_cmp(((const struct saying *)a)->name, ((const struct saying *)b)->name);
}

/* Sorted by name: with a million names in `known:` Redis then adds each next to the previous one, in half the time. */
static struct saying *sayings(const struct frame *f, uint32_t *n)
{
    struct saying *list = heap_alloc((f->ops_n + 1) * sizeof *list);
    *n = 0;
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        if (op->known != 0) list[(*n)++] = (struct saying){FRAME_NAME(f, op), op};
    qsort(list, *n, sizeof *list, saying_order);
    return list;
}

/* Before the HINCRBYs, so that a cleaner never finds a sample that is not in `known:`. */
uint32_t series_known_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct op_limits *l = fr->limits;
    uint32_t ops, n = 0;
    struct saying *list = sayings(f, &ops);
    for (uint32_t i = 0; i < ops * l->precisions_n; i++)
        n += says_known(f, l, list[i % ops].op, i / ops);
    if (n > 0) {
        request_array(out, 2 + 2 * (size_t)n);
        BUF_LIT(out, "$4\r\nZADD\r\n");
        REQUEST_KEY(out, fr->tag, KEY_KNOWN);
    }
    for (uint32_t i = 0; i < ops * l->precisions_n; i++) {
        if (!says_known(f, l, list[i % ops].op, i / ops)) continue;
        BUF_LIT(out, "$1\r\n0\r\n");
        OP_MEMBER(out, &fr->scratch, name_series(&fr->scratch, l->precisions[i / ops], list[i % ops].name));
    }
    heap_free(list);
    return n > 0;
}

void series_known_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)f, (void)n;
    if (r->type != REDIS_INTEGER) frames_trouble(fr, KEY_KNOWN, r);
}

uint32_t samples_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct op_limits *l = fr->limits;
    uint32_t n = 0;
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; i < l->precisions_n; i++) {
            if (!moves(f, l, op, i)) continue;
            BUF_LIT(out, "*4\r\n$7\r\nHINCRBY\r\n");
            OP_KEY(out, fr->tag, &fr->scratch,
                   name_samples(&fr->scratch, l->precisions[i], FRAME_NAME(f, op)));
            request_int(out, op_slot(op->which, l->precisions[i]));
            request_int(out, moves_by(f, l, op, i));
            n++;
        }
    return n;
}

void samples_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    for (struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; i < fr->limits->precisions_n; i++) {
            if (!moves(f, fr->limits, op, i)) continue;
            if (r->type != REDIS_INTEGER)
                op_fail(f, op, r);
            else if ((op->known >> i & 1) == 0 && r->integer == moves_by(f, fr->limits, op, i))
                op->fresh = true;
            op->value++;
            r++;
        }
}
