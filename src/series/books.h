/* series/books.h - the ledger as data: which rows of a batch are merged; MySQL's half of a live total. */
#ifndef SERIES_BOOKS_H
#define SERIES_BOOKS_H

#include "series/batch.h"

struct books_counter {
    char name[NAME_BYTES_MAX + 1];
    int64_t merged, rejected;  /* tally_counters as it is now */
    int64_t newer;             /* part of those two: merged from a later gen than was asked for */
    int64_t complete_until_ms; /* 0: not set */
    int64_t adjusted;          /* by hand, for all Redis; in none of those */
};

struct books_chunk { /* a ledger row of one of the batches asked for */
    struct batch_id batch;
    uint32_t chunk, chunks;
    int64_t total;
    struct slice first_key, last_key; /* memcmp-ordered, see chunk_row_key(); owned by the books */
    struct slice waiting;             /* hashes that are not merged, see ledger_name_put(); owned likewise */
};

struct books {
    struct books_counter *counters; /* by name */
    struct books_chunk *chunks;     /* by batch, chunk */
    size_t counters_n, chunks_n;
    uint64_t gen_highest; /* of the realm's ledger; 0: it is empty */
};
void books_close(struct books *b);
/* Do these books say that the row (key, field) of this batch is merged? */
bool books_has(const struct books *b, const struct batch_id *id, struct slice key, struct slice field);

/* MySQL's half of live totals of one counter (sync/README.md, rule S26), in one snapshot. */
struct books_total { /* of one pending hash */
    struct slice key;
    const struct slice *fields;
    size_t fields_n;
    int64_t gen;     /* Redis' at the read */
    int64_t *stored; /* answer: one a field, 0 without a row; heap, the asker frees it */
    bool newer;      /* answer: the ledger has a later gen of this counter: read Redis again */
    bool over;       /* answer: a count is more than an int64 holds */
};
struct books_totals {
    const struct counter *counter;
    struct epoch epoch; /* when Redis was read */
    bool stale;         /* answer: it is over, so that Redis may be none any more: read again, all of them */
    struct books_total *all;
    size_t n;
    const struct batch_id *ids; /* standing batches that hold any of these hashes; may repeat */
    size_t ids_n;
    struct books books; /* answer: chunks only; starts empty, the asker closes it */
};

#endif
