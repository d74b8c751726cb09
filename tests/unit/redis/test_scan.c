/* Scan and discard on a real server: every row once, and what is said when the batch is not what was
 * registered. */
#include "base/heap.h"
#include "lib/redis_world.h"
#include "redis/batch.h"

#define KEY1 "s1:product_views"
#define KEY2 "s2:product_views"

struct got {
    struct world *w;
    struct batch b;
    struct scan s;
    struct discard d;
    struct redis_scans scans;
    char hex[33];
    int scanned, discards;
    bool closed;
};
static struct got *g; /* of the test that runs */

static void on_scan(struct scan *s)
{
    ((struct got *)s->arg)->scanned++;
}
static void on_discard(struct discard *d)
{
    ((struct got *)d->arg)->discards++;
}

static int got_open(void **state)
{
    g = calloc(1, sizeof *g);
    struct batch_id id;
    g->w = world_open();
    redis_scans_init(&g->scans, &g->w->link);
    batch_id_draw(&id);
    batch_id_hex(&id, g->hex);
    batch_init(&g->b, &id);
    g->s = (struct scan){.batch = &g->b, .counters = &g->w->counters, .done = on_scan, .arg = g};
    g->d = (struct discard){.batch = &g->b, .done = on_discard, .arg = g};
    return 0;
}

static void on_all_closed(struct redis_scans *ss)
{
    CONTAINER_OF(ss, struct got, scans)->closed = true;
}

static void scans_close(void)
{
    redis_scans_close(&g->scans, on_all_closed);
    WAIT_UNTIL(g->w, g->closed);
}

static int got_close(void **state)
{
    if (!g->closed) scans_close();
    world_close(g->w);
    batch_close(&g->b);
    free(g);
    return 0;
}

/* A batch as the claim leaves it: KEY1 with n1 fields, KEY2 with n2. */
static void make(int n1, int n2)
{
    static const char fill[] =
        "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], i, i * 3) end return 1";
    redis_do("EVAL %s 1 " KEY1 "_%s %d", fill, g->hex, n1);
    redis_do("EVAL %s 1 " KEY2 "_%s %d", fill, g->hex, n2);
    redis_do("HSET tally:batch:%s format 1 counter product_views gen 12 owner shop:abc lowest_ms 1700 =" KEY1
             " %d =" KEY2 " %d",
             g->hex, n1, n2);
    redis_do("ZADD tally:batches 1 %s", g->hex);
}

static void scan(void)
{
    int before = g->scanned;
    redis_scan(&g->scans, &g->s);
    assert_int_equal(g->scanned, before);
    WAIT_UNTIL(g->w, g->scanned == before + 1);
}

static void discard(void)
{
    int before = g->discards;
    redis_discard(&g->w->link, &g->d);
    WAIT_UNTIL(g->w, g->discards == before + 1);
}

#define scan_is(expected) scan(), assert_int_equal(g->s.outcome, (expected))

#define TEST(f) UNIT_IN(f, got_open, got_close)

TEST(test_sealed)
{
    make(30000, 7);
    for (int round = 0; round < 2; round++) { /* a second scan begins from nothing */
        scan_is(SCAN_SEALED);
        assert_string_equal(g->s.run_id, g->w->link.facts.run_id);
        assert_int_equal(g->b.rows_n, 30007);
        assert_int_equal(g->b.hashes_n, 2);
        assert_ptr_equal(g->b.counter, &g->w->all[1]);
        assert_int_equal(g->b.gen, 12);
        assert_int_equal(g->b.lowest_ms, 1700);
        assert_slice(buf_slice(&g->b.owner), "shop:abc");
        int64_t field, value;
        for (size_t i = 0; i < g->b.rows_n; i++) {
            assert_true(num_parse(batch_field(&g->b, &g->b.rows[i]), &field));
            assert_true(num_parse(batch_value(&g->b, &g->b.rows[i]), &value));
            assert_int_equal(value, field * 3);
        }
    }
}

TEST(test_many_hashes)
{
    redis_do("HSET tally:batch:%s format 1 counter product_views gen 1 owner a:b lowest_ms 1", g->hex);
    for (int i = 0; i < 300; i++) {
        redis_do("HSET s%d:product_views_%s 1 %d 2 0", i, g->hex, i);
        redis_do("HSET tally:batch:%s =s%d:product_views 2", g->hex, i);
    }
    scan_is(SCAN_SEALED);
    assert_int_equal(g->b.rows_n, 600);
    assert_int_equal(g->b.hashes_n, 300);
    discard();
    assert_true(g->d.done_ok);
    redis_has("0", "DBSIZE");
}

