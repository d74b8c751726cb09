/* series/parts.h - what a counter counts by beside its store: the placeholders of its key and of its field, or the
 * field. Pure. */
#ifndef SERIES_PARTS_H
#define SERIES_PARTS_H

#include "series/row.h"

#define PARTS_MAX (2 * PLACES_MAX)
#define COLUMN_FIELD UINT32_MAX

struct counted_by {
    struct slice name;   /* the placeholder's; of a whole field "field" */
    struct slice column; /* its name; of a time in several columns that of the first */
    struct value_type type;
    enum column_from from; /* FROM_KEY, FROM_FIELD or FROM_WHOLE_FIELD */
    uint32_t at;           /* which placeholder */
    uint32_t first, n;     /* its columns in counter.more; first: COLUMN_FIELD */
};

struct parts {
    const struct counter *counter; /* borrowed */
    uint32_t count;                /* which one of FIELD_COUNT */
    struct counted_by all[PARTS_MAX];
    uint32_t n;
    uint32_t time;  /* the first part that is a time; n: there is none */
    uint32_t label; /* the one that counter.labels has names for; n: there is none, or it is not said which */
};

void parts_init(struct parts *p, const struct counter *c, uint32_t count);
/* Can it be in what an app sends? Not of a time. */
bool part_takes(const struct counted_by *part, struct slice value);
/* Of a store and a value a part (a time in digits): the pending hash and its field, appended. */
void parts_key(const struct parts *p, struct slice store, const struct slice *values, struct buf *out);
void parts_field(const struct parts *p, const struct slice *values, struct buf *out);

static inline bool part_is_time(const struct counted_by *part)
{
    return part->type.kind != VALUE_INTEGER && part->type.kind != VALUE_TEXT;
}
enum field_kind
parts_time_kind(const struct parts *p); /* FIELD_DATE, FIELD_HOUR or FIELD_MONTH; it has a time */
/* Is a pending hash of one value of the time? Else its fields are. */
static inline bool parts_time_in_key(const struct parts *p)
{
    return p->time < p->n && p->all[p->time].from == FROM_KEY;
}

#endif
