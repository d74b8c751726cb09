/* command/ops.c - what writes to series, timeboxes, events and visitors: read from the request by the kind's own file,
 * then taken into the frame as a hit is. Their replies come with the frame. */
#include "base/slice.h"
#include "base/stats.h"
#include "command/inside.h"

/* SERIES.INCRBY name n [AT s], BOX.INCRBY name n [AT s] */
static bool incrby_read(const struct session *s, const struct request *r, struct coalesce_op *op,
                        struct buf *out)
{
    return word_delta(s, r->args[2], &op->n, out) && words_options(r, op, NULL, out);
}

/* EVENT.ADD name type [AT s] [ID id] */
static bool event_read(const struct request *r, struct coalesce_op *op, struct buf *out)
{
    op->type = r->args[2];
    return words_options(r, op, &op->id, out);
}

/* UNIQ.ADD name day visitor. A visitor that is an integer from 0 on may have a bit; any other is a text. */
static bool visitor_read(const struct request *r, struct coalesce_op *op, struct buf *out)
{
    if (!word_day(r->args[2], &op->at, out) || !word_text("a visitor", r->args[3], out)) return false;
    if (!num_parse(r->args[3], &op->visitor) || op->visitor < 0) op->id = r->args[3];
    return true;
}

static bool op_words(const struct session *s, const struct request *r, struct coalesce_op *op,
                     struct buf *out)
{
    switch (r->args[0].p[0] | 0x20) { /* the command table has it, so it is one of four */
    case 's':
        op->kind = OP_SERIES;
        return incrby_read(s, r, op, out);
    case 'b':
        op->kind = OP_TIMEBOX;
        return incrby_read(s, r, op, out);
    case 'e':
        op->kind = OP_EVENT;
        return event_read(r, op, out);
    case 'u':
        op->kind = OP_UNIQ;
        if (s->user != NULL && s->command->config.counters->ops->uniq_growth > 0)
            op->user = slice_str(s->user->name);
        return visitor_read(r, op, out);
    default:
        UNREACHABLE();
    }
}

bool op_read(struct session *s, const struct request *r, struct coalesce_op *op, struct buf *out)
{
    *op = (struct coalesce_op){.name = r->args[1], .type = NO_TYPE, .at = COALESCE_NOW};
    return op_words(s, r, op, out) && names_fit(s, op->kind, op->name, op->type, op->at, out);
}

/* The cleaner would delete an event older than events.keep at once, and its windows would be counted without their
 * other events, which are gone already. */
static bool event_is_kept(const struct session *s, int64_t at, struct buf *out)
{
    int64_t keep_s = s->command->config.counters->ops->events_keep_s;
    if (at >= redis_now_s(s) - keep_s) return true;
    reply_errorf(out, "ERR time %lld is too long ago: events are kept for %lld s (events.keep)",
                 (long long)at, (long long)keep_s);
    return false;
}

bool op_in_time(const struct session *s, const struct coalesce_op *op, struct buf *out)
{
    if (op->at == COALESCE_NOW) return true;
    if (op->kind == OP_UNIQ) return day_begun(s, op->at, out);
    return (op->kind != OP_EVENT || event_is_kept(s, op->at, out)) && second_begun(s, op->at, out);
}

enum add_result op_add(struct session *s, const struct coalesce_op *op)
{
    struct coalesce *c = lane_of_op(s, op->kind, op->name);
    enum add_result got = coalesce_op(c, lane_outlet(s), op);
    INVARIANT(got == ADD_OK || got == ADD_FULL || got == ADD_BUSY || got == ADD_DOWN);
    if (got == ADD_OK) guard_weighed(s, coalesce_op_cells(c, op->kind));
    return lane_added(s, got);
}

enum taken op_run(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce_op op;
    size_t before = out->n;
    if (!op_read(s, r, &op, out) || !op_in_time(s, &op, out)) {
        hit_refused(s, r->args[1], out, before);
        return TAKEN;
    }
    return hit_end(s, r, op_add(s, &op), out);
}
