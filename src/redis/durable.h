/* redis/durable.h - is what was written safe? Merging's fences and clients' WAITs ask it, each kind on links of its own: so no fence
 * waits behind a client. Each link writes a key of its own, since WAIT speaks only of its connection's writes (sync/README.md, rules
 * S9 and S43). */
#ifndef REDIS_DURABLE_H
#define REDIS_DURABLE_H

#include "redis/aof_watch.h"
#include "series/batches.h"

struct redis_mark { /* a link's own key */
    struct buf key, seq_key;
    uint64_t n, number; /* writes; what redis_link_number() said when the last was asked for */
};

/* --- the fence (sync/README.md, rules S7 to S10). It writes. Then, by server, it uses WAITAOF 1 n, or WAIT n and looks at the
 * AOF. --- */

struct redis_fences {
    struct redis_link *link;
    struct redis_fences
        *next;         /* has the next group while WAITAOF holds this link; NULL: the group waits for it */
    uint32_t replicas; /* redis.replicas: n of WAIT; 0: none */
    enum redis_keeps keeps;  /* only for the disk more than the write and WAIT */
    uint32_t wait_ms;        /* a fence that is not confirmed after this long fails, 10,000 */
    struct aof_watch *watch; /* whoever looks at Redis feeds it */
    /* private */
    struct redis_mark mark;
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

/* --- clients' WAIT or WAITAOF, each kind on a link that the first request opens. All requests that came meanwhile share one write
 * and Redis' answer to it; each ends at its own time. --- */

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
    bool aof; /* WAITAOF */
    /* private */
    struct redis_mark mark;
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
