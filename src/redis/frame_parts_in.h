/* redis/frame_parts_in.h - between the files that write ops, one a kind. */
#ifndef REDIS_FRAME_PARTS_IN_H
#define REDIS_FRAME_PARTS_IN_H

#include "redis/frame_parts.h"
#include "redis/lua.h"
#include "redis/request.h"
#include "series/names.h"

/* The first op of that kind behind `op` (NULL: of all); NULL: no more. */
struct frame_op *op_next(const struct frame *f, enum op_kind kind, const struct frame_op *op);
uint32_t ops_of(const struct frame *f, enum op_kind kind);

/* The ops that a script has, one behind the other as op_next has them. */
typedef struct frame_op *op_walk(const struct frame *f, const struct frame_op *op);
/* The script's answer holds one reply for each op of its kind; take files one, false: it has not the right shape. */
typedef bool op_take(struct frame *f, struct frame_op *op, const struct redis_answer *r,
                     const struct op_limits *l);
void op_script_file(struct frame *f, op_walk *next, const struct op_limits *l, const struct redis_answer *r,
                    op_take *take);
void op_fail(struct frame *f, struct frame_op *op, const struct redis_answer *r);

/* What a name_...() function made of an op, as an argument. */
#define OP_KEY(out, name, make)                                                                              \
    do {                                                                                                     \
        buf_reset(name);                                                                                     \
        make;                                                                                                \
        request_slice((out), buf_slice(name));                                                               \
    } while (0)

/* Timeboxes are plain commands and a script; as ops_put and ops_file. */
uint32_t timeboxes_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l);
const struct redis_answer *timeboxes_file(struct frame *f, const struct redis_answer *r);
/* Each appends its script with the ops of its kind; there is at least one. */
void visitors_put(struct buf *out, struct buf *name, const struct frame *f, const struct op_limits *l);
op_take visitors_take;

/* Events (frame_events.c): how many commands; there is at least one op. given: those whose ids are there (frame_given.c). */
uint32_t events_put(struct buf *out, struct buf *name, const struct frame *f);
const struct redis_answer *events_file(struct frame *f, const struct op_limits *l,
                                       const struct redis_answer *r, struct op_trouble *trouble);
uint32_t given_names_put(struct buf *out, struct buf *name, const struct frame *f);
const struct redis_answer *given_names_file(struct frame *f, const struct redis_answer *r,
                                            struct op_trouble *trouble);
uint32_t given_put(struct buf *out, struct buf *name, const struct frame *f);
const struct redis_answer *given_file(struct frame *f, const struct redis_answer *r,
                                      struct op_trouble *trouble);

#endif
