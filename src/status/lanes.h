/* status/lanes.h - has a cluster as many lanes as redis.lanes says? The number is fixed when it is first used: with
 * another number tallyd would look for every key elsewhere. Blocking. */
#ifndef STATUS_LANES_H
#define STATUS_LANES_H

#include "status/source.h"

/* keep: a cluster that has no number yet gets this one. ERR_CONFIG: it has another, e says what to do. ERR_NONE for a
 * Redis that is no cluster, which has one lane. */
enum err lanes_agree(const struct source *where, bool keep, struct error *e) MUST_CHECK;

#endif
