/* mysql/plan.h - the rows of a chunk, ready for its transaction: groups sorted by primary key, and the rows
 * that are refused without asking MySQL. Made once a chunk; what MySQL refuses is added while merging and
 * taken off again before the next try. Pure. */
#ifndef MYSQL_PLAN_H
#define MYSQL_PLAN_H

#include "mysql/text.h"
#include "series/batch.h"

struct plan_item { /* one row that can be merged; seq is its place in the chunk */
    uint32_t key_at, key_n, seq;
    int64_t delta;
};

struct plan_group { /* items of one primary key: items[first .. first + n) */
    size_t first, n;
    int64_t delta;
    bool too_big; /* not even alone does it fit a packet: refused in every try */
};

struct refusal {
    uint32_t seq;
    bool counted;  /* false: the value is no integer, or does not fit the sum; it is in no total */
    int64_t delta; /* 0 when not counted */
    uint32_t reason_at, reason_n;
};

struct plan {
    const struct chunk *chunk;
    struct plan_item *items;
    struct plan_group *groups;
    struct refusal *refused;
    size_t items_n, groups_n, refused_n;
    size_t refused_first, reasons_first;     /* how many of them are refused in every try */
    int64_t total, rejected, rejected_first; /* sums of deltas; rejected is part of total */
    struct buf keys, reasons;
};

/* With counter NULL every row is refused, for the reason. forms fit the counter. */
void plan_make(struct plan *p, const struct chunk *c, const struct counter *counter,
               const struct columns *forms, const char *reason);
void plan_close(struct plan *p);
void plan_again(struct plan *p); /* forgets what MySQL refused */
void plan_refuse_group(struct plan *p, const struct plan_group *g, const char *reason);

static inline struct slice plan_key(const struct plan *p, const struct plan_group *g)
{
    const struct plan_item *i = &p->items[g->first];
    return slice_of(p->keys.p + i->key_at, i->key_n);
}

#endif
