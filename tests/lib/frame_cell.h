/* tests/lib/frame_cell.h - a cell of a frame from its parts; hits come with key and field as RESP. */
#ifndef LIB_FRAME_CELL_H
#define LIB_FRAME_CELL_H

#include "series/frame.h"

static inline struct frame_cell *frame_add_cell(struct frame *f, uint32_t hash, struct slice field,
                                                int64_t delta)
{
    static struct buf raw; /* kept: tests count what a frame allocates */
    buf_reset(&raw);
    size_t at = frame_raw_put(&raw, f->hashes[hash].key, field);
    return frame_add_raw(f, hash, buf_slice(&raw), slice_of(raw.p + at, field.n), delta);
}

#endif
