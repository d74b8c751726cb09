/* redis/query_op.h - reads of series, timeboxes, events and visitors (series/asks.h says what each answers). One
 * script reads keys that must agree. Long reads come in pieces of about a millisecond of Redis' time each, mostly less. Who asks says when
 * the next piece may be asked for, so that frames go between them. */
#ifndef REDIS_QUERY_OP_H
#define REDIS_QUERY_OP_H

#include "redis/link.h"
#include "series/asks.h"
#include "series/batches.h"
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

/* --- the Redis side of a live total, for some fields of one pending hash (at most TOTAL_FIELDS_MAX, which Lua's stack bounds), by
 * one script. key and fields are not needed any more once redis_total() has returned. --- */

void redis_total(struct redis_link *l, struct total_read *t);

/* --- reads one pending hash in pieces (CTR.PENDING). The answer has each field once that is there all the while, with a value
 * that it had meanwhile. When the hash was claimed between two pieces it is read from its beginning. --- */

struct redis_hash {
    struct slice key;   /* the asker's until the end */
    uint32_t bytes_max; /* of the answer */
    /* After each piece. more: redis_hash() goes on, now or later; else it is the end, and h may be gone after it. */
    void (*came)(struct redis_hash *h, bool more);
    enum ask_outcome outcome; /* at the end: ASK_DONE, ASK_REDIS_DOWN, or ASK_FAILED: text says why */
    char text[200];
    struct query_answer answer; /* field, value, field, value ...; the asker's to free after the end */
    uint32_t piece_bytes;       /* that the last piece brought */
    /* private */
    uint32_t piece; /* fields to be asked for at once */
    /* By the hash of a field: where the answer has its value; 0: free. Nothing to be freed one by one at the end. */
    struct hash_place *places;
    uint32_t places_n;
    uint64_t seed; /* fields come from clients */
    uint64_t cursor;
    int64_t client_id; /* of the link that has the cursor */
    char since[40];    /* the hash has counts since, as the index says; "": it is not there */
    bool same;         /* as it was when the read began */
    uint32_t begun;
};
void redis_hash(struct redis_link *l, struct redis_hash *h);

#endif
