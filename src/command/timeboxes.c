/* command/timeboxes.c - BOX.INCRBY, BOX.RECENT, BOX.TOP, BOX.BOTTOM: bounded timeboxes. */
#include "command/inside.h"

/* BOX.INCRBY name n [AT s] */
bool box_incrby_read(struct session *s, const struct request *r, struct coalesce_op *op, struct buf *out)
{
    op->kind = OP_TIMEBOX;
    op->name = r->args[1];
    return word_delta(r->args[2], &op->n, out) && op_read_options(r, 3, op, NULL, out) &&
           names_fit(s, OP_TIMEBOX, op->name, NO_TYPE, 0, out);
}

static enum taken box_ask(struct session *s, struct query *q, struct buf *out)
{
    if (!names_fit(s, OP_TIMEBOX, q->name, NO_TYPE, 0, out)) return TAKEN;
    return read_ask(s, q);
}

/* BOX.RECENT name offset limit: bucket, hits ... from the newest on, the first `offset` left out */
enum taken run_box_recent(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_TIMEBOX_RECENT, .name = r->args[1], .type = NO_TYPE};
    if (!word_not_negative(r->args[2], &q.offset, out) || !word_positive(r->args[3], &q.limit, out))
        return TAKEN;
    return box_ask(s, &q, out);
}

/* BOX.TOP name n, BOX.BOTTOM name n: bucket, hits ... of the busiest, of the quietest */
static enum taken run_extreme(struct session *s, const struct request *r, enum query_kind kind,
                              struct buf *out)
{
    struct query q = {.kind = kind, .name = r->args[1], .type = NO_TYPE};
    if (!word_positive(r->args[2], &q.limit, out)) return TAKEN;
    return box_ask(s, &q, out);
}

enum taken run_box_top(struct session *s, const struct request *r, struct buf *out)
{
    return run_extreme(s, r, QUERY_TIMEBOX_TOP, out);
}

enum taken run_box_bottom(struct session *s, const struct request *r, struct buf *out)
{
    return run_extreme(s, r, QUERY_TIMEBOX_BOTTOM, out);
}
