/* mysql/merge.h - one chunk into MySQL, exactly once, in one transaction (sync/README.md, rule S11). Blocking; runs on
 * a writer thread. The ledger row goes in first; it is both the lock and the record. A second merger of the chunk waits
 * for the first to end, then gets 1062 (it was committed) or goes on (it was not). A COMMIT without an answer is
 * resolved by the same INSERT. */
#ifndef MYSQL_MERGE_H
#define MYSQL_MERGE_H

#include "base/map.h"
#include "mysql/db.h"
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

#endif
