/* redis/read_op.h - reads of series, timeboxes, events and visitors (series/read.h says what each answers). What must
 * agree is read by one script; what may be long comes in pieces of about a millisecond of Redis' time each, one asked
 * for when the one before has come, so that frames go between them. */
#ifndef REDIS_READ_OP_H
#define REDIS_READ_OP_H

#include "redis/link.h"
#include "series/op.h"
#include "series/read.h"

enum redis_read_outcome {
    REDIS_READ_DONE,
    REDIS_READ_LOST,   /* the link was cut, or not up */
    REDIS_READ_FAILED, /* text says why, an error line without '-' */
};

struct redis_read {
    const struct read_query *query; /* the asker's until done */
    const struct op_limits *limits;
    enum redis_read_outcome outcome;
    char text[300];
    struct read_answer answer;          /* empty unless DONE; freed behind done */
    void (*done)(struct redis_read *r); /* once; r may be gone after it */
    void *arg;
    /* private */
    struct redis_link *link;
    struct buf key, last, last_score; /* a key of the next piece; where the last one ended */
    int64_t at;                       /* how far it came: bucket, start of a window, day */
    uint32_t left;                    /* windows */
    bool begun, has_bits, has_sketch; /* visitors: the union has a temporary key for them */
    char temporary[HEX_ID];           /* the id in the names of those keys */
};

void redis_read(struct redis_link *l, struct redis_read *r);

#endif
