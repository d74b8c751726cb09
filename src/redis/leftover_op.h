/* redis/leftover_op.h - claims hashes that other programs left (sync/README.md, rule S16): RENAMENX <leftover> ->
 * <pending>_<id>, registered as a claim is. One counter an id, each pending hash once an id. */
#ifndef REDIS_LEFTOVER_OP_H
#define REDIS_LEFTOVER_OP_H

#include "redis/link.h"
#include "series/batches.h"

struct redis_leftover {
    struct batch_id id; /* fresh */
    const struct counter *counter;
    const struct life *life;
    bool accept; /* adds every integer value to tally:accepted: it never went through this tallyd */
    const struct slice *names, *pendings; /* n <= CLAIM_HASHES_MAX; the asker's until done */
    uint32_t n;
    enum claim_outcome outcome; /* GONE: the link was lost: check whether the registry exists */
    uint32_t renamed;
    uint32_t left; /* the last `left` were left: the bound of fields, or a pending hash that came twice */
    uint64_t fields;
    uint32_t odd; /* values that are no integers: not in tally:accepted */
    char text[200];
    void (*done)(struct redis_leftover *o); /* once */
    void *arg;
};

void redis_leftover(struct redis_link *l, struct redis_leftover *o);

#endif
