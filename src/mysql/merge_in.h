/* mysql/merge_in.h - what the files of a merge share: one try of one chunk.
 *   merge.c       the transaction: ledger, rejects, books      merge_rows.c  the counter's table, and what it refuses
 *   locks.c       what another program has locked */
#ifndef MYSQL_MERGE_IN_H
#define MYSQL_MERGE_IN_H

#include "mysql/blocker.h"
#include "mysql/merge.h"
#include "mysql/plan.h"

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
