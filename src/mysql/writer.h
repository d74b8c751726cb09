/* mysql/writer.h - the writer threads, and how the loop talks to them. Each has a connection of its own. A chunk or a
 * job is the writer's between submit and done. done() and up() are called on the loop, unlocked, one uv_async for all.
 * Chunks have no order: sorted statements on a primary key under READ COMMITTED do not deadlock. */
#ifndef MYSQL_WRITER_H
#define MYSQL_WRITER_H

#include "mysql/db.h"
#include "series/batch.h"

struct uv_loop_s;

struct writer_config {
    const struct db_config *db; /* borrowed until closed() */
    uint32_t threads;           /* 1..16, 2 */
    uint32_t probe_ms;          /* longest pause between probes while MySQL is down, 1,000 */
    uint32_t idle_probe_ms;     /* an idle pool looks so often whether MySQL is still there, 2,000 */
    /* First answer after start, and at each change. text: why not, good for the call. */
    void (*up)(void *arg, bool up, const char *text);
    void *arg;
};

/* Control queries (ledger.h, books.h, schema.h) off the loop. Embedded in the asker's own struct. */
struct db_job {
    /* On a writer thread; db is open. It touches only the asker's struct, and what does not change while the pool
     * exists: the counters. */
    void (*work)(struct db *db, struct db_job *job);
    void (*done)(struct db_job *job); /* on the loop, once */
    bool ran;                         /* false: MySQL is down or the pool closes; work was not called */
    char text[300];                   /* why not */
    struct list link;
};

struct writer_pool;
/* 0 or a uv error in *pool = NULL. Threads run and probe at once. */
int writer_pool_start(struct writer_pool **pool, struct uv_loop_s *loop, const struct writer_config *config);

/* The caller bounds how much it has under way. While MySQL is known to be down both are answered at once: MERGE_DOWN,
 * ran = false. */
void writer_pool_merge(struct writer_pool *p, struct chunk *c);
void writer_pool_job(struct writer_pool *p, struct db_job *job);

/* Takes no more work (a submit is answered as if MySQL were down). Submitted work is finished. What is not finished
 * after deadline_ms is answered MERGE_DOWN, and connections that block are cut. All done() are called before closed(),
 * and the pool is freed after it, at most the connect timeout later than the deadline. */
void writer_pool_close(struct writer_pool *p, uint32_t deadline_ms, void (*closed)(void *arg), void *arg);

#endif
