/* engine/recovery.h - recovery on demand, for CTR.RECOVER and for `tallyd recover` without a service:
 *   1. adopts and merges every batch whose owner is dead (sync/recover.c)
 *   2. a walk finds leftovers of other programs of this kind, `<pending hash>_<anything>` without registry; it claims
 *      each under a new id, and holds those whose 32 hex digits the ledger has: they may be merged already
 *   3. on request, batches of counters that are not configured go to tally_rejects
 * A dry run only names what it finds. One recovery at a time; it lives from start to `done`. */
#ifndef ENGINE_RECOVERY_H
#define ENGINE_RECOVERY_H

#include "engine/core.h"

struct recovered {
    bool failed;
    char text[400]; /* why, and what to do next */
    int64_t adopted, rows_merged, rows_already, unknown, held, leftovers, rejected;
};

struct recovery_how {
    bool dry_run, reject_unknown;
    void (*found)(void *arg, const char *kind,
                  struct slice name); /* "batch", "leftover", "held", "unknown"; may be NULL */
    void (*done)(void *arg, const struct recovered *r); /* once, never from inside recovery_start */
    void *arg;
};

bool recovery_start(struct core *c, const struct recovery_how *how); /* false: one is under way */

void recovery_stop(struct core *c); /* its walk ends; what it has begun is answered, as a failure */

/* --- batches of counters that are not configured here: named, and on request moved to tally_rejects. --- */

struct unknown_result {
    bool failed;
    char text[300];
    int64_t rows; /* moved to tally_rejects */
};

struct unknown_how {
    bool reject;
    void (*found)(void *arg, struct slice name); /* "<id> of counter <name>...", for the call only */
    void (*done)(void *arg, const struct unknown_result *u); /* once */
    void *arg;
};

void unknown_start(struct core *c, const struct unknown_how *how);

#endif
