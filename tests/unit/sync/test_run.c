/* test_run.c - the machine of one batch: the whole way, every branch of run.c's table, and its end at any
 * step. */
#include "unit/sync/world.h"

static int64_t held_now(void)
{
    return STAT_GET(batches_held);
}

/* --- the whole way --- */

TEST(from_due_to_discarded)
{
    due(VIEWS, "p1");
    due_now(VIEWS, "p2");
    assert_did("C");
    assert_int_equal(claim_out(0)->keys_n, 2);
    assert_slice(claim_out(0)->keys[0], "p1");
    assert_slice(claim_out(0)->keys[1], "p2");
    assert_ptr_equal(claim_out(0)->counter, VIEWS);
    claim_answered(CLAIM_STANDS, 2500, 0);
    assert_int_equal(STAT_GET(fields_in_flight), 2500);
    scan_fenced(2500);
    assert_did("SFMMM");
    const struct chunk *last = world->merges.all[2];
    assert_int_equal(last->index, 2);
    assert_int_equal(last->chunks, 3);
    assert_int_equal(last->rows_n, 500);
    merge_answered(MERGE_DONE);
    merge_answered(MERGE_ALREADY);
    assert_did("");
    merge_answered(MERGE_DONE);
    assert_did("D");
    discard_answered(true);
    assert_int_equal(STAT_GET(fields_in_flight), 0);
    assert_true((sync_quiet(world->s) && list_empty(&world->s->runs)) || world->polls.n > 0);
    tick();
    assert_did("");
}

TEST(chunks_go_out_a_few_at_a_time)
{
    run_to_merge(20000);
    assert_int_equal(world->merges.n, 8);
    merge_answered(MERGE_DONE);
    assert_int_equal(world->merges.n, 8);
    for (int i = 0; i < 19; i++)
        merge_answered(MERGE_DONE);
    assert_int_equal(world->discards.n, 1);
    discard_answered(true);
}

TEST(a_batch_without_rows_is_one_chunk)
{
    run_to_merge(0);
    assert_int_equal(world->merges.n, 1);
    merged_whole();
}

/* --- CLAIM --- */

TEST(a_refused_claim_leaves_its_names_due_and_waits_a_second)
{
    due_now(VIEWS, "p1");
    claim_answered(CLAIM_REFUSED, 0, 0);
    tick();
    tick_after(900);
    assert_did("C");
    tick_after(100);
    assert_did("C");
    assert_slice(claim_out(0)->keys[0], "p1");
    claim_answered(CLAIM_EMPTY, 0, 0);
    tick_after(1000);
    assert_did("");
    assert_int_equal(world->s->runs_n, 0);
}

TEST(a_claim_gone_in_doubt_is_made_again_under_another_id)
{
    due_now(VIEWS, "p1");
    struct batch_id first = claim_out(0)->id;
    claim_answered(CLAIM_GONE, 0, 0);
    tick_after(200);
    assert_int_equal(world->claims.n, 1);
    assert_memory_not_equal(&claim_out(0)->id, &first, sizeof first);
}

TEST(what_a_claim_left_is_claimed_next)
{
    due(VIEWS, "p1");
    due(VIEWS, "p2");
    due_now(VIEWS, "p3");
    claim_answered(CLAIM_STANDS, 100000, 2);
    tick_after(200);
    assert_int_equal(claim_out(0)->keys_n, 2);
    assert_slice(claim_out(0)->keys[0], "p2");
    claim_answered(CLAIM_EMPTY, 0, 1);
    tick_after(200);
    assert_slice(claim_out(0)->keys[0], "p3");
}

/* --- SCAN --- */

TEST(a_lost_scan_is_made_again)
{
    run_to_scan(1);
    scan_ended(SCAN_LOST);
    assert_did("CSF");
    tick_after(5000);
    assert_did("SF");
    scan_ended(SCAN_LOST);
    sync_redis(world->s, false);
    tick_after(60000);
    assert_did("");
    sync_redis(world->s, true);
    tick();
    assert_non_null(strchr(world->did, 'S'));
}

TEST(a_batch_that_is_gone_or_unknown_ends_the_run)
{
    enum scan_outcome outcomes[] = {SCAN_GONE, SCAN_UNKNOWN};
    for (int i = 0; i < 2; i++) {
        due(VIEWS, "p1");
        tick_after(200);
        claim_answered(CLAIM_STANDS, 10, 0);
        scan_ended(outcomes[i]);
        assert_int_equal(world->s->runs_n, 0);
        assert_int_equal(world->s->fields, 0);
    }
}

