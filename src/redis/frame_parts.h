/* redis/frame_parts.h - the ops of a frame (series/op.h) on the wire. Series are plain commands, a HINCRBY each precision, and
 * so are hits on buckets that are known to stand; other timeboxes, events and visitors are one script each a frame: what
 * one op meets there (a key of another type, an overflow) fails that op whole and no other. Exactly once is the frame's. */
#ifndef REDIS_FRAME_PARTS_H
#define REDIS_FRAME_PARTS_H

#include "redis/answer.h"
#include "series/frame.h"

/* Appends the commands of all ops, by f->dirty_ms as now; returns how many. name is scratch. */
uint32_t ops_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l);

/* An answer that says that a key of tallyd's own was not written or read, which is no op's own error. */
struct op_trouble {
    const char *key;
    const struct redis_answer *answer; /* NULL: none */
};

/* Files their answers into f: values of ops and items, late, fresh, errors. r points at the first of as many replies
 * as ops_put said; returns what is behind them. */
const struct redis_answer *ops_file(struct frame *f, const struct op_limits *l, const struct redis_answer *r,
                                    struct op_trouble *trouble);

#endif
