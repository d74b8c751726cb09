/* sync/ports.h - the world as the sync machine sees it. engine/ connects Redis and MySQL, the simulator in-memory
 * twins. The requests and their rules are in series/batches.h. */
#ifndef SYNC_PORTS_H
#define SYNC_PORTS_H

#include "series/batches.h"

struct sync_ports {
    void *arg;
    void (*claim)(void *arg, struct claim *c); /* down the frame link */
    void (*scan)(void *arg, struct scan *s);
    void (*fence)(void *arg, struct fence *f);
    void (*merge)(void *arg, struct chunk *c);
    void (*discard)(void *arg, struct discard *d);
    void (*adopt)(void *arg, struct adopt *a);
    void (*due_poll)(void *arg, struct due_poll *p);
    void (*standing)(void *arg, struct standing *s);
    /* A merge or a fence was refused: the epoch is over, or Redis has another history. Another look decides. */
    void (*epoch_over)(void *arg);
    /* Fire and forget: sign of life of these batches (and of this instance, with n = 0 too). */
    void (*beat)(void *arg, const struct batch_id *ids, uint32_t n);
    /* Fire and forget: dirty names that no counter matches go from tally:dirty to tally:held. */
    void (*hold_names)(void *arg, const struct slice *names, uint32_t n);
    uint64_t (*mono_ms)(void *arg);
    int64_t (*redis_ms)(void *arg); /* Redis' own time */
    void (*draw_id)(void *arg, struct batch_id *id);
    uint64_t (*hits)(void *arg);    /* applied so far, of all counters; only grows */
    uint64_t (*felt_us)(void *arg); /* that they waited for their answers, all together; only grows */
};

#endif
