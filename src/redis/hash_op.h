/* redis/hash_op.h - reads one hash as it is (CTR.PENDING). */
#ifndef REDIS_HASH_OP_H
#define REDIS_HASH_OP_H

#include "redis/link.h"

struct redis_hash {
    struct slice key; /* the asker's until the request is sent: borrowed for the call only */
    /* Once. r, for the call only: an array of field, value ...; or an error; NULL: link lost. */
    void (*done)(struct redis_hash *h, const struct redis_answer *r);
    void *arg;
};
void redis_hash(struct redis_link *l, struct redis_hash *h);

#endif
