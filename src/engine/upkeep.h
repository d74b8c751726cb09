/* engine/upkeep.h - slow tasks beside the hits: the walk over the key space, pruning, complete_until, and whether Redis is still
 * set up as it must be. */
#ifndef ENGINE_UPKEEP_H
#define ENGINE_UPKEEP_H

#include "engine/core.h"
#include "redis/check_op.h"
#include "redis/index.h"
#include "sync/prune.h"
#include "sync/until.h"

struct upkeep {
    struct core *core;
    struct prune prune;
    struct until until;
    struct redis_restore restore;
    struct redis_walk walk;
    struct redis_fit fit;
    bool fitting;
    uint64_t fit_at_ms;
    bool walking, restoring, walk_again, walked;
    uint64_t leftovers,
        leftovers_seen; /* of the last walk that ended; of the one under way. SCAN may show one twice */
    uint64_t walk_at_ms;
    int64_t clock_ahead_ms; /* Redis' clock less ours, as last seen */
};

void wire_ledger(struct upkeep *u); /* wire_ledger.c: makes prune and until */
void upkeep_walk(struct upkeep *u); /* now, or again after the one under way */
void upkeep_tick(struct upkeep *u, uint64_t now_ms);
void upkeep_stop(struct upkeep *u);
bool upkeep_quiet(const struct upkeep *u);

#endif
