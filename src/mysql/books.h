/* mysql/books.h - MySQL's side of the books and of a live total, each in one consistent snapshot. Blocking.
 * Redis was read before, with its gen; what was merged from a later gen is told apart here. */
#ifndef MYSQL_BOOKS_H
#define MYSQL_BOOKS_H

#include "mysql/db.h"
#include "series/books.h"

/* out begins empty ({0}) and is closed by the caller either way. Merged and rejected up to gen = merged +
 * rejected - newer. */
enum err books_read(struct db *db, uint64_t gen, const struct batch_id *ids, size_t n, struct books *out,
                    struct error *e) MUST_CHECK;

/* Fills the answers. */
enum err books_totals_read(struct db *db, struct books_totals *t, struct error *e) MUST_CHECK;

/* What MySQL has of one store, or of a counter without stores, in one snapshot. */
struct books_store {
    const struct counter *counter;
    struct slice key;           /* its pending hash */
    int64_t gen;                /* Redis' when it was read */
    const struct batch_id *ids; /* standing batches with that hash */
    size_t ids_n;
    char stored[48];       /* answer: the sum of its rows, decimal */
    int64_t rows, rejects; /* answer: how many; and how many wait in tally_rejects */
    bool newer;            /* answer: the counter has ledger rows of gen > gen: read Redis again */
    struct books books;    /* answer: chunks only; begins empty, books_close by the asker either way */
};
enum err books_store_read(struct db *db, struct books_store *s, struct error *e) MUST_CHECK;

#endif
