/* redis/books_op.h - the Redis side of the books (sync/README.md, rule S30), read by one script: nothing changes
 * between two of its reads. Values are passed on as strings, never added up in Lua, whose numbers are doubles. */
#ifndef REDIS_BOOKS_OP_H
#define REDIS_BOOKS_OP_H

#include "redis/link.h"
#include "series/batches.h"

struct redis_books {
    uint32_t dirty_max; /* more dirty hashes than that: too_many, and nothing is read */
    int64_t fields_max; /* likewise of fields, pending and claimed; 0: no bound */
    /* Callbacks, of which accepted and batch may be NULL; slices for the call only. Called in this order, all before done; pending: dirty and held hashes. */
    void (*accepted)(void *arg, struct slice counter, struct slice value);
    void (*pending)(void *arg, struct slice key, struct slice field, struct slice value);
    void (*batch)(void *arg, const struct batch_id *id, struct slice counter, int64_t gen);
    void (*claimed)(void *arg, const struct batch_id *id, struct slice pending, struct slice field,
                    struct slice value);
    int64_t gen;    /* out: tally:gen */
    uint64_t dirty; /* out: hashes in tally:dirty and tally:held */
    bool lost, too_many;
    char text[200];
    void (*done)(struct redis_books *b); /* once */
    void *arg;
};
void redis_books(struct redis_link *l, struct redis_books *b);

/* The Redis side of a live total, for some fields of one pending hash (at most TOTAL_FIELDS_MAX, which Lua's stack
 * bounds), also by one script. key and fields are not needed any more once redis_total() has returned. */
void redis_total(struct redis_link *l, struct total_read *t);

#endif
