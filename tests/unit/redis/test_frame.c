/* Frames and claims on a real server: what the cells get, what a refusal says, what a claim leaves in
 * Redis. */
#include "base/heap.h"
#include "lib/child.h"
#include "lib/frame_cell.h"
#include "unit/redis/frames_world.h"

#define KEY "s1:unique_visitors:daily"
#define LOCK "s1:unique_visitors:sync"

/* A frame of one hash and one cell. */
static struct frame_cell *one_cell(const char *key, const char *field, int64_t delta)
{
    uint32_t at = g->f.hashes_n;
    frame_add_hash(&g->f, NULL, slice_str(key));
    g->f.hashes[at].zadd = true;
    frame_add_share(&g->f, &g->w->all[0], delta);
    g->f.dirty_ms = 1234567890123;
    return frame_add_cell(&g->f, at, slice_str(field), delta);
}

static void ask_lock(struct frame_hash *h, const char *lock)
{
    h->ask_lock = true;
    h->lock_at = (uint32_t)g->f.bytes.n;
    h->lock_n = (uint32_t)strlen(lock);
    h->lock_s = 60;
    buf_put(&g->f.bytes, lock, strlen(lock));
}

/* Under the next number. */
static void send_next(void)
{
    g->f.seq++;
    send_and_wait();
}

#define next_is(expected) send_next(), assert_int_equal(g->outcome, (expected))

FRAME_TEST(test_applied)
{
    one_cell(KEY, "20140920", 3);
    ask_lock(&g->f.hashes[0], LOCK);
    next_is(FRAME_APPLIED);
    assert_int_equal(g->f.cells[0].value, 3);
    assert_int_equal(g->f.cells[0].error_n, 0);
    assert_true(g->f.hashes[0].fresh);
    assert_true(g->f.hashes[0].lock_granted);
    assert_in_range(g->f.hashes[0].lock_pttl_ms, 50000, 60000);
    redis_has("3", "HGET " KEY " 20140920");
    redis_has("1234567890123", "ZSCORE tally:dirty " KEY);
    redis_has("3", "HGET tally:accepted unique_visitors");
    redis_has("shop", "GET " LOCK);
    redis_has("1", "GET tally:seq:shop:%s", g->w->life.id);
    assert_true(atoll(redis_do("TTL tally:seq:shop:%s", g->w->life.id)) > 29 * 86400);

    g->f.hashes[0].zadd = false;
    g->f.cells[0].delta = -1;
    g->f.shares[0].delta = -1;
    send_next();
    assert_int_equal(g->f.cells[0].value, 2);
    assert_false(g->f.hashes[0].fresh);
    assert_false(g->f.hashes[0].lock_granted);
    assert_in_range(g->f.hashes[0].lock_pttl_ms, 50000, 60000);
    redis_has("2", "HGET tally:accepted unique_visitors");
    redis_has("2", "GET tally:seq:shop:%s", g->w->life.id);
}

/* --- a frame that Redis lost --- */

/* Under its number, with a ZADD for each hash, and no lock. */
FRAME_TEST(test_replayed)
{
    g->frames.keeps = true;
    one_cell(KEY, "20140920", 3);
    one_cell("s2:unique_visitors:daily", "20140920", 4);
    one_cell(KEY, "20140921", -5);
    g->f.hashes[0].zadd = false;
    ask_lock(&g->f.hashes[0], LOCK);
    send_next();
    struct kept_frame k = kept_again();
    redis_do("FLUSHALL");
    replay(&k);
    assert_int_equal(g->outcome, FRAME_APPLIED);
    assert_int_equal(k.failed, 0);
    redis_has("3", "HGET " KEY " 20140920");
    redis_has("-5", "HGET " KEY " 20140921");
    redis_has("4", "HGET s2:unique_visitors:daily 20140920");
    redis_has("2", "HGET tally:accepted unique_visitors");
    redis_has("1234567890123", "ZSCORE tally:dirty " KEY);
    redis_has("1234567890123", "ZSCORE tally:dirty s2:unique_visitors:daily");
    redis_has("0", "EXISTS " LOCK);
    redis_has("1", "GET tally:seq:shop:%s", g->w->life.id);
    redis_do("CONFIG SET maxmemory 1");
    replay(&k);
    assert_int_equal(g->outcome, FRAME_REFUSED);
    redis_has("3", "HGET " KEY " 20140920");
    redis_do("CONFIG SET maxmemory 0");
    redis_do("DEL " KEY);
    redis_do("SET " KEY " other");
    replay(&k);
    assert_int_equal(k.failed, 2);
}

