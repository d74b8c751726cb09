/* mysql/plan.h - the rows of a chunk, ready for its transaction, and those that are refused without asking MySQL. Made
 * once a chunk; rows that MySQL refuses are added while merging and removed again before the next try. Pure. The rows
 * keep the batch's order: (length, bytes) of the pending hash, then of the field. That order is the same in all chunks
 * and processes, so writers lock rows in one order, but for texts that a collation takes for one row: their deadlocks are tried
 * again. */
#ifndef MYSQL_PLAN_H
#define MYSQL_PLAN_H

#include "mysql/text.h"
#include "series/batch.h"

struct plan_item {          /* one row that can be merged */
    uint32_t key_at, key_n; /* the counter's key as SQL text, in plan->keys */
    uint32_t seq;           /* its place in the chunk */
    uint32_t count;         /* in which of the counter's columns */
    bool too_big;           /* not even alone does it fit a packet: refused in every try */
    bool refused;           /* by MySQL, in this try */
    bool missing;           /* of a counter that makes no rows: it is not there; in this try */
    bool foreign;           /* refused alone with a code that may pass: a reject if it happens in two tries */
    int64_t delta;
};

struct refusal {
    uint32_t seq;
    bool dropped; /* in the books alone */
    bool missing;
    bool counted;  /* false: the value is no integer; it is in no total */
    int64_t delta; /* 0 when not counted */
    uint32_t reason_at, reason_n;
};

struct plan {
    const struct chunk *chunk;
    struct plan_item *items;
    struct refusal *refused;
    size_t items_n, refused_n, rows_n;       /* rows_n: both together, as it was made */
    size_t missing_n;                        /* how many of the refused are only not there */
    size_t refused_first, reasons_first;     /* how many of them are refused in every try */
    size_t foreign_n;                        /* items that became foreign in this try */
    bool by_value;                           /* MySQL refused none but for its value */
    int64_t total, rejected, rejected_first; /* sums of deltas, modulo 2^64; rejected is part of total */
    struct buf keys, reasons;
};

/* With counter NULL every row is refused, for the reason. forms fit the counter. left_out: not 0 for each hash of the batch whose rows
 * are not in it. */
void plan_make(struct plan *p, const struct chunk *c, const struct counter *counter,
               const struct columns *forms, const char *reason, const uint8_t *left_out);
void plan_close(struct plan *p);
void plan_again(struct plan *p);                                           /* forgets what MySQL refused */
void plan_refuse(struct plan *p, struct plan_item *i, const char *reason); /* by MySQL */
void plan_miss(struct plan *p, struct plan_item *i, bool drop);            /* its row is not there */

static inline struct slice plan_key(const struct plan *p, const struct plan_item *i)
{
    return slice_of(p->keys.p + i->key_at, i->key_n);
}

#endif
