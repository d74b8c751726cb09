/* sync/total.h - live totals (CTR.TOTAL; rules S26 to S28 of sync/README.md): the sum of MySQL's row, the pending count,
 * and claimed counts that are not in the ledger. It is exact at one moment between the request and its answer. */
#ifndef SYNC_TOTAL_H
#define SYNC_TOTAL_H

#include "base/log.h"
#include "base/turns.h"
#include "series/asks.h"
#include "series/batch.h"
#include "series/batches.h"
#include "sync/gate.h"

struct total_stored {          /* MySQL's half of all totals of a round */
    struct books_totals books; /* its answers filled by the port ... */
    bool ran;                  /* out: MySQL was there */
    enum err code;             /* out */
    struct error error;
    void (*done)(struct total_stored *s);
    void *arg;
};
/* ... and then calls this, where it read them and not on the loop: it looks for each claimed field in the ledger. */
void total_sum(struct total_stored *s);

struct total_ports { /* requests as in sync/sync.h */
    void *arg;
    void (*redis)(void *arg, struct total_read *r);
    void (*mysql)(void *arg, struct total_stored *s);
    uint64_t (*mono_ms)(void *arg); /* runs while the host sleeps */
};

struct totals {
    struct total_ports ports;
    struct sync *sync;
    const struct gate *gate;
    uint64_t within_ms;        /* limits.busy_timeout */
    uint64_t give_up_ms;       /* a third of ledger.keep, as of sync_config */
    struct turns waiting;      /* of struct total_task, for the next round: users take turns */
    struct list resting;       /* likewise, until the next tick */
    struct total_round *round; /* under way, NULL: none */
    bool stopped;
};

void totals_init(struct totals *t, struct sync *s, const struct gate *gate, const struct total_ports *ports,
                 uint64_t within_ms, uint64_t give_up_ms);
void totals_ask(struct totals *t, struct total_request *q);
void totals_tick(struct totals *t); /* as sync_tick */
void totals_stop(struct totals *t); /* what was asked is answered, and nothing is read twice any more */

#endif
