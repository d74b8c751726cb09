/* A merge that makes no progress is reported after `every` and 30 s, whatever the cause; hits that only wait their turn are not. */
#include "world.h"

static char told[200];

static void stalled_note(void *arg, struct slice counter, const char *why)
{
    snprintf(told + strlen(told), sizeof told - strlen(told), SLICE_FMT ":%s ", SLICE_ARG(counter), why);
}

static void assert_stalled(const char *want)
{
    told[0] = '\0';
    sync_stalled(world->s, stalled_note, NULL);
    assert_string_equal(told, want);
    assert_int_equal(sync_stalled_s(world->s) > 0, want[0] != '\0');
}

static void pass_s(uint32_t seconds)
{
    for (uint32_t i = 0; i < 4 * seconds; i++)
        tick_after(250);
}

TEST(test_merge_that_hangs)
{
    run_to_merge(3);
    pass_s(88);
    assert_stalled("");
    pass_s(4);
    assert_stalled("views:batch_stands ");
    merge_answered(MERGE_DONE);
    pass_s(1);
    assert_stalled("");
    discard_answered(true);
    pass_s(200);
    assert_stalled("");
}

/* Quiet stores: their names are in the dirty index alone. */
TEST(test_mysql_away)
{
    sync_mysql(world->s, false);
    index_put("p1", world->redis_ms);
    index_put("q1", world->redis_ms);
    pass_s(85);
    assert_stalled("");
    pass_s(10);
    assert_stalled("views:mysql_down ");
    assert_did(""); /* looked at, and not claimed */
    pass_s(600);
    assert_stalled("views:mysql_down stars:mysql_down ");
    sync_mysql(world->s, true);
    pass_s(1);
    assert_stalled("views:batch_stands stars:batch_stands ");
    assert_did("CC");
    world->dirty_n = 0;
    for (int i = 0; i < 2; i++) {
        claim_answered(CLAIM_STANDS, 2, 0);
        scan_sealed_by(i == 0 ? VIEWS : STARS, 2, RUN_A);
        fence_answered(true, RUN_A);
        merged_whole();
    }
    pass_s(2);
    assert_stalled("");
}

TEST(test_table_that_refuses)
{
    sync_counter_fit(world->s, VIEWS, false);
    index_put("p1", world->redis_ms);
    pass_s(95);
    assert_stalled("views:table_refuses ");
    sync_redis(world->s, false);
    pass_s(2);
    assert_stalled("views:redis_down ");
    sync_redis(world->s, true);
    sync_hold(world->s, true, "for the test");
    pass_s(2);
    assert_stalled("views:merges_held ");
}

TEST(test_adopted_and_not_read)
{
    world->waits = true; /* adoption answers as told */
    pass_s(20);
    adopt_answered(200, 1, 0);
    pass_s(95);
    assert_stalled("-:batch_not_read ");
    scan_ended(SCAN_GONE);
    pass_s(2);
    assert_stalled("");
}

/* Under load something is always due: merges that go on show that there is no stall. */
TEST(test_load)
{
    for (int i = 0; i < 400; i++) {
        run_whole(2);
        due(VIEWS, "p2");
        index_put("p1", world->redis_ms - 100000);
        tick_after(1000);
        while (world->claims.n > 0)
            claim_answered(CLAIM_GONE, 0, 0);
        world->dirty_n = 0;
        assert_stalled("");
    }
}

/* An hour without hits, and then one: an hour without a merge is not a stall. */
TEST(test_idle)
{
    run_whole(2);
    pass_s(3600);
    run_to_merge(2);
    pass_s(30);
    assert_stalled("");
}
