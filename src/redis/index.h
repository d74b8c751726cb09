/* redis/index.h - the dirty index, and the walk that mends it. */
#ifndef REDIS_INDEX_H
#define REDIS_INDEX_H

#include "redis/link.h"
#include "series/batches.h"
#include "series/counter.h"

/* --- the dirty index: what is due, and names that no counter claims. --- */

void redis_due(struct redis_link *l, struct due_poll *d);

/* Fire and forget: from tally:dirty to tally:held, with their scores. */
void redis_hold_names(struct redis_link *l, const struct slice *names, uint32_t n);

/* Held names that a counter matches (again) go back to tally:dirty, with their scores. */
struct redis_restore {
    const struct counters *counters;
    uint32_t restored;
    bool lost;
    void (*done)(struct redis_restore *r); /* once */
    void *arg;
    /* private */
    uint32_t scripts;
};
void redis_restore(struct redis_link *l, struct redis_restore *r);

void redis_dirty_state(struct redis_link *l, struct dirty_state *d);

/* --- the walk of the key space (coalesce/README.md, rule C8), in SCAN steps with a pause in between. Pending hashes that are
 * missing in tally:dirty are put back, with Redis' time as their score; hashes with a claimed name and without a registry are
 * reported. --- */

struct redis_walk {
    const struct counters *counters;
    uint32_t step;     /* SCAN's COUNT; 0: 500 */
    uint32_t pause_ms; /* between two steps */
    bool read_only;    /* puts nothing back */
    /* A `<pending>_<anything>` without registry; slices for the call only. id: the batch id in its name, NULL if that
     * is not 32 hex digits. SCAN may show a key twice. */
    void (*leftover)(struct redis_walk *w, const struct counter *c, struct slice key, struct slice pending,
                     const struct batch_id *id);
    uint64_t keys, restored; /* out: hashes seen; put back into tally:dirty */
    bool lost;               /* out: link lost or an error: begin again */
    char text[200];
    void (*done)(struct redis_walk *w); /* once */
    void *arg;
    /* private */
    struct redis_link *link;
    uv_timer_t timer;
    struct buf cursor, names; /* of the suspects of this step */
    struct redis_suspect *suspects;
    uint32_t suspects_n, suspects_cap;
    bool at_end, stopping;
};

void redis_walk(struct redis_link *l, struct redis_walk *w);
/* Ends a walk under way at its next step, or at once if it pauses: done() with lost. Call it before the link is
 * closed. */
void redis_walk_stop(struct redis_walk *w);

#endif