/* Its clients were told so. Its share stays, since the next frame takes it back. */
FRAME_TEST(test_what_failed_is_not_replayed)
{
    g->frames.keeps = true;
    redis_do("SET " KEY " other");
    one_cell(KEY, "20140920", 3);
    one_cell("s2:unique_visitors:daily", "20140920", 4);
    send_next();
    struct kept_frame k = kept_again();
    assert_int_equal(k.cells, 1);
    redis_do("FLUSHALL");
    replay(&k);
    redis_has("0", "EXISTS " KEY);
    redis_has("4", "HGET s2:unique_visitors:daily 20140920");
    redis_has("7", "HGET tally:accepted unique_visitors");
}

FRAME_TEST(test_without_keeping_nothing_is_copied)
{
    one_cell(KEY, "20140920", 3);
    send_next();
    assert_int_equal(g->f.again.n, 0);
}

static int allocations;

static void *counting_realloc(void *arg, void *p, size_t size)
{
    allocations++;
    return realloc(p, size);
}

static void counting_free(void *arg, void *p)
{
    free(p);
}

/* Once warm, a frame there and back allocates nothing of ours. */
FRAME_TEST(test_warm)
{
    static const struct heap counting = {.realloc = counting_realloc, .free = counting_free};
    char field[16];
    one_cell(KEY, "0", 1);
    for (int i = 1; i < 1000; i++) {
        snprintf(field, sizeof field, "%d", i);
        frame_add_cell(&g->f, 0, slice_str(field), i);
    }
    for (int i = 0; i < 5; i++)
        send_next();
    heap_replace(&counting);
    for (int i = 0; i < 50; i++)
        send_next();
    heap_replace(NULL);
    assert_int_equal(allocations, 0);
    assert_int_equal(g->f.cells[999].value, 55 * 999);
}

FRAME_TEST(test_many_cells)
{
    char field[16];
    for (int h = 0; h < 10; h++) {
        char *key = malloc(64);
        snprintf(key, 64, "s%d:product_views", h);
        one_cell(key, "0", 1);
        for (int i = 1; i < 200; i++) {
            snprintf(field, sizeof field, "%d", i);
            frame_add_cell(&g->f, (uint32_t)h, slice_str(field), h + i);
        }
    }
    send_next();
    for (int h = 0; h < 10; h++) {
        for (int i = 1; i < 200; i++)
            assert_int_equal(g->f.cells[h * 200 + i].value, h + i);
        redis_has("200", "HLEN s%d:product_views", h);
        free((char *)(void *)g->f.hashes[h].key.p);
    }
    redis_has("10", "ZCARD tally:dirty");
}

static void cell_error_is(int cell, const char *text)
{
    struct slice got = FRAME_ERROR(&g->f, &g->f.cells[cell]);
    assert_int_equal(got.n, strlen(text));
    assert_memory_equal(got.p, text, got.n);
}

FRAME_TEST(test_cell_errors)
{
    redis_do("SET s2:unique_visitors:daily x");
    redis_do("HSET s3:unique_visitors:daily full 9223372036854775807 word abc");
    one_cell(KEY, "20140920", 1);
    one_cell("s2:unique_visitors:daily", "20140920", 1);
    one_cell("s3:unique_visitors:daily", "full", 1);
    frame_add_cell(&g->f, 2, SLICE("word"), 1);
    frame_add_cell(&g->f, 0, SLICE("20140921"), 7);
    next_is(FRAME_APPLIED);
    assert_int_equal(g->f.cells[0].value, 1);
    cell_error_is(1, "WRONGTYPE Operation against a key holding the wrong kind of value");
    cell_error_is(2, "ERR increment or decrement would overflow");
    cell_error_is(3, "ERR hash value is not an integer");
    assert_int_equal(g->f.cells[4].value, 7);
    assert_int_equal(g->f.cells[4].error_n, 0);
}

