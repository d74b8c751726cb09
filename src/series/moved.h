/* series/moved.h - which lane a name is in, and which keys of one Redis go along to a cluster, and to which of its
 * lanes (`tallyd move`). Counts that wait to be merged do not: they are merged where they are. Nor does what belongs to
 * one Redis alone: its dirty index, batches, books and locks. */
#ifndef SERIES_MOVED_H
#define SERIES_MOVED_H

#include "series/op.h"

/* Which lane a name is in: that of its store (names.h), which the configured patterns find in it. So everything of a
 * store is in one lane: its counters with locks and tokens, what they feed, and its visitors. All names without a store
 * are in one lane. */

unsigned lane_of_key(const struct counters *cs, struct slice key, unsigned lanes); /* of a counter's */
/* Of a series, timebox, event log (whatever its type) or day of visitors. */
unsigned lane_of_name(const struct counters *cs, enum op_kind kind, struct slice name, unsigned lanes);

/* With several lanes: refuses a feed of c (one of cs) whose name would be in several of them. Either it has no <store> while its
 * counter's key has one, or a feed of a counter before c can have the same name for another store. */
enum err feed_lane_validate(const struct counters *cs, const struct counter *c, enum feed which,
                            struct error *e) MUST_CHECK;

enum moved_kind {
    MOVED_NOT,      /* stays */
    MOVED_ANEW,     /* stays; the lanes get a new one, made from other keys */
    MOVED_WHOLE,    /* as it is, into one lane */
    MOVED_SAMPLES,  /* the same; its name goes into the lane's KEY_KNOWN */
    MOVED_TOKEN,    /* the same; the lane counts its tokens */
    MOVED_BY_MEMBER /* a set or hash of all names: each member goes into its own lane */
};

struct moved_key {
    enum moved_kind kind;
    /* Of Redis; a key of another one stays. Behind a '?': if it is a log of events, since another program may have such a name.
     * "string?zset" is either: s1:sale_2025_11_28 has visitors of s1:sale, or events of s1. */
    const char *type;
    unsigned lane, zset_lane; /* zset_lane: of a zset; but for MOVED_BY_MEMBER */
};

struct moved_key moved_key_of(const struct counters *cs, struct slice key, unsigned lanes);
/* Of a member or field of `key`, which is MOVED_BY_MEMBER. */
unsigned moved_lane_of(const struct counters *cs, struct slice key, struct slice member, unsigned lanes);

#endif
