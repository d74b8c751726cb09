/* mysql/books.h - MySQL's side of the books and of a live total, each in one snapshot, after Redis was read with its
 * gen: rows merged from a later gen are counted separately. Blocking. */
#ifndef MYSQL_BOOKS_H
#define MYSQL_BOOKS_H

#include "mysql/db.h"
#include "series/books.h"

/* Of one realm, which may be zero (text.h: sql_realm). out starts as {0}; the caller closes it, also after an error.
 * merged + rejected - newer is the sum up to gen. */
enum err books_read(struct db *db, const struct batch_id *realm, uint64_t gen, const struct batch_id *ids,
                    size_t n, struct books *out, struct error *e) MUST_CHECK;

/* Fills the answers. */
enum err books_totals_read(struct db *db, struct books_totals *t, struct error *e) MUST_CHECK;

/* What MySQL has of one store, or of a counter without stores, in one snapshot. */
struct books_store {
    const struct counter *counter;
    struct slice key;           /* its pending hash */
    struct batch_id realm;      /* of the Redis that holds it; zero: text.h's sql_realm */
    int64_t gen;                /* Redis' at the read */
    const struct batch_id *ids; /* standing batches that hold that hash */
    size_t ids_n;
    /* answer */
    char stored[48];       /* the sum of its rows, decimal */
    int64_t rows, rejects; /* its rows; those that wait in tally_rejects */
    bool newer;            /* the ledger has a later gen of this counter: read Redis again */
    struct books books;    /* chunks only; starts empty, the asker closes it */
};
enum err books_store_read(struct db *db, struct books_store *s, struct error *e) MUST_CHECK;

#endif
