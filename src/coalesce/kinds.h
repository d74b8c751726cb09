/* coalesce/kinds.h - what coalesce/ has to know of each kind of op (series/op.h), as a table. */
#ifndef COALESCE_KINDS_H
#define COALESCE_KINDS_H

#include "coalesce/inside.h"

#define QUARTERS_PRECISIONS 0 /* one for each precision */

struct op_kind_rules {
    uint8_t quarters,
        item_quarters; /* what an op, and each event or visitor of it, costs a frame, in cells / 4 */
    bool has_items;
    uint32_t owed_rule; /* RULE_..., which lets something be owed to its keys */
    /* Its key has the right type and its answer is known without Redis, so it may go into a journal. NULL: never. */
    bool (*known)(const struct coalesce *c, const struct frame_op *op);
    /* What happens to an op as its frame goes (inside.h, ops_...); NULL: nothing. An op that waits in a journal gets
     * only `applied`; an op that is owed does not get `on_send`. */
    void (*on_send)(struct coalesce *c, const struct frame *f, struct frame_op *op);
    void (*send_again)(struct coalesce *c, struct frame *f, struct frame_op *op);
    void (*applied)(struct coalesce *c, const struct frame *f, struct frame_op *op);
    void (*found_applied)(struct coalesce *c, const struct frame *f, const struct frame_op *op);
    void (*not_applied)(struct coalesce *c, const struct frame_op *op);
};
extern const struct op_kind_rules op_kinds[];

#endif
