/* status/proof.h - what can be proved of the figures, read once, under traffic: Redis in one script with its gen, then MySQL in one
 * snapshot; several lanes one after the other. That snapshot has every batch that Redis no longer showed; batches of a later gen are
 * subtracted. Blocking, with time limits; stateless. */
#ifndef STATUS_PROOF_H
#define STATUS_PROOF_H

#include "status/ask.h"
#include "status/status.h"

struct proof_limits {
    uint32_t dirty_max; /* more dirty hashes than that are not read */
    int64_t fields_max; /* likewise of fields, pending and claimed; 0: no bound */
};
extern const struct proof_limits proof_limits_verb; /* when an operator asks */

/* The Redis side of the books (sync/README.md, rule S30), of one lane. Values are passed on as strings, never added up in Lua, whose
 * numbers are doubles. */
struct proof_books {
    /* Of which accepted and batch may be NULL; slices for the call only. Called in this order; pending: dirty and held hashes. */
    void (*accepted)(void *arg, struct slice counter, struct slice value);
    void (*pending)(void *arg, struct slice key, struct slice field, struct slice value);
    void (*batch)(void *arg, const struct batch_id *id, struct slice counter, int64_t gen);
    void (*claimed)(void *arg, const struct batch_id *id, struct slice pending, struct slice field,
                    struct slice value);
    void *arg;
    int64_t gen; /* out: tally:gen */
};
/* Its errors are those of proof_read. */
enum err proof_redis(struct redis_link *l, const struct proof_limits *limits, struct proof_books *b,
                     struct error *e) MUST_CHECK;
/* Adds the books of every counter to sums, which is initialised. a is connected, and on another lane afterwards; db is open.
 * ERR_FAILED: over the limits; ERR_UNAVAILABLE: a server went away. */
enum err proof_read(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                    struct error *e) MUST_CHECK;

/* The figures of one store of one counter. Each count is in exactly one place (a row in MySQL, the pending hash, or a claimed hash
 * whose chunk is not in the ledger). A pending hash is in tally:dirty; no field was lost since its claim; every value is an integer,
 * every field of the counter's kind. It cannot prove that no hit is missing: accepted hits are summed by counter. */
struct store_proof {
    const struct counter *counter; /* in, borrowed */
    struct slice key;              /* in, borrowed: the store's pending hash */
    sum_t stored, pending, claimed;
    int64_t rows, rejects; /* in its table; waiting in tally_rejects */
    size_t problems;
};
/* Calls problem for each fault, with the next step. ERR_FAILED: not readable as of one moment; ERR_UNAVAILABLE: a server went
 * away. */
enum err store_prove(struct ask *a, struct db *db, struct store_proof *p, status_problem *problem, void *arg,
                     struct error *e) MUST_CHECK;

#endif