/* A sum that would overflow is the next frame's, by the script, until it is far from its end again. */
static void books_go_round(int64_t sum, int64_t delta, int64_t rounded)
{
    got_open(NULL);
    char text[24];
    g->frames.keeps = true;
    redis_do("HSET tally:accepted unique_visitors %lld", (long long)sum);
    one_cell(KEY, "20140920", delta);
    g->f.seq = 1;
    next_is(FRAME_APPLIED);
    assert_int_equal(g->f.cells[0].value, delta);
    assert_true(g->f.shares[0].refused);
    assert_null(memmem(g->f.again.p, g->f.again.n, "accepted", 8));
    frame_reset(&g->f);
    frame_add_share(&g->f, &g->w->all[0], delta);
    frame_add_share(&g->f, &g->w->all[1], 3);
    g->f.seq = 2;
    send_next();
    assert_false(g->f.shares[0].refused);
    snprintf(text, sizeof text, "%lld", (long long)rounded);
    redis_has(text, "HGET tally:accepted unique_visitors");
    redis_has("3", "HGET tally:accepted %b", g->w->all[1].name.p, g->w->all[1].name.n);
    assert_non_null(memmem(g->f.again.p, g->f.again.n, "EVAL", 4));
    redis_do("HSET tally:accepted unique_visitors 0");
    g->f.shares[0].delta = 1;
    for (int i = 0; i < 2; i++)
        send_next();
    assert_null(memmem(g->f.again.p, g->f.again.n, "EVAL", 4));
    got_close(NULL);
}

UNIT(test_books_go_round)
{
    books_go_round(INT64_MAX, 1, INT64_MIN);
    books_go_round(INT64_MAX - 3, INT64_MAX, -5);
    books_go_round(INT64_MIN, -1, INT64_MAX);
    books_go_round(INT64_MIN + 1, -7, INT64_MAX - 5);
    books_go_round(-5, INT64_MIN + 2, INT64_MAX - 2);
}

FRAME_TEST(test_refused_when_full)
{
    redis_do("CONFIG SET maxmemory 1");
    one_cell(KEY, "20140920", 1);
    next_is(FRAME_REFUSED);
    assert_slice(buf_slice(&g->f.errors), "OOM command not allowed when used memory > 'maxmemory'.");
    redis_has("0", "EXISTS " KEY);
    assert_int_equal(g->w->downs, 0);
    redis_do("CONFIG SET maxmemory 0");
    next_is(FRAME_APPLIED);
    assert_int_equal(g->f.errors.n, 0);
}

FRAME_TEST(test_refused_by_a_replica)
{
    redis_do("REPLICAOF 127.0.0.1 1");
    one_cell(KEY, "20140920", 1);
    next_is(FRAME_REFUSED);
    assert_slice(buf_slice(&g->f.errors), "READONLY You can't write against a read only replica.");
    WAIT_UNTIL(g->w, g->w->downs >= 1);
    assert_true(strncmp(g->w->why, "READONLY", 8) == 0);
    redis_do("REPLICAOF NO ONE");
    WAIT_UNTIL(g->w, g->w->ups == 2);
    next_is(FRAME_APPLIED);
}

/* Its number was touched since the frame before: the server took over other data. */
FRAME_TEST(test_not_run_on_other_data)
{
    g->f.seq = 1;
    one_cell(KEY, "20140920", 1);
    send_next();
    assert_int_equal(redis_link_number(&g->w->link), g->f.seq);
    redis_do("EXPIRE tally:seq:shop:%s 1000", g->w->life.id);
    redis_frames_send(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->w->downs == 1);
    assert_non_null(strstr(g->w->why, "another server's data"));
    assert_int_equal(g->frames_n, 1);
    redis_has("1", "HGET " KEY " 20140920");
    WAIT_UNTIL(g->w, g->w->ups == 2);
    send_next();
    redis_has("2", "HGET " KEY " 20140920");
}

/* On a new link, from the look on. */
FRAME_TEST(test_not_run_behind_the_look)
{
    redis_frames_look(&g->frames, &(struct link_look){0});
    WAIT_UNTIL(g->w, g->looks == 1);
    redis_do("SET tally:seq:shop:%s 7", g->w->life.id);
    g->f.seq = 1;
    one_cell(KEY, "20140920", 1);
    redis_frames_send(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->w->downs == 1);
    assert_int_equal(g->frames_n, 0);
}

