/* series/kept.h - the ops of a kept frame (frame.h) as bytes: records as in a journal (journal.h), op after op.
 * Visitors are not among them.
 *   OP     number: 1 when a feed made the op, else 0; at: the op's `which`
 *   ADD    what it adds; of events with items, the frame that drew their lease
 *   EVENT  an event without number and text draws a new number
 * An op without ADD is owed. */
#ifndef SERIES_KEPT_H
#define SERIES_KEPT_H

#include "series/frame.h"

/* told: Redis' answers to the frame came. */
void kept_put_op(struct buf *out, const struct frame *f, const struct frame_op *op, bool told);
/* Adds the ops to f: they now go straight to their keys, whatever way they went before. found: the last frame that
 * Redis has. */
void kept_take_ops(struct frame *f, struct slice records, uint64_t found);

#endif
