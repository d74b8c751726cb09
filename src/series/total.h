/* series/total.h - the request to Redis for a live total. */
#ifndef SERIES_TOTAL_H
#define SERIES_TOTAL_H

#include "series/batch.h"

/* The Redis side, for at most TOTAL_FIELDS_MAX (which Lua's stack bounds) fields, at one moment. */
#define TOTAL_FIELDS_MAX 1000
struct total_read {
    struct slice key;
    const struct slice *fields;
    uint32_t fields_n;
    /* value n = 0: the field is not there */
    void (*pending)(void *arg, uint32_t field, struct slice value);
    void (*claimed)(void *arg, const struct batch_id *id, uint32_t field, struct slice value);
    int64_t gen;
    bool lost; /* text says why; */
    bool cut;  /* ... the link was cut or not up, it was no answer of Redis' */
    char text[200];
    uint64_t number; /* redis/pending.c's: of the last frame that Redis had when it was asked */
    void (*done)(struct total_read *t);
    void *arg;
};

#endif
