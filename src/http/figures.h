/* http/figures.h - the question and the rows of GET /api/stores/{store}/counters/{counter}; private to the room.
 *   api_figures.c  what is asked, and the answer        figures_read.c  stored and live */
#ifndef HTTP_FIGURES_H
#define HTTP_FIGURES_H

#include "http/inside.h"
#include "series/range.h"
#include "series/row.h"

struct figures {
    struct exchange *x;
    struct worker *w;
    const struct counter *counter;
    struct parts parts;
    struct slice store;
    bool simple;         /* one field tells its rows apart, and a store has one hash */
    struct buf key;      /* that hash */
    struct buf question; /* the same bytes for the same question */
    bool by_time;        /* rows are those of range; else of the parts that are no time, summed over range */
    struct range range;  /* when there is a time */
    struct slice is[PARTS_MAX]; /* p NULL: any; never of the time */
    char field[PLAIN_BYTES];    /* a field that is a time, in digits */
    bool one;                   /* all of them are given, so there is one row, or one a time */
    int64_t top;
    bool mysql_up, redis_up;
    bool csv;
    struct rows_answer answer;
};

bool figures_read(struct figures *f) MUST_CHECK;
bool figures_store_known(struct figures *f);

/* The i-th row's values, one a part; without a time when the rows are not by it. Good as long as the rows. */
void figures_values(const struct figures *f, size_t i, struct slice values[PARTS_MAX]);

static inline bool figures_timed(const struct figures *f)
{
    return f->parts.time < f->parts.n;
}

#endif