/* Without hits TIME is read every two seconds, and the number with it. */
FRAME_TEST(test_idle_link_looks)
{
    g->f.seq = 5;
    one_cell(KEY, "20140920", 1);
    send_next();
    redis_do("SET tally:seq:shop:%s 4", g->w->life.id);
    WAIT_UNTIL(g->w, g->w->downs == 1);
    assert_non_null(strstr(g->w->why, "another server's data"));
}

/* A server that says this to the frame. */
static void fake_open(struct fake *f, const char *say)
{
    *f = (struct fake){.say = {say}};
    got_fake(f);
    one_cell(KEY, "20140920", 1);
}

/* Refused at EXEC itself, not at queue time: the text is what EXEC was refused for. */
UNIT(test_refused_at_exec)
{
    static const char *const says[][2] = {
        {"-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > "
         "'maxmemory'.\r\n",
         "OOM command not allowed when used memory > 'maxmemory'."},
        {"-MISCONF Errors writing to the AOF file: No space left on device\r\n",
         "MISCONF Errors writing to the AOF file: No space left on device"},
    };
    for (int i = 0; i < 2; i++) {
        struct fake f;
        char say[400];
        snprintf(say, sizeof say, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n%s", says[i][0]);
        fake_open(&f, say);
        next_is(FRAME_REFUSED);
        assert_slice(buf_slice(&g->f.errors), says[i][1]);
        got_fake_close(&f);
    }
}

/* Answers that are not those of a transaction: the link is cut, the frame is in doubt, no client is told that it was applied. */
UNIT(test_no_transaction)
{
    static const char *const says[] = {
        "+OK\r\n:1\r\n:1\r\n:1\r\n+OK\r\n-ERR EXEC without MULTI\r\n",
        "-NOPERM no\r\n:1\r\n:1\r\n:1\r\n+OK\r\n-ERR EXEC without MULTI\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*1\r\n:1\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n",
    };
    for (int i = 0; i < 4; i++) {
        struct fake f;
        fake_open(&f, says[i]);
        redis_frames_send(&g->frames, &g->f);
        WAIT_UNTIL(g->w, g->w->downs == 1);
        assert_int_equal(g->frames_n, 0);
        got_fake_close(&f);
    }
}

FRAME_TEST(test_cut_in_flight)
{
    struct claim c = {.counter = &g->w->all[0], .keys = &(struct slice){KEY, strlen(KEY)}, .keys_n = 1};
    batch_id_draw(&c.id);
    one_cell(KEY, "20140920", 5);
    g->f.seq = 7;
    child_pause(g->w->server.pid);
    redis_frames_send(&g->frames, &g->f);
    redis_frames_claim(&g->frames, &c);
    redis_link_cut(&g->w->link, "MASTERDOWN for the test");
    WAIT_UNTIL(g->w, g->w->downs == 1);
    kill(g->w->server.pid, SIGCONT);
    WAIT_UNTIL(g->w, g->w->ups == 2);
    assert_int_equal(g->frames_n + g->claims_n, 0); /* down() told */
    redis_frames_kill(&g->frames, 999999);
    WAIT_UNTIL(g->w, g->killed == 1);
    const struct claim *claims[] = {&c};
    redis_frames_look(&g->frames,
                      &(struct link_look){.claims = (struct claim *const *)(void *)claims, .claims_n = 1});
    WAIT_UNTIL(g->w, g->looks == 1);
    /* All bytes had been taken by the socket, so the stopped server ran them after the cut. */
    assert_int_equal(g->seq, 7);
    assert_true(g->stands[0]);
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->values == 1);
    assert_int_equal(g->f.cells[0].value, 0); /* claimed */
    redis_do("HSET " KEY " 20140920 41");
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->values == 2);
    assert_int_equal(g->f.cells[0].value, 41);
    redis_do("HSET " KEY " 20140920 4.5");
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->values == 3);
    cell_error_is(0, "ERR hash value is not an integer");
    redis_do("SET " KEY " x");
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->values == 4);
    cell_error_is(0, "WRONGTYPE Operation against a key holding the wrong kind of value");
    /* Any other error says nothing of the increment: a new connection has to find out. */
    int ups = g->w->ups;
    redis_do("ACL SETUSER default -hget");
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->w->ups == ups + 1);
    assert_int_equal(g->values, 4);
}

