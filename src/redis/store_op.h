/* redis/store_op.h - all that Redis has of one pending hash, read by one script: nothing changes between two of its
 * reads. Used to prove one store's figures. */
#ifndef REDIS_STORE_OP_H
#define REDIS_STORE_OP_H

#include "redis/link.h"

struct redis_store {
    struct slice key, lock; /* of the pending hash; not needed any more once redis_store() returned */
    int64_t fields_max;     /* more fields, pending and claimed: too_many */
    /* Callbacks; slices for the call only, all before done. registered: fields that the batch's registry counts. */
    void (*pending)(void *arg, struct slice field, struct slice value);
    void (*batch)(void *arg, const struct batch_id *id, int64_t registered);
    void (*claimed)(void *arg, const struct batch_id *id, struct slice field, struct slice value);
    int64_t gen;        /* out: tally:gen */
    bool dirty, held;   /* out: it is in tally:dirty, in tally:held */
    bool exists, other; /* out: the key is there; it is no hash */
    int64_t lock_ms;    /* out: the lock's PTTL; -1: it never expires; -2: no lock */
    bool lost, too_many;
    char text[200];
    void (*done)(struct redis_store *s); /* once */
    void *arg;
};
void redis_store(struct redis_link *l, struct redis_store *s);

#endif
