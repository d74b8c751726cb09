/* series/lane_of.h - which lane a name is in: that of its store (slot.h), which the configured patterns find in it. So
 * everything of a store is in one lane: its counters with locks and tokens, what they feed, and its visitors. All names
 * without a store are in one lane. */
#ifndef SERIES_LANE_OF_H
#define SERIES_LANE_OF_H

#include "series/op.h"

unsigned lane_of_key(const struct counters *cs, struct slice key, unsigned lanes); /* of a counter's */
/* Of a series, timebox, event log (whatever its type) or day of visitors. */
unsigned lane_of_name(const struct counters *cs, enum op_kind kind, struct slice name, unsigned lanes);

/* Refuses a feed whose name would be in several lanes. Either it has no <store> while its counter's key has one, or
 * another counter's feed can have the same name for another store. */
enum err lanes_validate(const struct counters *cs, struct error *e) MUST_CHECK;

#endif
