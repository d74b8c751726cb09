/* test_wait.c - CTR.SYNC and CTR.RECOVER: what each client is told, when, and never too early. */
#include "unit/sync/world.h"

struct waiter {
    struct sync_wait wait;
    unsigned done;
};
static struct waiter one; /* of the test that runs: what a test leaves waiting is ended by its teardown */

static void on_waited(struct sync_wait *w)
{
    CONTAINER_OF(w, struct waiter, wait)->done++;
}

static void wait_for(struct waiter *w, const char *key)
{
    *w = (struct waiter){.wait = {.key = slice_str(key), .done = on_waited}};
    sync_wait_for(world->s, &w->wait);
    assert_int_equal(w->done, 0);
}

static void assert_waited(const struct waiter *w, enum ask_outcome outcome)
{
    assert_int_equal(w->done, 1);
    assert_int_equal(w->wait.outcome, outcome);
}

static void run_on(uint32_t rows)
{
    scan_fenced(rows);
    while (world->merges.n > 0)
        merge_answered(MERGE_DONE);
    discard_answered(true);
}

/* --- a key --- */

TEST(a_key_is_claimed_at_once_and_waited_for)
{
    wait_for(&one, "p1");
    ticks(2);
    assert_did("C");
    tick();
    assert_did(""); /* the claim first */
    claim_answered(CLAIM_STANDS, 3, 0);
    ticks(2);
    assert_did("SFW");
    assert_slice(((struct standing *)world->standings.all[0])->key, "p1");
    standing_answered(1, 0);
    tick_after(100);
    assert_int_equal(one.done, 0);
    run_on(3);
    tick_after(100);
    assert_int_equal(((struct standing *)world->standings.all[0])->key.n, 0);
    standing_answered(0, 0);
    assert_int_equal(one.done, 0); /* told by the tick, not from inside an answer */
    tick();
    assert_waited(&one, ASK_DONE);
    assert_int_equal(one.wait.rows, 3);
}

