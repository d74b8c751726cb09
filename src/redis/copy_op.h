/* redis/copy_op.h - copies what goes along to a cluster (series/moved.h) out of one Redis into the lanes, by DUMP and RESTORE.
 * Nothing may write to either meanwhile: then doing it again, after it ended anywhere, gives the same. All links are of one
 * loop. */
#ifndef REDIS_COPY_OP_H
#define REDIS_COPY_OP_H

#include "base/map.h"
#include "redis/link.h"
#include "series/moved.h"

struct copy_item;
struct copy_tokens;
struct redis_copy {
    const struct counters *counters;
    struct redis_link *from, *to; /* to: one a lane */
    uint32_t lanes;
    uint32_t replicas;                   /* this many of each lane must have it in the end */
    uint64_t total, seen, copied;        /* out: keys of `from`; of them that were looked at, and copied */
    bool lost;                           /* a link was, or one refused: text */
    char text[300];                      /* begins with which of them */
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
    struct slice shared_key;
    bool scanned, by_member, waited;
    struct copy_tokens *tokens; /* one a lane */
};

void redis_copy(struct redis_copy *c);

#endif
