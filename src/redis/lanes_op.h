/* redis/lanes_op.h - how many lanes a cluster has. The number is kept in the slot of a cluster's only lane, whatever it
 * is. So a tallyd finds it before it knows the number, and finds a tallyd that was here when there was one lane. */
#ifndef REDIS_LANES_OP_H
#define REDIS_LANES_OP_H

#include "redis/link.h"

struct redis_lanes {
    uint32_t wanted;
    bool keep;    /* store the wanted number, if none is stored */
    int64_t told; /* out; 0: none is stored */
    bool lost;
    char text[200];
    void (*done)(struct redis_lanes *l); /* once */
    void *arg;
};
void redis_lanes(struct redis_link *l, struct redis_lanes *lanes); /* l: its place is lane 0 of 1 */

#endif
