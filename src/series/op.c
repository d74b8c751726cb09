/* series/op.c - see op.h. */
#include "series/op.h"

#include "base/slice.h"

bool op_id_is_number(struct slice id)
{
    int64_t n;
    return num_parse(id, &n) && n > 0 && n <= OP_NUMBER_MAX;
}

/* So that no sum of a name's seconds overflows. */
static bool may_join(const struct frame_op *op)
{
    return op->delta < INT64_C(1) << 48 && op->delta > -(INT64_C(1) << 48);
}

bool op_joins(const struct frame_op *op, uint32_t precision_s)
{
    const struct frame_op *before = op - 1;
    if (!op->joined || op->silent || before->silent || !may_join(op) || !may_join(before)) return false;
    return op_slot(op->which, precision_s) == op_slot(before->which, precision_s);
}

bool op_uniq_key(const struct op_limits *l, struct slice name, struct buf *out)
{
    const struct counter *c = l->uniq_counter;
    struct slice store;
    if (c == NULL || !pattern_match(&l->uniq_name, c->store, name, &store)) return false;
    pattern_put(&c->key, store, out);
    return true;
}
