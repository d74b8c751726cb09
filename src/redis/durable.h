/* redis/durable.h - is what was written safe? Merging's fences and clients' WAITs ask it, each kind on links of its own: so no fence
 * waits behind a client. Each link writes a key of its own, since WAIT speaks only of its connection's writes (sync/README.md, rules
 * S9 and S43). */
#ifndef REDIS_DURABLE_H
#define REDIS_DURABLE_H

#include "redis/link.h"
#include "series/batches.h"

/* --- is what Redis answered on its disk? From looks at it (INFO, CONFIG GET), by the rules of its aof.c, for
 * servers without a WAITAOF that can be believed. It asks nothing itself.
 *
 * Between turns of its loop Redis writes what it collected, unless an fsync is running. Then it begins an fsync if a second
 * is over since the last one began: the next whole second of its clock (7.0, 7.2), or 1,000 ms (7.4, Valkey). Replies go
 * out after that. So, once a write is answered:
 *   look 1  shows no fsync: what was written before it is in the file before any later fsync begins
 *   look 2  a second of Redis' clock later: when it is answered, such an fsync has begun, or nothing was left to sync
 *   look 3  asked behind that answer, shows no fsync: it has ended
 * A look after look 1 that shows an fsync stands for look 2. With appendfsync always an answer to a look is enough.
 * (!) What breaks that, and is looked at:
 *   - no-appendfsync-on-rewrite yes while a child of Redis runs: no fsync begins, with always neither. Before 7.0.11, with
 *     always, none begins after the child either until something is written.
 *   - a rewrite of the AOF begins: a job that nothing shows syncs and closes the old file. Since 7.2 fsyncs of the new file
 *     queue behind it, in 7.0 they do not. But a rewrite that began after the write and ended well has it, synced.
 *   - Redis' clock is put back: no fsync begins until it is where it was, or the file is rewritten.
 *   - the AOF was turned on: until its first rewrite has ended, a start does not load what it has.
 * WAITAOF of Redis 8 has the second one, too: it takes "the new file has nothing to sync" for "all is synced". So a look that is
 * asked behind its answer must vouch for it, or the wait goes on by looks. --- */

struct aof_look {
    uint64_t asked_ms, answered_ms; /* mono */
    struct redis_facts facts;       /* run_id, aof_on, version, appendfsync, lax_fsync */
    int64_t time_us;                /* Redis' wall clock */
    int64_t rewrites, forks;        /* begun since Redis started */
    bool rewriting, rewritten_ok;   /* one runs; the last one that ended did so well */
    bool at_rest;                   /* none runs or is due */
    bool written_ok;                /* neither a write nor an fsync failed */
    bool syncing, child;
    bool valkey, pushed; /* the latter: the look ended in a write, so that there is something to sync */
};

struct aof_watch { /* what looks at one server process add up to; zero before the first */
    char run_id[RUN_ID_BYTES];
    bool loadable;                   /* the AOF was seen at rest: a start loads it */
    int64_t rewrites;                /* the newest number, */
    uint64_t rewrites_ms;            /* and when it was seen first, mono */
    int64_t ahead_us, ahead_most_us; /* Redis' clock less ours: at least, at most */
    int64_t clock_us;                /* no fsync begins before Redis' clock is here */
};

/* Nothing else would make Redis sync for long: its clock was put back. */
bool aof_watch_wants_rewrite(const struct aof_watch *w, const struct aof_look *l);
/* WAITAOF, answered before it was asked, is to be believed: no AOF file is being closed unseen. */
bool aof_look_vouches(const struct aof_look *l);
/* The next look must end in a write. */
bool aof_look_wants_push(const struct aof_look *l);

/* INFO's text, which has at least the sections server, persistence, stats; CONFIG GET's answer goes to redis_fsync_file.
 * False: it is no such text. */
bool aof_look_read(struct aof_look *l, struct slice info);
void aof_watch_look(struct aof_watch *w, const struct aof_look *l);

enum aof_verdict { AOF_WAITS, AOF_SYNCED, AOF_OFF };
/* A look that was asked after the write and the previous look were answered; w has seen it. */
enum aof_verdict aof_wait_look(struct aof_wait *a, const struct aof_watch *w, const struct aof_look *l);

/* --- what both have --- */

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
