/* series/clean.h - which series one pass of the cleaner looks at: each precision as often as it is written, but at most
 * once a minute (Redis in Action, 5.2.1). It goes by the clock, where the book counts passes, so that a slow pass makes
 * none of them late. */
#ifndef SERIES_CLEAN_H
#define SERIES_CLEAN_H

#include "base/slice.h"

#define CLEAN_PASS_S 60

/* "60:hits" of `known:` -> 60. 0: it is no series' name. */
int64_t clean_precision(struct slice known);

/* Is this precision due in a pass that began at now_s, when the previous one began at last_s (< 0: the first)? */
bool clean_due(int64_t precision_s, int64_t now_s, int64_t last_s);

#endif
