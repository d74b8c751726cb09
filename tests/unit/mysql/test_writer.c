/* The pool of writer threads: each job is answered once on the loop, up and down are told, and the pool closes in time, also when
 * the server is stopped. */
#include "shop.h"

#include "lib/child.h"

#include "base/heap.h"
#include "mysql/ledger.h"
#include "mysql/writer.h"

#include <uv.h>

static struct {
    uv_loop_t loop;
    uv_timer_t limit;
    struct db_config db; /* a test may change it before world_open() */
    struct writer_config config;
    struct writer_pool *pool;
    int ups, downs, done, outcomes[MERGE_TOO_OLD + 1];
    bool closed;
    char why[300];
} world;

static struct {
    struct batch *batches; /* of one chunk each */
    struct chunk *chunks;
    int n;
} load;

static void on_up(void *arg, bool up, const char *text)
{
    if (up)
        world.ups++;
    else
        world.downs++;
    snprintf(world.why, sizeof world.why, "%s", text);
}

static void on_limit(uv_timer_t *timer)
{
    fail_msg("nothing came for 120 s");
}

static int world_setup(void **state)
{
    memset(&world, 0, sizeof world);
    world.db = server.config;
    shop_afresh(state);
    shop_books("words");
    return 0;
}

static void world_open(uint32_t threads)
{
    world.config = (struct writer_config){
        .db = &world.db, .threads = threads, .probe_ms = 200, .idle_probe_ms = 200, .up = on_up};
    uv_loop_init(&world.loop);
    uv_timer_init(&world.loop, &world.limit);
    uv_timer_start(&world.limit, on_limit, 120000, 0);
    assert_int_equal(writer_pool_start(&world.pool, &world.loop, &world.config), 0);
}

#define run_until(condition)                                                                                 \
    do {                                                                                                     \
        while (!(condition))                                                                                 \
            uv_run(&world.loop, UV_RUN_ONCE);                                                                \
    } while (0)

/* The pool is up. */
static void world_up(void)
{
    world_open(2);
    run_until(world.ups == 1);
}

static void on_closed(void *arg)
{
    world.closed = true;
}

static void world_end(void) /* the pool is closed */
{
    uv_close((uv_handle_t *)&world.limit, NULL);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    for (int i = 0; i < load.n; i++)
        batch_close(&load.batches[i]);
    heap_free(load.batches);
    heap_free(load.chunks);
    memset(&load, 0, sizeof load);
}

static void world_close(uint32_t deadline_ms)
{
    writer_pool_close(world.pool, deadline_ms, on_closed, NULL);
    run_until(world.closed);
    world_end();
}

static int world_teardown(void **state)
{
    if (!world.closed) world_close(10000);
    return 0;
}

static void on_chunk(struct chunk *c)
{
    world.done++;
    world.outcomes[c->outcome]++;
}

/* A chunk that met the others too often to be merged; as the service does, the test submits it again. */
static void on_contended(struct chunk *c)
{
    if (c->outcome == MERGE_DOWN)
        writer_pool_merge(world.pool, c);
    else
        on_chunk(c);
}

/* All batches touch the same 20 rows, so the writers meet on them. */
static void load_make(int n)
{
    load.n = n;
    load.batches = heap_zalloc((size_t)n * sizeof *load.batches);
    load.chunks = heap_zalloc((size_t)n * sizeof *load.chunks);
    for (int i = 0; i < n; i++) {
        struct batch *b = &load.batches[i];
        char field[16];
        shop_batch(b, (uint8_t)(i + 1), WORDS, (uint64_t)i);
        uint32_t hash = batch_add_hash(b, SLICE("words"), 20);
        for (int j = 0; j < 20; j++) {
            snprintf(field, sizeof field, "w%d", j);
            batch_add_row(b, hash, slice_str(field), SLICE("1"));
        }
        shop_chunk(b, 0, &load.chunks[i]);
        load.chunks[i].done = on_chunk;
    }
}

static void load_submit(void)
{
    for (int i = 0; i < load.n; i++)
        writer_pool_merge(world.pool, &load.chunks[i]);
}

static void load_new(int n)
{
    load_make(n);
    load_submit();
}

#define TEST(name) UNIT_IN(name, world_setup, world_teardown)

TEST(many)
{
    world_open(4);
    load_make(200);
    for (int i = 0; i < load.n; i++)
        load.chunks[i].done = on_contended;
    load_submit();                   /* before the first probe has answered */
    assert_int_equal(world.done, 0); /* never from inside the call */
    run_until(world.done == 200);
    assert_int_equal(world.outcomes[MERGE_DONE], 200);
    assert_int_equal(world.ups, 1);
    assert_int_equal(world.downs, 0);
    assert_sql("4000", "SELECT SUM(n) FROM words");
    assert_sql("20", "SELECT COUNT(*) FROM words");
    load_submit();
    run_until(world.done == 400);
    assert_int_equal(world.outcomes[MERGE_ALREADY], 200);
}

struct question {
    struct db_job job;
    uint64_t gen;
    enum err err;
};

static void question_work(struct db *db, struct db_job *job)
{
    struct question *q = CONTAINER_OF(job, struct question, job);
    struct error e;
    q->err = ledger_gen_highest(db, &shop_epoch.realm, &q->gen, &e);
}

static void question_done(struct db_job *job)
{
    world.done++;
}

TEST(jobs)
{
    struct question q = {.job = {.work = question_work, .done = question_done}};
    world_open(2);
    load_new(5);
    run_until(world.done == 5);
    writer_pool_job(world.pool, &q.job);
    run_until(world.done == 6);
    assert_true(q.job.ran);
    assert_int_equal(q.err, ERR_NONE);
    assert_int_equal(q.gen, 4);
}

