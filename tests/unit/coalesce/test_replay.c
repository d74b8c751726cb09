/* Answered frames that Redis could lose: what is kept, when it is let go, and what a server that lacks them gets. */
#include "unit/coalesce/world.h"

#include "series/frame.h"

/* As struct kept_frame and one byte. */
#define FRAMES_BYTES(n) ((n) * (sizeof(struct kept_frame) + 64))

static void keeping(size_t bytes)
{
    reopen_with(config.replay_bytes = bytes);
    world->keeps = true;
}

static void frames(int n)
{
    for (; n > 0; n--) {
        round_of('a', "p1", "5", 1);
    }
    forget_did();
}

static void back_behind(const char *run_id, int64_t seq)
{
    cut();
    world->seq = seq;
    link_ready(run_id, 8);
}

static void kept_ran(uint64_t seq)
{
    struct kept_frame *k = world->kept;
    assert_non_null(k);
    assert_int_equal(k->seq, seq);
    world->kept = NULL;
    world->seq = (int64_t)seq;
    coalesce_on_kept(world->c, k, FRAME_APPLIED);
}

static void kept_refused(void)
{
    struct kept_frame *k = world->kept;
    assert_non_null(k);
    world->kept = NULL;
    coalesce_on_kept(world->c, k, FRAME_REFUSED);
}

static void fence_ends(bool passed, const char *run_id)
{
    struct fence *f = world->fence;
    assert_non_null(f);
    world->fence = NULL;
    f->passed = passed;
    snprintf(f->run_id, sizeof f->run_id, "%s", run_id);
    f->done(f);
}

TEST(what_redis_lacks_it_gets_in_order_and_first)
{
    keeping(SIZE_MAX);
    frames(4);
    int64_t lost = STAT_GET(frames_lost), replayed = STAT_GET(frames_replayed);
    hit_goes('b', "p1", "5", 1);
    unsigned before = world->caught_up;
    forget_did();
    back_behind(RUN_B, 2);
    assert_did("LJR");
    assert_false(coalesce_caught_up(world->c));
    hit_goes('c', "p1", "6", 1);
    assert_did(""); /* it waits, and is not refused */
    kept_ran(3);
    assert_int_equal(world->caught_up, before);
    assert_false(coalesce_idle(world->c));
    kept_ran(4);
    assert_int_equal(world->caught_up, before + 1);
    assert_int_equal(world->frame->seq, 5); /* in doubt until now */
    frame_applied();
    turn();
    assert_int_equal(world->frame->seq, 6);
    frame_applied();
    assert_told('c', ":1\r\n");
    assert_int_equal(STAT_GET(frames_lost), lost);
    assert_int_equal(STAT_GET(frames_replayed) - replayed, 2);
}

TEST(a_server_that_has_all_gets_nothing)
{
    keeping(SIZE_MAX);
    frames(3);
    back_behind(RUN_A, 3);
    assert_did("L");
    assert_true(coalesce_caught_up(world->c));
}

/* The old link may still run what was sent again. */
TEST(cut_meanwhile_it_kills_and_looks_anew)
{
    keeping(SIZE_MAX);
    frames(3);
    back_behind(RUN_B, 1);
    assert_did("LJR");
    world->kept = NULL;
    cut();
    world->seq = 2;
    link_up(RUN_B, 9);
    assert_did("K");
    coalesce_on_killed(world->c);
    look_answered(NULL);
    assert_did("LJR");
    kept_ran(3);
    assert_true(coalesce_caught_up(world->c));
}

/* The frames that Redis got again bring no lease back: another tallyd may have drawn its numbers since. */
TEST(cut_meanwhile_it_knows_no_more_leases)
{
    keeping(SIZE_MAX);
    frames(4);
    back_behind(RUN_B, 1);
    assert_int_equal(world->kept->found, 1);
    kept_ran(2);
    kept_ran(3);
    world->kept = NULL;
    cut();
    back_up_on(RUN_B, 9);
    assert_int_equal(world->kept->seq, 4);
    assert_int_equal(world->kept->found, 1);
    kept_ran(4);
    back_behind(RUN_A, 3); /* once more, and it lost only the last */
    assert_int_equal(world->kept->seq, 4);
    assert_int_equal(world->kept->found, 1);
}

TEST(refused_it_is_sent_later)
{
    keeping(SIZE_MAX);
    frames(2);
    back_behind(RUN_B, 1);
    forget_did();
    kept_refused();
    turn();
    assert_did("");
    world->mono_ms += 1000;
    turn();
    assert_did("R");
    kept_ran(2);
}

/* A server without its replicas, or with a full disk, may refuse for long. */
TEST(who_waits_for_what_is_refused_hears_it_in_time)
{
    keeping(SIZE_MAX);
    frames(2);
    buf_reset(&client('a')->o.out);
    back_behind(RUN_B, 1);
    hit_goes('b', "p1", "5", 1);
    for (int i = 0; i < 49; i++) {
        kept_refused();
        tick_after(100);
        turn();
    }
    assert_told('b', "");
    kept_refused();
    HIT('c', "p1", "6", 1);
    tick_after(100);
    turn();
    assert_told('b', "-BUSY Redis does not take back the hits that it lost; nothing was counted\r\n");
    kept_ran(2);
    round_of('a', "p1", "5", 1);
    assert_told('a', ":3\r\n");
}

