/* series/op_names.h - which names series, timeboxes, events and visitors may have. Their keys are in the same Redis as
 * those of counters and tallyd's own, so a name must not make a key of another kind. */
#ifndef SERIES_OP_NAMES_H
#define SERIES_OP_NAMES_H

#include "series/op.h"

/* False: why gets an error line without '-'. type matters only for events, day only for visitors. scratch is
 * overwritten. */
bool op_names_fit(const struct counters *cs, enum op_kind kind, struct slice name, struct slice type,
                  int64_t day, struct buf *scratch, struct buf *why);

#endif
