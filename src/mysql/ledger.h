/* mysql/ledger.h - queries and upkeep of the ledger of merged chunks. Blocking: on a verb's own connection, or in a
 * db_job. On an error every function fills e and returns its code. */
#ifndef MYSQL_LEDGER_H
#define MYSQL_LEDGER_H

#include "mysql/db.h"
#include "series/batch.h"

/* The highest gen of a merged chunk of that realm (text.h: sql_realm), 0 if none. Pruning keeps that row. */
enum err ledger_gen_highest(struct db *db, const struct batch_id *realm, uint64_t *gen,
                            struct error *e) MUST_CHECK;

/* known[i]: some chunk of ids[i] was merged. */
enum err ledger_known(struct db *db, const struct batch_id *ids, size_t n, bool *known,
                      struct error *e) MUST_CHECK;

/* keep_s before now by MySQL's clock, as an SQL literal. */
#define LEDGER_CUTOFF_BYTES 32
enum err ledger_cutoff(struct db *db, uint64_t keep_s, char out[LEDGER_CUTOFF_BYTES],
                       struct error *e) MUST_CHECK;

/* Deletes rows merged before the cutoff, in up to steps_max transactions of up to step rows. Keeps rows of the ids in
 * standing and of the realm's highest gen, and all rows when the epoch is over. Sets tally_counters.pruned_until. (!)
 * Take the cutoff first, then ask which batches exist, then call. With the cutoff last, a process suspended before it
 * would treat rows as old whose batch was claimed after it asked. */
struct ledger_prune {
    struct epoch epoch;
    char cutoff[LEDGER_CUTOFF_BYTES];
    const struct batch_id *standing;
    size_t standing_n;
    uint32_t step, steps_max; /* 1,000 and 100 */
    uint64_t pruned;          /* out */
    bool more;                /* out: call again */
};
enum err ledger_prune(struct db *db, struct ledger_prune *p, struct error *e) MUST_CHECK;

/* Sets complete_until to wall_ms (Redis' time), unless the epoch is over; never backwards. */
enum err ledger_complete_until(struct db *db, const struct epoch *epoch, struct slice counter,
                               int64_t wall_ms, struct error *e) MUST_CHECK;

/* Moves all rows of a sealed batch to tally_rejects, chunk by chunk, each with its ledger row in one transaction, so
 * exactly once. *rows: moved by this call. */
enum err ledger_reject_batch(struct db *db, const struct batch *b, const struct epoch *epoch,
                             const char *reason, uint64_t *rows, struct error *e) MUST_CHECK;

#endif
