/* sync/gate.h - may sync merge? Only when the schema was checked since MySQL came (back), and Redis' gen was compared with
 * the ledger's since Redis came back as another process. A gen lower than the ledger's means that this Redis lost claims
 * which MySQL has merged: counting goes on, merging waits for an operator. A ledger that does not know what this process
 * merged is told, and merging goes on: what MySQL lost does not come back by waiting. */
#ifndef SYNC_GATE_H
#define SYNC_GATE_H

#include "sync/sync.h"

struct gate_check { /* a look at MySQL */
    bool seen;      /* out: MySQL answered */
    bool
        fit; /* out: what all counters share. Of each counter the port tells sync_counter_fit() before done() */
    bool refusals;    /* out: something does not fit, be it only one counter's table */
    uint64_t highest; /* out, if fit: gen in the ledger */
    void (*done)(struct gate_check *c);
    void *arg;
};

struct gate_ports { /* requests as in sync/ports.h */
    void *arg;
    void (*check)(void *arg, struct gate_check *c);
    void (*gen)(void *arg, struct gen_read *g);
    /* (!) Of the Redis that claims and gen() go to; empty: they go to different ones, or it lacks answered frames. A claim by
     * a link that is at a Redis which was put back raises its gen before another link has heard of that Redis. */
    const char *(*run_id)(void *arg);
    uint64_t (*mono_ms)(void *arg);
};

struct gate {
    bool mysql_up, rolled_back;
    char text[400]; /* rolled_back: how far, and what to do */
    /* private */
    struct gate_ports ports;
    struct sync *sync;
    struct gate_check check;
    struct gen_read gen;
    bool asking, again; /* a check is under way; something changed meanwhile */
    bool stopped;
    bool schema_fit;               /* since MySQL came last */
    char compared[RUN_ID_BYTES];   /* the Redis whose gen was compared last */
    char asked_of[RUN_ID_BYTES];   /* of the check under way */
    uint64_t merged, asked_merged; /* highest gen merged as a whole by this process; when MySQL was asked */
    uint64_t retry_at_ms;
};

void gate_init(struct gate *g, struct sync *s, const struct gate_ports *ports);
void gate_redis(struct gate *g); /* a link of claims or gen() came up; before sync_redis() */
void gate_mysql(struct gate *g, bool up);
void gate_merged(struct gate *g, uint64_t gen); /* a batch of that gen is merged as a whole */
void gate_tick(struct gate *g);
void gate_stop(struct gate *g); /* asks nothing more */

bool gate_compared(const struct gate *g); /* Redis' gen is known */
bool gate_open(const struct gate *g);     /* sync merges */

#endif
