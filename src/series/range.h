/* series/range.h - a run of days, hours or months, in digits: 20140920, 2014092013 (UTC), 201409. Pure. */
#ifndef SERIES_RANGE_H
#define SERIES_RANGE_H

#include "series/counter.h"

#define RANGE_MAX 1000
#define RANGE_FIELD_BYTES 11 /* of a field, with its NUL */

struct range {
    enum field_kind kind; /* FIELD_DATE, FIELD_HOUR or FIELD_MONTH */
    int64_t first;        /* days, hours or months since 1970 */
    size_t n;             /* 1..RANGE_MAX */
};

/* From the texts of two parameters; p NULL: not given. By default `to` is now_s, and `from` is the field that makes it
 * `standard` fields. False: why says which is wrong, and how. */
bool range_read(enum field_kind kind, struct slice from, struct slice to, int64_t now_s, size_t standard,
                struct range *out, char *why, size_t why_size) MUST_CHECK;

/* The i-th field, digits with a NUL after them; returns how many digits. */
size_t range_field(const struct range *r, size_t i, char out[RANGE_FIELD_BYTES]);
/* Which one it is. False: none of the range. */
bool range_index(const struct range *r, struct slice field, size_t *i);

#endif
