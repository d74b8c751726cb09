/* test_keep.c - merged batches that are kept: how long, what they may hold up, and what becomes of them when MySQL is back. */
#include "unit/sync/world.h"

#define KEEP_MS 30000

static int kept_open(void **state)
{
    struct sync_config config = sync_config_default;
    config.keep_ms = KEEP_MS;
    config.runs_max = 1;
    world_make(&config);
    world_start();
    return 0;
}

static void merge_whole(uint32_t rows)
{
    run_to_merge(rows);
    while (world->merges.n > 0)
        merge_answered(MERGE_DONE);
    forget_did();
}

static void mysql_away_and_back(void)
{
    sync_mysql(world->s, false);
    sync_mysql(world->s, true);
}

#define KEPT(f) UNIT_IN(f, kept_open, world_close)

KEPT(a_kept_batch_holds_nothing_up)
{
    merge_whole(2500);
    assert_int_equal(world->s->runs_n, 0);
    assert_int_equal(world->s->fields, 0);
    assert_int_equal(STAT_GET(batches_kept), 1);
    assert_int_equal(STAT_GET(rows_kept), 2500);
    assert_true(adopt_known(world->s, &(struct batch_id){{1}}));
    tick_after(10000);
    assert_int_equal(world->beat_n, 1);
    assert_int_equal(sync_stalled_s(world->s), 0);
    merge_whole(1);
    assert_int_equal(STAT_GET(batches_kept), 2);
}

KEPT(it_is_discarded_when_a_later_merge_says_that_mysql_is_the_same)
{
    merge_whole(1);
    tick_after(KEEP_MS);
    assert_did("");
    run_to_merge(1);
    forget_did();
    merge_answered(MERGE_DONE);
    tick();
    assert_did("D");
    assert_int_equal(((struct discard *)world->discards.all[0])->batch->hashes_n, 1);
    assert_slice(batch_hash_name(((struct discard *)world->discards.all[0])->batch, 0), "p1");
    discard_answered(true);
    assert_int_equal(STAT_GET(batches_kept), 1);
}

KEPT(a_merge_that_began_too_early_says_nothing)
{
    run_to_merge(1);
    struct chunk *first = answer(&world->merges);
    first->outcome = MERGE_DONE;
    first->done(first);
    run_to_merge(1);
    forget_did();
    tick_after(KEEP_MS);
    merge_answered(MERGE_DONE);
    tick();
    assert_did("");
}

KEPT(without_other_merges_it_is_asked_for_again)
{
    merge_whole(1);
    tick_after(KEEP_MS);
    tick_after(1000);
    tick();
    assert_did("SF");
    scan_fenced(1);
    merge_answered(MERGE_ALREADY);
    assert_did("MD");
    discard_answered(true);
    assert_int_equal(STAT_GET(batches_kept), 0);
    assert_int_equal(world->s->runs_n, 0);
}

KEPT(what_another_mysql_lacks_is_merged_and_kept_again)
{
    merge_whole(1);
    mysql_away_and_back();
    assert_int_equal(STAT_GET(batches_kept), 0);
    tick();
    assert_did("SF");
    scan_fenced(1);
    merge_answered(MERGE_DONE);
    assert_did("M");
    assert_int_equal(STAT_GET(batches_kept), 1);
    tick_after(KEEP_MS - 1000);
    assert_did("");
}

KEPT(nothing_is_discarded_while_mysql_is_away)
{
    merge_whole(1);
    sync_mysql(world->s, false);
    tick_after(2 * KEEP_MS);
    assert_did("");
    assert_int_equal(STAT_GET(batches_kept), 1);
}

KEPT(a_lost_discard_is_sent_again)
{
    merge_whole(1);
    tick_after(KEEP_MS);
    run_to_merge(1);
    merge_answered(MERGE_DONE);
    tick();
    discard_answered(false);
    forget_did();
    tick_after(5000);
    assert_did("D");
    mysql_away_and_back();
    tick();
    forget_did();
    discard_answered(false);
    assert_int_equal(STAT_GET(batches_kept), 0);
    assert_int_equal(world->s->runs_n + world->s->queue_n, 2);
}

KEPT(one_that_is_too_old_is_let_go)
{
    merge_whole(1);
    world->mono_ms += world->s->config.give_up_ms;
    tick();
    assert_did("");
    assert_int_equal(STAT_GET(batches_kept), 0);
    assert_false(adopt_known(world->s, &(struct batch_id){{1}}));
}

static struct sync_wait waiting;
static bool waited;

static void on_waited(struct sync_wait *w)
{
    waited = true;
}

/* For p1, whose batch is kept. */
static void wait_for_kept(void)
{
    waited = false;
    waiting = (struct sync_wait){.key = {"p1", 2}, .done = on_waited};
    merge_whole(1);
    sync_wait_for(world->s, &waiting);
    tick_after(200);
    tick_after(200);
    claim_answered(CLAIM_EMPTY, 0, 0);
    ticks(2);
    standing_answered(1, 0);
}

KEPT(who_waits_does_not_wait_for_what_is_kept)
{
    wait_for_kept();
    tick();
    assert_true(waited);
    assert_int_equal(waiting.outcome, ASK_DONE);
}

KEPT(who_waits_is_told_that_mysql_went)
{
    wait_for_kept();
    mysql_away_and_back();
    tick();
    assert_true(waited);
    assert_int_equal(waiting.outcome, ASK_MYSQL_DOWN);
}

TEST(what_was_discarded_is_known_by_its_gen)
{
    keep_discarded(world->s, 7, 70);
    keep_discarded(world->s, 8, -1);
    keep_discarded(world->s, 9, 90);
    assert_int_equal(sync_discarded_above(world->s, 7), 89);
    assert_int_equal(sync_discarded_above(world->s, 9), 0);
    for (int i = 0; i < DISCARDED_MAX; i++)
        keep_discarded(world->s, 10, 1);
    assert_int_equal(sync_discarded_above(world->s, 0), DISCARDED_MAX);
}
