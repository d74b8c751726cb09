/* status/sums.h - the books of every counter (sync/README.md, rule S30), summed from the answers of Redis and MySQL; no I/O.
 *   accepted = merged + rejected + pending + claimed (and not in the ledger)
 * Sums have 128 bits: no number of int64 values that fits in memory overflows them. */
#ifndef STATUS_SUMS_H
#define STATUS_SUMS_H

#include "base/json.h"
#include "base/map.h"
#include "mysql/books.h"
#include "series/batch.h"
#include "series/counter.h"

typedef __int128 sum_t;

struct sum { /* one counter, configured or only found */
    char *name;
    bool configured;
    sum_t accepted;         /* Redis: tally:accepted */
    sum_t merged, rejected; /* MySQL, up to Redis' gen; see sums_stored */
    sum_t pending;          /* Redis: not yet claimed */
    sum_t claimed;          /* Redis: claimed, their chunk not in the ledger */
    sum_t adjusted;         /* MySQL: by hand, in none of the others */
    uint64_t odd;           /* values in Redis that are no integers, so in no sum */
    uint64_t broken;        /* standing batches whose cut is not the ledger's */
};

struct sums {
    const struct counters *counters; /* borrowed */
    struct sum *all; /* configured ones first, in their order, then others as they were found */
    size_t n;
    struct batch *batches; /* standing, as scanned */
    struct map *hashes;    /* of each batch: pending hash -> its index + 1 */
    size_t batches_n;
    uint64_t stray; /* pending hashes' fields that no counter claims */
    uint64_t gen;   /* Redis': how many claims it has seen; set before sums_stored */
    uint64_t lost;  /* batches that were merged by then and are in no ledger; see sums_stored */
    /* OURS: MySQL was merged for this Redis. BEHIND, STRANGER, UNKNOWN: sums prove nothing. */
    enum realm_outcome realm;
};

void sums_init(struct sums *s, const struct counters *counters);
void sums_close(struct sums *s);

/* Redis' answers; slices for the call only. A batch comes before its claimed rows. */
void sums_accepted(struct sums *s, struct slice counter, struct slice value);
void sums_pending(struct sums *s, struct slice key, struct slice value);
void sums_batch(struct sums *s, const struct batch_id *id, struct slice counter, uint64_t gen);
void sums_claimed(struct sums *s, const struct batch_id *id, struct slice pending, struct slice field,
                  struct slice value);

/* Then MySQL's: cuts the batches as the merge does, and counts the chunks that are not in the ledger. `newer` (a sum of
 * merged and rejected rows) is subtracted from merged, which may then be too low by the rejected part. `lost`: batches
 * above the ledger's highest gen that no longer exist in Redis. Redis discards a batch only when it is merged, and
 * pruning keeps the highest gen, so this MySQL has lost history. Lower gens that it lost with them cannot be seen. */
void sums_stored(struct sums *s, const struct books *books);

/* Adds the books of one more lane, which MySQL keeps apart. */
void sums_add(struct sums *s, const struct sums *lane);

/* Then: drops all other counters. */
void sums_only(struct sums *s, struct slice name);

sum_t sum_difference(const struct sum *s); /* accepted less all the rest, modulo 2^64; 0: it balances */
sum_t sum_read(const char *digits);        /* of a decimal that sum_write could have written */
size_t sum_write(sum_t v, char out[48]);   /* decimal, terminated; returns the length */

size_t sums_unbalanced(const struct sums *s);
bool sums_proved(const struct sums *s); /* all balance, and Redis is what MySQL was merged for */
void sum_json(struct json *j, const char *key, sum_t v);
void sum_columns_json(struct json *j, const struct sum *s); /* accepted ... difference */
void sums_json(const struct sums *s, struct json *j);       /* "counters": an array */

/* The table, a line a counter; then a sentence with the next step for each that does not balance. Returns how
 * many do not. */
size_t sums_print(const struct sums *s, struct buf *out);

#endif