FRAME_TEST(test_look_with_nothing)
{
    struct claim a = {0}, b = {0};
    struct claim *both[] = {&a, &b};
    batch_id_draw(&a.id);
    batch_id_draw(&b.id);
    char hex[33];
    batch_id_hex(&b.id, hex);
    redis_do("HSET tally:batch:%s format 1", hex);
    redis_frames_look(&g->frames, &(struct link_look){.claims = both, .claims_n = 2});
    WAIT_UNTIL(g->w, g->looks == 1);
    assert_int_equal(g->seq, -1);
    assert_false(g->stands[0]);
    assert_true(g->stands[1]);
}

/* --- claims --- */

struct keys {
    char names[1000][64];
    struct slice all[1000];
};

static void claim_and_wait(struct claim *c)
{
    int before = g->claims_n;
    batch_id_draw(&c->id);
    redis_frames_claim(&g->frames, c);
    WAIT_UNTIL(g->w, g->claims_n == before + 1);
}

#define claim_is(c, expected) claim_and_wait(c), assert_int_equal((c)->outcome, (expected))

static const char *hex_of(const struct claim *c)
{
    static char hex[33];
    batch_id_hex(&c->id, hex);
    return hex;
}

static const char unpacked[] = "return cjson.encode(cmsgpack.unpack(redis.call('HGET', KEYS[1], 'packed')))";

FRAME_TEST(test_claim)
{
    struct slice keys[] = {SLICE(KEY), SLICE("s2:unique_visitors:daily"), SLICE("s3:unique_visitors:daily"),
                           SLICE(KEY)};
    struct claim c = {.counter = &g->w->all[0], .keys = keys, .keys_n = 4};
    redis_do("HSET " KEY " a 1 b 2");
    redis_do("SET s3:unique_visitors:daily x");
    redis_do("ZADD tally:dirty 1700000000456 " KEY
             " 1700000000123 s2:unique_visitors:daily 5 s3:unique_visitors:daily"
             " 6 other");
    claim_is(&c, CLAIM_STANDS);
    assert_int_equal(c.renamed, 1);
    assert_int_equal(c.left, 0);
    assert_int_equal(c.fields, 2);
    redis_has("0", "EXISTS " KEY);
    redis_has("0", "EXISTS " KEY "_%s", hex_of(&c));
    redis_has("[\"" KEY "\",[\"a\",\"1\",\"b\",\"2\"]]", "EVAL %s 1 tally:batch:%s", unpacked, hex_of(&c));
    redis_has("other", "ZRANGE tally:dirty 0 -1");
    redis_has("shop", "GET " LOCK);
    assert_in_range(atoll(redis_do("TTL " LOCK)), 50, 60);
    redis_has("0", "EXISTS s2:unique_visitors:sync");
    redis_has("1", "GET tally:gen");
    redis_has(hex_of(&c), "ZRANGE tally:batches 0 -1");
    redis_has("2 unique_visitors 1 5 1", "HMGET tally:batch:%s format counter gen lowest_ms packed_n",
              hex_of(&c));
    redis_has("7", "HLEN tally:batch:%s", hex_of(&c));
    claim_is(&c, CLAIM_EMPTY);
    redis_has("1", "GET tally:gen");
    redis_has("1", "ZCARD tally:batches");
}

