/* redis/copy.h - what goes along to a cluster (series/moved.h), out of one Redis into the lanes, for `tallyd move`: blocking, all links
 * of one loop. First most of it, while others write to that Redis; then the rest, when nobody does. Nobody else writes to the lanes. */
#ifndef REDIS_COPY_H
#define REDIS_COPY_H

#include "base/map.h"
#include "redis/ask.h"
#include "series/moved.h"

#define COPY_TEXT_BYTES 300

/* Names of the keys that anybody changes on one Redis, as the server tells them: CLIENT TRACKING, to all that subscribe (BCAST). On a
 * connection of its own, which is not made again: what changed meanwhile would be missing. */
struct track {
    struct map
        changed; /* names, of any database of that server; whoever takes them puts an empty map there */
    bool lost;   /* it is told no longer: text */
    char text[COPY_TEXT_BYTES];
    /* private */
    struct redis_link link;
    char mark[sizeof KEY_MARK_PREFIX + 16];
    bool seen;
};

/* Each later change is told. False: it is lost. place is borrowed until the close. */
bool track_open(struct track *t, uv_loop_t *loop, struct redis_place *place);
/* Changes a key of its own on `l`, a link to the same server, and waits until that is told: so each earlier change was. False: it is
 * lost, as it is after wait_ms. */
bool track_reach(struct track *t, struct redis_link *l, uint64_t wait_ms);
void track_close(struct track *t); /* also of one that never was opened, but is zero */

/* --- copying --- */

struct copy_item;
struct copy_tokens;
struct copy {
    const struct counters *counters;
    struct redis_link *from, *to; /* to: one a lane */
    struct track *track;          /* of `from`, open since before the first look */
    uint32_t lanes;
    uint32_t replicas;            /* this many of each lane must have it in the end, and before the rest */
    void (*step)(struct copy *c); /* now and then: seen and total have changed */
    void *arg;
    uint64_t total, seen, copied; /* out: names to look at, so far; looked at; copied */
    bool lost;                    /* a link was, or one refused: text */
    char text[COPY_TEXT_BYTES];   /* begins with which of them */
    /* private */
    char cursor[24];
    struct buf names; /* of the keys of a page */
    struct copy_item *items;
    uint32_t items_n, items_cap, item_at; /* the first that is not read yet */
    uint32_t *asked;                      /* one a lane: requests written */
    uint32_t waiting;                     /* lanes that have not answered */
    struct map shared;                    /* keys that go by member */
    struct map round;                     /* names that changed, being looked at */
    size_t round_at, round_names;
    uint32_t rounds;
    bool scanned, rest, waited;
    struct copy_tokens *tokens; /* one a lane */
};

/* Ends when few names have changed since they were copied, or when their number does not fall. False: lost. */
bool copy_most(struct copy *c);
/* After copy_most(), when each change was told. */
bool copy_rest(struct copy *c);
void copy_free(struct copy *c); /* what it holds; also after a copy that was lost, or never began */

/* --- what an earlier copy, which was given up, brought into a lane --- */

/* Removes it. False: the lane's link was lost, or refused; why. SCAN looks at each key of the node that the lane is on. */
bool lane_sweep(struct redis_link *l, const struct counters *counters, uint32_t lanes, char *why,
                size_t size);
/* Has a tallyd counted in the lane? */
bool lane_counted(struct redis_link *l, bool *counted, char *why, size_t size);

#endif
