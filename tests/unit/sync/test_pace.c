/* test_pace.c - names that are due by their hits alone: when they wait for rows, how long, and what ends the wait. */
#include "unit/sync/world.h"

/* At most this many rows at once, and all by hits. */
static void reopen_with_rows(uint32_t rows)
{
    reopen_with(config.rows_burst = rows, config.rows_free_per_s = 0);
}

/* The oldest claim exists, and another tallyd has finished its batch. */
static uint32_t claim_over(uint64_t fields)
{
    uint32_t names = claim_out(0)->keys_n;
    claim_answered(CLAIM_STANDS, fields, 0);
    scan_ended(SCAN_GONE);
    return names;
}

static void tick_for(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 50)
        tick_after(50);
}

/* --- light and heavy load --- */

TEST(at_light_load_names_go_at_once)
{
    due_by_hits(VIEWS, 'p', 0, 20);
    due_by_hits(VOTES, 'v', 0, 1);
    tick();
    assert_int_equal(world->claims.n, 2);
    assert_int_equal(claim_over(20) + claim_over(1), 21);
    due_by_hits(VIEWS, 'p', 20, 21);
    tick_after(sync_config_default.claim_gap_ms - 1);
    assert_int_equal(world->claims.n, 0);
    tick_after(1);
    assert_int_equal(world->claims.n, 1);
}

/* A thousand stores, 108,000 hits a second for a minute: each store is due again at once. */
TEST(sustained_load_writes_a_row_for_a_thousand_hits_at_most)
{
    uint32_t rows = 0, claims = 0;
    for (int i = 0; i < 1200; i++) {
        world->hits += 5400;
        due_by_hits(VIEWS, 'p', 0, 1000);
        tick_after(50);
        for (; world->claims.n > 0; claims++)
            rows += claim_over(claim_out(0)->keys_n);
    }
    assert_in_range(rows, world->hits / 2000, world->hits / 1000 + 1000);
    assert_in_range(claims, 1, 62);
}

TEST(rows_for_some_only_are_saved_for_one_larger_claim)
{
    reopen_with_rows(300);
    due_by_hits(VIEWS, 'p', 0, 200);
    tick();
    assert_int_equal(claim_over(200), 200);
    due_by_hits(VIEWS, 'p', 200, 1000);
    tick_for(900);
    assert_int_equal(world->claims.n, 0);
    world->hits += 100000; /* 50 rows */
    tick_for(100);
    assert_int_equal(claim_out(0)->keys_n, 150);
    assert_slice(claim_out(0)->keys[0], "p200");
}

TEST(rows_for_all_that_wait_are_not_saved)
{
    reopen_with_rows(20);
    due_by_hits(VIEWS, 'p', 0, 20);
    tick();
    claim_over(20);
    due_by_hits(VIEWS, 'p', 20, 25);
    tick_for(200);
    assert_int_equal(world->claims.n, 0);
    world->hits += 10000;
    tick();
    assert_int_equal(claim_out(0)->keys_n, 5);
}

TEST(rows_do_not_pile_up_over_the_burst)
{
    reopen_with_rows(10);
    world->hits += 1000000;
    tick();
    due_by_hits(VIEWS, 'p', 0, 30);
    tick();
    assert_int_equal(claim_over(10), 10);
    tick_for(5000);
    assert_int_equal(world->claims.n, 0);
}

TEST(hits_and_time_below_a_row_add_up)
{
    reopen_with(config.rows_burst = 1);
    due_by_hits(VIEWS, 'p', 0, 1);
    tick_after(80); /* a tenth of a second since the opening */
    claim_over(1);
    due_by_hits(VIEWS, 'p', 1, 2);
    for (int i = 0; i < 9; i++)
        tick_after(10);
    assert_int_equal(world->s->pace.rows, 0);
    tick_after(10);
    assert_int_equal(claim_over(1), 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(world->s->pace.rows, 0);
        world->hits += 500;
        tick_after(1);
    }
    assert_int_equal(world->s->pace.rows, 1);
}

/* --- what a claim really cost --- */

TEST(a_claim_of_many_fields_is_paid_off_first)
{
    due_by_hits(VIEWS, 'p', 0, 1);
    tick();
    claim_over(1050); /* 50 more than there were, five seconds' */
    due_by_hits(VIEWS, 'p', 1, 2);
    tick_for(4900);
    assert_int_equal(world->claims.n, 0);
    tick_for(300);
    assert_int_equal(world->claims.n, 1);
}

