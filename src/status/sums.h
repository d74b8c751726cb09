/* status/sums.h - the books of every counter (sync/README.md, rule S30), added up from what Redis and MySQL said: pure, no
 * I/O. accepted = merged + rejected + pending + claimed and not in the ledger Sums are 128 bits wide: no
 * number of int64 values that fits in memory overflows them. */
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
};

void sums_init(struct sums *s, const struct counters *counters);
void sums_close(struct sums *s);

/* What Redis said; slices for the call only. A claimed row needs its batch first. */
void sums_accepted(struct sums *s, struct slice counter, struct slice value);
void sums_pending(struct sums *s, struct slice key, struct slice value);
void sums_batch(struct sums *s, const struct batch_id *id, struct slice counter, uint64_t gen);
void sums_claimed(struct sums *s, const struct batch_id *id, struct slice pending, struct slice field,
                  struct slice value);

/* Then what MySQL said: cuts the batches as the merge does, and counts only chunks that the ledger does not
 * have. `newer` is taken off merged: those rows of a gen after Redis' are merged and rejected ones together,
 * and only their sum is known, so merged may be too low by what of them was rejected.
 * `lost`: Redis discards a batch when it is merged, and the ledger keeps its highest gen; so a batch of a gen above that
 * which does not stand any more was merged by a MySQL that had a later history than this one. Those of lower gens that
 * went with it are not seen. */
void sums_stored(struct sums *s, const struct books *books);

/* Then: keeps that counter only, also when nothing is known of it. */
void sums_only(struct sums *s, struct slice name);

sum_t sum_difference(const struct sum *s); /* accepted less all the rest; 0: it balances */
sum_t sum_read(const char *digits);        /* of a decimal that sum_write could have written */
size_t sum_write(sum_t v, char out[48]);   /* decimal, terminated; returns the length */

bool sum_balanced(const struct sum *s); /* no difference, and every batch is cut as the ledger says */
size_t sums_unbalanced(const struct sums *s);
void sum_json(struct json *j, const char *key, sum_t v);
void sum_columns_json(struct json *j, const struct sum *s);            /* accepted ... difference */
void sums_json(const struct sums *s, struct json *j, const char *key); /* an array of a counter each */

/* The table, a line a counter; then a sentence with the next step for each that does not balance. Returns how
 * many do not. */
size_t sums_print(const struct sums *s, struct buf *out);

#endif
