/* test_claims.c - claims in the one order with the frames, and what a cut makes of them. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"

TEST(a_claim_goes_also_behind_a_frame_in_flight)
{
    struct test_claim t;
    hit_goes('a', "p1", "5", 1);
    claim_keys(&t, 1, "p1", NULL);
    assert_did("FC");
    frame_applied();
    claim_answered(CLAIM_STANDS);
    assert_int_equal(t.done, 1);
    assert_int_equal(t.claim.outcome, CLAIM_STANDS);
    assert_true(coalesce_idle(world->c));
}

TEST(a_claim_begins_hits_and_due_anew_and_holds_the_lock)
{
    struct test_claim t;
    world->grants = true;
    round_of('a', "s1:v", "20140920", 49);
    assert_did("F~s1:v a");
    claim_keys(&t, 0, "s1:v", NULL);
    claim_answered(CLAIM_STANDS);
    row_of(SLICE("s1:v"), SLICE("20140920"))->value = 0;
    forget_did();
    hit_goes('a', "s1:v", "20140920", 49);
    assert_false(asks_lock("s1:v")); /* the script has set it */
    frame_applied();
    assert_did("Fa");
    round_of('a', "s1:v", "20140920", 1);
    assert_did("F^s1:v a");
    claim_keys(&t, 0, "s1:v", NULL);
    claim_answered(CLAIM_STANDS);
    world->mono_ms += 60000;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_true(asks_lock("s1:v"));
    frame_applied();
}

/* Due by its hits, its lock never asked for with success: the script sets it all the same. */
TEST(a_claim_holds_the_lock_that_nobody_was_granted)
{
    struct test_claim t;
    world->pttl_ms = -1;
    round_of('a', "s1:v", "20140920", 50);
    claim_keys(&t, 0, "s1:v", NULL);
    claim_answered(CLAIM_STANDS);
    world->mono_ms += 59999;
    hit_goes('a', "s1:v", "20140920", -50);
    assert_false(asks_lock("s1:v"));
    frame_applied();
}

/* A lock with nine tenths of `every` left is not set again, and ends when it would have. */
TEST(a_fresh_lock_stays_as_it_is)
{
    struct test_claim t;
    world->grants = true;
    round_of('a', "s1:v", "20140920", 1);
    world->mono_ms += 6000;
    claim_keys(&t, 0, "s1:v", "s2:v");
    assert_true(t.fresh[0]);
    assert_false(t.fresh[1]);
    claim_answered(CLAIM_STANDS);
    world->mono_ms += 53999;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_false(asks_lock("s1:v"));
    frame_applied();
    world->mono_ms += 1;
    round_of('a', "s1:v", "20140920", 1);
    world->mono_ms += 6001;
    claim_keys(&t, 0, "s1:v", NULL);
    assert_false(t.fresh[0]);
    claim_answered(CLAIM_STANDS);
    world->mono_ms += 59999;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_false(asks_lock("s1:v"));
    frame_applied();
}

TEST(a_claim_that_redis_refused_leaves_no_lock_behind)
{
    struct test_claim t;
    round_of('a', "s1:v", "20140920", 1);
    claim_keys(&t, 0, "s1:v", NULL);
    claim_answered(CLAIM_REFUSED);
    assert_int_equal(t.claim.outcome, CLAIM_REFUSED);
    hit_goes('a', "s1:v", "20140920", 1);
    assert_true(asks_lock("s1:v"));
    assert_true(zadds("s1:v"));
    frame_applied();
}

TEST(a_claim_of_hashes_never_seen_is_fine)
{
    struct test_claim t;
    claim_keys(&t, 1, "p1", "p2");
    claim_answered(CLAIM_EMPTY);
    assert_int_equal(t.done, 1);
    assert_int_equal(world->c->hash_cache.n, 0);
}

TEST(without_a_link_a_claim_is_refused_with_the_next_turn)
{
    struct test_claim t;
    world->grants = true;
    round_of('a', "s1:v", "20140920", 1);
    cut();
    forget_did();
    claim_keys(&t, 0, "s1:v", NULL);
    assert_int_equal(t.done, 0); /* never from inside the call */
    assert_false(coalesce_idle(world->c));
    turn();
    assert_did("c");
    assert_int_equal(t.claim.outcome, CLAIM_REFUSED);
    assert_string_equal(t.claim.text, WHY);
    assert_true(coalesce_idle(world->c));
}

/* --- doubt --- */

TEST(a_claim_alone_in_doubt_kills_and_looks)
{
    struct test_claim t;
    claim_keys(&t, 1, "p1", NULL);
    cut();
    forget_did();
    turn();
    assert_int_equal(t.done, 0);
    link_up(RUN_A, 8);
    assert_did("K");
    coalesce_on_killed(world->c);
    assert_did("L");
    assert_int_equal(world->looked, 1);
    bool stands[] = {true};
    look_answered(stands);
    assert_did("c");
    assert_int_equal(t.claim.outcome, CLAIM_STANDS);
}

/* done() may claim again at once. */
static struct test_claim again;

static void claim_again(struct claim *c)
{
    on_claim_done(c);
    claim_keys(&again, 1, "p9", NULL);
}

TEST(a_claim_may_follow_from_inside_done)
{
    struct test_claim t = {.keys = {SLICE("p1")}};
    t.claim = (struct claim){.counter = &counters_all[1], .keys = t.keys, .keys_n = 1, .done = claim_again};
    coalesce_claim(world->c, &t.claim);
    forget_did();
    cut();
    link_up(RUN_A, 8);
    coalesce_on_killed(world->c);
    look_answered(NULL);
    assert_did("KLcC");
    claim_answered(CLAIM_EMPTY);
    assert_int_equal(again.done, 1);
}

/* `lock: none`: by time a hash is due once in `every`, as far as this process knows. */
TEST(without_a_lock_a_hash_is_due_by_what_was_seen)
{
    struct counter unlocked = counters_all[0];
    const struct counters one = {.all = &unlocked, .n = 1, .ops = &limits_two};
    struct test_claim t;
    unlocked.lock = (struct pattern){.has_store = false};
    world_close(NULL);
    world_make_of(&coalesce_config_default, &one);
    link_ready(RUN_A, 7);
    forget_did();
    hit_goes('a', "s1:v", "20140920", 1);
    assert_false(asks_lock("s1:v"));
    frame_applied();
    assert_did("Fa"); /* its time is drawn */
    world->mono_ms += 60000;
    round_of('a', "s1:v", "20140920", 1);
    assert_did("F~s1:v a");
    claim_keys(&t, 0, "s1:v", NULL);
    claim_answered(CLAIM_STANDS);
    row_of(SLICE("s1:v"), SLICE("20140920"))->value = 0;
    world->mono_ms += 59999;
    round_of('a', "s1:v", "20140920", 1);
    cut();
    link_ready(RUN_A, 8);
    forget_did();
    round_of('a', "s1:v", "20140920", 1);
    assert_did("Fa");                                    /* the cut did not make it forget */
    row_of(SLICE("s1:v"), SLICE("20140920"))->value = 0; /* another tallyd claims it */
    world->mono_ms += 1;
    round_of('a', "s1:v", "20140920", 1);
    assert_did("Fa"); /* who begins anew with it */
    world->mono_ms += 59999;
    round_of('a', "s1:v", "20140920", 1);
    assert_did("Fa");
    world->mono_ms += 1;
    round_of('a', "s1:v", "20140920", 1);
    assert_did("F~s1:v a");
}
