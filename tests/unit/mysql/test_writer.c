/* The pool of writer threads: each job is answered once on the loop, up and down are told, and the pool closes in time, also when
 * the server is stopped. */
#include "shop.h"

#include "lib/child.h"

#include "base/heap.h"
#include "mysql/ledger.h"
#include "mysql/writer.h"

#include <uv.h>

struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    struct writer_config config;
    struct writer_pool *pool;
    int ups, downs, done, outcomes[MERGE_TOO_OLD + 1];
    bool closed;
    char why[300];
};

static void on_up(void *arg, bool up, const char *text)
{
    struct world *w = arg;
    if (up)
        w->ups++;
    else
        w->downs++;
    snprintf(w->why, sizeof w->why, "%s", text);
}

static void on_limit(uv_timer_t *timer)
{
    fail_msg("nothing came for 120 s");
}

static void world_open(struct world *w, const struct db_config *config, uint32_t threads)
{
    *w = (struct world){
        .config = {
            .db = config, .threads = threads, .probe_ms = 200, .idle_probe_ms = 200, .up = on_up, .arg = w}};
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->limit);
    uv_timer_start(&w->limit, on_limit, 120000, 0);
    assert_int_equal(writer_pool_start(&w->pool, &w->loop, &w->config), 0);
}

static void on_closed(void *arg)
{
    struct world *w = arg;
    w->closed = true;
}

#define run_until(w, condition)                                                                              \
    do {                                                                                                     \
        while (!(condition))                                                                                 \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                                 \
    } while (0)

