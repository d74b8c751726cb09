/* mysql/merge.h - one chunk into MySQL, exactly once, in one transaction (sync/README.md, rule S11). Blocking; runs on
 * a writer thread. The ledger row goes in first; it is both the lock and the record. A second merger of the chunk waits
 * for the first to end, then gets 1062 (it was committed) or goes on (it was not). A COMMIT without an answer is
 * resolved by the same INSERT. */
#ifndef MYSQL_MERGE_H
#define MYSQL_MERGE_H

#include "base/map.h"
#include "mysql/db.h"
#include "mysql/text.h"
#include "series/batch.h"

#include <pthread.h>

#define MERGE_TRIES_MAX 6             /* transactions of one chunk before it is given back as MERGE_DOWN */
#define MERGE_STATEMENT_MAX (1 << 20) /* bytes of one statement, if max_allowed_packet allows */

/* Of each counter the row that MySQL took last, for all connections of a pool. */
struct witnesses {
    pthread_mutex_t lock;
    struct map of;
};
void witnesses_init(struct witnesses *w);
void witnesses_close(struct witnesses *w);

struct merger { /* one per connection */
    struct db *db;
    struct witnesses *witnesses; /* borrowed; NULL: it rejects whole batches only */
    struct map shapes;           /* counter -> struct shape, good for one db_opened() */
    uint64_t shapes_of;
    size_t
        statement_max; /* bytes; halved when the server does not take a statement, grows again with success */
};

void merger_init(struct merger *m, struct db *db,
                 struct witnesses *witnesses); /* borrows both, opens db when needed */
void merger_close(struct merger *m);

/* Fills what struct chunk has as its answer; calls nothing. With MERGE_ALREADY the rows are those that the
 * ledger row has, merged before. Takes at most MERGE_TRIES_MAX times the timeouts of db_config, and some 10 s where
 * rows are locked. */
void merge_chunk(struct merger *m, struct chunk *c);
/* The same, but every row goes to tally_rejects: for a counter that is no longer configured. */
void merge_reject(struct merger *m, struct chunk *c, const char *reason);

/* Which thread of the server's holds what a connection waits for: asked on a connection of its own, by a thread of its
 * own, while the other one waits. */

#define BLOCKER_BYTES 160

struct blocker;
struct blocker *blocker_start(const struct db *waiting); /* an open one; NULL: there is no thread for it */
/* Ends it; b may be NULL. text: who was seen to block it, or why that is not known. */
void blocker_stop(struct blocker *b, char text[BLOCKER_BYTES]);

/* The rows of a chunk, ready for its transaction, and those that are refused without asking MySQL. Made once a chunk;
 * rows that MySQL refuses are added while merging and removed again before the next try. Pure. The rows keep the
 * batch's order: (length, bytes) of the pending hash, then of the field. That order is the same in all chunks and
 * processes, so writers lock rows in one order, but for texts that a collation takes for one row: their deadlocks are
 * tried again. */

struct plan_item {          /* one row that can be merged */
    uint32_t key_at, key_n; /* the counter's key as SQL text, in plan->keys */
    uint32_t seq;           /* its place in the chunk */
    uint32_t count;         /* in which of the counter's columns */
    bool too_big;           /* not even alone does it fit a packet: refused in every try */
    bool refused;           /* by MySQL, in this try */
    bool missing;           /* of a counter that makes no rows: it is not there; in this try */
    bool foreign;           /* refused alone with a code that may pass: a reject if it happens in two tries */
    int64_t delta;
};

struct refusal {
    uint32_t seq;
    bool dropped; /* in the books alone */
    bool missing;
    bool counted;  /* false: the value is no integer; it is in no total */
    int64_t delta; /* 0 when not counted */
    uint32_t reason_at, reason_n;
};

struct plan {
    const struct chunk *chunk;
    struct plan_item *items;
    struct refusal *refused;
    size_t items_n, refused_n, rows_n;       /* rows_n: both together, as it was made */
    size_t missing_n;                        /* how many of the refused are only not there */
    size_t refused_first, reasons_first;     /* how many of them are refused in every try */
    size_t foreign_n;                        /* items that became foreign in this try */
    bool by_value;                           /* MySQL refused none but for its value */
    int64_t total, rejected, rejected_first; /* sums of deltas, modulo 2^64; rejected is part of total */
    struct buf keys, reasons;
};

/* With counter NULL every row is refused, for the reason. forms fit the counter. left_out: not 0 for each hash of the batch whose rows
 * are not in it. */
void plan_make(struct plan *p, const struct chunk *c, const struct counter *counter,
               const struct columns *forms, const char *reason, const uint8_t *left_out);
void plan_close(struct plan *p);
void plan_again(struct plan *p); /* forgets what MySQL refused */

static inline struct slice plan_key(const struct plan *p, const struct plan_item *i)
{
    return slice_of(p->keys.p + i->key_at, i->key_n);
}

/* What the files of a merge share: one try of one chunk.
 *   merge.c       the transaction: ledger, rejects, books      merge_rows.c  the counter's table, and what it refuses
 *   locks.c       what another program has locked */

enum verdict {
    GO_ON,
    TRY_AGAIN, /* ROLLBACK, on a new connection if it was lost, then the whole transaction */
    NEXT_PART, /* ROLLBACK, and at once the transaction of other hashes */
    ENDED,     /* outcome and text are in the chunk */
};

struct shape { /* of a counter */
    struct columns forms;
    uint32_t looks; /* so many more chunks are looked through first */
};

enum part { PART_NOW, PART_LATER, PART_LOCKED, PART_IN };

struct locks {
    uint8_t *state; /* of each hash of the batch, an enum part */
    uint32_t at;    /* whose rows are being written */
    bool by_hash, in_rows;
    bool of_ledger; /* its row is of a part */
    struct blocker *blocker;
    uint64_t until_ms; /* mono: no longer are locks waited for */
};

struct work {
    struct merger *merger;
    struct db *db;
    struct chunk *chunk;
    const struct counter *counter; /* NULL: every row goes to the rejects */
    const char *reject_reason;
    struct columns forms;
    struct shape *shape; /* the merger's, good for one try */
    struct plan plan;    /* of the hashes that are PART_NOW */
    bool plan_is_old;
    struct locks locks;
    uint32_t count;    /* the pass: which of the counter's columns */
    struct counter as; /* the counter with it */
    struct buf sql, rows;
};

/* merge.c */
enum verdict merge_ended(struct work *w, enum merge_outcome outcome, const char *text);
enum verdict merge_judge(struct work *w, enum code_class class); /* of a statement that was answered so */
void merge_where(struct work *w);                                /* of its ledger row, added to w->sql */
enum verdict merge_run_literal(struct work *w, const char *statement);
size_t merge_packet_most(const struct work *w);    /* bytes of a statement */
size_t merge_statement_most(const struct work *w); /* of one of many rows: well below the packet's limit */

/* merge_rows.c */
enum verdict rows_merge(struct work *w);
void rows_merged(struct work *w); /* committed */

/* locks.c */
void locks_init(struct work *w);
void locks_close(struct work *w);
bool locks_any(const struct work *w, enum part part);
void locks_read(struct work *w, struct slice waiting); /* the ledger's row is of a part, and has that left */
void locks_forget(struct work *w);                     /* the ledger has no row of it any more */
bool locks_next(struct work *w);                       /* committed; is there another part? */
void locks_tell(struct work *w);                       /* some are left */
void locks_left(const struct work *w, struct buf *names);
enum verdict locks_wait_short(struct work *w);
enum verdict locks_found(struct work *w); /* a lock was waited for in vain */

#endif
