/* mysql/ledger.h - questions to the ledger of merged chunks, and its upkeep. Blocking: a CLI verb's own
 * connection or a db_job. Every function fills e and returns its code when MySQL said no. */
#ifndef MYSQL_LEDGER_H
#define MYSQL_LEDGER_H

#include "mysql/db.h"
#include "series/batch.h"

/* Highest gen of any merged chunk in this database, 0 when there is none. Pruning keeps it. */
enum err ledger_gen_highest(struct db *db, uint64_t *gen, struct error *e) MUST_CHECK;

/* known[i]: some chunk of ids[i] was merged. */
enum err ledger_known(struct db *db, const struct batch_id *ids, size_t n, bool *known,
                      struct error *e) MUST_CHECK;

/* The moment keep_s ago by MySQL's clock, an SQL literal. */
#define LEDGER_CUTOFF_BYTES 32
enum err ledger_cutoff(struct db *db, uint64_t keep_s, char out[LEDGER_CUTOFF_BYTES],
                       struct error *e) MUST_CHECK;

/* Deletes rows merged before the cutoff, in steps of at most step rows, each its own transaction; never rows of the
 * standing ids, never those of the highest gen. Sets tally_counters.pruned_until. Bounded by steps_max a call: *more
 * says that there is more to do. (!) In this order: the cutoff, what stands, the call. Were the cutoff taken last by a
 * service that stood still in between, rows could be old whose batch was claimed only after it was asked what stands. */
struct ledger_prune {
    char cutoff[LEDGER_CUTOFF_BYTES];
    const struct batch_id *standing;
    size_t standing_n;
    uint32_t step, steps_max; /* 1,000 and 100 */
    uint64_t pruned;          /* out */
    bool more;                /* out */
};
enum err ledger_prune(struct db *db, struct ledger_prune *p, struct error *e) MUST_CHECK;

/* The books of a counter are complete until wall_ms (Redis' time); never moves backwards. */
enum err ledger_complete_until(struct db *db, struct slice counter, int64_t wall_ms,
                               struct error *e) MUST_CHECK;

/* A sealed batch whose counter is not configured: all its rows go to tally_rejects, chunk by chunk, each with
 * its ledger row in one transaction, so exactly once. *rows: moved now (not by an earlier call). */
enum err ledger_reject_batch(struct db *db, const struct batch *b, const char *reason, uint64_t *rows,
                             struct error *e) MUST_CHECK;

#endif
