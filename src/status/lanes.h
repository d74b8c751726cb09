/* status/lanes.h - has a cluster as many lanes as redis.lanes says? The number is fixed when it is first used: with
 * another number tallyd would look for every key elsewhere. Blocking. */
#ifndef STATUS_LANES_H
#define STATUS_LANES_H

#include "status/source.h"

/* keep: a cluster that has no number yet gets this one. ERR_CONFIG: it has another, e says what to do. ERR_BUSY: a
 * move into it is under way. ERR_NONE for a Redis that is no cluster, which has one lane. */
enum err lanes_agree(const struct source *where, bool keep, struct error *e) MUST_CHECK;
/* Keeps nothing. Where a move is under way it asks again after each pause(), until that is false. */
enum err lanes_agree_after(const struct source *where, bool (*pause)(void *arg, const struct error *why),
                           void *arg, struct error *e) MUST_CHECK;

#endif
