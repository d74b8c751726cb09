/* test_due.c - what is claimed, when, how much of it, and in which order; adoption, which comes first. */
#include "unit/sync/world.h"

/* --- bounds --- */

TEST(a_claim_takes_a_thousand_names_and_the_next_one_the_rest)
{
    due_many(VIEWS, 'p', 0, 1500);
    tick(); /* a full claim is followed by the next at once */
    assert_int_equal(world->claims.n, 2);
    assert_int_equal(claim_out(0)->keys_n, CLAIM_HASHES_MAX);
    assert_slice(claim_out(0)->keys[999], "p999");
    assert_int_equal(claim_out(1)->keys_n, 500);
}

/* A backlog is claimed at the pace of Redis' answers, not of the tick. */
TEST(an_answered_claim_makes_room_at_once)
{
    due_many(VIEWS, 'p', 0, 5000);
    tick();
    assert_int_equal(world->claims.n, 2);
    sync_turn(world->s);
    assert_int_equal(world->claims.n, 2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    assert_int_equal(world->claims.n, 1);
    sync_turn(world->s);
    assert_int_equal(world->claims.n, 2);
}

TEST(two_claims_are_out_at_most)
{
    due_many(VIEWS, 'p', 0, 5000);
    ticks(10);
    assert_int_equal(world->claims.n, 2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    tick();
    assert_int_equal(world->claims.n, 2);
}

TEST(small_claims_of_a_counter_keep_their_gap)
{
    due_now(VIEWS, "p1");
    claim_answered(CLAIM_EMPTY, 0, 0);
    due(VIEWS, "p2");
    ticks(4);
    assert_int_equal(world->claims.n, 0);
    tick();
    assert_int_equal(world->claims.n, 1);
}

TEST(fields_in_flight_bound_the_claims)
{
    run_to_scan(500000);
    due(VIEWS, "p2");
    uint32_t polls = world->polls_n;
    tick_after(1000);
    tick_after(1000);
    assert_int_equal(world->claims.n, 0);
    assert_int_equal(world->polls_n, polls); /* nor is it asked what else is due */
    scan_ended(SCAN_GONE);
    tick();
    assert_int_equal(world->claims.n, 1);
}

TEST(runs_bound_the_claims)
{
    reopen_with(config.runs_max = 3);
    for (uint32_t i = 0; i < 3; i++) {
        due_many(VIEWS, 'p', i, i + 1);
        tick_after(200);
        claim_answered(CLAIM_STANDS, 1, 0);
    }
    due(VIEWS, "p9");
    tick_after(200);
    assert_int_equal(world->claims.n, 0);
    scan_ended(SCAN_GONE);
    tick_after(200);
    assert_int_equal(world->claims.n, 1);
}

TEST(names_due_are_bounded_and_single)
{
    sync_mysql(world->s, false);
    due_many(VIEWS, 'p', 0, 10);
    due_many(VIEWS, 'p', 0, 10);
    assert_int_equal(world->s->due_n, 10);
    due_many(VIEWS, 'p', 0, 30000);
    assert_int_equal(world->s->due_n, 20000);
    due(VOTES, "v1");
    assert_int_equal(world->s->due_n, 20000);
}

/* --- nothing is claimed while ... --- */

TEST(nothing_is_claimed_while_the_world_is_not_ready)
{
    due(VIEWS, "p1");
    sync_mysql(world->s, false);
    tick_after(1000);
    assert_did("");
    sync_mysql(world->s, true);
    sync_redis(world->s, false);
    tick_after(1000);
    assert_did("");
    sync_redis(world->s, true);
    sync_hold(world->s, true, "rolled back");
    tick_after(1000);
    assert_did("");
    sync_hold(world->s, false, "");
    sync_counter_fit(world->s, VIEWS, false);
    tick_after(1000);
    assert_did("");
    sync_counter_fit(world->s, VIEWS, true);
    due(VIEWS, "p1");
    sync_stop(world->s);
    tick_after(1000);
    assert_did("");
}

/* --- in turn --- */

TEST(counters_claim_in_turn)
{
    reopen_with(config.claims_max = 1, config.due_max = 50000);
    due_many(VIEWS, 'p', 0, 10000);
    due_many(STARS, 'q', 0, 10000);
    due(VOTES, "v1");
    unsigned votes_at = 0;
    for (unsigned i = 1; i <= 6; i++) {
        tick();
        if (claim_out(0)->counter == VOTES) votes_at = i;
        claim_answered(CLAIM_EMPTY, 0, 0);
    }
    assert_int_equal(votes_at, 3);
}

TEST(the_names_of_a_held_counter_leave_the_queue_to_the_others)
{
    sync_mysql(world->s, false);
    due_many(VIEWS, 'p', 0, 30000);
    sync_counter_fit(world->s, VIEWS, false);
    assert_int_equal(world->s->due_n, 0);
    due_many(VIEWS, 'p', 0, 30000);
    assert_int_equal(world->s->due_n, 0);
    sync_mysql(world->s, true);
    due_now(VOTES, "v1");
    assert_int_equal(world->claims.n, 1);
    assert_ptr_equal(claim_out(0)->counter, VOTES);
}

TEST(names_of_a_counter_become_held_while_queued)
{
    run_to_merge(1);
    due_many(VIEWS, 'p', 10, 20);
    merge_answered(MERGE_HELD);
    assert_int_equal(world->s->due_n, 0);
}

/* --- the dirty index --- */

/* Also of names that are due already, and with a claim out; two readers, two releases. */
TEST(a_reader_holds_the_claims_of_one_counter)
{
    due_now(VIEWS, "p1");
    assert_int_equal(world->claims.n, 1);
    due(VIEWS, "p2");
    due(STARS, "v1");
    sync_counter_hold(world->s, VIEWS);
    sync_counter_hold(world->s, VIEWS);
    tick_after(1000);
    assert_int_equal(world->claims.n, 2);
    assert_slice(claim_out(1)->keys[0], "v1");
    claim_answered(CLAIM_STANDS, 1, 0); /* what was claimed goes on */
    assert_int_equal(world->scans.n, 1);
    due(VIEWS, "p3");
    sync_counter_release(world->s, VIEWS);
    tick_after(1000);
    assert_int_equal(world->claims.n, 1);
    sync_counter_release(world->s, VIEWS);
    sync_turn(world->s); /* at once, not at the next tick */
    assert_int_equal(world->claims.n, 2);
    assert_int_equal(claim_out(1)->keys_n, 2);
}

TEST(what_is_older_than_every_is_claimed_and_no_earlier)
{
    index_put("p1", world->redis_ms - 59000);
    tick_after(500);
    tick_after(400);
    assert_int_equal(world->claims.n, 0);
    tick_after(300);
    tick_after(20);
    assert_int_equal(world->claims.n, 1);
    assert_slice(claim_out(0)->keys[0], "p1");
}

/* 2,500 names with this prefix come before v1, which is due. */
static void behind_others(char prefix)
{
    char name[16];
    for (int i = 0; i < 2500; i++) {
        snprintf(name, sizeof name, "%c%d", prefix, i);
        index_put(name, world->redis_ms - 300000);
    }
    index_put("v1", world->redis_ms - 100000);
    for (int i = 0; i < 20 && world->claims.n == 0; i++)
        tick();
    assert_int_equal(world->claims.n, 1);
    assert_slice(claim_out(0)->keys[0], "v1");
}

/* Those of a long `every`. */
TEST(names_that_stay_do_not_hide_what_stands_behind_them)
{
    behind_others('q');
}

TEST(names_of_a_held_counter_do_not_hide_what_stands_behind_them)
{
    sync_counter_fit(world->s, VIEWS, false);
    behind_others('p');
}

/* A full page of names that are due. */
static void full_page(void)
{
    char name[16];
    for (int i = 0; i < 1001; i++) {
        snprintf(name, sizeof name, "p%d", i);
        index_put(name, world->redis_ms - 100000);
    }
    tick_after(1000);
    tick();
}

/* Another service on this Redis may know a counter that we do not: its names are left to it for long. */
TEST(names_of_nobody_are_put_aside_when_nobody_took_them_for_long)
{
    index_put("nobody", world->redis_ms - 700000);
    index_put("others", world->redis_ms - 500000);
    index_put("p1", world->redis_ms - 100000);
    tick_after(300);
    tick_after(300);
    assert_string_equal(world->held_names, "nobody");
    assert_slice(claim_out(0)->keys[0], "p1");
}

TEST(the_index_is_asked_once_at_a_time_and_not_when_the_queue_is_full)
{
    world->waits = true;
    tick_after(1000);
    uint32_t polls = world->polls_n;
    tick_after(1000);
    tick_after(1000);
    assert_int_equal(world->polls_n, polls);
    poll_answered();
    tick_after(1000);
    assert_int_equal(world->polls_n, polls + 1);
    poll_answered();
    reopen_with(config.claims_max = 0);
    due_many(VIEWS, 'p', 0, 19500);
    polls = world->polls_n;
    tick_after(1000);
    tick_after(1000);
    assert_true(world->polls_n <= polls + 1);
}

/* A page read during a claim would list the claimed names once more. */
TEST(while_the_index_has_more_a_page_and_a_claim_take_turns)
{
    full_page();
    uint32_t polls = world->polls_n;
    assert_int_equal(claim_out(0)->keys_n, 1000);
    world->waits = true;
    tick_after(1000);
    assert_int_equal(world->polls_n, polls);
    claim_answered(CLAIM_EMPTY, 0, 0);
    due(VIEWS, "p2000");
    sync_turn(world->s); /* and no gap after a claim that is not full */
    assert_int_equal(world->polls_n, polls + 1);
    assert_int_equal(world->claims.n, 0);
    poll_answered();
    sync_turn(world->s);
    assert_int_equal(world->claims.n, 1);
}

/* Also after a full page: the next page costs Redis a millisecond, and its names could not be claimed. */
TEST(while_nothing_can_be_merged_the_index_is_asked_seldom)
{
    full_page();
    claim_answered(CLAIM_EMPTY, 0, 0);
    sync_mysql(world->s, false);
    uint32_t polls = world->polls_n;
    ticks(100);
    assert_in_range(world->polls_n, polls, polls + 2);
}

/* --- adoption --- */

TEST(nothing_is_claimed_before_this_instances_old_batches_are_adopted)
{
    world_close(NULL);
    world_make(&sync_config_default);
    due(VIEWS, "p1");
    sync_mysql(world->s, true);
    tick();
    assert_int_equal(world->adopts_n, 0);
    sync_start(world->s);
    tick();
    tick_after(1000);
    assert_int_equal(world->adopts_n, 1);
    assert_int_equal(((struct adopt *)world->adopts.all[0])->mode, ADOPT_INSTANCE);
    assert_did("");
    adopt_answered(1, 2, 0);
    assert_did("");
    tick();
    assert_did("SFSFC");
}

TEST(a_full_page_of_old_batches_asks_for_the_next_before_any_claim)
{
    world_close(NULL);
    struct sync_config c = sync_config_default;
    c.runs_max = 10;
    world_make(&c);
    due(VIEWS, "p1");
    sync_mysql(world->s, true);
    sync_start(world->s);
    tick();
    adopt_answered(1, 1000, 0);
    tick();
    assert_int_equal(world->adopts_n, 2);
    assert_did("");
    adopt_answered(2, 3, 0);
    tick();
    assert_int_equal(world->scans.n, 10);
    assert_int_equal(world->s->queue_n, 993);
}

TEST(a_failing_adoption_is_tried_again_but_not_every_tick)
{
    world_close(NULL);
    world_make(&sync_config_default);
    sync_mysql(world->s, true);
    sync_start(world->s);
    for (int i = 0; i < 50; i++) {
        tick();
        if (world->adopts.n > 0) adopt_lost();
    }
    assert_in_range(world->adopts_n, 1, 2);
    tick_after(1000);
    assert_int_equal(world->adopts.n, 1);
    adopt_answered(0, 0, 0);
    due_now(VIEWS, "p1");
    assert_did("C");
}

TEST(adopted_batches_wait_for_mysql)
{
    world_close(NULL);
    world_make(&sync_config_default);
    sync_start(world->s);
    tick();
    adopt_answered(1, 1, 0);
    tick_after(1000);
    assert_did("");
    sync_mysql(world->s, true);
    tick();
    assert_did("SF");
    scan_sealed_by(STARS, 3, RUN_A);
    fence_answered(true, RUN_A);
    merge_answered(MERGE_ALREADY);
    discard_answered(true);
    assert_int_equal(world->s->runs_n, 0);
}

TEST(stale_batches_are_adopted_by_timer_and_each_once)
{
    world->waits = true;
    tick_after(10000);
    tick_after(10000);
    assert_int_equal(world->adopts_n, 2); /* one at a time */
    const struct adopt *a = world->adopts.all[0];
    assert_int_equal(a->mode, ADOPT_STALE);
    assert_int_equal(a->stale_ms, 60000);
    adopt_answered(1, 1, 0);
    tick();
    assert_did("SF");
    tick_after(10000);
    adopt_answered(1, 1, 0); /* the same again: it runs here already */
    tick();
    assert_did("");
    assert_int_equal(world->s->runs_n, 1);
}

/* A Redis that was away may have a discarded batch again: tallyd asks for it at once, until it has an answer. */
TEST(own_batches_are_adopted_when_redis_is_back)
{
    tick_after(1000);
    world->waits = true;
    sync_redis(world->s, false);
    tick_after(20);
    sync_redis(world->s, true);
    tick();
    assert_int_equal(((struct adopt *)world->adopts.all[0])->mode, ADOPT_OWN);
    adopt_lost();
    tick_after(1000);
    assert_int_equal(((struct adopt *)world->adopts.all[0])->mode, ADOPT_OWN);
    adopt_answered(1, 1, 0);
    tick();
    assert_did("SF");
    tick_after(10000);
    assert_int_equal(((struct adopt *)world->adopts.all[0])->mode, ADOPT_STALE);
}

/* They are all ours again after each question, so a page of them would be the last one once more. */
TEST(own_batches_are_asked_for_as_a_whole)
{
    tick_after(1000);
    world->waits = true;
    sync_redis(world->s, false);
    sync_redis(world->s, true);
    tick();
    const struct adopt *a = world->adopts.all[0];
    assert_int_equal(a->mode, ADOPT_OWN);
    adopt_answered(1, a->limit < 2000 ? a->limit : 2000, 0);
    tick();
    assert_int_equal(world->adopts.n, 0);
    tick_after(10000);
    sync_redis(world->s, false);
}

/* --- signs of life --- */

TEST(every_ten_seconds_a_sign_of_life_of_all_that_is_ours)
{
    due_now(VIEWS, "p1");
    assert_int_equal(world->beats_n, 1);
    tick_after(10000);
    assert_int_equal(world->beats_n, 2);
    assert_int_equal(world->beat_n, 0); /* a claim is not yet a batch */
    claim_answered(CLAIM_STANDS, 1, 0);
    tick_after(10000);
    assert_int_equal(world->beat_n, 1);
    scan_ended(SCAN_LOST);
    sync_mysql(world->s, false);
    tick_after(10000);
    assert_int_equal(world->beat_n, 1); /* waiting, but ours */
    sync_redis(world->s, false);
    tick_after(10000);
    assert_int_equal(world->beats_n, 4);
    sync_redis(world->s, true);
    sync_stop(world->s);
    tick();
    assert_int_equal(world->beats_n, 5); /* what runs on at stop lives, too */
}

TEST(the_ids_under_way_are_named)
{
    struct batch_id *ids;
    due_now(VIEWS, "p1");
    assert_int_equal(sync_running(world->s, &ids), 0);
    heap_free(ids);
    struct batch_id id = claim_out(0)->id;
    claim_answered(CLAIM_STANDS, 1, 0);
    struct batch_id taken = {{200}};
    sync_mysql(world->s, false);
    sync_take(world->s, &taken);
    sync_take(world->s, &taken);
    assert_int_equal(sync_running(world->s, &ids), 2);
    assert_memory_equal(&ids[0], &taken, sizeof taken);
    assert_memory_equal(&ids[1], &id, sizeof id);
    heap_free(ids);
}
