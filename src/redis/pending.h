/* redis/pending.h - what clients ask of a pending hash. */
#ifndef REDIS_PENDING_H
#define REDIS_PENDING_H

#include "redis/link.h"
#include "series/asks.h"
#include "series/batches.h"

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
