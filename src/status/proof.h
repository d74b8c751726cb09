/* status/proof.h - the books of every counter, read once, under traffic (sync/README.md, rule S30): Redis in one script
 * with its gen, then MySQL in one snapshot; several lanes one after the other. That snapshot has every batch that Redis
 * no longer showed; batches of a later gen are subtracted. Blocking, with time limits; stateless. */
#ifndef STATUS_PROOF_H
#define STATUS_PROOF_H

#include "redis/books_op.h"
#include "status/ask.h"
#include "status/sums.h"

struct proof_limits {
    uint32_t dirty_max; /* dirty hashes */
    int64_t fields_max; /* fields, pending and claimed; 0: no bound */
};
extern const struct proof_limits proof_limits_verb; /* when an operator asks */

/* Runs b, whose callbacks set *done; its errors are those of proof_read. */
enum err proof_redis(struct ask *a, struct redis_books *b, const bool *done, struct error *e) MUST_CHECK;
/* Adds to sums, which is initialised. a is connected, and on another lane afterwards; db is open. ERR_FAILED: over the
 * limits; ERR_UNAVAILABLE: a server went away. */
enum err proof_read(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                    struct error *e) MUST_CHECK;

#endif