static void world_close(struct world *w, uint32_t deadline_ms)
{
    writer_pool_close(w->pool, deadline_ms, on_closed, w);
    run_until(w, w->closed);
    uv_close((uv_handle_t *)&w->limit, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static void on_chunk(struct chunk *c)
{
    struct world *w = c->arg;
    w->done++;
    w->outcomes[c->outcome]++;
}

/* A chunk that met the others too often to be merged; as the service does, the test submits it again. */
static void on_contended(struct chunk *c)
{
    struct world *w = c->arg;
    if (c->outcome == MERGE_DOWN)
        writer_pool_merge(w->pool, c);
    else
        on_chunk(c);
}

struct load { /* batches of one chunk each */
    struct batch *batches;
    struct chunk *chunks;
    int n;
};

/* All batches touch the same 20 rows, so the writers meet on them. */
static void load_make(struct load *l, struct world *w, int n)
{
    l->n = n;
    l->batches = heap_zalloc((size_t)n * sizeof *l->batches);
    l->chunks = heap_zalloc((size_t)n * sizeof *l->chunks);
    for (int i = 0; i < n; i++) {
        struct batch *b = &l->batches[i];
        char field[16];
        shop_batch(b, (uint8_t)(i + 1), WORDS, (uint64_t)i);
        uint32_t hash = batch_add_hash(b, SLICE("words"), 20);
        for (int j = 0; j < 20; j++) {
            snprintf(field, sizeof field, "w%d", j);
            batch_add_row(b, hash, slice_str(field), SLICE("1"));
        }
        shop_chunk(b, 0, &l->chunks[i]);
        l->chunks[i].done = on_chunk;
        l->chunks[i].arg = w;
    }
}

static void load_submit(struct load *l, struct world *w)
{
    for (int i = 0; i < l->n; i++)
        writer_pool_merge(w->pool, &l->chunks[i]);
}

static void load_free(struct load *l)
{
    for (int i = 0; i < l->n; i++)
        batch_close(&l->batches[i]);
    heap_free(l->batches);
    heap_free(l->chunks);
}

static void many(void **state)
{
    struct world w;
    struct load l;
    world_open(&w, &server.config, 4);
    load_make(&l, &w, 200);
    for (int i = 0; i < l.n; i++)
        l.chunks[i].done = on_contended;
    load_submit(&l, &w);         /* before the first probe has answered */
    assert_int_equal(w.done, 0); /* never from inside the call */
    run_until(&w, w.done == 200);
    assert_int_equal(w.outcomes[MERGE_DONE], 200);
    assert_int_equal(w.ups, 1);
    assert_int_equal(w.downs, 0);
    assert_mariadb(&server, "4000", "SELECT SUM(n) FROM words");
    assert_mariadb(&server, "20", "SELECT COUNT(*) FROM words");
    load_submit(&l, &w);
    run_until(&w, w.done == 400);
    assert_int_equal(w.outcomes[MERGE_ALREADY], 200);
    load_free(&l);
    world_close(&w, 10000);
}

struct question {
    struct db_job job;
    struct world *w;
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
    CONTAINER_OF(job, struct question, job)->w->done++;
}

static void jobs(void **state)
{
    struct world w;
    struct load l;
    struct question q = {.job = {.work = question_work, .done = question_done}, .w = &w};
    world_open(&w, &server.config, 2);
    load_make(&l, &w, 5);
    load_submit(&l, &w);
    run_until(&w, w.done == 5);
    writer_pool_job(w.pool, &q.job);
    run_until(&w, w.done == 6);
    assert_true(q.job.ran);
    assert_int_equal(q.err, ERR_NONE);
    assert_int_equal(q.gen, 4);
    load_free(&l);
    world_close(&w, 10000);
}

static void down_and_up_again(void **state)
{
    struct world w;
    struct load l;
    struct question q = {.job = {.work = question_work, .done = question_done}, .w = &w};
    world_open(&w, &server.config, 2);
    run_until(&w, w.ups == 1);
    mariadb_kill(&server);
    run_until(&w, w.downs == 1); /* an idle pool sees it, too */
    assert_non_null(strstr(w.why, "MySQL error"));
    load_make(&l, &w, 3);
    load_submit(&l, &w);
    writer_pool_job(w.pool, &q.job);
    assert_int_equal(w.done, 0);
    run_until(&w, w.done == 4);
    assert_int_equal(w.outcomes[MERGE_DOWN], 3);
    assert_false(q.job.ran);
    assert_non_null(strstr(q.job.text, "MySQL error"));
    mariadb_back(&server);
    run_until(&w, w.ups == 2);
    assert_int_equal(w.downs, 1);
    load_submit(&l, &w);
    run_until(&w, w.done == 7);
    assert_int_equal(w.outcomes[MERGE_DONE], 3);
    load_free(&l);
    world_close(&w, 10000);
}

static void down_from_the_start(void **state)
{
    struct world w;
    struct load l;
    struct db_config config = server.config;
    char nowhere[] = "/nowhere/at/all";
    config.socket = nowhere;
    world_open(&w, &config, 2);
    load_make(&l, &w, 3);
    load_submit(&l, &w);
    run_until(&w, w.done == 3);
    assert_int_equal(w.outcomes[MERGE_DOWN], 3);
    assert_int_equal(w.downs, 1);
    assert_int_equal(w.ups, 0);
    load_free(&l);
    world_close(&w, 10000);
}

/* A server that lives and does not take writes is down; it is up again when it does. */
static void down_while_read_only(void **state)
{
    struct world w;
    struct load l;
    struct db_config config = server.config;
    char user[] = "app";
    mariadb_do(&server, "CREATE USER app@localhost");
    mariadb_do(&server, "GRANT ALL ON shop.* TO app@localhost");
    config.user = user;
    world_open(&w, &config, 2);
    run_until(&w, w.ups == 1);
    mariadb_do(&server, "SET GLOBAL read_only = 1");
    load_make(&l, &w, 1);
    load_submit(&l, &w);
    run_until(&w, w.done == 1 && w.downs == 1);
    assert_int_equal(w.outcomes[MERGE_DOWN], 1);
    assert_non_null(strstr(w.why, "read"));
    mariadb_do(&server, "SET GLOBAL read_only = 0");
    run_until(&w, w.ups == 2);
    assert_int_equal(w.downs, 1);
    load_free(&l);
    world_close(&w, 10000);
    mariadb_do(&server, "DROP USER app@localhost");
}

/* All leave the server and are back before the loop looks: the loop is told of both, since what it knew may be over. */
static void down_and_up_in_one_turn(void **state)
{
    static const char sessions[] = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'",
                      deletes[] = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE"
                                  " VARIABLE_NAME = 'Com_delete'";
    struct world w;
    struct db_config config = server.config;
    char user[] = "app";
    mariadb_do(&server, "CREATE USER app@localhost");
    mariadb_do(&server, "GRANT ALL ON shop.* TO app@localhost");
    config.user = user;
    world_open(&w, &config, 2);
    run_until(&w, w.ups == 1);
    mariadb_do(&server, "SET GLOBAL read_only = 1");
    await_mariadb(&server, "0", "%s", sessions);
    int before = atoi(mariadb_ask(&server, "%s", deletes));
    mariadb_do(&server, "SET GLOBAL read_only = 0");
    await_mariadb(&server, "1", "SELECT (%s) > %d", deletes, before); /* the probe's */
    assert_int_equal(w.downs, 0);
    run_until(&w, w.ups == 2);
    assert_int_equal(w.downs, 1);
    world_close(&w, 10000);
    mariadb_do(&server, "DROP USER app@localhost");
}

/* One table that refuses is no outage. */
static void held_is_not_down(void **state)
{
    struct world w;
    struct load l;
    world_open(&w, &server.config, 2);
    run_until(&w, w.ups == 1);
    mariadb_do(&server, "RENAME TABLE words TO away");
    load_make(&l, &w, 2);
    load_submit(&l, &w);
    run_until(&w, w.done == 2);
    assert_int_equal(w.outcomes[MERGE_HELD], 2);
    assert_int_equal(w.downs, 0);
    mariadb_do(&server, "RENAME TABLE away TO words");
    load_free(&l);
    world_close(&w, 10000);
}

static void close_finishes_the_work(void **state)
{
    struct world w;
    struct load l;
    world_open(&w, &server.config, 2);
    load_make(&l, &w, 50);
    load_submit(&l, &w);
    world_close(&w, 20000);
    assert_int_equal(w.done, 50);
    assert_int_equal(w.outcomes[MERGE_DONE], 50);
    assert_mariadb(&server, "1000", "SELECT SUM(n) FROM words");
    load_free(&l);
}

static void close_answers_late_comers(void **state)
{
    struct world w;
    struct load l;
    world_open(&w, &server.config, 2);
    run_until(&w, w.ups == 1);
    load_make(&l, &w, 2);
    writer_pool_close(w.pool, 10000, on_closed, &w);
    load_submit(&l, &w);
    run_until(&w, w.closed);
    assert_int_equal(w.outcomes[MERGE_DOWN], 2);
    assert_mariadb(&server, "0", "SELECT COUNT(*) FROM tally_ledger");
    load_free(&l);
    uv_close((uv_handle_t *)&w.limit, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    uv_loop_close(&w.loop);
}

/* Stopped server: the read timeout is 10 s, the deadline is what counts. */
static void close_with_a_stopped_server(void **state)
{
    struct world w;
    struct load l;
    struct db_config config = server.config;
    config.connect_timeout_s = 1;
    config.read_timeout_s = 20;
    world_open(&w, &config, 2);
    run_until(&w, w.ups == 1);
    child_pause(server.pid);
    load_make(&l, &w, 10);
    load_submit(&l, &w);
    uint64_t began_ms = mono_ms();
    world_close(&w, 300);
    assert_true(mono_ms() - began_ms < 8000);
    kill(server.pid, SIGCONT);
    assert_int_equal(w.done, 10);
    assert_int_equal(w.outcomes[MERGE_DOWN], 10);
    load_free(&l);
}

/* Before the first probe was answered, during the first chunks, with a deadline that is over at once: everything is answered once,
 * and what is reported as merged is in MySQL. (More may be: a COMMIT whose answer was cut off.) */
static void closes_at_any_moment(void **state)
{
    struct world w;
    struct load l;
    for (uint32_t i = 0; i < 60; i++) {
        shop_empty(&server);
        world_open(&w, &server.config, 3);
        load_make(&l, &w, 8);
        load_submit(&l, &w);
        for (uint32_t j = 0; j < i % 6; j++)
            uv_run(&w.loop, UV_RUN_ONCE);
        world_close(&w, i % 3 == 0 ? 10000 : i % 3 - 1);
        int in = w.outcomes[MERGE_DONE] + w.outcomes[MERGE_ALREADY];
        assert_int_equal(w.done, 8);
        assert_int_equal(in + w.outcomes[MERGE_DOWN], 8);
        assert_mariadb(&server, "1", "SELECT COUNT(*) >= %d FROM tally_ledger", in);
        load_free(&l);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, writers_afresh)

static int writers_afresh(void **state)
{
    shop_afresh(state);
    shop_books("words");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many),
        TEST(jobs),
        TEST(down_and_up_again),
        TEST(down_from_the_start),
        TEST(down_while_read_only),
        TEST(down_and_up_in_one_turn),
        TEST(held_is_not_down),
        TEST(close_finishes_the_work),
        TEST(close_answers_late_comers),
        TEST(close_with_a_stopped_server),
        TEST(closes_at_any_moment),
    };
    return cmocka_run_group_tests(tests, shop_start, shop_stop);
}