/* Packed as the claim's script does it: rows unchanged, with a hash that was renamed; a discard leaves nothing. */
TEST(test_packed)
{
    static const char pack[] =
        "local long = string.rep('n', 300) "
        "redis.call('HSET', KEYS[1], 'format', 2, 'packed_n', 3, 'packed', cmsgpack.pack({"
        "'s2:product_views', {'1', '-9223372036854775808'}, "
        "'s3:' .. long, {'a\\0b\\255', '5', '', '9223372036854775807'}, "
        "'s4:product_views', {string.rep('f', 70000), '1', '1', '1', '2', '1', '3', '1', '4', '1', '5', '1', "
        "'6', '1', '7', '1'}}))";
    redis_do("HSET " KEY1 "_%s 1 4 2 5", g->hex);
    redis_do("HSET tally:batch:%s counter product_views gen 12 owner a:b lowest_ms 1 =" KEY1 " 2", g->hex);
    redis_do("EVAL %s 1 tally:batch:%s", pack, g->hex);
    redis_do("ZADD tally:batches 1 %s", g->hex);
    scan_is(SCAN_SEALED);
    assert_int_equal(g->b.hashes_n, 4);
    assert_int_equal(g->b.rows_n, 2 + 1 + 2 + 8);
    assert_slice(batch_hash_name(&g->b, 0), KEY1);
    assert_false(g->b.hashes[0].packed);
    assert_slice(batch_hash_name(&g->b, 1), KEY2);
    assert_slice(batch_value(&g->b, &g->b.rows[2]), "-9223372036854775808");
    assert_int_equal(batch_field(&g->b, &g->b.rows[10]).n, 70000);
    assert_int_equal(batch_hash_name(&g->b, 3).n, 303);
    assert_int_equal(batch_field(&g->b, &g->b.rows[11]).n, 0);
    assert_slice(batch_value(&g->b, &g->b.rows[11]), "9223372036854775807");
    assert_memory_equal(batch_field(&g->b, &g->b.rows[12]).p, "a\0b\377", 4);
    discard();
    redis_has("0", "DBSIZE");
}

/* None of these did a claim write: the batch is left alone. */
TEST(test_packed_badly)
{
    static const char *const texts[] = {
        "cmsgpack.pack({'s2:product_views'})",
        "cmsgpack.pack({'s2:product_views', {'1'}})",
        "cmsgpack.pack({'s2:product_views', {'1', 1}})",
        "cmsgpack.pack({'s2:product_views', '1'})",
        "cmsgpack.pack({'s1:product_views', {'1', '1'}})",
        "cmsgpack.pack({'s2:product_views', {'1', '1'}, 's2:product_views', {'1', '1'}})",
        "string.sub(cmsgpack.pack({'s2:product_views', {'1', '1'}}), 1, -2)",
        "cmsgpack.pack({'s2:product_views', {'1', '1'}}) .. 'x'",
        "''",
        "'\\221'",
        "'\\221\\219\\255'",
    };
    make(2, 0);
    redis_do("HDEL tally:batch:%s =" KEY2, g->hex);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char script[400];
        snprintf(script, sizeof script, "return redis.call('HSET', KEYS[1], 'format', 2, 'packed', %s)",
                 texts[i]);
        redis_do("EVAL %s 1 tally:batch:%s", script, g->hex);
        scan_is(SCAN_UNKNOWN);
    }
    redis_do("HDEL tally:batch:%s packed", g->hex);
    scan_is(SCAN_SEALED);
}

TEST(test_gone_and_short)
{
    scan_is(SCAN_GONE);
    make(100, 5);
    redis_do("HDEL " KEY1 "_%s 17", g->hex);
    scan_is(SCAN_SHORT);
    assert_string_equal(g->s.text, KEY1 " has 99 of 100 registered fields");
    redis_do("SET " KEY1 "_%s x", g->hex);
    scan_is(SCAN_SHORT);
    redis_do("DEL " KEY1 "_%s", g->hex);
    scan_is(SCAN_SHORT);
}

/* The owner discards while we scan: no alarm. Two requests in one pipeline make it so at a known moment. */
TEST(test_gone_while_scanning)
{
    make(20000, 5);
    scan(); /* so that the discard knows the names */
    redis_scan(&g->scans, &g->s);
    while (g->s.reading.out == 0) /* the registry was read, the rows are asked for */
        uv_run(&g->w->loop, UV_RUN_ONCE);
    redis_do("DEL tally:batch:%s " KEY1 "_%s " KEY2 "_%s", g->hex, g->hex, g->hex);
    WAIT_UNTIL(g->w, g->scanned == 2);
    assert_int_equal(g->s.outcome, SCAN_GONE);
}

TEST(test_unknown)
{
    make(3, 2);
    redis_do("HSET tally:batch:%s counter old_counter", g->hex);
    scan_is(SCAN_UNKNOWN);
    assert_non_null(strstr(g->s.text, "\"old_counter\": its counter is not configured"));
    g->s.raw = true;
    scan_is(SCAN_SEALED);
    assert_null(g->b.counter);
    assert_int_equal(g->b.rows_n, 5);
    g->s.raw = false;
    redis_do("HSET tally:batch:%s counter product_views format 3", g->hex);
    scan_is(SCAN_UNKNOWN);
    assert_non_null(strstr(g->s.text, "another version of tallyd"));
    redis_do("HSET tally:batch:%s format 1 =" KEY1 " many", g->hex);
    scan_is(SCAN_UNKNOWN);
}

