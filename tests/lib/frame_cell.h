/* tests/lib/frame_cell.h - a cell of a frame from its parts; hits come with key and field as RESP. */
#ifndef LIB_FRAME_CELL_H
#define LIB_FRAME_CELL_H

#include "base/outlet.h"
#include "series/frame.h"

/* Key and field as frame_cell.raw has them; returns where in out the field begins. */
static inline size_t frame_raw_put(struct buf *out, struct slice key, struct slice field)
{
    put_bulk(out, key);
    put_bulk(out, field);
    return out->n - field.n - 2;
}

static inline struct frame_cell *frame_add_cell(struct frame *f, uint32_t hash, struct slice field,
                                                int64_t delta)
{
    static struct buf raw; /* kept: tests count what a frame allocates */
    buf_reset(&raw);
    size_t at = frame_raw_put(&raw, f->hashes[hash].key, field);
    return frame_add_raw(f, hash, buf_slice(&raw), slice_of(raw.p + at, field.n), delta);
}

#endif
