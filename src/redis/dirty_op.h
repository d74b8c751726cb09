/* redis/dirty_op.h - the dirty index: what is due, and names that no counter claims. */
#ifndef REDIS_DIRTY_OP_H
#define REDIS_DIRTY_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_due(struct redis_link *l, struct due_poll *d);

/* Fire and forget: from tally:dirty to tally:held, with their scores. */
void redis_hold_names(struct redis_link *l, const struct slice *names, uint32_t n);

/* Held names that a counter matches (again) go back to tally:dirty, with their scores. */
struct redis_restore {
    const struct counters *counters;
    uint32_t restored;
    bool lost;
    void (*done)(struct redis_restore *r); /* once */
    void *arg;
    /* private */
    uint32_t scripts;
};
void redis_restore(struct redis_link *l, struct redis_restore *r);

void redis_dirty_state(struct redis_link *l, struct dirty_state *d);

#endif
