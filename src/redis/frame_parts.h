/* redis/frame_parts.h - the parts of a frame on the wire. frame_op.c has them as a table, in the order of the wire; frame_counts.c,
 * frame_events.c and frame_tokens.c have those that are not its own. Of ops (series/op.h), series are plain commands, a HINCRBY for
 * each precision, and so are hits on buckets that are known to exist. Other timeboxes, events and visitors are one script each in a
 * frame. An error of one op there (a key of another type, an overflow) fails that whole op and no other. */
#ifndef REDIS_FRAME_PARTS_H
#define REDIS_FRAME_PARTS_H

#include "redis/ask.h"
#include "redis/frame_op.h"
#include "series/names.h"

/* Appends the part's commands; returns how many. */
typedef uint32_t frame_put(struct redis_frames *fr, struct buf *out, const struct frame *f);
/* Files the answers to them into f: r is the first of n > 0. */
typedef void frame_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n);

frame_put tokens_put, series_known_put, samples_put, timebox_hits_put, timeboxes_put, events_gone_put,
    events_named_put, events_drawn_put, events_given_put, events_windows_put, visitors_put,
    events_kept_put; /* of no answered frame: frame_op.c */
frame_file tokens_file, series_known_file, samples_file, timebox_hits_file, timeboxes_file, events_gone_file,
    events_named_file, events_drawn_file, events_given_file, events_windows_file, visitors_file;

/* A key of tallyd's own could not be written or read, which is no op's own error. Of a frame the last such error is
 * logged, once a life. */
void frames_trouble(struct redis_frames *fr, const char *key, const struct redis_answer *r);

/* --- ops --- */

/* The first op of that kind after `op` (NULL: of all) that has commands; NULL: no more. */
struct frame_op *op_next(const struct frame *f, enum op_kind kind, const struct frame_op *op);

/* The ops that a script has, one after the other as op_next has them. */
typedef struct frame_op *op_walk(const struct frame *f, const struct frame_op *op);
/* The script's answer holds one reply for each op of its kind; take files one. False: it has another shape. */
typedef bool op_take(struct frame *f, struct frame_op *op, const struct redis_answer *r,
                     const struct op_limits *l);
void op_script_file(struct frame *f, op_walk *next, const struct op_limits *l, const struct redis_answer *r,
                    op_take *take);
void op_fail(struct frame *f, struct frame_op *op, const struct redis_answer *r);

/* What a name_...() function made of an op, as a member of an index; and as a key. */
#define OP_MEMBER(out, name, make) OP_KEY(out, slice_of(NULL, 0), name, make)
#define OP_KEY(out, tag, name, make)                                                                         \
    do {                                                                                                     \
        buf_reset(name);                                                                                     \
        make;                                                                                                \
        request_key((out), (tag), buf_slice(name));                                                          \
    } while (0)

/* --- tokens (series/frame.h): one script for all. An error of one of them (a key of another type, an overflow, a token of another
 * increment) fails only that one, and leaves nothing of it. --- */

/* Of a frame found applied: a GET for each; the answer to the one at that place. False: the answer is of no use. */
void tokens_ask(struct buf *out, struct slice tag, const struct frame *f);
bool tokens_told(const struct redis_frames *fr, struct frame *f, uint32_t at, const struct redis_answer *r);

#endif
