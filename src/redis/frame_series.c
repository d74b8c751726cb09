/* redis/frame_series.c - which commands the ops of a frame become, and series, which need no script: measured, a plain
 * HINCRBY in a MULTI costs Redis two thirds of one called from Lua. So an op on a series is not all or nothing: when
 * one precision's key is somebody else's, the client hears the error, and the other precisions have moved. */
#include "redis/frame_parts_in.h"

/* --- what all kinds share --- */

struct frame_op *op_next(const struct frame *f, enum op_kind kind, const struct frame_op *op)
{
    for (uint32_t i = op == NULL ? 0 : (uint32_t)(op - f->ops) + 1; i < f->ops_n; i++)
        if (f->ops[i].kind == kind && !f->ops[i].silent) return &f->ops[i];
    return NULL;
}

uint32_t ops_of(const struct frame *f, enum op_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->ops_n; i++)
        n += f->ops[i].kind == kind && !f->ops[i].silent;
    return n;
}

/* The first error of an op is its error. */
void op_fail(struct frame *f, struct frame_op *op, const struct redis_answer *r)
{
    char line[200] = "ERR Redis gave an answer of an unexpected shape";
    if (op->error_n > 0) return;
    if (r->type == REDIS_ERROR) answer_why(r, line, sizeof line);
    frame_fail_op(f, op, slice_str(line));
}

void op_script_file(struct frame *f, op_walk *next, const struct op_limits *l, const struct redis_answer *r,
                    op_take *take)
{
    size_t n = 0;
    struct frame_op *op;
    for (op = next(f, NULL); op != NULL; op = next(f, op))
        n++;
    const struct redis_answer *each = answer_is_array(r, n) ? r->elements : NULL;
    for (op = next(f, NULL); op != NULL; op = next(f, op)) {
        const struct redis_answer *own = each != NULL ? each++ : r;
        if (own->type == REDIS_ERROR || own == r || !take(f, op, own, l)) op_fail(f, op, own);
    }
}

/* --- series --- */

/* Does the frame say that name and precision are known? */
static bool says_known(const struct frame *f, const struct op_limits *l, const struct frame_op *op,
                       uint32_t i)
{
    return (op->known >> i & 1) != 0 && (op->owed || op_keeps(l, i, op->at, f->dirty_ms / 1000));
}

static bool moves(const struct frame *f, const struct op_limits *l, const struct frame_op *op, uint32_t i)
{
    return !op->owed && op_keeps(l, i, op->at, f->dirty_ms / 1000);
}

static size_t known_count(const struct frame *f, const struct op_limits *l)
{
    size_t n = 0;
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; op->known != 0 && i < l->precisions_n; i++)
            n += says_known(f, l, op, i);
    return n;
}

/* Before the HINCRBYs, so that no cleaner finds a sample that nobody knows. */
static uint32_t known_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l)
{
    size_t n = known_count(f, l);
    if (n == 0) return 0;
    request_array(out, 2 + 2 * n);
    BUF_LIT(out, "$4\r\nZADD\r\n");
    REQUEST_LIT(out, KEY_KNOWN);
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; op->known != 0 && i < l->precisions_n; i++) {
            if (!says_known(f, l, op, i)) continue;
            BUF_LIT(out, "$1\r\n0\r\n");
            OP_KEY(out, name, name_series(name, l->precisions[i], FRAME_NAME(f, op)));
        }
    return 1;
}

static uint32_t samples_put(struct buf *out, struct buf *name, const struct frame *f,
                            const struct op_limits *l, const struct frame_op *op)
{
    uint32_t lines = 0;
    for (uint32_t i = 0; i < l->precisions_n; i++) {
        if (!moves(f, l, op, i)) continue;
        BUF_LIT(out, "*4\r\n$7\r\nHINCRBY\r\n");
        OP_KEY(out, name, name_samples(name, l->precisions[i], FRAME_NAME(f, op)));
        request_int(out, op_slot(op->at, l->precisions[i]));
        request_int(out, op->delta);
        lines++;
    }
    return lines;
}

static void sample_file(struct frame *f, struct frame_op *op, uint32_t i, const struct redis_answer *r)
{
    if (r->type != REDIS_INTEGER)
        op_fail(f, op, r);
    else if (r->integer == op->delta && (op->known >> i & 1) == 0)
        op->fresh = true;
}

static const struct redis_answer *series_file(struct frame *f, const struct op_limits *l,
                                              const struct redis_answer *r, struct op_trouble *trouble)
{
    if (known_count(f, l) > 0) {
        if (r->type != REDIS_INTEGER) *trouble = (struct op_trouble){KEY_KNOWN, r};
        r++;
    }
    for (struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; i < l->precisions_n; i++) {
            if (!moves(f, l, op, i)) continue;
            sample_file(f, op, i, r++);
            op->value++;
        }
    return r;
}

/* --- all of a frame --- */

uint32_t ops_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l)
{
    if (f->ops_n == 0) return 0;
    uint32_t lines = known_put(out, name, f, l);
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        lines += samples_put(out, name, f, l, op);
    lines += timeboxes_put(out, name, f, l);
    if (ops_of(f, OP_EVENT) > 0) lines += events_put(out, name, f);
    if (ops_of(f, OP_UNIQ) > 0) visitors_put(out, name, f, l), lines++;
    return lines;
}

static void op_answers_clear(struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->silent) continue; /* what it answers was known when the frame was sent */
        op->value = 0;
        op->late = op->fresh = false;
        op->error_n = 0;
    }
}

static struct frame_op *visitors_next(const struct frame *f, const struct frame_op *op)
{
    return op_next(f, OP_UNIQ, op);
}

const struct redis_answer *ops_file(struct frame *f, const struct op_limits *l, const struct redis_answer *r,
                                    struct op_trouble *trouble)
{
    if (f->ops_n == 0) return r;
    op_answers_clear(f);
    r = series_file(f, l, r, trouble);
    r = timeboxes_file(f, r);
    if (ops_of(f, OP_EVENT) > 0) r = events_file(f, l, r, trouble);
    if (ops_of(f, OP_UNIQ) > 0) op_script_file(f, visitors_next, l, r++, visitors_take);
    return r;
}
