/* series/slot.h - hash slots of a Redis Cluster (its specification: "key distribution model"). A lane is one slot: each
 * of its keys begins with a tag, so that a MULTI, a script and a SCAN touch one slot. */
#ifndef SERIES_SLOT_H
#define SERIES_SLOT_H

#include "base/slice.h"

#define SLOTS 16384
#define LANES_MAX 256
#define TAG_BYTES_MAX 6 /* with its braces */

struct tag {
    char text[TAG_BYTES_MAX];
    uint8_t n; /* 0: no tag, as on a Redis of its own */
};

unsigned slot_of(struct slice key); /* as CLUSTER KEYSLOT has it */

/* The shortest tag whose slot is the middle of the lane's part of all slots; the first such in the order a-z0-9. Never
 * change this: keys are found by it. lane < lanes, which is at most LANES_MAX. */
void tag_find(unsigned lane, unsigned lanes, struct tag *out);
/* Which of this many lanes has all counts of a store; n = 0: the lane of counts without a store. Never change this. */
unsigned lane_of_store(struct slice store, unsigned lanes);
static inline struct slice tag_slice(const struct tag *t)
{
    return slice_of(t->text, t->n);
}

#endif
