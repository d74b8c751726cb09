/* conf/unit.h - numbers with a unit, as options have them: "60s", "1MiB"; private to the room. */
#ifndef CONF_UNIT_H
#define CONF_UNIT_H

#include "base/log.h"
#include "base/slice.h"

/* Canonical digits and exactly one unit, nothing between. False: it is not that, or too big. */
bool unit_read_ms(struct slice text, int64_t *ms) MUST_CHECK;           /* d, h, m, s, ms */
bool unit_read_seconds(struct slice text, int64_t *seconds) MUST_CHECK; /* the same; whole seconds only */
bool unit_read_bytes(struct slice text, int64_t *bytes) MUST_CHECK;     /* GiB, MiB, KiB, B */

/* Appended in the biggest unit that leaves no rest. */
void unit_write_ms(int64_t ms, struct buf *out);
void unit_write_bytes(int64_t bytes, struct buf *out);

#endif
