/* base/latencies.h - the table of all timings, as base/stats.h is the table of all counts; /metrics shows both. */
#ifndef BASE_LATENCIES_H
#define BASE_LATENCIES_H

#include "base/histogram.h"

/* name, what is timed */
#define LATENCIES(X)                                                                                         \
    X(hit, "an increment, from its bytes to its answer")                                                     \
    X(frame, "a frame, from when it was sent to Redis' answer")                                              \
    X(scan, "reading the claimed hashes of a batch")                                                         \
    X(barrier, "a durability barrier, with the wait for the one before")                                     \
    X(merge, "the MySQL transaction of a chunk")

struct latencies {
#define X(name, meaning) struct histogram name;
    LATENCIES(X)
#undef X
};
extern struct latencies latencies;

#endif
