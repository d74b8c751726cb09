/* engine/upkeep.h - what is done slowly, off the hits' way: the walk, pruning, complete_until. */
#ifndef ENGINE_UPKEEP_H
#define ENGINE_UPKEEP_H

#include "engine/core.h"
#include "redis/dirty_op.h"
#include "redis/walk_op.h"

struct upkeep {
    struct core *core;
    struct redis_restore restore;
    struct redis_walk walk;
    bool walking, restoring, walk_again, walked;
    uint64_t leftovers,
        leftovers_seen; /* of the last walk that ended; of the one under way. SCAN may show one twice */
    uint64_t walk_at_ms, prune_at_ms, until_at_ms;
    int64_t clock_ahead_ms; /* Redis' clock less ours, as last seen */
    struct prune_task *prune;
    struct until_task *until;
    bool until_told; /* that MySQL refuses complete_until */
};

void upkeep_walk(struct upkeep *u); /* now, or again after the one under way */
void upkeep_tick(struct upkeep *u, uint64_t now_ms);
void upkeep_stop(struct upkeep *u);
bool upkeep_quiet(const struct upkeep *u);

#endif
