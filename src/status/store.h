/* status/store.h - the figures of one store of one counter, and the proof of what can be proved for it alone: each of
 * its counts stands in exactly one place (a row in MySQL, the pending hash, or a claimed hash whose chunk the ledger
 * does not have); what is pending is known to be merged (tally:dirty); no field was lost since a claim; and all values
 * are integers, all fields of the counter's kind. Not that no hit is missing: accepted hits are summed by counter. */
#ifndef STATUS_STORE_H
#define STATUS_STORE_H

#include "status/ask.h"
#include "status/status.h"

struct store_proof {
    const struct counter *counter; /* set before: it, */
    struct slice key;              /* and the store's pending hash; both borrowed */
    sum_t stored, pending, claimed;
    int64_t rows, rejects; /* in its table; of it, waiting in tally_rejects */
    size_t problems;
};

/* a is connected, db open. problem is called for what is not as it should be, with the next step. ERR_FAILED: it could
 * not be read as of one moment, and what to do; ERR_UNAVAILABLE: it went away. */
enum err store_prove(struct ask *a, struct db *db, struct store_proof *p, status_problem *problem, void *arg,
                     struct error *e) MUST_CHECK;

#endif
