/* sync/until.h - complete_until of each counter: every hit before it is in MySQL. */
#ifndef SYNC_UNTIL_H
#define SYNC_UNTIL_H

#include "base/log.h"
#include "sync/gate.h"

struct until_write {
    const int64_t *until; /* one a counter, ms of Redis' time; MySQL's never goes back */
    bool ran, failed;     /* out: MySQL was there; it said no, for this error */
    struct error error;
    void (*done)(struct until_write *w);
    void *arg;
};

struct until_ports { /* requests as in sync/ports.h; both of Redis down one link, in one order */
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