TEST(missing_fields_hold_the_batch_and_are_looked_at_again)
{
    int64_t held = held_now();
    run_to_scan(10);
    scan_ended(SCAN_SHORT);
    assert_int_equal(held_now(), held + 1);
    forget_did();
    tick_after(29000);
    assert_null(strchr(world->did, 'S'));
    forget_did();
    tick_after(1000);
    assert_non_null(strchr(world->did, 'S'));
    scan_fenced(10);
    assert_int_equal(held_now(), held);
    merged_whole();
}

/* --- FENCE --- */

TEST(a_fence_of_another_process_than_was_scanned_does_not_count)
{
    run_to_scan(1);
    scan_sealed(1);
    fence_answered(true, RUN_B);
    assert_did("CSF");
    epoch_is_of(RUN_B);
    tick_after(5000);
    assert_did("SF");
    scan_sealed_by(VIEWS, 1, RUN_B);
    fence_answered(true, RUN_B);
    assert_did("M");
}

/* The fence is beside the scan: whichever ends last, both are waited for. */
TEST(a_fence_may_pass_before_the_last_row)
{
    run_to_scan(1);
    fence_answered(true, RUN_A);
    assert_did("CSF");
    scan_sealed(1);
    assert_did("M");
}

/* The rows are read to their end all the same: both requests point into the run. */
TEST(a_fence_may_fail_before_the_last_row)
{
    run_to_scan(1);
    fence_answered(false, RUN_A);
    tick_after(5000);
    assert_did("CSF");
    scan_sealed(1);
    tick_after(5000);
    assert_did("SF");
}

TEST(a_scan_of_another_history_than_the_epochs_does_not_count)
{
    run_to_scan(1);
    fence_answered(true, RUN_A);
    scan_in(VIEWS, "p1", 1, RUN_A, RUN_B);
    assert_did("CSF");
    assert_int_equal(world->epochs_over, 1);
}

/* It was demoted, took over another server's data, and was promoted: the same process, and the link lives. */
TEST(a_fence_of_another_history_than_the_epochs_does_not_count)
{
    run_to_scan(1);
    scan_sealed(1);
    struct fence *f = answer(&world->fences);
    f->passed = true;
    snprintf(f->run_id, sizeof f->run_id, "%s", RUN_A);
    snprintf(f->replid, sizeof f->replid, "%s", RUN_B);
    f->done(f);
    assert_did("CSF");
    assert_int_equal(world->epochs_over, 1);
    tick_after(5000);
    assert_did("SF");
}

/* --- MERGE --- */

/* All of its chunks under the epoch of its scan, whatever the gate has heard meanwhile. */
TEST(a_merge_whose_epoch_is_over_scans_again)
{
    run_to_merge(3000);
    const struct chunk *c = world->merges.all[0];
    assert_string_equal(c->epoch.run_id, RUN_A);
    epoch_is_of(RUN_B);
    merge_answered(MERGE_DONE);
    merge_answered(MERGE_STALE);
    merge_answered(MERGE_STALE);
    assert_int_equal(world->epochs_over, 1);
    forget_did();
    tick_after(5000);
    assert_did("SF");
}

TEST(mysql_down_waits_and_scans_again)
{
    run_to_merge(3000);
    merge_answered(MERGE_DONE);
    sync_mysql(world->s, false);
    merge_answered(MERGE_DOWN);
    merge_answered(MERGE_DOWN);
    forget_did();
    tick_after(60000);
    assert_did("");
    sync_mysql(world->s, true);
    tick();
    assert_did("SF");
    scan_fenced(3000);
    sync_mysql(world->s, false);
    merge_answered(MERGE_ALREADY);
    merge_answered(MERGE_DOWN);
    merge_answered(MERGE_DOWN);
    forget_did();
    sync_mysql(world->s, true);
    tick();
    assert_did("SF"); /* woken, whatever its backoff was */
    scan_fenced(3000);
    merge_answered(MERGE_ALREADY);
    merge_answered(MERGE_DONE);
    merged_whole();
    assert_int_equal(world->s->runs_n, 0);
}

static const struct run *only_run(void)
{
    assert_int_equal(world->s->runs_n, 1);
    return CONTAINER_OF(world->s->runs.next, struct run, link);
}

