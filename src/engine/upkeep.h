/* engine/upkeep.h - slow tasks beside the hits: the walk over the key space, pruning, complete_until, and whether Redis is still
 * set up as it must be, and the tables have the keys that merges go by. */
#ifndef ENGINE_UPKEEP_H
#define ENGINE_UPKEEP_H

#include "base/clock.h"
#include "base/map.h"
#include "engine/core.h"
#include "redis/check_op.h"
#include "redis/index.h"
#include "sync/gate.h"

struct upkeep {
    struct core *core;
    struct prune prune;
    struct until until;
    struct redis_restore restore;
    struct redis_walk walk;
    struct redis_fit fit;
    bool fitting, looking; /* at Redis' settings, at the tables */
    uint64_t fit_at_ms, look_at_ms;
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

/* --- the lane's cleaner of series and events. It makes a pass a minute, the first soon after the start. A pass goes through the
 * series of `known:`, page by page, and skips precisions that are not due; then through the logs of `tally:events`, and now and
 * then the cached windows of their types. It has a link of its own, with one short script on it at a time. Between two scripts it
 * rests three times as long as the last one took, so that a Redis busy with hits has its time for them. --- */

enum cleaner_stage { CLEANER_RESTS, CLEANER_SERIES, CLEANER_EVENTS };

struct cleaner_list { /* names of one kind; the first `done` are cleaned */
    enum redis_clean_kind kind;
    struct slice *all; /* into page.names */
    uint32_t n, done;
};

struct cleaner {
    const struct core *core;
    struct redis_link link;
    enum cleaner_stage stage;
    uv_timer_t timer; /* the next step */
    bool busy, told;  /* a step is out; an error of this pass was logged */
    struct steady clock;
    uint64_t pass_ms, step_us; /* mono: when they began */
    /* On Redis' clock, as far as it is believed: now; when this pass and the last complete one began (< 0: none did);
     * when cached windows were gone through last. */
    int64_t now_s, pass_s, last_s, windows_s;
    bool at_end;                        /* of the stage: no page is left */
    struct buf after;                   /* where the next page begins */
    struct map types;                   /* whose windows this pass has gone through */
    struct cleaner_list names, windows; /* of this page, names before windows */
    struct redis_page page;
    struct redis_clean clean;
    uint64_t removed[3], gone, odd; /* in this pass; removed: by enum redis_clean_kind */
    void (*closed)(struct cleaner *c);
};

void cleaner_init(struct cleaner *c, struct core *core);
void cleaner_begin(struct cleaner *c);
static inline bool cleaner_quiet(const struct cleaner *c) /* once the lane stops, it begins no step */
{
    return !c->busy;
}
void cleaner_close(struct cleaner *c, void (*closed)(struct cleaner *c));

#endif
