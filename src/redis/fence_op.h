/* redis/fence_op.h - the fence (sync/README.md, rules S7 to S10) on its own link. It writes a key of its own. Then, by
 * server, it uses WAITAOF 1 n, or WAIT n and looks at the AOF. */
#ifndef REDIS_FENCE_OP_H
#define REDIS_FENCE_OP_H

#include "redis/aof_watch.h"
#include "series/batches.h"

struct redis_fences {
    struct redis_link *link;
    struct redis_fences
        *next; /* has the next group while WAITAOF holds this link; NULL: the group waits for it */
    const struct life *life;
    uint32_t replicas;       /* redis.replicas: n of WAIT; 0: none */
    enum redis_keeps keeps;  /* only for the disk more than the write and WAIT */
    uint32_t wait_ms;        /* a fence that is not confirmed after this long fails, 10,000 */
    struct aof_watch *watch; /* whoever looks at Redis feeds it */
    /* private */
    struct buf key, seq_key;
    uint64_t n, number;                /* writes; what redis_link_number() said when the last was asked for */
    struct list waiting, group, timed; /* fences: not begun; whose write or WAIT is under way; looked at */
    uv_timer_t poll, rest;
    bool begun;        /* the link of a next one, which most servers need not */
    uint64_t begun_ms; /* the last group */
    bool resting;      /* the group waits for its next WAIT */
    uint32_t look_n;   /* replies of the look under way; 0: none is */
    uint64_t asked_n;  /* the newest write when it was asked */
    struct aof_look look;
    uint64_t rewrite_ms;   /* when BGREWRITEAOF was asked for last; 0: never */
    bool look_known, push; /* it was INFO's text; a look ends in a write */
    uint32_t wait_n;       /* replies of the WAIT under way: */
    bool known, enough;    /* known by its shape, else why; enough replicas, and the disk */
    bool whole, vouched;   /* our key is there; no rewrite makes WAITAOF's word doubtful */
    char why[200];
    bool flying;
    void (*closed)(struct redis_fences *fs);
};

/* nth: of a chain of next ones, each with a key of its own. */
void redis_fences_init(struct redis_fences *fs, struct redis_link *link, const struct life *life,
                       struct aof_watch *watch, uint32_t nth);
/* Several fences at once are grouped: those that wait go together with the next one. fs: the first of a chain. */
void redis_fence(struct redis_fences *fs, struct fence *f);
/* After the link was closed (so nothing is pending). Ends in closed, once. */
void redis_fences_close(struct redis_fences *fs, void (*closed)(struct redis_fences *fs));

#endif
