/* series/query.h - one read of series, timeboxes, events or visitors, as data: command/ asks, redis/ answers. Times are
 * seconds since 1970 on Redis' clock, days YYYYMMDD. */
#ifndef SERIES_QUERY_H
#define SERIES_QUERY_H

#include "base/slice.h"

struct query_limits {   /* from the configuration */
    uint32_t most;      /* events of one EVENT.RANGE, windows of one EVENT.COUNT */
    uint32_t days;      /* of one UNIQ.COUNT */
    uint32_t texts_max; /* bytes of names or ids in one answer: a share of limits.memory */
};

enum query_kind {
    QUERY_SERIES,         /* slot, n: the samples of a precision that begin in from..to, ascending */
    QUERY_NAMES,          /* "<precision>:<name>" of every series, by bytes */
    QUERY_TIMEBOX_RECENT, /* bucket, hits: the newest bucket first */
    QUERY_TIMEBOX_TOP,    /* bucket, hits: the most hits first, of equal ones the newer */
    QUERY_TIMEBOX_BOTTOM, /* the other end, the other way round */
    QUERY_EVENTS,         /* id, second: from..to, by second, then by the id's bytes */
    QUERY_WINDOWS,        /* events in each of the last windows, oldest first; the last one is still open */
    QUERY_VISITORS,       /* different visitors in the days from..to, and "exact" or "estimated" */
};

struct query {
    enum query_kind kind;
    struct slice name, type; /* type: of events. The asker's until the answer */
    int64_t from, to;        /* inclusive */
    /* timeboxes, events: how many are skipped, at most how many come. limit < 0: all */
    int64_t offset, limit;
    uint32_t precision_s; /* series */
    int64_t window_s;
    uint32_t windows_n; /* 1..query_limits.most */
};

struct query_value {
    bool is_text;
    uint32_t text_n;
    size_t text_at; /* in query_answer.texts */
    int64_t number;
};

/* Values one after the other, in the order of the reply. */
struct query_answer {
    struct query_value *values;
    size_t n, cap;
    struct buf texts;
};

#define QUERY_TEXT(a, v) slice_of((a)->texts.p + (v)->text_at, (v)->text_n)

void query_put_number(struct query_answer *a, int64_t v);
void query_put_text(struct query_answer *a, struct slice text);
void query_answer_free(struct query_answer *a);

#endif