/* A hash with many fields or long ones is renamed, in the same batch; a fresh lock stays unchanged. */
FRAME_TEST(test_claim_small_and_large)
{
    struct slice keys[] = {SLICE("s1:unique_visitors:daily"), SLICE("s2:unique_visitors:daily"),
                           SLICE("s3:unique_visitors:daily"), SLICE("s4:unique_visitors:daily")};
    bool fresh[] = {false, true, true, false};
    struct claim c = {.counter = &g->w->all[0], .keys = keys, .keys_n = 4, .fresh = fresh};
    char long_field[602] = "";
    memset(long_field, 'f', 600);
    redis_do("HSET s1:unique_visitors:daily 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9");
    redis_do("EXPIRE s1:unique_visitors:daily 1000");
    redis_do("HSET s2:unique_visitors:daily 1 -9223372036854775808 2 9223372036854775807");
    redis_do("HSET s3:unique_visitors:daily %s 1", long_field);
    redis_do("HSET s4:unique_visitors:daily 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8");
    redis_do("ZADD tally:dirty 7 s1:unique_visitors:daily 8 s2:unique_visitors:daily");
    claim_is(&c, CLAIM_STANDS);
    assert_int_equal(c.renamed, 4);
    assert_int_equal(c.fields, 9 + 2 + 1 + 8);
    redis_has("9", "HLEN s1:unique_visitors:daily_%s", hex_of(&c));
    redis_has("-1", "TTL s1:unique_visitors:daily_%s", hex_of(&c));
    redis_has("1", "HLEN s3:unique_visitors:daily_%s", hex_of(&c));
    redis_has("0", "EXISTS s1:unique_visitors:daily s2:unique_visitors:daily s3:unique_visitors:daily "
                   "s4:unique_visitors:daily tally:dirty");
    redis_has("9 1 nil nil 2 7",
              "HMGET tally:batch:%s =s1:unique_visitors:daily =s3:unique_visitors:daily "
              "=s2:unique_visitors:daily =s4:unique_visitors:daily packed_n lowest_ms",
              hex_of(&c));
    redis_has("[\"s2:unique_visitors:daily\",[\"1\",\"-9223372036854775808\",\"2\",\"9223372036854775807\"],"
              "\"s4:unique_visitors:daily\",[\"1\",\"1\",\"2\",\"2\",\"3\",\"3\",\"4\",\"4\","
              "\"5\",\"5\",\"6\",\"6\",\"7\",\"7\",\"8\",\"8\"]]",
              "EVAL %s 1 tally:batch:%s", unpacked, hex_of(&c));
    redis_has("shop", "GET s1:unique_visitors:sync");
    redis_has("0", "EXISTS s2:unique_visitors:sync s3:unique_visitors:sync");
    redis_has("shop", "GET s4:unique_visitors:sync");
}

/* A Redis user that may not UNLINK: nothing is packed, so that nothing exists twice. */
FRAME_TEST(test_claim_may_not_unlink)
{
    struct slice keys[] = {SLICE(KEY)};
    struct claim c = {.counter = &g->w->all[0], .keys = keys, .keys_n = 1};
    redis_do("HSET " KEY " a 1");
    redis_do("ACL SETUSER default -unlink");
    claim_is(&c, CLAIM_REFUSED);
    redis_has("a 1", "HGETALL " KEY);
    redis_has("nil", "HGET tally:batch:%s packed", hex_of(&c));
}

FRAME_TEST(test_claim_target_exists)
{
    struct slice keys[] = {SLICE(KEY)};
    struct claim c = {.counter = &g->w->all[0], .keys = keys, .keys_n = 1};
    batch_id_draw(&c.id);
    redis_do("HSET " KEY " a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9");
    redis_do("HSET " KEY "_%s old 9", hex_of(&c));
    redis_do("ZADD tally:dirty 1 " KEY);
    redis_frames_claim(&g->frames, &c);
    WAIT_UNTIL(g->w, g->claims_n == 1);
    assert_int_equal(c.outcome, CLAIM_EMPTY);
    redis_has("9", "HLEN " KEY);
    redis_has("1", "ZCARD tally:dirty");
    redis_has("old 9", "HGETALL " KEY "_%s", hex_of(&c));
}

/* 1,000 hashes at once, when Redis is full; frames go on being refused. */
FRAME_TEST(test_claim_thousand_when_full)
{
    struct keys *k = malloc(sizeof *k);
    struct claim c = {.counter = &g->w->all[1], .keys = k->all, .keys_n = 1000};
    for (int i = 0; i < 1000; i++) {
        snprintf(k->names[i], 64, "s%d:product_views", i);
        k->all[i] = slice_str(k->names[i]);
        redis_do("HSET %s 1 2 3 4", k->names[i]);
        redis_do("ZADD tally:dirty %d %s", 1000 + i, k->names[i]);
    }
    redis_do("CONFIG SET maxmemory 1");
    claim_is(&c, CLAIM_STANDS);
    assert_int_equal(c.renamed, 1000);
    assert_int_equal(c.fields, 2000);
    redis_has("1000", "HGET tally:batch:%s packed_n", hex_of(&c));
    redis_has("7", "HLEN tally:batch:%s", hex_of(&c));
    redis_has("0", "EXISTS s0:product_views s999:product_views");
    redis_has("0", "ZCARD tally:dirty");
    redis_has("1000", "HGET tally:batch:%s lowest_ms", hex_of(&c));
    free(k);
}

