/* command/ops.c - what writes to series, timeboxes, events and visitors: read from the request by the kind's own file,
 * then taken into the frame as a hit is. Their replies come with the frame. */
#include "base/stats.h"
#include "command/inside.h"

/* The command table found r, so its name is one of four. */
bool op_read(struct session *s, const struct request *r, struct coalesce_op *op, struct buf *out)
{
    *op = (struct coalesce_op){.at = COALESCE_NOW};
    switch (r->args[0].p[0] | 0x20) {
    case 's':
        return series_incrby_read(s, r, op, out);
    case 'b':
        return box_incrby_read(s, r, op, out);
    case 'e':
        return event_add_read(s, r, op, out);
    case 'u':
        return uniq_add_read(s, r, op, out);
    default:
        UNREACHABLE();
    }
}

bool op_begun(const struct session *s, const struct coalesce_op *op, struct buf *out)
{
    if (op->at == COALESCE_NOW) return true;
    return op->kind == OP_UNIQ ? day_begun(s, op->at, out) : second_begun(s, op->at, out);
}

enum add_result op_add(struct session *s, const struct coalesce_op *op)
{
    enum add_result got = coalesce_op(s->command->config.coalesce, s->outlet, op);
    INVARIANT(got == ADD_OK || got == ADD_FULL || got == ADD_BUSY || got == ADD_DOWN);
    return got;
}

enum taken op_run(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce_op op;
    if (!op_read(s, r, &op, out) || !op_begun(s, &op, out)) {
        STAT_ADD(hits_refused, 1);
        return TAKEN;
    }
    return hit_end(s, r, op_add(s, &op), out);
}

/* [AT s], [ID id] from the word at `from` on, each at most once. id NULL: no ID. */
bool op_read_options(const struct request *r, uint32_t from, struct coalesce_op *op, struct slice *id,
                     struct buf *out)
{
    for (uint32_t i = from; i < r->args_n; i += 2) {
        if (i + 1 == r->args_n) return words_syntax(out);
        struct slice value = r->args[i + 1];
        if (word_is(r->args[i], "AT") && op->at == COALESCE_NOW) {
            if (!word_second(value, &op->at, out)) return false;
        } else if (id != NULL && word_is(r->args[i], "ID") && id->p == NULL) {
            if (!word_text("an ID", value, out)) return false;
            *id = value;
        } else {
            return words_syntax(out);
        }
    }
    return true;
}
