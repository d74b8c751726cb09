/* A merger with one chunk, for the tests of merges. */
#ifndef UNIT_MYSQL_BENCH_H
#define UNIT_MYSQL_BENCH_H

#include "shop.h"

#include "mysql/merge.h"

#include <pthread.h>

struct bench { /* a merger with a connection of its own, and one chunk */
    struct db *db;
    struct merger merger;
    struct witnesses witnesses;
    struct batch batch;
    struct chunk chunk;
    pthread_t thread;
};

static inline void bench_open(struct bench *t, const struct db_config *config)
{
    *t = (struct bench){.db = db_create(config)};
    witnesses_init(&t->witnesses);
    merger_init(&t->merger, t->db, &t->witnesses);
}

static inline void bench_close(struct bench *t)
{
    batch_close(&t->batch);
    merger_close(&t->merger);
    witnesses_close(&t->witnesses);
    db_destroy(&t->db);
}

static inline enum merge_outcome merge(struct bench *t)
{
    merge_chunk(&t->merger, &t->chunk);
    return t->chunk.outcome;
}

#define assert_outcome(t, expected)                                                                          \
    do {                                                                                                     \
        enum merge_outcome got_ = merge(t);                                                                  \
        if (got_ != (expected)) fail_msg("outcome %d: %s", (int)got_, (t)->chunk.text);                      \
    } while (0)

static inline void *merge_main(void *arg)
{
    merge(arg);
    return NULL;
}

static inline void merge_begin(struct bench *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, merge_main, t), 0);
}

static inline void merge_end(struct bench *t, enum merge_outcome expected)
{
    pthread_join(t->thread, NULL);
    if (t->chunk.outcome != expected) fail_msg("outcome %d: %s", (int)t->chunk.outcome, t->chunk.text);
}

#define WAITING "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"

static inline void packet_set(unsigned long bytes)
{
    mariadb_do(&server, "SET GLOBAL max_allowed_packet = %lu", bytes);
}

#endif
