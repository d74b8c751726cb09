/* command/timeboxes.c - BOX.RECENT, BOX.TOP, BOX.BOTTOM: bounded timeboxes. */
#include "command/inside.h"

/* BOX.RECENT name offset limit: bucket, hits ... from the newest on, the first `offset` left out */
enum taken run_box_recent(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_TIMEBOX_RECENT, .name = r->args[1], .type = NO_TYPE};
    if (!word_not_negative(r->args[2], &q.offset, out) || !word_positive(r->args[3], &q.limit, out))
        return TAKEN;
    return read_ask(s, OP_TIMEBOX, &q, out);
}

/* BOX.TOP name n, BOX.BOTTOM name n: bucket, hits ... of the busiest, of the quietest */
static enum taken run_extreme(struct session *s, const struct request *r, enum query_kind kind,
                              struct buf *out)
{
    struct query q = {.kind = kind, .name = r->args[1], .type = NO_TYPE};
    if (!word_positive(r->args[2], &q.limit, out)) return TAKEN;
    return read_ask(s, OP_TIMEBOX, &q, out);
}

enum taken run_box_top(struct session *s, const struct request *r, struct buf *out)
{
    return run_extreme(s, r, QUERY_TIMEBOX_TOP, out);
}

enum taken run_box_bottom(struct session *s, const struct request *r, struct buf *out)
{
    return run_extreme(s, r, QUERY_TIMEBOX_BOTTOM, out);
}