TEST(debt_is_bounded)
{
    reopen_with(config.rows_burst = 20);
    due_by_hits(VIEWS, 'p', 0, 1);
    tick();
    claim_over(100000);
    due_by_hits(VIEWS, 'p', 1, 2);
    tick_for(1900);
    assert_int_equal(world->claims.n, 0);
    tick_for(300);
    assert_int_equal(world->claims.n, 1);
}

TEST(what_was_not_claimed_costs_nothing)
{
    enum claim_outcome outcomes[] = {CLAIM_EMPTY, CLAIM_REFUSED, CLAIM_GONE};
    for (int i = 0; i < 3; i++) {
        reopen_with_rows(10);
        due_by_hits(VIEWS, 'p', 0, 10);
        tick();
        assert_int_equal(world->s->pace.rows, 0);
        claim_answered(outcomes[i], 0, 0);
        assert_int_equal(world->s->pace.rows, 10);
    }
}

TEST(a_claim_whose_answer_was_lost_costs_its_names)
{
    reopen_with_rows(10);
    due_by_hits(VIEWS, 'p', 0, 7);
    tick();
    claim_over(0);
    assert_int_equal(world->s->pace.rows, 3);
}

TEST(what_a_paced_claim_left_waits_for_rows_again)
{
    enum claim_outcome outcomes[] = {CLAIM_STANDS, CLAIM_EMPTY};
    for (int i = 0; i < 2; i++) {
        reopen_with_rows(3);
        due_by_hits(VIEWS, 'p', 0, 3);
        tick();
        claim_answered(outcomes[i], 9, 2);
        if (world->scans.n > 0) scan_ended(SCAN_GONE);
        assert_int_equal(world->s->paced_n, 2);
    }
}

TEST(what_is_due_by_time_costs_nothing)
{
    reopen_with_rows(1);
    due_many(VIEWS, 'p', 0, 500);
    tick();
    assert_int_equal(claim_over(9000), 500);
    due_by_hits(VIEWS, 'p', 500, 501);
    tick_for(100);
    assert_int_equal(world->claims.n, 1);
}

/* --- what ends the wait --- */

TEST(every_ends_the_wait_without_any_rows)
{
    reopen_with_rows(0);
    index_put("p0", world->redis_ms);
    due_by_hits(VIEWS, 'p', 0, 1);
    tick_for(59000);
    assert_int_equal(world->claims.n, 0);
    for (int i = 0; i < 30 && world->claims.n == 0; i++)
        tick_after(50);
    assert_int_equal(world->claims.n, 1);
    assert_slice(claim_out(0)->keys[0], "p0");
    assert_int_equal(world->s->due_n, 0);
}

TEST(a_lock_that_is_granted_ends_the_wait)
{
    reopen_with_rows(0);
    due_by_hits(VIEWS, 'p', 0, 2);
    due(VIEWS, "p1");
    due_by_hits(VIEWS, 'p', 1, 2); /* and it does not begin anew */
    tick();
    assert_int_equal(claim_out(0)->keys_n, 1);
    assert_slice(claim_out(0)->keys[0], "p1");
}

/* However many wait for rows, a page of the index has room, and is asked for. */
TEST(names_that_wait_leave_room_for_those_due_by_time)
{
    reopen_with_rows(0);
    due_by_hits(VIEWS, 'p', 0, 30000);
    assert_int_equal(world->s->due_n, 19000);
    due_many(VOTES, 'v', 0, 2000);
    assert_int_equal(world->s->due_n, 20000);
    tick();
    claim_answered(CLAIM_EMPTY, 0, 0);
    index_put("p29999", world->redis_ms - 100000); /* had no room */
    tick_for(600);
    assert_slice(claim_out(0)->keys[0], "p29999");
}

TEST(mysqls_return_ends_the_wait_of_all)
{
    reopen_with_rows(0);
    sync_mysql(world->s, false);
    due_by_hits(VIEWS, 'p', 0, 1500);
    due_by_hits(VOTES, 'v', 0, 5);
    tick_for(1000);
    sync_mysql(world->s, true);
    tick();
    while (world->claims.n > 0) {
        claim_answered(CLAIM_EMPTY, 0, 0);
        tick();
    }
    assert_int_equal(world->s->due_n, 0);
    due_by_hits(VIEWS, 'p', 0, 5);
    sync_mysql(world->s, true); /* no return */
    tick_for(1000);
    assert_int_equal(world->claims.n, 0);
}

