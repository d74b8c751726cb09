/* series/feeds.h - are the feeds of a configuration fit? What a feed moves stands in keys of its own (names.h), which
 * must be nobody else's: no counter's key or lock, nothing that begins as tallyd's own keys or another kind's do. Names
 * that clients give are looked at one by one (op_names.h). */
#ifndef SERIES_FEEDS_H
#define SERIES_FEEDS_H

#include "series/op.h"

/* Looks at the feeds of all counters; cs->ops is set. On an error *which and *feed say where. */
enum err feeds_validate(const struct counters *cs, size_t *which, enum feed *feed,
                        struct error *e) MUST_CHECK;

/* Looks at ops->uniq_name, whose new visitors move ops->uniq_counter (not NULL). */
enum err uniq_feed_validate(const struct counters *cs, struct error *e) MUST_CHECK;

#endif
