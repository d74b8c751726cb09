/* sync/gate.h - may sync merge? Only when the schema was checked since MySQL came up, and Redis was compared with the
 * ledger since it came back as another process. Then it has an epoch (series/batch.h). If Redis lacks a claim that
 * MySQL has merged, Redis lost it, or another primary made it: counting goes on, merging waits for an operator. A
 * ledger that lacks what this process merged is logged, and merging goes on: waiting does not bring back what MySQL
 * lost. */
#ifndef SYNC_GATE_H
#define SYNC_GATE_H

#include "base/log.h"
#include "sync/sync.h"

struct gate_check {                   /* a look at MySQL */
    const struct history_read *redis; /* in: what Redis said before */
    struct batch_id had;              /* in: the epoch that this process had last */
    bool seen;                        /* out: MySQL answered */
    bool
        /* out: what all counters share. For each counter the port calls sync_counter_fit() before done() */
        fit;
    bool refusals;          /* out: something does not fit, be it only one counter's table */
    struct realm_look look; /* out, if fit */
    void (*done)(struct gate_check *c);
    void *arg;
};

struct gate_ports { /* requests as in sync/sync.h */
    void *arg;
    void (*check)(void *arg, struct gate_check *c);
    void (*history)(void *arg, struct history_read *h);
    void (*fence)(void *arg, struct fence *f);
    void (*sign)(void *arg); /* answers who asks whether one lives that has the epoch; nothing comes back */
    /* (!) The run_id of the Redis that claims and history() go to; empty: they go to different ones, or it lacks
     * answered frames. When a link claims on a Redis that was put back, the claim raises the gen there before another
     * link knows of that Redis. */
    const char *(*run_id)(void *arg);
    uint64_t (*mono_ms)(void *arg);
};

struct gate {
    bool mysql_up;
    bool rolled_back;     /* merging is held: Redis lacks what was merged, or `lives`, or `unfit` */
    bool unfit;           /* Redis is not set up any more as it was when the link came up */
    bool asks;            /* whether one lives that merges for another Redis of this realm */
    bool lives;           /* one does */
    char text[400];       /* rolled_back: how far, and what to do */
    struct epoch epoch;   /* while it is open */
    struct batch_id told; /* the realm that Redis says it is; zero: it says nothing */
    /* private */
    struct gate_ports ports;
    struct sync *sync;
    struct gate_check check;
    struct history_read read;
    struct fence fence;
    struct claim_gen seen; /* the ledger's highest, when Redis seemed to be behind it; gen 0: it did not */
    struct batch_id
        given; /* by MySQL, to a Redis that had none: until an epoch is taken, Redis may lose it. Zero: none was */
    bool asking, again; /* a check is under way; something changed meanwhile */
    uint64_t sign_at_ms;
    bool stopped;
    bool schema_fit;               /* since MySQL came last */
    char compared[RUN_ID_BYTES];   /* the Redis whose gen was compared last */
    uint64_t merged, asked_merged; /* highest gen merged as a whole by this process; when MySQL was asked */
    uint64_t retry_at_ms;
};

void gate_init(struct gate *g, struct sync *s, const struct gate_ports *ports);
void gate_redis(struct gate *g); /* a link of claims or gen() came up; before sync_redis() */
void gate_mysql(struct gate *g, bool up);
void gate_epoch_over(struct gate *g); /* a merge or a fence was refused */
void gate_changed(
    struct gate
        *g); /* Redis has other data than before, though it is the same server with the same history */
/* Why Redis is not set up any more as tallyd needs it; NULL: it is. */
void gate_fit(struct gate *g, const char *why);
void gate_merged(struct gate *g, uint64_t gen); /* a batch of that gen is merged as a whole */
void gate_tick(struct gate *g);
void gate_stop(struct gate *g); /* asks nothing more */

bool gate_compared(const struct gate *g); /* Redis' gen is known */
bool gate_open(const struct gate *g);     /* sync merges */

/* --- deletes ledger rows that no run needs any more: old ones, of batches that no longer exist in Redis. --- */

#define PRUNE_CUTOFF_BYTES 32

struct prune_rows {
    char cutoff[PRUNE_CUTOFF_BYTES]; /* MySQL's word for the moment before which rows are old */
    const struct batch_id *standing; /* their rows stay, and those of the highest gen */
    uint32_t standing_n;
    bool ok;   /* out */
    bool more; /* out: there are more such rows */
    void (*done)(struct prune_rows *r);
    void *arg;
};

struct prune_ports { /* requests as in sync/sync.h */
    void *arg;
    void (*cutoff)(void *arg, struct prune_rows *r); /* fills it */
    void (*standing)(void *arg, struct standing *s);
    void (*rows)(void *arg, struct prune_rows *r); /* deletes them */
    uint64_t (*mono_ms)(void *arg);
};

struct prune {
    bool busy;
    /* private */
    struct prune_ports ports;
    const struct gate *gate;
    uint32_t every_ms;
    uint64_t at_ms;
    bool stopped;
    struct prune_rows rows;
    struct standing standing;
};

void prune_init(struct prune *p, const struct gate *gate, const struct prune_ports *ports, uint32_t every_ms);
void prune_tick(struct prune *p); /* while the links are up */
void prune_stop(struct prune *p); /* deletes nothing more; what was asked is still answered */

/* --- complete_until of each counter: every hit before it is in MySQL. --- */

struct until_write {
    const int64_t *until; /* one a counter, ms of Redis' time; MySQL's never goes back */
    bool ran, failed;     /* out: MySQL was there; it said no, for this error */
    struct error error;
    void (*done)(struct until_write *w);
    void *arg;
};

struct until_ports { /* requests as in sync/sync.h; both of Redis down one link, in one order */
    void *arg;
    void (*dirty)(void *arg, struct dirty_state *d);
    void (*batches)(void *arg, struct batch_list *b);
    void (*write)(void *arg, struct until_write *w);
    int64_t (*redis_ms)(void *arg);
    int64_t (*lag_ms)(
        void *arg); /* coalesce_lag_ms(): how much later than its score a hit may come to Redis */
    uint64_t (*mono_ms)(void *arg);
};

struct until {
    bool busy;
    /* private */
    struct until_ports ports;
    struct gate *gate;
    const struct counters *counters;
    uint32_t every_ms;
    uint64_t at_ms;
    bool stopped, told; /* that MySQL refuses it */
    struct dirty_state dirty;
    struct batch_list batches;
    struct until_write write;
    int64_t *until;
    char replid[RUN_ID_BYTES]; /* the epoch's, as the reading began */
};

#define UNTIL_SLACK_MS 1000 /* over lag_ms(): ticks, and clocks as last read */

void until_init(struct until *u, struct gate *gate, const struct counters *counters,
                const struct until_ports *ports, uint32_t every_ms);
void until_tick(struct until *u); /* while the links are up */
void until_stop(struct until *u); /* writes nothing more; what was asked is still answered */

#endif
