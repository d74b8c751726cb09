/* conf/near.h - "did you mean": the known name that a mistyped word is nearest to. */
#ifndef CONF_NEAR_H
#define CONF_NEAR_H

#include "base/slice.h"

/* How many letters are inserted, deleted, changed, or swapped with their neighbour. Words over 64 bytes count as unlike
 * all. */
size_t near_distance(struct slice a, struct slice b);

/* The nearest of the n names, when at most a third of the word's letters (at least one) is wrong; else a name of which
 * the word is a whole part, as "busy" is of "busy_timeout"; else NULL. */
const char *near_name(struct slice word, const char *const *names, size_t n);

#endif
