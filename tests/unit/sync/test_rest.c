/* test_rest.c - while hits come, merges rest between chunks as long as hits feel them. */
#include "unit/sync/world.h"

/* Hits come, and a batch of this many chunks has its first one at MySQL. */
static void merging(uint32_t chunks)
{
    world->hits += 100;
    run_to_merge(chunks * BATCH_CHUNK_ROWS);
    assert_int_equal(world->merges.n, 1);
}

/* For this time, with turns of a millisecond; each hit waits felt_us. */
static void pass(uint64_t ms, uint64_t felt_us)
{
    for (uint64_t i = 0; i < ms; i++) {
        world->hits += 40;
        world->felt_us += 40 * felt_us;
        world->mono_ms++;
        sync_turn(world->s);
        if (world->mono_ms % 20 == 0) sync_tick(world->s);
    }
}

/* One chunk of 8 ms; answers how many ms of rest are behind it. */
static uint64_t rest_behind(uint64_t beside_us, uint64_t without_us)
{
    uint64_t ms = 0;
    pass(8, beside_us);
    merge_answered(MERGE_DONE);
    for (; world->merges.n == 0 && ms < 100; ms++)
        pass(1, without_us);
    return ms;
}

TEST(without_hits_chunks_go_together)
{
    run_to_merge(20 * BATCH_CHUNK_ROWS);
    assert_int_equal(world->merges.n, sync_config_default.chunks_max);
    merge_answered(MERGE_DONE);
    assert_int_equal(world->merges.n, sync_config_default.chunks_max);
}

TEST(what_hits_do_not_feel_hardly_rests)
{
    merging(30);
    for (int i = 0; i < 20; i++)
        assert_int_equal(rest_behind(200, 200), 1);
}

TEST(what_hits_feel_rests_twice_as_long_at_most)
{
    uint64_t ms = 0;
    merging(90);
    for (int i = 0; i < 60; i++)
        ms = rest_behind(400, 200);
    assert_in_range(ms, 16, 18);
    for (int i = 0; i < 25; i++)
        ms = rest_behind(200, 200);
    assert_in_range(ms, 1, 9);
}

TEST(batches_take_turns)
{
    merging(3);
    const struct batch *first = ((struct chunk *)world->merges.all[0])->batch;
    run_to_merge(3 * BATCH_CHUNK_ROWS);
    assert_int_equal(world->merges.n, 1);
    uint32_t of_first = 0;
    for (int i = 0; i < 5; i++) {
        rest_behind(200, 200);
        of_first += ((struct chunk *)world->merges.all[0])->batch == first;
    }
    assert_int_equal(of_first, 2);
}

static bool rests(void)
{
    return !list_empty(&world->s->rest.waiting);
}

TEST(what_rests_ends_with_a_hold)
{
    merging(3);
    merge_answered(MERGE_DONE);
    assert_int_equal(world->merges.n, 0);
    assert_true(rests());
    assert_false(sync_quiet(world->s));
    sync_hold(world->s, true, "a test");
    tick();
    assert_false(rests());
    sync_hold(world->s, false, "a test");
    tick_after(sync_config_default.retry_most_ms);
    assert_int_equal(world->scans.n, 1); /* from the scan on */
}

TEST(a_stop_merges_what_rests)
{
    merging(4);
    merge_answered(MERGE_DONE);
    sync_stop(world->s);
    assert_false(sync_quiet(world->s));
    tick();
    assert_int_equal(world->merges.n, 3);
}

TEST(a_refused_chunk_ends_the_rest_of_its_batch)
{
    merging(3);
    pass(8, 200);
    merge_answered(MERGE_DOWN);
    tick();
    assert_int_equal(world->merges.n, 0);
    assert_false(rests());
}