static void on_settled(struct coalesce_settle *s)
{
    world_did("s");
    assert_true(s->failed);
    assert_string_equal(s->why, "BUSY Redis does not take back the hits that it lost");
}

/* A full Redis lets tallyd take its journal over all the same, and takes no frame that brings it home. */
TEST(so_does_a_read_of_what_is_in_a_journal)
{
    struct buf bytes = {0};
    struct coalesce_settle read = {
        .kind = OP_SERIES, .name = SLICE("s"), .type = SLICE(""), .done = on_settled};
    keeping(SIZE_MAX);
    frames(2);
    back_behind(RUN_B, 1);
    journal_put_op(&bytes, 0, OP_SERIES, 1700000000, SLICE("s"), SLICE(""));
    journal_put_add(&bytes, 0, 5);
    coalesce_adopt(world->c, SLICE("unit:0123456789abcdef:1"), buf_slice(&bytes));
    buf_free(&bytes);
    assert_true(coalesce_settle(world->c, &read));
    kept_refused();
    tick_after(4900);
    forget_did();
    turn();
    kept_refused();
    tick_after(100);
    assert_did("Rs");
}

TEST(while_frames_are_held_none_is_sent_again)
{
    keeping(SIZE_MAX);
    frames(2);
    coalesce_hold(world->c, true);
    back_behind(RUN_B, 1);
    assert_did("LJ");
    coalesce_hold(world->c, false);
    turn();
    assert_did("R");
    kept_ran(2);
}

/* A fence covers what was answered before it was asked for. */
TEST(a_fence_lets_go_what_was_before_it)
{
    keeping(SIZE_MAX);
    frames(2);
    tick_after(1000);
    frames(1);
    fence_ends(true, RUN_A);
    int64_t lost = STAT_GET(frames_lost);
    back_behind(RUN_B, 2);
    kept_ran(3);
    assert_int_equal(STAT_GET(frames_lost), lost);
}

TEST(one_that_failed_or_was_elsewhere_lets_nothing_go)
{
    keeping(SIZE_MAX);
    frames(1);
    tick_after(1000);
    fence_ends(false, RUN_A);
    tick_after(1000);
    fence_ends(true, RUN_B);
    tick_after(1000);
    back_behind(RUN_B, 0);
    fence_ends(true, RUN_A); /* asked for before the cut */
    kept_ran(1);
    back_behind(RUN_A, 0);
    kept_ran(1);
}

/* The fences were of another server: others may have merged what is kept. */
TEST(a_server_without_what_was_fenced_gets_nothing)
{
    keeping(SIZE_MAX);
    frames(2);
    tick_after(1000);
    fence_ends(true, RUN_A);
    frames(2);
    int64_t lost = STAT_GET(frames_lost);
    back_behind(RUN_B, 1);
    assert_did("LJ");
    assert_int_equal(STAT_GET(frames_lost) - lost, 3);
    frames(1);
    back_behind(RUN_A, 4);
    kept_ran(5);
    assert_int_equal(STAT_GET(frames_lost) - lost, 3);
}

TEST(the_oldest_go_when_there_are_too_many)
{
    keeping(FRAMES_BYTES(2));
    int64_t lost = STAT_GET(frames_lost), bytes = STAT_GET(replay_bytes);
    frames(5);
    assert_true(STAT_GET(replay_bytes) - bytes <= (int64_t)FRAMES_BYTES(2));
    back_behind(RUN_B, 1);
    kept_ran(4);
    back_behind(RUN_A, 1); /* named once */
    kept_ran(4);
    kept_ran(5);
    assert_int_equal(STAT_GET(frames_lost) - lost, 2);
    back_behind(RUN_B, 0); /* now the first too */
    kept_ran(4);
    assert_int_equal(STAT_GET(frames_lost) - lost, 3);
}

/* Its clients were told "outcome unknown", and may have sent it again themselves. */
TEST(what_was_given_up_is_not_kept)
{
    keeping(SIZE_MAX);
    frames(1);
    HIT('b', "p1", "5", 1);
    turn_ran_cut();
    tick_after(coalesce_config_default.doubt_ms);
    forget_did();
    back_up(8);
    values_read();
    forget_did();
    back_behind(RUN_B, 0);
    assert_did("LJR");
    kept_ran(1);
    assert_true(coalesce_caught_up(world->c));
}

TEST(stopped_before_the_end_it_names_the_rest)
{
    keeping(SIZE_MAX);
    frames(3);
    int64_t lost = STAT_GET(frames_lost);
    back_behind(RUN_B, 1);
    coalesce_abandon(world->c, WHY);
    assert_int_equal(STAT_GET(frames_lost) - lost, 2);
}