/* Killed in the middle of a scan: one answer, LOST; the next scan over the restarted server is whole. */
TEST(test_killed_mid_scan)
{
    char run_id[RUN_ID_BYTES];
    /* With everysec a reply may leave while the write of AOF waits for an fsync; the kill would lose it. */
    redis_do("CONFIG SET appendfsync always");
    make(50000, 5);
    memcpy(run_id, g->w->link.facts.run_id, sizeof run_id);
    redis_scan(&g->scans, &g->s);
    WAIT_UNTIL(g->w, g->b.rows_n > 5000);
    redis_server_kill(&g->w->server);
    WAIT_UNTIL(g->w, g->scanned == 1);
    assert_int_equal(g->s.outcome, SCAN_LOST);
    assert_non_null(strstr(g->s.text, "link"));
    redis_scan(&g->scans, &g->s); /* not up: refused at the next turn */
    assert_int_equal(g->scanned, 1);
    WAIT_UNTIL(g->w, g->scanned == 2);
    assert_int_equal(g->s.outcome, SCAN_LOST);
    redis_server_run(&g->w->server);
    WAIT_UNTIL(g->w, g->w->ups == 2);
    scan_is(SCAN_SEALED);
    assert_int_equal(g->b.rows_n, 50005);
    assert_string_not_equal(g->s.run_id, run_id);
}

/* --- others wait for this Redis --- */

TEST(test_gentle)
{
    uint32_t most = 0;
    make(3000, 7);
    for (int i = 10; i < 60; i++) {
        redis_do("HSET s%d:product_views_%s 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10 10", i, g->hex);
        redis_do("HSET tally:batch:%s =s%d:product_views 10", g->hex, i);
    }
    g->scans.gentle = true;
    g->scans.piece = (struct piece){40, 40, 40, 1000000, 0};
    redis_scan(&g->scans, &g->s);
    while (g->scanned == 0) {
        uv_run(&g->w->loop, UV_RUN_ONCE);
        if (g->s.reading.out > most) most = g->s.reading.out;
    }
    assert_in_range(most, 2, 5);
    assert_int_equal(g->s.outcome, SCAN_SEALED);
    assert_int_equal(g->b.rows_n, 3000 + 7 + 500);
}

static void gentle_until_rest(void)
{
    make(20000, 5);
    g->scans.gentle = true;
    redis_scan(&g->scans, &g->s);
    WAIT_UNTIL(g->w, !list_empty(&g->scans.resting));
}

/* It ends before it asks anything of a connection that another server may have. */
TEST(test_another_connection)
{
    gentle_until_rest();
    g->w->link.client_id++;
    WAIT_UNTIL(g->w, g->scanned == 1);
    assert_int_equal(g->s.outcome, SCAN_LOST);
    assert_true(g->b.rows_n < 20000);
}

TEST(test_closed_while_it_rests)
{
    gentle_until_rest();
    uv_timer_stop(&g->scans.rest);
    redis_server_kill(&g->w->server);
    WAIT_UNTIL(g->w, g->w->downs == 1);
    assert_int_equal(g->scanned, 0);
    scans_close();
    assert_int_equal(g->scanned, 1);
    assert_int_equal(g->s.outcome, SCAN_LOST);
}

/* The fence beside it may have passed before that, with a claim that the next primary lacks. */
TEST(test_demoted)
{
    make(20, 5);
    scan_is(SCAN_SEALED);
    assert_string_equal(g->s.replid, g->w->link.facts.replid);
    redis_do("REPLICAOF 127.0.0.1 1");
    scan_is(SCAN_LOST);
    redis_do("REPLICAOF NO ONE");
    scan_is(SCAN_SEALED);
    assert_string_not_equal(g->s.replid, g->w->link.facts.replid);
    g->w->place.hold_ms = 1;
    scan_is(SCAN_LOST);
}

TEST(test_when_full)
{
    make(2000, 5);
    redis_do("CONFIG SET maxmemory 1");
    scan_is(SCAN_SEALED);
    for (int i = 1; i <= 2; i++) { /* the second finds nothing, and says that it is done */
        discard();
        assert_true(g->d.done_ok);
    }
    redis_has("0", "DBSIZE");
}

TEST(test_discard_refused)
{
    make(20, 5);
    scan();
    redis_do("REPLICAOF 127.0.0.1 1");
    discard();
    assert_false(g->d.done_ok);
    assert_true(strncmp(g->d.text, "READONLY", 8) == 0);
    redis_do("REPLICAOF NO ONE");
    redis_server_kill(&g->w->server);
    discard();
    assert_false(g->d.done_ok);
}
