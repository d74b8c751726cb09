/* mysql/adjust.h - what an operator adds to a stored count by hand, each exactly once by its id. Blocking. */
#ifndef MYSQL_ADJUST_H
#define MYSQL_ADJUST_H

#include "mysql/db.h"
#include "series/counter.h"

#define ADJUST_ID_BYTES_MAX 64
#define ADJUST_REASON_BYTES_MAX 300

struct adjustment {
    struct slice id, counter, key, field, reason; /* key: the pending hash that names the row */
    int64_t delta;
    bool sets; /* it was asked for a figure, set_to */
    int64_t set_to;
    int64_t adjusted_ms; /* since 1970 */
};

enum adjust_outcome {
    ADJUST_DONE,
    ADJUST_KNOWN,   /* this id was, with the same content: nothing was done now */
    ADJUST_OTHER,   /* this id was, with another */
    ADJUST_MISSING, /* no row, and the counter makes none */
    ADJUST_FAR,     /* from the stored count to set_to are more than 64 bits */
};

/* Adds a->delta to the row, or makes the row a->set_to; then a has the delta. The row and the adjustment are one
 * transaction. After an error the outcome is not known: the same id may be sent again. key and field are the
 * counter's. */
enum err adjust(struct db *db, const struct counter *c, struct adjustment *a, enum adjust_outcome *outcome,
                struct error *e) MUST_CHECK;

/* Calls row for each, newest first, at most limit. counter, key: n = 0: any. */
enum err adjustments_list(struct db *db, struct slice counter, struct slice key, uint32_t limit,
                          void (*row)(void *arg, const struct adjustment *a), void *arg,
                          struct error *e) MUST_CHECK;

#endif
