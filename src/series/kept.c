/* series/kept.c - see kept.h. */
#include "series/kept.h"

#include "base/log.h"
#include "series/journal.h"

void kept_put_op(struct buf *out, const struct frame *f, const struct frame_op *op, bool told)
{
    journal_put_op(out, op->fed, op->kind, op->which, FRAME_NAME(f, op), FRAME_TYPE(f, op));
    if (op->owed) return;
    journal_put_add(out, 0, op->items_n > 0 ? (int64_t)op->lease_seq : op->delta);
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        bool has_number = item->text_n == 0 && (told || op->which == EVENT_GIVEN);
        if (told && item->value == EVENT_REFUSED) continue;
        journal_put_event(out, 0, item->at, has_number ? item->value : 0,
                          FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

static struct frame_op *add_op(struct frame *f, const struct journal_record *of, int64_t which)
{
    struct frame_op *op = frame_add_op(f, of->kind, of->name, of->type, which);
    op->fed = of->number == 1;
    op->named = true;
    op->known = UINT64_MAX;
    return op;
}

/* Numbers that clients were told are an op of their own. first: the first op that this record makes. */
static struct frame_op *op_for(struct frame *f, uint32_t first, const struct journal_record *of,
                               int64_t which)
{
    for (uint32_t i = first; i < f->ops_n; i++)
        if (f->ops[i].which == which) return &f->ops[i];
    return add_op(f, of, which);
}

static void kept_event(struct frame *f, struct frame_op *op, const struct journal_record *r)
{
    uint32_t item = frame_add_item(f, op, r->at, r->name);
    f->items[item].value = r->n;
    op->has_numbers |= op_id_is_number(r->name);
}

static bool is_owed(struct slice rest)
{
    struct journal_record next;
    return !journal_next(&rest, &next) || next.mark == JOURNAL_OP;
}

void kept_take_ops(struct frame *f, struct slice records, uint64_t found)
{
    struct journal_record of = {0}, r;
    uint32_t first = f->ops_n;
    bool ours = false;
    while (journal_next(&records, &r)) {
        bool has_items = of.kind == OP_EVENT && of.at <= EVENT_OWN;
        if (r.mark == JOURNAL_OP) {
            of = r;
            first = f->ops_n;
            if (is_owed(records)) add_op(f, &of, of.at)->owed = true;
        } else if (r.mark == JOURNAL_EVENT) {
            struct frame_op *op = op_for(f, first, &of, r.n > 0 ? EVENT_KEPT : of.at);
            op->ours = ours;
            kept_event(f, op, &r);
        } else if (has_items) {
            ours = r.n > 0 && (uint64_t)r.n <= found;
        } else {
            add_op(f, &of, of.at)->delta = r.n;
        }
    }
    INVARIANT(records.n == 0);
}
