/* series/read.h - one look at series, timeboxes, events or visitors, as data: command/ asks, redis/ answers. Times are
 * seconds since 1970 on Redis' clock, days YYYYMMDD. */
#ifndef SERIES_READ_H
#define SERIES_READ_H

#include "base/buf.h"

struct read_limits {    /* from the configuration */
    uint32_t most;      /* events of one EVENT.RANGE, windows of one EVENT.COUNT: limits.read */
    uint32_t days;      /* of one UNIQ.COUNT: limits.days */
    uint32_t texts_max; /* bytes of names or ids in one answer: limits.read_bytes */
};

enum read_kind {
    READ_SERIES,     /* slot, n: the samples of a precision that begin in from..to, ascending */
    READ_NAMES,      /* "<precision>:<name>" of every series, by bytes */
    READ_BOX_RECENT, /* bucket, hits: the newest bucket first */
    READ_BOX_TOP,    /* bucket, hits: the most hits first, of equal ones the newer */
    READ_BOX_BOTTOM, /* the other end, the other way round */
    READ_EVENTS,     /* id, second: from..to, by second, then by the id's bytes */
    READ_WINDOWS,    /* events in each of the last windows, oldest first; the last one is still open */
    READ_VISITORS,   /* different visitors in the days from..to, and "exact" or "estimated" */
};

struct read_query {
    enum read_kind kind;
    struct slice name, type; /* type: of events. The asker's until the answer */
    int64_t from, to;        /* inclusive */
    int64_t offset, limit;   /* boxes, events; so many are left out, at most so many come. limit < 0: all */
    uint32_t precision_s;    /* series */
    int64_t window_s;
    uint32_t windows_n; /* 1..read_limits.most */
};

struct read_value {
    bool is_text;
    uint32_t text_n;
    size_t text_at; /* in read_answer.texts */
    int64_t number;
};

/* Values one behind the other, in the order of the reply. */
struct read_answer {
    struct read_value *values;
    size_t n, cap;
    struct buf texts;
};

#define READ_TEXT(a, v) slice_of((a)->texts.p + (v)->text_at, (v)->text_n)

void read_put_number(struct read_answer *a, int64_t v);
void read_put_text(struct read_answer *a, struct slice text);
void read_answer_free(struct read_answer *a);

#endif
