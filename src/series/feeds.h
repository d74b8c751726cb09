/* series/feeds.h - checks the feeds of a configuration. A feed has keys of its own (names.h). They must not be a
 * counter's key or lock, and must not begin like tallyd's own keys or those of another kind. For names that clients
 * give, op_names.h checks each one. */
#ifndef SERIES_FEEDS_H
#define SERIES_FEEDS_H

#include "series/op.h"

/* Looks at the feeds of all counters; cs->ops is set. On an error *which and *feed say where. */
enum err feeds_validate(const struct counters *cs, size_t *which, enum feed *feed,
                        struct error *e) MUST_CHECK;

/* Looks at ops->uniq_name, whose new visitors move ops->uniq_counter (not NULL). */
enum err uniq_feed_validate(const struct counters *cs, struct error *e) MUST_CHECK;

#endif