/* As many as are in flight at most, for hours. */
TEST(rows_cost_no_memory_while_mysql_is_away)
{
    run_to_merge(3000);
    const struct batch *b = &only_run()->batch;
    struct batch_id id = b->id;
    assert_non_null(b->rows);
    sync_mysql(world->s, false);
    while (world->merges.n > 0)
        merge_answered(MERGE_DOWN);
    assert_null(b->rows);
    assert_null(b->hashes);
    assert_int_equal(b->bytes.cap, 0);
    assert_memory_equal(&b->id, &id, sizeof id);
}

TEST(the_table_has_no_move_that_takes_a_rule_out)
{
    due_now(VIEWS, "p1");
    const struct sm_state *table = only_run()->sm.table;
    assert_int_equal(table[RUN_SCAN].to & TO(RUN_MERGE), 0); /* past the fence */
    assert_int_equal(table[RUN_WAIT].to & TO(RUN_FENCE), 0); /* with rows that may be rolled back */
}

TEST(the_worst_chunk_decides)
{
    run_to_merge(3000);
    merge_answered(MERGE_DOWN);
    merge_answered(MERGE_CONFLICT);
    int64_t held = held_now();
    merge_answered(MERGE_DONE);
    assert_int_equal(held_now(), held + 1);
    assert_int_equal(world->discards.n, 0);
    tick_after(30000);
    assert_int_equal(world->scans.n, 1);
}

TEST(after_a_bad_chunk_no_further_one_goes_out)
{
    run_to_merge(20000);
    merge_answered(MERGE_HELD);
    for (int i = 0; i < 7; i++)
        merge_answered(MERGE_DONE);
    assert_int_equal(world->merges.n, 0);
    assert_int_equal(world->discards.n, 0);
}

TEST(a_refusing_table_stops_the_claims_of_its_counter_alone)
{
    run_to_merge(1);
    merge_answered(MERGE_HELD);
    forget_did();
    due(VIEWS, "p2");
    due(VOTES, "v1");
    tick_after(1000);
    assert_int_equal(world->claims.n, 1);
    assert_slice(claim_out(0)->keys[0], "v1");
    index_put("p2", 0);
    tick_after(30000);
    scan_fenced(1);
    merge_answered(MERGE_HELD); /* not mended yet */
    tick_after(30000);
    scan_fenced(1);
    merged_whole();
    tick_after(1000);
    tick_after(1000);
    assert_int_equal(world->claims.n, 2); /* p2, found in the index */
    assert_slice(claim_out(1)->keys[0], "p2");
}

TEST(a_conflict_is_never_discarded)
{
    run_to_merge(1);
    merge_answered(MERGE_CONFLICT);
    for (int i = 0; i < 3; i++) {
        tick_after(30000);
        scan_fenced(1);
        merge_answered(MERGE_CONFLICT);
    }
    assert_int_equal(world->discards.n, 0);
    assert_int_equal(world->s->runs_n, 1);
}

TEST(too_old_a_run_is_given_up_by_the_writer_or_by_itself)
{
    run_to_merge(1);
    const struct chunk *c = world->merges.all[0];
    assert_true(c->not_after_ms == world->mono_ms + sync_config_default.give_up_ms);
    merge_answered(MERGE_TOO_OLD);
    assert_int_equal(world->s->runs_n, 0);
    run_to_merge(1);
    merge_answered(MERGE_DOWN);
    forget_did();
    tick_after(sync_config_default.give_up_ms);
    assert_null(strpbrk(world->did, "SFM"));
    assert_int_equal(world->s->runs_n, 0);
}

/* --- DISCARD --- */

TEST(a_lost_discard_is_sent_again)
{
    run_to_merge(1);
    merge_answered(MERGE_DONE);
    discard_answered(false);
    forget_did();
    tick_after(5000);
    assert_did("D");
    discard_answered(true);
    assert_int_equal(world->s->runs_n, 0);
}

/* The tallyd that adopts it touches its ledger rows first (run.c says why). */
TEST(too_old_a_run_does_not_discard_either)
{
    run_to_merge(1);
    merge_answered(MERGE_DONE);
    discard_answered(false);
    forget_did();
    tick_after(sync_config_default.give_up_ms);
    assert_null(strchr(world->did, 'D'));
    assert_int_equal(world->s->runs_n, 0);
    run_to_merge(1);
    world->mono_ms += sync_config_default.give_up_ms;
    merge_answered(MERGE_DONE);
    assert_int_equal(world->discards.n, 0);
    assert_int_equal(world->s->runs_n, 0);
}

/* --- hold, fit --- */

