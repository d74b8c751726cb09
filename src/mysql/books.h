/* mysql/books.h - MySQL's side of the books and of a live total, each in one snapshot, after Redis was read with its
 * gen: rows merged from a later gen are counted separately. Blocking. */
#ifndef MYSQL_BOOKS_H
#define MYSQL_BOOKS_H

#include "mysql/db.h"
#include "series/batch.h"
#include "series/counter.h"

/* Of one realm, which may be zero (text.h: sql_realm). out starts as {0}; the caller closes it, also after an error.
 * merged + rejected - newer is the sum up to gen. */
enum err books_read(struct db *db, const struct batch_id *realm, uint64_t gen, const struct batch_id *ids,
                    size_t n, struct books *out, struct error *e) MUST_CHECK;

/* Fills the answers. */
enum err books_totals_read(struct db *db, struct books_totals *t, struct error *e) MUST_CHECK;

/* What MySQL has of one store, or of a counter without stores, in one snapshot. */
struct books_store {
    const struct counter *counter;
    struct slice key;           /* its pending hash */
    struct batch_id realm;      /* of the Redis that holds it; zero: text.h's sql_realm */
    int64_t gen;                /* Redis' at the read */
    const struct batch_id *ids; /* standing batches that hold that hash */
    size_t ids_n;
    /* answer */
    char stored[48];       /* the sum of its rows, decimal */
    int64_t rows, rejects; /* its rows; those that wait in tally_rejects */
    bool newer;            /* the ledger has a later gen of this counter: read Redis again */
    struct books books;    /* chunks only; starts empty, the asker closes it */
};
enum err books_store_read(struct db *db, struct books_store *s, struct error *e) MUST_CHECK;

/* Refused rows, kept raw: to list, to replay once the cause is corrected, or to drop. Blocking. */

struct reject_id {
    struct batch_id batch;
    uint32_t chunk, seq;
};

#define REJECT_ID_BYTES 56 /* <32 hex digits>-<chunk>-<seq>, and a NUL */
void reject_id_write(const struct reject_id *id, char out[REJECT_ID_BYTES]);
bool reject_id_read(struct slice text, struct reject_id *out); /* as written, and in no other form */

struct reject {
    struct reject_id id;
    bool counted; /* its delta is part of tally_counters.rejected */
    struct batch_id realm;
    struct slice counter, pending_hash, field, delta, reason; /* good for the call */
    int64_t rejected_ms;                                      /* since 1970 */
};

/* Selects waiting rows that match all of these. Borrowed. */
struct rejects_which {
    const struct reject_id *id;      /* NULL: any */
    struct slice counter;            /* n = 0: any */
    struct slice key, field;         /* p NULL: any; * in it is any bytes, \ takes the next byte as itself */
    struct slice store;              /* p NULL: any */
    const struct counters *counters; /* with store: those whose keys hold it */
};

/* Calls row for each, oldest first, at most limit. */
enum err rejects_list(struct db *db, const struct rejects_which *which, uint32_t limit,
                      void (*row)(void *arg, const struct reject *r), void *arg, struct error *e) MUST_CHECK;
/* The same for all, in the order of their ids; row does not use db. */
enum err rejects_each(struct db *db, const struct rejects_which *which,
                      void (*row)(void *arg, const struct reject *r), void *arg, struct error *e) MUST_CHECK;

struct reject_reason {                 /* rows of one counter and one reason */
    struct slice counter, reason, key; /* one of their keys; good for the call */
    uint64_t rows;
    int64_t delta, newest_ms; /* sum of those that are integers; since 1970 */
};
/* Calls each, most rows first, at most limit. */
enum err rejects_reasons(struct db *db, const struct rejects_which *which, uint32_t limit,
                         void (*each)(void *arg, const struct reject_reason *r), void *arg,
                         struct error *e) MUST_CHECK;
enum err rejects_count(struct db *db, const struct rejects_which *which, uint64_t *waiting,
                       struct error *e) MUST_CHECK;
/* Calls each for every counter that has any: how many rows. */
enum err rejects_standing(struct db *db, void (*each)(void *arg, struct slice counter, uint64_t rows),
                          void *arg, struct error *e) MUST_CHECK;

/* Merges the rows again, up to 200 in a transaction with their marks, so exactly once even if called again after an error; their
 * deltas move from rejected to merged. Where that is refused each has a transaction of its own. A row that is refused again remains, with the new reason. */
struct rejects_replay {
    const struct counters *counters;
    /* Each may be NULL: progress comes after each transaction, refuse for each row that is refused again. */
    void (*progress)(void *arg, uint64_t done);
    void (*refuse)(void *arg, const struct reject_id *id, const char *reason);
    void *arg;
    uint64_t replayed, refused; /* out; refused: also rows whose counter is not configured */
};
enum err rejects_replay(struct db *db, const struct rejects_which *which, struct rejects_replay *r,
                        struct error *e) MUST_CHECK;

/* Deletes them (*dropped: how many). tally_counters.rejected keeps their sum, so that the books balance: Redis' accepted
 * count cannot be lowered in the same step. */
enum err rejects_drop(struct db *db, const struct rejects_which *which, uint64_t *dropped,
                      struct error *e) MUST_CHECK;

/* What an operator adds to a stored count by hand, each exactly once by its id. Blocking. */

#define ADJUST_ID_BYTES_MAX 64
#define ADJUST_REASON_BYTES_MAX 300

struct adjustment {
    struct slice id, counter, key, field, reason; /* key: the pending hash that names the row */
    int64_t delta;
    bool sets; /* it was asked for a figure, set_to */
    int64_t set_to;
    int64_t adjusted_ms; /* since 1970 */
};

enum adjust_outcome {
    ADJUST_DONE,
    ADJUST_KNOWN,   /* this id was, with the same content: nothing was done now */
    ADJUST_OTHER,   /* this id was, with another */
    ADJUST_MISSING, /* no row, and the counter makes none */
    ADJUST_FAR,     /* from the stored count to set_to are more than 64 bits */
};

/* Adds a->delta to the row, or makes the row a->set_to; then a has the delta. The row and the adjustment are one
 * transaction. After an error the outcome is not known: the same id may be sent again. key and field are the
 * counter's. */
enum err adjust(struct db *db, const struct counter *c, struct adjustment *a, enum adjust_outcome *outcome,
                struct error *e) MUST_CHECK;

/* Calls row for each, newest first, at most limit. counter, key: n = 0: any. */
enum err adjustments_list(struct db *db, struct slice counter, struct slice key, uint32_t limit,
                          void (*row)(void *arg, const struct adjustment *a), void *arg,
                          struct error *e) MUST_CHECK;

#endif
