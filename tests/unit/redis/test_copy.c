/* What a server tells of changes, and what a lane loses when a copy was given up; on a real server. */
#include "lib/redis_world.h"
#include "redis/copy.h"

#define SOON_MS 30000

static void track_on(struct world *w, struct track *t)
{
    assert_true(track_open(t, &w->loop, &w->place));
}

static bool reached(struct world *w, struct track *t)
{
    return track_reach(t, &w->link, SOON_MS);
}

static void assert_changed(struct track *t, size_t n, const char *name)
{
    assert_int_equal(t->changed.n, n);
    assert_true(map_has(&t->changed, slice_str(name)));
}

/* Also by a script, by MULTI, by the clock, and of keys that are gone. */
WORLD_TEST(test_told)
{
    struct track t;
    redis_do("MSET before 1 gone 1");
    track_on(world, &t);
    assert_true(reached(world, &t));
    assert_int_equal(t.changed.n, 0);
    redis_do("EVAL %s 2 a b", "redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1)");
    redis_do("DEL gone");
    redis_do("SET soon 1 PX 1");
    redis_do("MULTI");
    redis_do("HSET d e f");
    redis_do("EXEC");
    assert_true(reached(world, &t));
    assert_changed(&t, 5, "a");
    assert_changed(&t, 5, "gone");
    assert_changed(&t, 5, "d");
    map_close(&t.changed);
    WAIT_UNTIL(world, strcmp(redis_do("EXISTS soon"), "0") == 0);
    assert_true(reached(world, &t));
    assert_true(t.changed.n <= 1); /* or it was gone before the first look */
    track_close(&t);
}

/* The mark of another mover, or an earlier one, does not count. */
WORLD_TEST(test_own_mark)
{
    struct track t;
    track_on(world, &t);
    assert_true(reached(world, &t));
    t.seen = false;
    redis_do("SET " KEY_MARK_PREFIX "0000000000000000 1");
    WAIT_UNTIL(world, t.changed.n == 1);
    assert_false(t.seen);
    track_close(&t);
}

static void assert_lost(struct track *t, const char *text)
{
    if (strstr(t->text, text) == NULL) fail_msg("'%s' is not in: %s", text, t->text);
    assert_true(t->lost);
}

WORLD_TEST(test_emptied)
{
    struct track t;
    track_on(world, &t);
    redis_do("FLUSHALL");
    assert_false(reached(world, &t));
    assert_lost(&t, "it was emptied");
    track_close(&t);
}

/* It is not made again: what changed meanwhile would be missing. */
WORLD_TEST(test_cut)
{
    struct track t;
    track_on(world, &t);
    redis_do("CLIENT KILL TYPE pubsub");
    WAIT_UNTIL(world, t.lost);
    assert_false(reached(world, &t));
    assert_lost(&t, "MASTERDOWN");
    track_close(&t);
}

WORLD_TEST(test_silent)
{
    struct track t;
    redis_do("ACL SETUSER default -subscribe");
    assert_false(track_open(&t, &world->loop, &world->place));
    assert_lost(&t, "NOPERM");
    track_close(&t);
    redis_do("ACL SETUSER default +subscribe");
    track_on(world, &t);
    assert_non_null(redis_call(&t.link, "UNSUBSCRIBE"));
    assert_false(track_reach(&t, &world->link, 50));
    assert_lost(&t, "does not tell");
    track_close(&t);
}

static bool counted(struct world *w)
{
    char why[200];
    bool yes = false;
    assert_true(lane_counted(&w->link, &yes, why, sizeof why));
    return yes;
}

/* More keys than a page; those of other lanes, of other programs, and the state of the move remain. */
WORLD_TEST(test_sweep)
{
    static const struct op_limits limits = {.token_keep_s = 60};
    char why[200];
    world->counters.ops = &limits;
    world->place.tag = (struct tag){"{x}", 3};
    for (int i = 0; i < 3000; i++)
        redis_do("HSET {x}count:60:name%d 1 1", i);
    redis_do("MSET {x}tally:token:1:t v {x}tally:lanes -1 {x}tally:move m {y}tb.z 1 tb.z 1 {x} 1");
    redis_do("HSET {x}tally:tokens 1 1");
    redis_do("ZADD {x}known: 0 60:name");
    assert_true(lane_sweep(&world->link, &world->counters, 16, why, sizeof why));
    redis_has("5", "DBSIZE");
    redis_has("-1 m 1 1 1", "MGET {x}tally:lanes {x}tally:move {y}tb.z tb.z {x}");
    assert_false(counted(world));
    redis_do("MSET {y}tally:seq:one:0123456789abcdef 1 tally:seq:one:0123456789abcdef 1 {x}seq 1");
    assert_false(counted(world));
    redis_do("SET {x}tally:seq:one:0123456789abcdef 1");
    assert_true(counted(world));
    redis_do("DEL {x}tally:seq:one:0123456789abcdef");
    redis_do("HSET {x}tally:accepted visits 1");
    assert_true(counted(world));
    redis_do("ACL SETUSER default -unlink");
    assert_false(lane_sweep(&world->link, &world->counters, 16, why, sizeof why));
    assert_non_null(strstr(why, "NOPERM"));
}
