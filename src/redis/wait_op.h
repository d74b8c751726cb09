/* redis/wait_op.h - clients' WAIT or WAITAOF, each kind on a link of its own, opened by the first request: so they
 * delay neither merging's fences nor each other. All requests that came meanwhile share one write and Redis' answer to
 * it; each ends at its own time. */
#ifndef REDIS_WAIT_OP_H
#define REDIS_WAIT_OP_H

#include "redis/link.h"

#define REDIS_UNBLOCKED                                                                                      \
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"

struct redis_durable {
    int64_t local, replicas;               /* how many are wanted; local only with WAITAOF */
    uint64_t timeout_ms;                   /* 0: none */
    bool (*left)(struct redis_durable *w); /* nobody wants its answer: it ends; asked every 10 ms */
    void (*done)(struct redis_durable *w); /* once; never from inside redis_wait_for() */
    int64_t got_local, got_replicas;       /* the most that Redis said */
    char text[REDIS_WHY_BYTES];            /* not empty: an error line instead */
    /* private */
    struct list link;
    uint64_t until_ms;         /* mono; 0: none */
    int64_t offset;            /* of Redis' replication stream after the write; 0: not known yet */
    char run_id[RUN_ID_BYTES]; /* where the hits were answered */
    unsigned changes;          /* ... as place said then */
};

struct redis_waits {
    struct redis_link *link;
    const struct life *life;
    bool aof; /* WAITAOF */
    /* private */
    struct buf key, seq_key;
    uint64_t n, number;               /* writes; what redis_link_number() said when the last was asked for */
    struct list fresh, sent, written; /* no write yet; it is under way; it was answered */
    uv_timer_t timer;
    uint64_t wrote_ms, asked_ms; /* mono, of the last */
    uint64_t stop_by_ms;         /* mono; 0: it is not stopping */
    bool begun, busy;
    void (*closed)(struct redis_waits *ws);
};

void redis_waits_init(struct redis_waits *ws, struct redis_link *link, const struct life *life, bool aof);
/* While the links are up: what its client was answered for is on place's server. */
void redis_wait_for(struct redis_waits *ws, struct redis_durable *w);
void redis_waits_stop(struct redis_waits *ws); /* those that wait, and come, end within a second */
/* After the link was closed. Ends in closed, once. */
void redis_waits_close(struct redis_waits *ws, void (*closed)(struct redis_waits *ws));

#endif
