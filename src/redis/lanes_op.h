/* redis/lanes_op.h - how many lanes a cluster has. Kept in the slot of a cluster's only lane, whatever the number is: so a tallyd
 * finds it before it knows the number, and one that was here when there was one lane is found too. */
#ifndef REDIS_LANES_OP_H
#define REDIS_LANES_OP_H

#include "redis/link.h"

struct redis_lanes {
    uint32_t wanted;
    bool keep;    /* the wanted number, if nobody has said one before */
    int64_t told; /* out; 0: nobody has said it */
    bool lost;
    char text[200];
    void (*done)(struct redis_lanes *l); /* once */
    void *arg;
};
void redis_lanes(struct redis_link *l, struct redis_lanes *lanes); /* l: its place is lane 0 of 1 */

#endif
