/* redis/copy_op.h - copies what goes along to a cluster (series/moved.h) out of one Redis into the lanes, by DUMP and RESTORE.
 * First most of it, while others write to that Redis; then the rest, when nobody does. Nobody else writes to the lanes. All links
 * are of one loop. */
#ifndef REDIS_COPY_OP_H
#define REDIS_COPY_OP_H

#include "base/map.h"
#include "redis/track_op.h"
#include "series/moved.h"

struct copy_item;
struct copy_tokens;
struct redis_copy {
    const struct counters *counters;
    struct redis_link *from, *to; /* to: one a lane */
    struct redis_track *track;    /* of `from`, on since before the first look */
    uint32_t lanes;
    uint32_t replicas;            /* this many of each lane must have it in the end, and before the rest */
    uint64_t total, seen, copied; /* out: names to look at, so far; looked at; copied */
    bool lost;                    /* a link was, or one refused: text */
    char text[300];               /* begins with which of them */
    void (*step)(struct redis_copy *c);  /* a page is done */
    void (*ended)(struct redis_copy *c); /* once */
    void *arg;
    /* private */
    struct buf cursor, names; /* of the keys of a page */
    struct copy_item *items;
    uint32_t items_n, items_cap, item_at; /* the first that is not read yet */
    uint32_t *asked;                      /* one a lane: requests written */
    uint32_t waiting;                     /* lanes that have not answered */
    struct map shared;                    /* keys that go by member */
    size_t shared_at;
    uint16_t *lane_of; /* one a member of the page */
    struct slice shared_key;
    struct map round; /* names that changed, being looked at */
    size_t round_at, round_names;
    uint32_t rounds;
    bool scanned, rest, by_member, waited;
    struct copy_tokens *tokens; /* one a lane */
};

/* Ends when few names have changed since they were copied, or when their number does not fall. */
void redis_copy_most(struct redis_copy *c);
/* After redis_copy_most(), when each change was told (track->seen). */
void redis_copy_rest(struct redis_copy *c);
void redis_copy_free(
    struct redis_copy *c); /* what it holds; also after a copy that ended in the middle, or never began */

#endif
