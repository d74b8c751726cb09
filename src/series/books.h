/* series/books.h - what the ledger says, as data: which rows of a batch are merged, and MySQL's half of live totals. */
#ifndef SERIES_BOOKS_H
#define SERIES_BOOKS_H

#include "series/batch.h"

struct books_counter {
    char name[NAME_BYTES_MAX + 1];
    int64_t merged, rejected;  /* tally_counters as it stands */
    int64_t newer;             /* of them, ledger totals of gen > the gen asked for */
    int64_t complete_until_ms; /* 0: not set */
};

struct books_chunk { /* a ledger row of one of the batches asked for */
    struct batch_id batch;
    uint32_t chunk, chunks;
    int64_t total;
    struct slice first_key, last_key; /* memcmp-ordered, see chunk_row_key(); owned by the books */
};

struct books {
    struct books_counter *counters; /* by name */
    struct books_chunk *chunks;     /* by batch, chunk */
    size_t counters_n, chunks_n;
    uint64_t gen_highest; /* of the whole ledger; 0: it is empty */
};
void books_close(struct books *b);
/* Is the row (key, field) of this batch merged, as far as these books know? */
bool books_has(const struct books *b, const struct batch_id *id, struct slice key, struct slice field);

/* The stored half of live totals (sync/README.md, rule S26) of one counter, all in one snapshot. */
struct books_total { /* of one pending hash */
    struct slice key;
    const struct slice *fields;
    size_t fields_n;
    int64_t gen;     /* Redis' when it was read */
    int64_t *stored; /* answer: one a field, heap, the asker frees; 0 where there is no row */
    bool newer;      /* answer: the counter has ledger rows of gen > gen: read Redis again */
};
struct books_totals {
    const struct counter *counter;
    struct books_total *all;
    size_t n;
    const struct batch_id *ids; /* standing batches with any of these pending hashes; repeats do no harm */
    size_t ids_n;
    struct books books; /* answer: chunks only; begins empty, books_close by the asker either way */
};

#endif
