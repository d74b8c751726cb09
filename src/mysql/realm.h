/* mysql/realm.h - which primary's tallyds may merge for a Redis (sync/README.md, "Epochs"). Blocking: on a verb's own
 * connection, or in a db_job. On an error every function fills e and returns its code. */
#ifndef MYSQL_REALM_H
#define MYSQL_REALM_H

#include "mysql/db.h"
#include "series/counter.h"
#include "series/epoch.h"

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

/* Makes a free realm for each lane of one more Redis. */
enum err realms_free_make(struct db *db, uint32_t lanes, struct error *e) MUST_CHECK;
/* Before any realm is taken: the same for the first Redis, unless they are there. */
enum err realms_first(struct db *db, uint32_t lanes, struct error *e) MUST_CHECK;

/* Calls each for every realm. Slices for the call only; the sums are decimal. */
struct realm_row {
    struct slice id; /* 32 hex digits */
    struct slice taken_by, merged, rejected;
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