FRAME_TEST(test_claim_field_bound)
{
    struct slice keys[] = {SLICE("s1:product_views"), SLICE("s2:product_views"), SLICE("s3:product_views")};
    struct claim c = {.counter = &g->w->all[1], .keys = keys, .keys_n = 3};
    static const char fill[] =
        "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], i, 1) end return 1";
    redis_do("EVAL %s 1 s1:product_views 60000", fill);
    redis_do("EVAL %s 1 s2:product_views 60000", fill);
    redis_do("EVAL %s 1 s3:product_views 10", fill);
    claim_and_wait(&c);
    assert_int_equal(c.renamed, 1);
    assert_int_equal(c.left, 2);
    assert_int_equal(c.fields, 60000);
    c.keys += 1;
    c.keys_n = c.left;
    redis_do("EVAL %s 1 s2:product_views 150000", fill); /* alone it goes, however big */
    claim_and_wait(&c);
    assert_int_equal(c.renamed, 1);
    assert_int_equal(c.left, 1);
    assert_int_equal(c.fields, 150000);
}

FRAME_TEST(test_claim_refused)
{
    struct slice keys[] = {SLICE(KEY)};
    struct claim c = {.counter = &g->w->all[0], .keys = keys, .keys_n = 1};
    redis_do("HSET " KEY " a 1");
    redis_do("SET tally:gen word");
    claim_is(&c, CLAIM_REFUSED);
    assert_non_null(strstr(c.text, "not an integer"));
    redis_has("1", "EXISTS " KEY);
    redis_has("0", "EXISTS tally:batches");
    redis_do("DEL tally:gen");
    redis_do("SET tally:batches x");
    claim_is(&c, CLAIM_REFUSED);
    redis_has("1", "EXISTS " KEY);
    redis_do("DEL tally:batches");
    redis_do("REPLICAOF 127.0.0.1 1");
    claim_is(&c, CLAIM_REFUSED);
    assert_true(strncmp(c.text, "READONLY", 8) == 0);
    WAIT_UNTIL(g->w, g->w->downs >= 1);
}

/* Frames and claims down one link run in the order they were sent. */
FRAME_TEST(test_order)
{
    struct slice keys[] = {SLICE(KEY)};
    struct claim c = {.counter = &g->w->all[0], .keys = keys, .keys_n = 1};
    batch_id_draw(&c.id);
    one_cell(KEY, "20140920", 2);
    redis_frames_send(&g->frames, &g->f);
    redis_frames_claim(&g->frames, &c);
    WAIT_UNTIL(g->w, g->claims_n == 1);
    assert_int_equal(g->frames_n, 1);
    assert_int_equal(c.fields, 1);
    send_next();
    assert_true(g->f.hashes[0].fresh);
    redis_has("[\"" KEY "\",[\"20140920\",\"2\"]]", "EVAL %s 1 tally:batch:%s", unpacked, hex_of(&c));
}

/* Killed with a frame and claims under way, again and again: nothing is answered twice, seq tells what ran.
 * */
FRAME_TEST(test_killed_under_way)
{
    for (int round = 0; round < 5; round++) {
        redis_do("CONFIG SET appendfsync always");
        int ups = g->w->ups, before = g->frames_n;
        frame_reset(&g->f);
        one_cell(KEY, "20140920", 1);
        g->f.seq = (uint64_t)round + 1;
        redis_frames_send(&g->frames, &g->f);
        redis_server_kill(&g->w->server);
        WAIT_UNTIL(g->w, g->w->downs > 0 && !redis_link_is_up(&g->w->link));
        redis_server_run(&g->w->server);
        WAIT_UNTIL(g->w, g->w->ups == ups + 1);
        int looks = g->looks;
        redis_frames_look(&g->frames, &(struct link_look){0});
        WAIT_UNTIL(g->w, g->looks == looks + 1);
        if (g->frames_n > before)
            assert_int_equal(g->seq, round + 1); /* answered, so applied, and AOF has it */
        assert_in_range(g->frames_n - before, 0, 1);
    }
}
