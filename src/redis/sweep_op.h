/* redis/sweep_op.h - removes from a lane what a copy brought there (copy_op.h) that was given up; before that, looks whether a tallyd
 * has counted in it. */
#ifndef REDIS_SWEEP_OP_H
#define REDIS_SWEEP_OP_H

#include "redis/link.h"
#include "series/moved.h"

struct redis_sweep {
    const struct counters *counters;
    uint32_t lanes;
    bool looks;   /* removes nothing */
    bool counted; /* out: a tallyd has */
    bool lost;    /* out: text */
    char text[200];
    void (*done)(struct redis_sweep *s); /* once */
    void *arg;
    /* private */
    char cursor[24];
};

void redis_sweep(struct redis_link *l, struct redis_sweep *s);

#endif
