/* status/proof.h - the books of every counter, read under traffic without trying again (sync/README.md, rule S30): Redis first, in one
 * script with its gen; then MySQL in one snapshot, which knows every batch that Redis had lost sight of by then, and
 * of which what was merged from a later gen is taken off. Blocking, with time limits; no state of its own. */
#ifndef STATUS_PROOF_H
#define STATUS_PROOF_H

#include "status/ask.h"
#include "status/sums.h"

struct proof_limits {
    uint32_t dirty_max; /* more dirty hashes: too much */
    int64_t fields_max; /* more fields, pending and claimed: too much; 0: no bound */
};
extern const struct proof_limits
    proof_limits_verb; /* what one script may cost Redis when an operator asks for it */

/* Adds up into sums, which is initialised; a is connected, db open. ERR_FAILED: there is too much to add up at once,
 * and what to do; ERR_UNAVAILABLE: it went away. */
enum err proof_read(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                    struct error *e) MUST_CHECK;

#endif
