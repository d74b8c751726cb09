/* A merger with one chunk, for the tests of merges. */
#ifndef UNIT_MYSQL_BENCH_H
#define UNIT_MYSQL_BENCH_H

#include "lib/sql_proxy.h"

#include "shop.h"

#include "mysql/merge.h"

#include <pthread.h>

struct bench {               /* a merger with a connection of its own, and one chunk */
    struct db_config config; /* a test may change it: the first merge connects */
    struct db *db;
    struct merger merger;
    struct witnesses witnesses;
    struct batch batch;
    struct chunk chunk;
    pthread_t thread;
};

static struct bench bench;      /* of the test that runs */
static struct sql_proxy *proxy; /* ... if it has one */

static inline void bench_open(struct bench *t)
{
    *t = (struct bench){.config = server.config};
    t->db = db_create(&t->config);
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

static inline int bench_setup(void **state)
{
    bench_open(&bench);
    return shop_afresh(state);
}

static inline int bench_teardown(void **state)
{
    bench_close(&bench);
    if (proxy != NULL) sql_proxy_stop(proxy);
    proxy = NULL;
    return 0;
}

/* Between two rounds of a test: as when it began. */
static inline void bench_again(void)
{
    bench_teardown(NULL);
    bench_setup(NULL);
}

/* The bench connects through a proxy, from its next merge on. */
static inline void bench_through_proxy(void)
{
    static struct sql_proxy one;
    proxy = &one;
    sql_proxy_start(proxy, server.dir, server.socket, server.pid);
    bench.config.socket = proxy->path;
    db_close(bench.db);
}

static inline void bench_batch(uint8_t id, int counter, uint64_t gen)
{
    batch_close(&bench.batch);
    shop_batch(&bench.batch, id, counter, gen);
}

#define ROWS(hash, ...) HASH(&bench.batch, (hash), __VA_ARGS__)

static inline void bench_row(uint32_t hash, const char *field, const char *delta)
{
    batch_add_row(&bench.batch, hash, slice_str(field), slice_str(delta));
}

/* Fields of this name, numbered, each 1. */
static inline void bench_rows(uint32_t hash, const char *name, int from, int to)
{
    char field[24];
    for (int i = from; i < to; i++) {
        snprintf(field, sizeof field, "%s%d", name, i);
        bench_row(hash, field, "1");
    }
}

static inline void bench_seal(void)
{
    shop_chunk(&bench.batch, 0, &bench.chunk);
}

static inline enum merge_outcome merge(void)
{
    merge_chunk(&bench.merger, &bench.chunk);
    return bench.chunk.outcome;
}

#define bench_is(expected)                                                                                   \
    do {                                                                                                     \
        if (bench.chunk.outcome != (expected))                                                               \
            fail_msg("outcome %d: %s", (int)bench.chunk.outcome, bench.chunk.text);                          \
    } while (0)
#define assert_outcome(expected)                                                                             \
    do {                                                                                                     \
        merge();                                                                                             \
        bench_is(expected);                                                                                  \
    } while (0)
#define assert_chunk(expected) /* of what the batch has by now */                                            \
    do {                                                                                                     \
        bench_seal();                                                                                        \
        assert_outcome(expected);                                                                            \
    } while (0)

/* The last merge's answer. */
static inline void assert_rows(uint32_t merged, uint32_t rejected)
{
    assert_int_equal(bench.chunk.rows_merged, merged);
    assert_int_equal(bench.chunk.rows_rejected, rejected);
}

static inline void assert_text(const char *part)
{
    if (strstr(bench.chunk.text, part) == NULL) fail_msg("the text is: %s", bench.chunk.text);
}

/* Why the only row was rejected. */
static inline void assert_reason(const char *part)
{
    const char *said = ask_sql("SELECT reason FROM tally_rejects");
    if (strstr(said, part) == NULL) fail_msg("the reason is: %s", said);
}

static inline void *merge_main(void *arg)
{
    struct bench *t = arg;
    merge_chunk(&t->merger, &t->chunk);
    return NULL;
}

static inline void merge_begin(struct bench *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, merge_main, t), 0);
}

static inline void merge_end(enum merge_outcome expected)
{
    pthread_join(bench.thread, NULL);
    bench_is(expected);
}

#define WAITING "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"

static inline void packet_set(unsigned long bytes)
{
    sql("SET GLOBAL max_allowed_packet = %lu", bytes);
}

#endif