TEST(down_and_up_again)
{
    struct question q = {.job = {.work = question_work, .done = question_done}};
    world_up();
    mariadb_kill(&server);
    run_until(world.downs == 1); /* an idle pool sees it, too */
    assert_non_null(strstr(world.why, "MySQL error"));
    load_new(3);
    writer_pool_job(world.pool, &q.job);
    assert_int_equal(world.done, 0);
    run_until(world.done == 4);
    assert_int_equal(world.outcomes[MERGE_DOWN], 3);
    assert_false(q.job.ran);
    assert_non_null(strstr(q.job.text, "MySQL error"));
    mariadb_back(&server);
    run_until(world.ups == 2);
    assert_int_equal(world.downs, 1);
    load_submit();
    run_until(world.done == 7);
    assert_int_equal(world.outcomes[MERGE_DONE], 3);
}

TEST(down_from_the_start)
{
    static char nowhere[] = "/nowhere/at/all";
    world.db.socket = nowhere;
    world_open(2);
    load_new(3);
    run_until(world.done == 3);
    assert_int_equal(world.outcomes[MERGE_DOWN], 3);
    assert_int_equal(world.downs, 1);
    assert_int_equal(world.ups, 0);
}

/* A server that lives and does not take writes is down; it is up again when it does. */
TEST(down_while_read_only)
{
    static char user[] = "app";
    sql("CREATE USER app@localhost");
    sql("GRANT ALL ON shop.* TO app@localhost");
    world.db.user = user;
    world_up();
    sql("SET GLOBAL read_only = 1");
    load_new(1);
    run_until(world.done == 1 && world.downs == 1);
    assert_int_equal(world.outcomes[MERGE_DOWN], 1);
    assert_non_null(strstr(world.why, "read"));
    sql("SET GLOBAL read_only = 0");
    run_until(world.ups == 2);
    assert_int_equal(world.downs, 1);
    sql("DROP USER app@localhost");
}

/* All leave the server and are back before the loop looks: the loop is told of both, since what it knew may be over. */
TEST(down_and_up_in_one_turn)
{
    static const char sessions[] = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'",
                      deletes[] = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE"
                                  " VARIABLE_NAME = 'Com_delete'";
    static char user[] = "app";
    sql("CREATE USER app@localhost");
    sql("GRANT ALL ON shop.* TO app@localhost");
    world.db.user = user;
    world_up();
    sql("SET GLOBAL read_only = 1");
    await_sql("0", "%s", sessions);
    int before = atoi(ask_sql("%s", deletes));
    sql("SET GLOBAL read_only = 0");
    await_sql("1", "SELECT (%s) > %d", deletes, before); /* the probe's */
    assert_int_equal(world.downs, 0);
    run_until(world.ups == 2);
    assert_int_equal(world.downs, 1);
    sql("DROP USER app@localhost");
}

/* One table that refuses is no outage. */
TEST(held_is_not_down)
{
    world_up();
    sql("RENAME TABLE words TO away");
    load_new(2);
    run_until(world.done == 2);
    assert_int_equal(world.outcomes[MERGE_HELD], 2);
    assert_int_equal(world.downs, 0);
    sql("RENAME TABLE away TO words");
}

TEST(close_finishes_the_work)
{
    world_open(2);
    load_new(50);
    world_close(20000);
    assert_int_equal(world.done, 50);
    assert_int_equal(world.outcomes[MERGE_DONE], 50);
    assert_sql("1000", "SELECT SUM(n) FROM words");
}

TEST(close_answers_late_comers)
{
    world_up();
    load_make(2);
    writer_pool_close(world.pool, 10000, on_closed, NULL);
    load_submit();
    run_until(world.closed);
    assert_int_equal(world.outcomes[MERGE_DOWN], 2);
    assert_sql("0", "SELECT COUNT(*) FROM tally_ledger");
    world_end();
}

/* Stopped server: the read timeout is 10 s, the deadline is what counts. */
TEST(close_with_a_stopped_server)
{
    world.db.connect_timeout_s = 1;
    world.db.read_timeout_s = 20;
    world_up();
    child_pause(server.pid);
    load_new(10);
    uint64_t began_ms = mono_ms();
    world_close(300);
    assert_true(mono_ms() - began_ms < 8000);
    kill(server.pid, SIGCONT);
    assert_int_equal(world.done, 10);
    assert_int_equal(world.outcomes[MERGE_DOWN], 10);
}

/* Before the first probe was answered, during the first chunks, with a deadline that is over at once: everything is answered once,
 * and what is reported as merged is in MySQL. (More may be: a COMMIT whose answer was cut off.) */
TEST(closes_at_any_moment)
{
    for (uint32_t i = 0; i < 60; i++) {
        world_setup(state);
        world_open(3);
        load_new(8);
        for (uint32_t j = 0; j < i % 6; j++)
            uv_run(&world.loop, UV_RUN_ONCE);
        world_close(i % 3 == 0 ? 10000 : i % 3 - 1);
        int in = world.outcomes[MERGE_DONE] + world.outcomes[MERGE_ALREADY];
        assert_int_equal(world.done, 8);
        assert_int_equal(in + world.outcomes[MERGE_DOWN], 8);
        assert_sql("1", "SELECT COUNT(*) >= %d FROM tally_ledger", in);
    }
}

UNITS_IN(shop_start, shop_stop)
