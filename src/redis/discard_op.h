/* redis/discard_op.h - deletes a merged batch from Redis: its claimed hashes, its registry, its entry in tally:batches.
 * One script: all or nothing; idempotent; works when Redis is full. */
#ifndef REDIS_DISCARD_OP_H
#define REDIS_DISCARD_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_discard(struct redis_link *l, struct discard *d);

#endif
