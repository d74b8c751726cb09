/* redis/query_op.h - reads of series, timeboxes, events and visitors (series/asks.h says what each answers). One
 * script reads keys that must agree. Long reads come in pieces of about a millisecond of Redis' time each, mostly less. Who asks says when
 * the next piece may be asked for, so that frames go between them. */
#ifndef REDIS_QUERY_OP_H
#define REDIS_QUERY_OP_H

#include "redis/link.h"
#include "series/asks.h"
#include "series/op.h"

struct redis_query {
    const struct query *query; /* the asker's until done */
    const struct op_limits *limits;
    enum ask_outcome outcome; /* ASK_DONE, ASK_REDIS_DOWN, or ASK_FAILED: text says why */
    char text[300];
    struct query_answer answer; /* empty unless DONE; freed after done */
    /* more: to go on, redis_query() is called again. Else it has ended, and may be gone after it. */
    void (*came)(struct redis_query *r, bool more);
    void *arg;
    /* private */
    struct redis_link *link;
    void (*next)(struct redis_query *r); /* asks for the next piece; NULL: it has not begun */
    struct buf key, last, last_score;    /* a key of the next piece; where the last one ended */
    int64_t at;                          /* how far it came: bucket, start of a window, day */
    uint32_t left;                       /* windows */
    bool begun, has_bits, has_sketch;    /* visitors: the union has a temporary key for them */
    char temporary[HEX_ID];              /* the id in the names of those keys */
};

void redis_query(struct redis_link *l, struct redis_query *r);

#endif
