/* sync/prune.h - deletes ledger rows that no run needs any more: old ones, of batches that no longer exist in Redis. */
#ifndef SYNC_PRUNE_H
#define SYNC_PRUNE_H

#include "sync/gate.h"

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

struct prune_ports { /* requests as in sync/ports.h */
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

#endif