TEST(a_batch_of_another_service_is_waited_for_too)
{
    wait_for(&one, "p1");
    ticks(2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    standing_answered(77, 0);
    for (int i = 0; i < 3; i++) {
        tick_after(50);
        assert_int_equal(one.done, 0);
        standing_answered(77, 78); /* 78 came later: no client waits for it */
    }
    tick_after(50);
    standing_answered(78, 0);
    tick();
    assert_waited(&one, ASK_DONE);
    assert_int_equal(one.wait.rows, 0);
}

TEST(a_key_that_comes_back_from_its_claim_is_waited_for_again)
{
    enum claim_outcome outcomes[] = {CLAIM_REFUSED, CLAIM_GONE, CLAIM_STANDS};
    for (int i = 0; i < 3; i++) {
        reopen(&sync_config_default);
        due(VIEWS, "p8");
        wait_for(&one, "p9");
        ticks(2);
        while (world->claims.n > 1)
            claim_answered(CLAIM_EMPTY, 0, 0);
        claim_answered(outcomes[i], 0, claim_out(0)->keys_n); /* all of it, so p9, too */
        if (world->scans.n > 0) scan_ended(SCAN_GONE);
        ticks(2);
        assert_int_equal(world->standings.n, 0);
        tick_after(1000);
        assert_int_equal(world->claims.n, 1);
        claim_answered(CLAIM_EMPTY, 0, 0);
        ticks(2);
        standing_answered(0, 0);
        tick();
        assert_waited(&one, ASK_DONE);
    }
}

/* The queue has no room for a name that comes back: still it was not claimed. */
TEST(a_key_that_comes_back_to_a_full_queue_is_waited_for_again)
{
    reopen_with(config.due_max = 1, config.claims_max = 1);
    wait_for(&one, "p9");
    ticks(2);
    assert_int_equal(world->claims.n, 1);
    due(VIEWS, "p1");
    claim_answered(CLAIM_GONE, 0, 0);
    tick(); /* p1 goes */
    tick();
    assert_int_equal(world->standings.n, 0);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(10);
    assert_slice(claim_out(0)->keys[0], "p9");
    assert_int_equal(world->standings.n, 0);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    standing_answered(0, 0);
    tick();
    assert_waited(&one, ASK_DONE);
}

/* Out of the queue, but not in a claim: its counter was held for a moment. */
TEST(a_key_that_was_dropped_from_the_queue_is_queued_again)
{
    wait_for(&one, "p1");
    tick();
    sync_counter_fit(world->s, VIEWS, false);
    sync_counter_fit(world->s, VIEWS, true);
    ticks(2);
    assert_did("C");
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    assert_did("W");
}

TEST(refused_claims_are_not_repeated_every_tick_for_a_hurry)
{
    wait_for(&one, "p1");
    for (int i = 0; i < 50; i++) {
        tick();
        while (world->claims.n > 0)
            claim_answered(CLAIM_REFUSED, 0, 0);
    }
    assert_in_range(strlen(world->did), 1, 2);
}

/* --- ALL --- */

TEST(all_that_was_dirty_at_the_call_is_claimed_though_it_is_young)
{
    index_put("p1", world->redis_ms - 10);
    index_put("q1", world->redis_ms - 5);
    wait_for(&one, "");
    tick();
    while (world->polls.n > 0) /* the highest score is one of them */
        poll_answered();
    index_put("v1", world->redis_ms); /* of later */
    ticks(3);
    assert_int_equal(world->claims.n, 2);
    world->dirty_n = 0; /* both claims ran */
    claim_answered(CLAIM_STANDS, 1, 0);
    claim_answered(CLAIM_STANDS, 1, 0);
    for (int i = 0; i < 10 && world->standings.n == 0; i++)
        tick();
    assert_int_equal(((struct standing *)world->standings.all[0])->key.n, 0);
    standing_answered(1, 2);
    run_on(1);
    run_on(1);
    tick_after(100);
    standing_answered(0, 0);
    tick();
    assert_waited(&one, ASK_DONE);
    assert_int_equal(one.wait.rows, 2);
}

/* Redis' clock was ahead when it was counted. */
TEST(all_claims_what_has_a_score_from_the_future)
{
    index_put("p1", world->redis_ms + 60000);
    wait_for(&one, "");
    for (int i = 0; i < 10 && world->claims.n == 0; i++)
        tick();
    assert_int_equal(world->claims.n, 1);
    world->dirty_n = 0;
    claim_answered(CLAIM_STANDS, 1, 0);
    for (int i = 0; i < 10 && world->standings.n == 0; i++)
        tick();
    standing_answered(0, 0);
    tick();
    assert_waited(&one, ASK_DONE);
}

/* Every tick something is due, and a claim is out at every tick. */
TEST(all_ends_under_traffic_too)
{
    char key[16];
    wait_for(&one, "");
    for (int i = 0; i < 200 && one.done == 0; i++) {
        snprintf(key, sizeof key, "p%d", i);
        due_now(VIEWS, key);
        if (world->claims.n > 1) claim_answered(CLAIM_EMPTY, 0, 0);
        if (world->standings.n > 0) standing_answered(0, 0);
    }
    assert_waited(&one, ASK_DONE);
}

TEST(all_waits_for_what_it_has_queued)
{
    index_put("p1", world->redis_ms);
    wait_for(&one, "");
    ticks(20);
    assert_int_equal(world->claims.n, 2); /* out, and once more: tallyd cannot know that the first ran */
    assert_int_equal(world->standings.n, 0);
    world->dirty_n = 0;
    ticks(20);
    assert_int_equal(world->standings.n, 0);
}

TEST(all_does_not_end_while_the_index_has_some_of_before)
{
    index_put("p1", world->redis_ms);
    wait_for(&one, "");
    for (int i = 0; i < 20; i++) {
        tick();
        while (world->claims.n > 0)
            claim_answered(CLAIM_GONE, 0, 0); /* and it is still there */
    }
    assert_int_equal(world->standings.n, 0);
    assert_int_equal(one.done, 0);
}

/* --- other ends --- */

TEST(each_reason_not_to_wait_is_told_at_once)
{
    sync_mysql(world->s, false);
    wait_for(&one, "p1");
    tick();
    assert_waited(&one, ASK_MYSQL_DOWN);
    sync_mysql(world->s, true);
    sync_redis(world->s, false);
    wait_for(&one, "p1");
    tick();
    assert_waited(&one, ASK_REDIS_DOWN);
    sync_redis(world->s, true);
    sync_counter_fit(world->s, VOTES, false);
    wait_for(&one, "p1");
    tick();
    assert_int_equal(one.done, 0); /* another counter's trouble */
    static struct waiter all;
    wait_for(&all, "");
    tick();
    assert_waited(&all, ASK_HELD);
    sync_hold(world->s, true, "rolled back");
    tick();
    assert_waited(&one, ASK_HELD);
    sync_hold(world->s, false, "");
    wait_for(&one, "p1");
    sync_stop(world->s);
    tick();
    assert_waited(&one, ASK_TRY_AGAIN);
}

/* A Redis that was away between two ticks may be one without the claim of the batch that is waited for. */
TEST(redis_away_for_a_moment_ends_a_wait)
{
    wait_for(&one, "p1");
    ticks(2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    standing_answered(77, 0);
    tick_after(50);
    sync_redis(world->s, false);
    sync_redis(world->s, true);
    standing_answered(0, 0);
    tick();
    assert_waited(&one, ASK_REDIS_DOWN);
}

static void wait_until_it_asks(struct waiter *w)
{
    wait_for(w, "p1");
    ticks(2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    assert_int_equal(world->standings.n, 1);
}

/* A name that was in no index then may be in no batch now: the server took over other data, and its links stayed open. */
TEST(batches_of_another_history_do_not_end_a_wait_well)
{
    wait_until_it_asks(&one);
    standing_answered_by(RUN_B, 0, 0);
    tick();
    assert_waited(&one, ASK_TRY_AGAIN);
    assert_int_equal(world->epochs_over, 1);
}

TEST(nor_when_the_batches_were_seen_before)
{
    wait_until_it_asks(&one);
    standing_answered(77, 0);
    tick_after(50);
    standing_answered_by(RUN_B, 0, 0);
    tick();
    assert_waited(&one, ASK_TRY_AGAIN);
}

/* The gate looks while it is open, too, when a table does not fit. */
TEST(nor_when_the_epoch_is_of_that_history_by_then)
{
    wait_until_it_asks(&one);
    epoch_is_of(RUN_B);
    standing_answered_by(RUN_B, 0, 0);
    tick();
    assert_waited(&one, ASK_TRY_AGAIN);
    wait_until_it_asks(&one);
    standing_answered_by(RUN_B, 0, 0);
    tick();
    assert_waited(&one, ASK_DONE);
}

TEST(after_thirty_seconds_try_again)
{
    wait_for(&one, "p1");
    ticks(2);
    assert_int_equal(world->claims.n, 1);
    tick_after(29000);
    assert_int_equal(one.done, 0);
    tick_after(1000);
    assert_waited(&one, ASK_TRY_AGAIN);
}

/* Redis was restarted, MySQL is there: a wait that begins meanwhile goes on when they are compared, one under way says "ask again". */
TEST(it_waits_while_histories_are_compared)
{
    wait_for(&one, "p1");
    ticks(2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    sync_mysql_unchecked(world->s, true);
    sync_mysql(world->s, false);
    tick();
    standing_answered(9, 0);
    tick();
    assert_waited(&one, ASK_TRY_AGAIN);
    wait_for(&one, "p1");
    ticks(2);
    assert_int_equal(one.done + world->claims.n + world->standings.n, 0);
    sync_mysql_unchecked(world->s, false);
    sync_mysql(world->s, true);
    ticks(2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    standing_answered(0, 0);
    tick();
    assert_waited(&one, ASK_DONE);
}

/* What it asked comes first, since its memory is the asker's only until done. */
TEST(it_ends_when_its_request_has_come_back)
{
    wait_for(&one, "p1");
    ticks(2);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    assert_int_equal(world->standings.n, 1);
    sync_mysql(world->s, false);
    tick();
    assert_int_equal(one.done, 0);
    standing_answered(9, 0);
    tick();
    assert_waited(&one, ASK_MYSQL_DOWN);
}

TEST(many_may_wait)
{
    struct waiter w[20];
    for (int i = 0; i < 20; i++)
        wait_for(&w[i], i % 2 == 0 ? "p1" : "p2");
    for (int i = 0; i < 20; i++) {
        tick();
        while (world->claims.n > 0)
            claim_answered(CLAIM_EMPTY, 0, 0);
        while (world->standings.n > 0)
            standing_answered(0, 0);
    }
    for (int i = 0; i < 20; i++)
        assert_waited(&w[i], ASK_DONE);
}

/* --- recovery --- */

static struct sync_recover recover;
static unsigned recovered;

static void on_recovered(struct sync_recover *r)
{
    assert_ptr_equal(r, &recover);
    recovered++;
}

static void recover_begin(bool more)
{
    recovered = 0;
    recover = (struct sync_recover){.more = more, .done = on_recovered};
    world->waits = true;
    sync_recover(world->s, &recover);
    assert_int_equal(recovered, 0);
}

TEST(recovery_adopts_and_counts)
{
    recover_begin(false);
    tick();
    const struct adopt *a = world->adopts.all[0];
    assert_int_equal(a->mode, ADOPT_DEAD);
    adopt_answered(1, 2, 3);
    tick();
    assert_int_equal(world->scans.n, 2);
    scan_sealed(5);
    scan_fenced(2);
    fence_answered(true, RUN_A);
    merge_answered(MERGE_DONE);
    merge_answered(MERGE_ALREADY);
    discard_answered(true);
    tick();
    assert_int_equal(recovered, 0);
    discard_answered(true);
    tick();
    assert_int_equal(recovered, 1);
    assert_false(recover.failed);
    assert_int_equal(recover.adopted, 2);
    assert_int_equal(recover.rows_merged, 5);
    assert_int_equal(recover.rows_already, 2);
    assert_int_equal(recover.unknown, 3);
    assert_int_equal(recover.held, 0);
}

TEST(recovery_of_nothing_ends)
{
    recover_begin(false);
    tick();
    adopt_answered(0, 0, 0);
    tick();
    assert_int_equal(recovered, 1);
    assert_int_equal(recover.adopted, 0);
}

TEST(recovery_waits_for_what_its_asker_still_takes)
{
    recover_begin(true);
    tick();
    adopt_answered(0, 0, 0);
    tick();
    assert_int_equal(recovered, 0);
    struct batch_id id = {{200}};
    sync_take(world->s, &id);
    recover.more = false;
    tick();
    assert_int_equal(recovered, 0);
    run_on(4);
    tick();
    assert_int_equal(recovered, 1);
    assert_int_equal(recover.adopted, 1);
    assert_int_equal(recover.rows_merged, 4);
}

TEST(recovery_does_not_wait_for_what_is_held)
{
    recover_begin(false);
    tick();
    adopt_answered(1, 1, 0);
    tick();
    scan_ended(SCAN_SHORT);
    tick();
    assert_int_equal(recovered, 1);
    assert_int_equal(recover.held, 1);
}

/* Held batches are looked at now, since an operator may have mended them. */
TEST(recovery_tries_what_waits_at_once)
{
    run_to_merge(2);
    merge_answered(MERGE_CONFLICT);
    forget_did();
    recover_begin(false);
    tick();
    assert_did("SF");
    adopt_answered(0, 0, 0);
    run_on(2);
    tick();
    assert_int_equal(recovered, 1);
    assert_int_equal(recover.rows_merged, 2);
}

TEST(recovery_takes_many_pages)
{
    recover_begin(false);
    tick();
    adopt_answered(1, 1000, 0);
    for (int i = 0; i < 3000 && world->adopts_n < 3; i++) {
        tick();
        while (world->scans.n > 0)
            scan_ended(SCAN_GONE);
    }
    adopt_answered(2, 5, 0);
    for (int i = 0; i < 3000 && recovered == 0; i++) {
        tick();
        while (world->scans.n > 0)
            scan_ended(SCAN_GONE);
    }
    assert_int_equal(recovered, 1);
    assert_int_equal(recover.adopted, 1005);
}

TEST(a_recovery_that_failed_leaves_no_mark_on_the_next)
{
    recover_begin(false);
    tick();
    adopt_answered(1, 1, 0);
    tick();
    scan_ended(SCAN_LOST);
    struct batch_id queued = {{200}};
    sync_mysql(world->s, false);
    sync_take(world->s, &queued);
    tick();
    assert_int_equal(recovered, 1);
    assert_true(recover.failed);
    sync_mysql(world->s, true);
    recover_begin(false);
    tick();
    adopt_answered(0, 0, 0);
    while (world->scans.n > 0)
        scan_ended(SCAN_GONE);
    ticks(2);
    assert_int_equal(recovered, 1);
    assert_false(recover.failed);
}

TEST(recovery_ends_when_the_service_stops)
{
    recover_begin(true);
    tick();
    sync_stop(world->s);
    tick();
    assert_int_equal(recovered, 0); /* its request is out */
    adopt_lost();
    tick();
    assert_int_equal(recovered, 1);
    assert_true(recover.failed);
}

TEST(progress_counts_what_is_to_be_done)
{
    STAT_SET(recover_total, 0);
    STAT_SET(recover_done, 0);
    run_to_scan(1);
    recover_begin(false);
    tick();
    struct adopt *a = answer(&world->adopts);
    a->ids = heap_alloc(2 * sizeof *a->ids);
    a->ids[0] = (struct batch_id){{1}}; /* runs here already */
    a->ids[1] = (struct batch_id){{99}};
    a->ids_n = 2;
    a->done(a);
    assert_int_equal(STAT_GET(recover_total), 1);
    tick();
    while (world->scans.n > 0)
        scan_ended(SCAN_GONE);
    tick();
    assert_int_equal(recovered, 1);
    assert_int_equal(STAT_GET(recover_done), 1);
}
