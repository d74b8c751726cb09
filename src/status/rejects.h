/* status/rejects.h - a refused row (mysql/books.h) for programs. */
#ifndef STATUS_REJECTS_H
#define STATUS_REJECTS_H

#include "base/json.h"
#include "mysql/books.h"

/* One object: id, counter, store (null: its key is of no configured counter, or has none), key, field, delta (a text:
 * it may be no number), reason, rejected_at (seconds since 1970). */
void reject_json(struct json *j, const struct reject *r, const struct counters *counters);

#endif
