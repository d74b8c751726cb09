/* redis/discard_op.h - takes a merged batch out of Redis: its claimed hashes, its registry, its place in
 * tally:batches. One script: all or nothing; idempotent; works when Redis is full. */
#ifndef REDIS_DISCARD_OP_H
#define REDIS_DISCARD_OP_H

#include "redis/link.h"
#include "series/batch.h"

struct redis_discard {
    const struct batch *batch; /* its id and the names of its hashes */
    bool done_ok;              /* false: link lost or an error: outcome unknown, send again later */
    char text[200];
    void (*done)(struct redis_discard *d); /* once */
    void *arg;
};

void redis_discard(struct redis_link *l, struct redis_discard *d);

#endif
