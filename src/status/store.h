/* status/store.h - the figures of one store of one counter, and what can be proved of them. Each count is in exactly
 * one place (a row in MySQL, the pending hash, or a claimed hash whose chunk is not in the ledger). A pending hash is
 * in tally:dirty; no field was lost since its claim; every value is an integer, every field of the counter's kind. It
 * cannot prove that no hit is missing: accepted hits are summed by counter. */
#ifndef STATUS_STORE_H
#define STATUS_STORE_H

#include "status/ask.h"
#include "status/status.h"

struct store_proof {
    const struct counter *counter; /* in, borrowed */
    struct slice key;              /* in, borrowed: the store's pending hash */
    sum_t stored, pending, claimed;
    int64_t rows, rejects; /* in its table; waiting in tally_rejects */
    size_t problems;
};

/* a is connected, db is open. Calls problem for each fault, with the next step. ERR_FAILED: not readable as of one moment;
 * ERR_UNAVAILABLE: a server went away. */
enum err store_prove(struct ask *a, struct db *db, struct store_proof *p, status_problem *problem, void *arg,
                     struct error *e) MUST_CHECK;

#endif
