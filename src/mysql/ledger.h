/* mysql/ledger.h - queries and upkeep of the ledger of merged chunks, and of epochs. Blocking: on a verb's own
 * connection, or in a db_job. On an error every function fills e and returns its code. */
#ifndef MYSQL_LEDGER_H
#define MYSQL_LEDGER_H

#include "mysql/db.h"
#include "series/batch.h"
#include "series/counter.h"

/* The highest gen of a merged chunk of that realm (text.h: sql_realm), 0 if none. Pruning keeps that row. */
enum code_class ledger_highest(struct db *db, const struct batch_id *realm,
                               struct claim_gen *highest) MUST_CHECK;
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

/* Which primary's tallyds may merge for a Redis (sync/README.md, "Epochs"). Blocking: on a verb's own connection, or in
 * a db_job. On an error every function fills e and returns its code. */

struct realm_asker {
    struct slice instance, lane; /* which of several lanes, "lane 3"; n = 0: there is only one */
    uint32_t lanes;              /* how many its Redis has */
    struct batch_id had;         /* the epoch that it had last; zero: none */
    bool take_over;              /* an operator says that it is the one: it asks nobody */
};

/* Joins the epoch of this Redis' history, or takes a new one, in one transaction that compares the realm's ledger with
 * what Redis said: no merge of an earlier epoch can come between the two. Who did not have the last epoch takes one only when
 * nobody answered for REALM_WAIT_MS. A Redis without a realm is given a free one of as many lanes. */
enum err realm_look(struct db *db, const struct counters *cs, const struct history_read *redis,
                    const struct realm_asker *asker, struct realm_look *out, struct error *e) MUST_CHECK;

/* For who has the epoch: answers who has asked whether it lives. */
enum err realm_answer(struct db *db, const struct epoch *epoch, struct error *e) MUST_CHECK;

/* Makes the books of a counter that is not configured. Without the epoch it makes none: a merge finds that out. */
enum err realm_counter_make(struct db *db, const struct epoch *epoch, struct slice counter,
                            struct error *e) MUST_CHECK;

/* Makes n free realms for a Redis of that many lanes: one a lane, for one more. */
enum err realms_free_make(struct db *db, uint32_t n, uint32_t lanes, struct error *e) MUST_CHECK;
/* Before any realm is taken: the same for the first Redis, unless they are there. */
enum err realms_first(struct db *db, uint32_t lanes, struct error *e) MUST_CHECK;

/* Calls each for every realm. Slices for the call only; the sums are decimal. */
struct realm_row {
    struct slice id; /* 32 hex digits */
    struct slice taken_by, merged, rejected;
    struct slice run_id, history; /* of the primary that the epoch is for; empty: nobody has taken it */
    bool is_free;
};
enum err realms_read(struct db *db, void (*each)(void *arg, const struct realm_row *r), void *arg,
                     struct error *e) MUST_CHECK;

/* recover --accept-rollback: which realm does a Redis get that says it is `told` (zero: it says nothing)? A realm that
 * MySQL does not know is made. A Redis that says nothing gets the only one of as many lanes, or the free one. *highest:
 * of its ledger. */
enum err realm_accept(struct db *db, const struct batch_id *told, uint32_t lanes, struct batch_id *realm,
                      uint64_t *highest, struct error *e) MUST_CHECK;

#endif
