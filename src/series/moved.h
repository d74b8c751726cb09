/* series/moved.h - which keys of one Redis go along to a cluster, and to which of its lanes (`tallyd move`). Counts that wait to
 * be merged do not: they are merged where they are. Nor does what belongs to one Redis alone: its dirty index, batches, books and
 * locks. */
#ifndef SERIES_MOVED_H
#define SERIES_MOVED_H

#include "series/lane_of.h"

enum moved_kind {
    MOVED_NOT,      /* stays */
    MOVED_WHOLE,    /* as it is, into one lane */
    MOVED_LOG,      /* the same, if it is a log of events: another program may have such a name */
    MOVED_TOKEN,    /* the same; the lane counts its tokens */
    MOVED_BY_MEMBER /* a set or hash of all names: each member goes into its own lane */
};

struct moved_key {
    enum moved_kind kind;
    const char *type; /* of Redis; a key of another one stays */
    unsigned lane;    /* but for MOVED_BY_MEMBER */
};

struct moved_key moved_key_of(const struct counters *cs, struct slice key, unsigned lanes);
/* Of a member or field of `key`, which is MOVED_BY_MEMBER. */
unsigned moved_lane_of(const struct counters *cs, struct slice key, struct slice member, unsigned lanes);

#endif
