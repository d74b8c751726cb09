/* engine/lane.h - all that belongs to one Redis: links, frames, coalesce/, sync/ and the tasks that keep its keys in
 * order. MySQL is shared: the lane borrows its writers. No statics, and nothing here knows how many lanes there are.
 * One loop.
 *
 * lane_init -> lane_start -> lane_take, once no other process has the name on any lane that can be reached -> lane_mysql (lends
 * the writers) -> lane_begin -> ... -> lane_stop, until lane_quiet or time is up -> lane_abandon -> the writers are closed ->
 * lane_close -> lane_destroy when no client is left. A lane may also begin before its Redis is there: it then comes up by itself,
 * in the same steps. */
#ifndef ENGINE_LANE_H
#define ENGINE_LANE_H

#include "coalesce/coalesce.h"
#include "engine/core.h"
#include "engine/upkeep.h"

struct lane_ports {                                 /* what it tells its owner; lane: the struct lane */
    void (*answered)(void *lane, struct outlet *o); /* o->out grew; once a frame for an outlet */
    void (*room)(void *lane, struct outlet *o);     /* a parked outlet may go on */
    void (*failed)(void *lane, const char *text);   /* it must not go on: stop tallyd */
};

struct lane {
    struct core core;
    struct lane_ports ports;
    void *arg; /* the owner's */
    struct upkeep upkeep;
    struct cleaner cleaner;
    struct takeover takeover;
    struct totals totals;
    uint64_t frame_sent_us;               /* of the frame in flight */
    uint32_t doubt_answers, doubt_claims; /* as the frame link was cut last */
    unsigned changes;                     /* of the place, as the gate knows */
    unsigned open;                        /* of what lane_close() closes */
    void (*closed)(struct lane *l);
};

/* Rooms are made, nothing is begun. */
void lane_init(struct lane *l, uv_loop_t *loop, const struct lane_config *config,
               const struct lane_ports *ports, void *arg);
/* Connects, and looks whether another process has the name (core.h). Runs the loop until sentinels know where Redis is. */
enum err lane_start(struct lane *l, struct error *e) MUST_CHECK;
bool lane_free(const struct lane *l); /* Redis is there, and no other process has the name */
/* From now on, once it is free: ends links of earlier lives, and connects the other links. */
void lane_take(struct lane *l);
/* Why it is not free, or not up, as the operator is told who starts tallyd. ERR_NONE: nothing is known against it. */
enum err lane_why(const struct lane *l, struct error *e);
void lane_pool(struct lane *l, struct writer_pool *pool); /* NULL: closed */
void lane_mysql(struct lane *l, bool up);
/* Runs the loop until the gate has looked at both sides, or until_ms. */
void lane_look_first(struct lane *l, uint64_t until_ms, const bool *stop);
void lane_begin(struct lane *l); /* the machines run */
bool lane_turn(
    struct lane *l); /* end of a loop turn. True: the loop must not wait for events before the next one */
void lane_tick(struct lane *l, uint64_t now_ms); /* every 20 ms or so */
bool lane_up(const struct lane *l);              /* Redis is there: all links are */

void lane_stop(struct lane *l);        /* claims and begins nothing more; what is under way goes on */
bool lane_quiet(const struct lane *l); /* nothing is under way */
void lane_abandon(struct lane *l);     /* makes no request any more */
void lane_close(struct lane *l, void (*closed)(struct lane *l));
void lane_destroy(struct lane *l);

void wire_coalesce(struct lane *l); /* between init's steps */
void lane_caught_up(struct lane *l);

/* --- takes everything out of a Redis on which counting has ended: journals are brought to their keys, pending hashes are merged.
 * What dead tallyds left is recovered first (recovery.h). --- */

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
