/* engine/cleaner.h - the lane's cleaner of series and events. It makes a pass a minute, the first soon after the start.
 * A pass goes through the series of `known:`, page by page, and skips precisions that are not due; then through the
 * logs of `tally:events`, and now and then the cached windows of their types. It has a link of its own, with one short
 * script on it at a time. Between two scripts it rests three times as long as the last one took, so that a Redis busy
 * with hits has its time for them. */
#ifndef ENGINE_CLEANER_H
#define ENGINE_CLEANER_H

#include "base/clock.h"
#include "base/map.h"
#include "engine/core.h"
#include "redis/clean_op.h"

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
