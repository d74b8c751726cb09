/* test_size.c - how many hashes a claim takes while hits come, and when none do. */
#include "unit/sync/world.h"

/* 5 us of Redis a hash. */
static void answer_in_time(void)
{
    struct claim *c = world->claims.all[0];
    c->took_us = 5 * c->keys_n;
    claim_answered(CLAIM_STANDS, c->keys_n, 0);
    scan_ended(SCAN_GONE);
}

static void claims_with_hits(int n)
{
    for (int i = 0; i < n; i++) {
        world->hits++;
        tick();
        assert_int_equal(world->claims.n, 1);
        answer_in_time();
    }
}

TEST(while_hits_come_a_claim_takes_half_a_millisecond)
{
    due_many(VIEWS, 'p', 0, 12000);
    claims_with_hits(25);
    world->hits++;
    tick();
    assert_in_range(claim_out(0)->keys_n, 95, 105);
    assert_int_equal(world->claims.n, 1);
}

TEST(a_second_after_the_last_hit_claims_are_full)
{
    due_many(VIEWS, 'p', 0, 12000);
    claims_with_hits(25);
    tick_after(sync_config_default.busy_ms - 20);
    assert_in_range(claim_out(0)->keys_n, 95, 105);
    answer_in_time();
    tick_after(20);
    assert_int_equal(claim_out(0)->keys_n, CLAIM_HASHES_MAX);
    assert_int_equal(world->claims.n, 2);
}

TEST(a_claim_that_did_not_stand_says_nothing)
{
    due_many(VIEWS, 'p', 0, 12000);
    for (int i = 0; i < 3; i++) {
        world->hits++;
        tick_after(2000);
        assert_int_equal(claim_out(0)->keys_n, CLAIM_HASHES_MAX);
        ((struct claim *)world->claims.all[0])->took_us = 100000;
        claim_answered(i == 0 ? CLAIM_REFUSED : i == 1 ? CLAIM_GONE : CLAIM_EMPTY, 0, 0);
    }
}

/* Names that are due by their hits alone go in claims of that size, too. */
TEST(paced_claims_have_that_size)
{
    due_many(VIEWS, 'p', 0, 12000);
    claims_with_hits(25);
    while (world->claims.n > 0 || world->s->due_n > 0) {
        world->hits++;
        tick();
        if (world->claims.n > 0) answer_in_time();
    }
    due_by_hits(VIEWS, 'p', 0, 1000);
    world->hits++;
    tick_after(sync_config_default.claim_gap_ms);
    assert_in_range(claim_out(0)->keys_n, 95, 105);
}
