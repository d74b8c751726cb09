/* mysql/merge_in.h - what the files of a merge share: one try of one chunk.
 *   merge.c       the transaction: ledger, rejects, books      merge_rows.c  the counter's table, and what it refuses */
#ifndef MYSQL_MERGE_IN_H
#define MYSQL_MERGE_IN_H

#include "mysql/merge.h"
#include "mysql/plan.h"

enum verdict {
    GO_ON,
    TRY_AGAIN, /* ROLLBACK, on a new connection if it was lost, then the whole transaction */
    ENDED,     /* outcome and text are in the chunk */
};

struct shape { /* of a counter */
    struct columns forms;
    uint32_t looks; /* so many more chunks are looked through first */
};

struct work {
    struct merger *merger;
    struct db *db;
    struct chunk *chunk;
    const struct counter *counter; /* NULL: every row goes to the rejects */
    const char *reject_reason;
    struct columns forms;
    struct shape *shape; /* the merger's, good for one try */
    struct plan plan;
    uint32_t count;    /* the pass: which of the counter's columns */
    struct counter as; /* the counter with it */
    struct buf sql, rows;
};

/* merge.c */
enum verdict merge_ended(struct work *w, enum merge_outcome outcome, const char *text);
enum verdict merge_judge(struct work *w, enum code_class class); /* of a statement that was answered so */
enum verdict merge_run_literal(struct work *w, const char *statement);
size_t merge_packet_most(const struct work *w);    /* bytes of a statement */
size_t merge_statement_most(const struct work *w); /* of one of many rows: well below the packet's limit */

/* merge_rows.c */
enum verdict rows_merge(struct work *w);
void rows_merged(struct work *w); /* committed */

#endif
