/* What a server tells of changes, and what a lane loses when a copy was given up; on a real server. */
#include "lib/redis_world.h"
#include "redis/sweep_op.h"
#include "redis/track_op.h"

#define SOON_MS 30000

static void track_on(struct world *w, struct redis_track *t)
{
    redis_track_open(t, &w->loop, &w->place);
    assert_true(redis_track_await(t, &t->on, SOON_MS));
}

static bool reached(struct world *w, struct redis_track *t)
{
    redis_track_mark(t, &w->link);
    return redis_track_await(t, &t->seen, SOON_MS);
}

static void assert_changed(struct redis_track *t, size_t n, const char *name)
{
    assert_int_equal(t->changed.n, n);
    assert_true(map_has(&t->changed, slice_str(name)));
}

/* Also by a script, by MULTI, by the clock, and of keys that are gone. */
static void test_told(void **state)
{
    struct world *w = world_open();
    struct redis_track t;
    (void)state;
    redis_ask(&w->server, "MSET before 1 gone 1");
    track_on(w, &t);
    assert_true(reached(w, &t));
    assert_int_equal(t.changed.n, 0);
    redis_ask(&w->server, "EVAL %s 2 a b", "redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1)");
    redis_ask(&w->server, "DEL gone");
    redis_ask(&w->server, "SET soon 1 PX 1");
    redis_ask(&w->server, "MULTI");
    redis_ask(&w->server, "HSET d e f");
    redis_ask(&w->server, "EXEC");
    assert_true(reached(w, &t));
    assert_changed(&t, 5, "a");
    assert_changed(&t, 5, "gone");
    assert_changed(&t, 5, "d");
    map_close(&t.changed);
    WAIT_UNTIL(w, strcmp(redis_ask(&w->server, "EXISTS soon"), "0") == 0);
    assert_true(reached(w, &t));
    assert_true(t.changed.n <= 1); /* or it was gone before the first look */
    redis_track_close(&t);
    world_close(w);
}

/* The mark of another mover, or an earlier one, does not count. */
static void test_own_mark(void **state)
{
    struct world *w = world_open();
    struct redis_track t;
    (void)state;
    track_on(w, &t);
    assert_true(reached(w, &t));
    t.seen = false;
    redis_ask(&w->server, "SET " KEY_MARK_PREFIX "0000000000000000 1");
    WAIT_UNTIL(w, t.changed.n == 1);
    assert_false(t.seen);
    redis_track_close(&t);
    world_close(w);
}

static void assert_lost(struct redis_track *t, const char *text)
{
    if (strstr(t->text, text) == NULL) fail_msg("'%s' is not in: %s", text, t->text);
    assert_true(t->lost);
    assert_false(t->on);
}

static void test_emptied(void **state)
{
    struct world *w = world_open();
    struct redis_track t;
    (void)state;
    track_on(w, &t);
    redis_ask(&w->server, "FLUSHALL");
    assert_false(reached(w, &t));
    assert_lost(&t, "it was emptied");
    redis_track_close(&t);
    world_close(w);
}

/* It is not made again: what changed meanwhile would be missing. */
static void test_cut(void **state)
{
    struct world *w = world_open();
    struct redis_track t;
    (void)state;
    track_on(w, &t);
    redis_ask(&w->server, "CLIENT KILL TYPE pubsub");
    WAIT_UNTIL(w, t.lost);
    assert_false(reached(w, &t));
    assert_lost(&t, "MASTERDOWN");
    redis_track_close(&t);
    world_close(w);
}

static void test_silent(void **state)
{
    struct world *w = world_open();
    struct redis_track t;
    (void)state;
    redis_ask(&w->server, "ACL SETUSER default -subscribe");
    redis_track_open(&t, &w->loop, &w->place);
    assert_false(redis_track_await(&t, &t.on, SOON_MS));
    assert_lost(&t, "NOPERM");
    redis_track_close(&t);
    redis_ask(&w->server, "ACL SETUSER default +subscribe");
    track_on(w, &t);
    assert_false(redis_track_await(&t, &t.seen, 50)); /* nobody changes the key */
    assert_lost(&t, "does not tell");
    redis_track_close(&t);
    world_close(w);
}

static void swept(struct redis_sweep *s)
{
    *(bool *)s->arg = true;
}

static bool counted(struct world *w, struct redis_sweep *sweep)
{
    *(bool *)sweep->arg = false;
    sweep->looks = true;
    redis_sweep(&w->link, sweep);
    WAIT_UNTIL(w, *(bool *)sweep->arg);
    assert_false(sweep->lost);
    return sweep->counted;
}

/* More keys than a page; those of other lanes, of other programs, and the state of the move remain. */
static void test_sweep(void **state)
{
    static const struct op_limits limits = {.token_keep_s = 60};
    struct world *w = world_open();
    struct redis_server *s = &w->server;
    bool done = false;
    (void)state;
    w->counters.ops = &limits;
    w->place.tag = (struct tag){"{x}", 3};
    for (int i = 0; i < 3000; i++)
        redis_ask(s, "HSET {x}count:60:name%d 1 1", i);
    redis_ask(s, "MSET {x}tally:token:1:t v {x}tally:lanes -1 {x}tally:move m {y}tb.z 1 tb.z 1 {x} 1");
    redis_ask(s, "HSET {x}tally:tokens 1 1");
    redis_ask(s, "ZADD {x}known: 0 60:name");
    struct redis_sweep sweep = {.counters = &w->counters, .lanes = 16, .done = swept, .arg = &done};
    redis_sweep(&w->link, &sweep);
    WAIT_UNTIL(w, done);
    assert_false(sweep.lost);
    assert_redis(s, "5", "DBSIZE");
    assert_redis(s, "-1 m 1 1 1", "MGET {x}tally:lanes {x}tally:move {y}tb.z tb.z {x}");
    assert_false(counted(w, &sweep));
    redis_ask(s, "MSET {y}tally:seq:one:0123456789abcdef 1 tally:seq:one:0123456789abcdef 1 {x}seq 1");
    assert_false(counted(w, &sweep));
    redis_ask(s, "SET {x}tally:seq:one:0123456789abcdef 1");
    assert_true(counted(w, &sweep));
    redis_ask(s, "DEL {x}tally:seq:one:0123456789abcdef");
    redis_ask(s, "HSET {x}tally:accepted visits 1");
    assert_true(counted(w, &sweep));
    sweep.looks = false;
    redis_ask(s, "ACL SETUSER default -unlink");
    done = false;
    redis_sweep(&w->link, &sweep);
    WAIT_UNTIL(w, done);
    assert_true(sweep.lost && strstr(sweep.text, "NOPERM") != NULL);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told), cmocka_unit_test(test_own_mark), cmocka_unit_test(test_emptied),
        cmocka_unit_test(test_cut),  cmocka_unit_test(test_silent),   cmocka_unit_test(test_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
