/* mysql/rejects.h - rows that were refused, kept raw: to be listed, and replayed once their cause is mended.
 * Blocking. */
#ifndef MYSQL_REJECTS_H
#define MYSQL_REJECTS_H

#include "mysql/db.h"
#include "series/batch.h"

struct reject {
    struct batch_id batch;
    uint32_t chunk, seq;
    bool counted; /* its delta is part of tally_counters.rejected */
    struct slice counter, pending_hash, field, delta, reason,
        rejected_at; /* good for the call; rejected_at as text, UTC */
};

/* Calls row for each reject not yet replayed, oldest first, at most limit. */
enum err rejects_list(struct db *db, uint32_t limit, void (*row)(void *arg, const struct reject *r),
                      void *arg, struct error *e) MUST_CHECK;
enum err rejects_count(struct db *db, uint64_t *waiting, struct error *e) MUST_CHECK;

/* Calls each for every counter with rejects not yet replayed: how many rows. */
enum err rejects_standing(struct db *db, void (*each)(void *arg, struct slice counter, uint64_t rows), void *arg,
                          struct error *e) MUST_CHECK;

/* Tries the waiting rejects again, each in its own transaction with its mark, so exactly once: the row into
 * its table, its delta from rejected to merged. What is refused again stays, with the new reason. */
struct rejects_replay {
    const struct counters *counters;
    uint64_t replayed, refused; /* out; refused: also rows whose counter is not configured */
};
enum err rejects_replay(struct db *db, struct rejects_replay *r, struct error *e) MUST_CHECK;

#endif