TEST(held_back_nothing_is_claimed_or_merged)
{
    run_to_scan(1);
    due(VIEWS, "p2");
    sync_hold(world->s, true, "rolled back");
    scan_fenced(1);
    forget_did();
    tick_after(60000);
    assert_null(strpbrk(world->did, "CSFMD"));
    sync_hold(world->s, false, "accepted");
    forget_did();
    tick_after(1000);
    assert_string_equal(world->did, "SFC");
}

/* The hold may come while the fence is asked, or between two chunks. */
TEST(a_hold_is_kept_at_every_step_to_mysql)
{
    run_to_scan(20000);
    scan_sealed(20000);
    sync_hold(world->s, true, "rolled back");
    fence_answered(true, RUN_A);
    assert_did("CSF");
    sync_hold(world->s, false, "");
    tick_after(5000);
    scan_fenced(20000);
    assert_int_equal(world->merges.n, 8);
    sync_hold(world->s, true, "rolled back");
    while (world->merges.n > 0)
        merge_answered(MERGE_DONE);
    assert_int_equal(world->discards.n, 0);
    sync_hold(world->s, false, "");
    forget_did();
    tick_after(5000);
    assert_non_null(strchr(world->did, 'S'));
}

TEST(what_was_merged_wholly_is_discarded_under_a_hold_too)
{
    run_to_merge(1);
    sync_hold(world->s, true, "rolled back");
    merge_answered(MERGE_DONE);
    assert_int_equal(world->discards.n, 1);
}

TEST(an_unfit_counter_is_not_merged_until_it_fits)
{
    run_to_scan(1);
    sync_counter_fit(world->s, VIEWS, false);
    scan_fenced(1);
    assert_did("CSF");
    due(VIEWS, "p2");
    tick_after(1000);
    assert_did("");
    sync_counter_fit(world->s, VIEWS, true);
    tick_after(30000);
    assert_non_null(strchr(world->did, 'S'));
    scan_fenced(1);
    merge_answered(MERGE_DONE);
}

/* Batches of a counter that an operator must mend do not use up what all counters share. */
TEST(held_batches_do_not_stop_other_counters)
{
    reopen_with(config.fields_max = 100);
    run_to_merge(100);
    merge_answered(MERGE_HELD);
    due(VOTES, "v1");
    forget_did();
    tick_after(1000);
    assert_did("C");
    tick_after(29000); /* looks again: its fields count while they are here */
    assert_int_equal(world->scans.n, 1);
    scan_sealed(100);
    assert_int_equal(world->s->fields, 100);
}

/* --- ends --- */

TEST(stopped_it_claims_no_more_but_goes_on)
{
    run_to_merge(1);
    due(VIEWS, "p2");
    sync_stop(world->s);
    forget_did();
    tick_after(1000);
    assert_null(strpbrk(world->did, "CSFMDA"));
    merged_whole();
    while (world->polls.n > 0)
        poll_answered();
    assert_true((sync_quiet(world->s) && list_empty(&world->s->runs)));
}

static void merges_end(void)
{
    while (world->merges.n > 0)
        merge_answered(MERGE_DONE);
}

/* So many steps of the way are gone, each of which succeeds. */
static void gone_so_far(int steps)
{
    reopen(&sync_config_default);
    due(VIEWS, "p1");
    if (steps > 0) tick();
    if (steps > 1) claim_answered(CLAIM_STANDS, 20000, 0);
    if (steps > 2) scan_sealed(20000);
    if (steps > 3) fence_answered(true, RUN_A);
    if (steps > 4) merge_answered(MERGE_DONE);
    if (steps > 5) merges_end();
}

/* Teardown, which is in reopen(), shows that the machine asks for nothing and is quiet. */
TEST(abandoned_at_each_step)
{
    for (int steps = 0; steps < 8; steps++) {
        gone_so_far(steps);
        if (steps > 6) discard_answered(false);
    }
}

/* What is out when it is abandoned succeeds after all: it goes no further. */
TEST(abandoned_what_succeeds_late_goes_no_further)
{
    for (int steps = 1; steps < 7; steps++) {
        gone_so_far(steps);
        sync_abandon(world->s);
        forget_did();
        if (world->claims.n > 0) claim_answered(CLAIM_STANDS, 20000, 0);
        if (world->scans.n > 0) scan_sealed(20000);
        if (world->fences.n > 0) fence_answered(true, RUN_A);
        merges_end();
        if (world->discards.n > 0) discard_answered(true);
        assert_did("");
    }
}
