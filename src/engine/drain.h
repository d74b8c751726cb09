/* engine/drain.h - takes everything out of a Redis on which counting has ended: journals are brought to their keys, pending
 * hashes are merged. What dead tallyds left is recovered first (recovery.h). */
#ifndef ENGINE_DRAIN_H
#define ENGINE_DRAIN_H

#include "engine/lane.h"

struct drain {
    struct lane *lane;
    bool journals_only;
    bool stands; /* there are batches that cannot be merged: done when nothing else is left */
    void (*done)(struct drain *d); /* once */
    void *arg;
    bool failed; /* out: text says why; what is left stays there */
    char text[300];
    /* private */
    struct journal_list journals;
    struct sync_wait wait;
    bool asking, home; /* home: no journal is left */
    uint64_t stuck_ms; /* when it gives up, unless a frame runs or a journal goes */
    size_t left;       /* journals */
    int64_t ran;       /* frames, those in flight too */
};

void drain_tick(struct drain *d); /* every 100 ms or so, until done */

#endif
