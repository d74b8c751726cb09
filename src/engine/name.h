/* engine/name.h - only one life uses an instance's name on one Redis. Before a life counts there, it sees that no living
 * one has the name, and ends the links of dead ones. Both are asked on the lane's sync link, while that is up, and again
 * until they are done. One loop. */
#ifndef ENGINE_NAME_H
#define ENGINE_NAME_H

#include "redis/batch.h"
#include "redis/check_op.h"

struct name {
    struct redis_link *link;         /* borrowed */
    const char *host;                /* where this life is; borrowed */
    void (*taken)(struct name *n);   /* once: it is ours, and links of earlier lives are ended */
    void (*refused)(struct name *n); /* error says why. It goes on trying */
    /* read-only */
    bool free; /* when asked last, no living life had it */
    bool ours; /* for good */
    struct error
        error; /* ERR_CONFIG: another tallyd has it; ERR_UNAVAILABLE: Redis refuses; ERR_NONE: neither */
    /* private */
    bool may_take, busy;
    uint64_t began_ms, asked_ms, unlinked_ms, next_ms;
    struct redis_instance instance;
    struct redis_kill kill;
};

void name_tick(struct name *n, uint64_t now_ms); /* every 20 ms or so, and when the link comes up */
void name_take(struct name *n, uint64_t now_ms); /* until this call it is only looked whether it is free */

#endif