TEST(the_end_of_a_hold_ends_the_wait_of_all)
{
    reopen_with_rows(0);
    sync_hold(world->s, true, "rolled back");
    due_by_hits(VIEWS, 'p', 0, 5);
    sync_hold(world->s, false, "");
    tick();
    assert_int_equal(claim_out(0)->keys_n, 5);
    due_by_hits(VIEWS, 'p', 5, 10);
    sync_hold(world->s, false, ""); /* none was */
    tick_for(1000);
    assert_int_equal(world->claims.n, 1);
}

TEST(a_held_counter_lets_go_of_what_waits)
{
    reopen_with_rows(0);
    due_by_hits(VIEWS, 'p', 0, 5);
    sync_counter_fit(world->s, VIEWS, false);
    assert_int_equal(world->s->due_n, 0);
    assert_int_equal(world->s->paced_n, 0);
    due_by_hits(VIEWS, 'p', 0, 5);
    assert_int_equal(world->s->due_n, 0);
}

static void on_waited(struct sync_wait *w)
{
    world->done_n++;
}

TEST(ctr_sync_of_a_key_ends_the_wait_of_this_one)
{
    static struct sync_wait w;
    reopen_with_rows(0);
    due_by_hits(VIEWS, 'p', 0, 5);
    w = (struct sync_wait){.key = slice_str("p3"), .done = on_waited};
    sync_wait_for(world->s, &w);
    ticks(2);
    assert_int_equal(claim_out(0)->keys_n, 1);
    assert_slice(claim_out(0)->keys[0], "p3");
    due_by_hits(VIEWS, 'p', 3, 4); /* later hits are not waited for */
    claim_over(1);
    ticks(2);
    standing_answered(0, 0);
    tick();
    assert_int_equal(world->done_n, 1);
    assert_int_equal(w.outcome, ASK_DONE);
}

TEST(a_key_whose_paced_claim_was_refused_is_claimed_anew)
{
    static struct sync_wait w;
    reopen_with_rows(1);
    due_by_hits(VIEWS, 'p', 0, 1);
    tick();
    w = (struct sync_wait){.key = slice_str("p0"), .done = on_waited};
    sync_wait_for(world->s, &w);
    claim_answered(CLAIM_GONE, 0, 0);
    world->s->pace.rows = 0;
    ticks(2);
    assert_slice(claim_out(0)->keys[0], "p0");
}

TEST(ctr_sync_of_all_ends_the_wait_of_all)
{
    static struct sync_wait w;
    reopen_with_rows(0);
    world->waits = true; /* the index does not help */
    due_by_hits(VIEWS, 'p', 0, 5);
    due_by_hits(VOTES, 'v', 0, 5);
    w = (struct sync_wait){.done = on_waited};
    sync_wait_for(world->s, &w);
    ticks(2);
    assert_int_equal(claim_out(0)->keys_n + claim_out(1)->keys_n, 10);
}

/* --- with names that are due by time --- */

TEST(a_trickle_of_names_due_by_time_does_not_keep_the_others)
{
    uint32_t of_hits = 0;
    due_by_hits(VIEWS, 'p', 0, 1);
    for (uint32_t i = 1; i <= 20; i++) {
        due_many(VIEWS, 'p', i, i + 1);
        tick();
        for (; world->claims.n > 0; claim_over(1))
            of_hits += slice_eq(claim_out(0)->keys[0], SLICE("p0"));
    }
    assert_int_equal(of_hits, 1);
}

/* Otherwise each page would be asked for right after the previous one, again and again, while one name waits. */
TEST(pages_in_which_nothing_is_due_are_not_asked_for_in_haste)
{
    char name[16];
    reopen_with_rows(0);
    for (int i = 0; i < 2500; i++) {
        snprintf(name, sizeof name, "q%d", i);
        index_put(name, world->redis_ms - 300000);
    }
    due_by_hits(VIEWS, 'p', 0, 1);
    tick_after(300);
    assert_int_equal(world->polls.n, 1);
    poll_answered();
    uint32_t polls = world->polls_n;
    sync_turn(world->s);
    assert_int_equal(world->polls_n, polls);
}
