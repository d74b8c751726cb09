/* test_doubt.c - cuts: who hears what and when, what is sent again, what never, and in which order the old
 * link is ended and the server is asked. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"

/* --- who hears what --- */

TEST(what_was_not_sent_fails_at_once_and_definitely)
{
    HIT('a', "p1", "5", 1);
    literal('a', "+PONG\r\n");
    HIT('b', "p1", "5", 1);
    cut();
    assert_told('a', REFUSED "\r\n+PONG\r\n");
    assert_told('b', REFUSED "\r\n");
    assert_did("ab");
    assert_true(coalesce_idle(world->c));
    link_up(RUN_A, 8);
    assert_did("L"); /* nothing was sent on the old link: nothing to kill */
    look_answered(NULL);
    turn();
    assert_did("");
}

TEST(what_waits_for_a_failover_waits_for_the_new_link_to_be_ready)
{
    coalesce_hold(world->c, true);
    HIT('a', "p1", "5", 1);
    cut();
    link_up(RUN_B, 8);
    coalesce_hold(world->c, false);
    assert_told('a', "");
    HIT('b', "p1", "5", 1);
    look_answered(NULL);
    turn_applied();
    assert_told('a', ":1\r\n");
    assert_told('b', ":2\r\n");
}

TEST(what_waits_for_a_new_link_is_refused_when_that_is_cut)
{
    coalesce_hold(world->c, true);
    HIT('a', "p1", "5", 1);
    cut();
    link_up(RUN_B, 8);
    coalesce_hold(world->c, false);
    cut();
    assert_told('a', REFUSED "\r\n");
    assert_int_equal(hit('a', "p1", "7", 1), ADD_DOWN);
}

/* Hits on its cells find room in a frame that is held through a cut, others do not: half of a transaction would count. */
TEST(a_frame_held_through_a_cut_has_no_room_for_a_transaction)
{
    bool never;
    coalesce_hold(world->c, true);
    HIT('a', "p1", "5", 1);
    assert_true(coalesce_room(world->c, 2, 20, &never));
    cut();
    assert_false(coalesce_room(world->c, 2, 20, &never));
    assert_false(never);
    assert_int_equal(hit('b', "p1", "6", 1), ADD_FULL);
    link_ready(RUN_B, 8);
    assert_true(coalesce_room(world->c, 2, 20, &never));
    HIT('b', "p1", "6", 1);
    cut();
    coalesce_hold(world->c, false);
    assert_true(coalesce_room(world->c, 2, 20, &never)); /* each of it hears why */
    assert_int_equal(hit('b', "p1", "6", 1), ADD_DOWN);
}

TEST(who_waits_for_the_frame_in_doubt_hears_of_it_first)
{
    hit_goes('a', "p1", "5", 1);
    HIT('a', "p1", "6", 1);
    HIT('b', "p1", "6", 1);
    forget_did();
    cut();
    assert_told('a', "");
    assert_told('b', REFUSED "\r\n");
    assert_did("b");
    turn();
    assert_int_equal(hit('a', "p1", "7", 1), ADD_DOWN);
    assert_int_equal(literal('a', "-down\r\n"), ADD_OK);
    back_up(8);
    frame_applied();
    assert_told('a', ":1\r\n");
    turn();
    assert_told('a', REFUSED "\r\n-down\r\n");
    assert_int_equal(row("p1", "6"), 0);
    HIT('a', "p1", "8", 1); /* now it waits for nothing in doubt */
    cut();
    assert_told('a', REFUSED "\r\n");
}

TEST(applied_its_values_are_read_and_what_left_out_a_zadd_owes_it)
{
    round_of('a', "s1:v", "20140920", 1);
    HIT('a', "s1:v", "20140920", 2);
    HIT('b', "s1:v", "20140920", 3);
    hit_goes('b', "s2:v", "20140921", 4);
    redis_runs(world->frame);
    forget_did();
    cut();
    back_up(8);
    assert_did("KL~s1:v ~s2:v V"); /* all of a frame in doubt is due */
    assert_told('b', "");
    hit_goes('c', "p1", "5", 1);
    assert_did(""); /* still one frame in flight */
    values_read();
    assert_told('a', ":1\r\n:6\r\n");
    assert_told('b', ":6\r\n:4\r\n"); /* each hears the value as it stands */
    int64_t lost = STAT_GET(frames_lost);
    assert_int_equal(world->accepted, 10);
    turn();
    assert_true(hash_of(world->frame, "s1:v")->owed);
    assert_null(hash_of(world->frame, "s2:v"));
    cut();
    world->seq = 1; /* answered is also what was only read */
    link_ready(RUN_B, 9);
    assert_int_equal(STAT_GET(frames_lost) - lost, 1);
    frame_applied();
    assert_true(coalesce_idle(world->c));
}

/* Nobody hears of them, and they are as surely counted. */
TEST(what_is_hushed_is_in_doubt_as_all_else)
{
    int64_t unknown = STAT_GET(hits_unknown), refused = STAT_GET(hits_refused);
    HIT('a', "p1", "5", 1);
    coalesce_hush(world->c, &client('a')->o, 1);
    hit_goes('b', "p1", "5", 1);
    HIT('a', "p1", "6", 1); /* not sent: lost, as those of others */
    coalesce_hush(world->c, &client('a')->o, 1);
    cut();
    assert_int_equal(STAT_GET(hits_refused) - refused, 1);
    back_up(8);
    assert_int_equal(world->frame->cells[0].delta, 2);
    redis_runs(world->frame);
    cut();
    back_up(9);
    values_read();
    turn();
    assert_told('a', "");
    assert_told('b', ":2\r\n");
    HIT('a', "p1", "5", 1);
    coalesce_hush(world->c, &client('a')->o, 1);
    turn_cut();
    tick_after(5000);
    assert_told('a', "");
    assert_int_equal(STAT_GET(hits_unknown) - unknown, 1);
    assert_int_equal(client('a')->o.waiting, 0);
}

/* --- time --- */

TEST(given_up_after_doubt_ms_and_never_sent_again)
{
    HIT('a', "p1", "5", 1);
    literal('a', "+PONG\r\n");
    turn();
    int64_t unknown = STAT_GET(hits_unknown);
    cut();
    forget_did();
    tick_after(4999);
    assert_did("");
    tick_after(1);
    assert_told('a', UNKNOWN "+PONG\r\n");
    assert_int_equal(STAT_GET(hits_unknown) - unknown, 1);
    assert_did("a");
    back_up(8);
    turn();
    assert_did("KL~p1 ");
    assert_true(coalesce_idle(world->c));
    assert_int_equal(row("p1", "5"), 0);
    round_of('a', "p1", "5", 1); /* and all goes on */
    assert_told('a', ":1\r\n");
}

#define ASTRAY                                                                                               \
    "-TRYAGAIN the slot of tallyd's keys is moving to another node of the cluster; nothing was "             \
    "counted\r\n"

TEST(what_is_astray_is_sent_again_where_its_slot_is)
{
    hit_goes('a', "p1", "5", 1);
    frame_astray();
    assert_told('a', "");
    cut();
    link_up(RUN_B, 8); /* a link of another server, so that nothing is killed */
    look_answered(NULL);
    assert_int_equal(row("p1", "5"), 0);
    frame_applied();
    assert_told('a', ":1\r\n");
    assert_int_equal(row("p1", "5"), 1);
}

TEST(astray_for_too_long_it_was_not_counted)
{
    hit_goes('a', "p1", "5", 1);
    int64_t unknown = STAT_GET(hits_unknown), refused = STAT_GET(hits_refused);
    frame_astray();
    cut();
    tick_after(4999);
    assert_told('a', "");
    tick_after(1);
    assert_told('a', ASTRAY);
    assert_int_equal(STAT_GET(hits_unknown), unknown);
    assert_int_equal(STAT_GET(hits_refused), refused + 1);
    link_ready(RUN_B, 8);
    turn();
    assert_int_equal(row("p1", "5"), 0);
    assert_true(coalesce_idle(world->c));
}

TEST(sent_again_and_not_answered_it_is_unknown)
{
    hit_goes('a', "p1", "5", 1);
    frame_astray();
    cut();
    link_ready(RUN_B, 8);
    cut();
    tick_after(5000);
    assert_told('a', UNKNOWN);
}

/* Once before it went without an answer, down a link that may still be read where the slot comes back to. */
static void astray_after_doubt(void)
{
    HIT('a', "p2", "5", 1);
    turn_cut();
    link_ready(RUN_B, 8);
    frame_astray();
    cut();
    tick_after(5000);
}

TEST(without_a_number_an_old_link_may_still_run_it)
{
    astray_after_doubt();
    assert_told('a', UNKNOWN);
}

TEST(with_a_number_no_old_link_runs_it)
{
    round_of('a', "p1", "5", 1);
    astray_after_doubt();
    assert_told('a', ":1\r\n" ASTRAY);
}

TEST(given_up_but_applied_still_owes_and_is_due)
{
    round_of('a', "p1", "5", 1);
    HIT('a', "p1", "5", 1);
    turn_ran_cut();
    tick_after(5000);
    assert_told('a', ":1\r\n" UNKNOWN);
    forget_did();
    back_up(8);
    assert_did("KL~p1 V");
    values_read();
    assert_told('a', "");
    turn();
    assert_true(hash_of(world->frame, "p1")->owed);
    frame_applied();
    assert_int_equal(world->accepted, 2);
}

TEST(what_was_due_by_its_hits_is_due_by_time_after_doubt)
{
    round_of('a', "s1:v", "20140920", 50);
    assert_did("F^s1:v a");
    HIT('a', "s1:v", "20140920", 1);
    turn_ran_cut();
    forget_did();
    back_up(8);
    assert_did("KL~s1:v V");
    values_read();
}

/* Of a given up frame that was not applied the owed ZADD and the correction live on. */
TEST(what_a_dropped_frame_carried_for_others_is_carried_over)
{
    round_of('a', "p1", "5", 1);
    row_of(SLICE("p1"), SLICE("5"))->value = 0;
    HIT('a', "p1", "5", 1);
    hit_goes('a', "p1", "6", 9);
    frame_applied_but("6", "WRONGTYPE no hash"); /* p1 owes, and -9 */
    hit_goes('a', "p2", "5", 1);
    assert_int_equal(share("views"), -8);
    cut();
    tick_after(5000);
    back_up(8);
    turn();
    assert_int_equal(share("views"), -9);
    assert_int_equal(world->frame->cells_n, 0);
    assert_true(hash_of(world->frame, "p1")->owed);
    frame_applied();
    assert_int_equal(world->accepted, 2);
}

/* The doubt of one frame is one doubt, however many links it takes. */
TEST(the_time_of_doubt_runs_on_over_further_cuts)
{
    HIT('a', "p1", "5", 1);
    turn_cut();
    tick_after(3000);
    back_up(8); /* sent again */
    tick_after(1000);
    cut();
    tick_after(999);
    assert_told('a', "");
    tick_after(1);
    assert_told('a', UNKNOWN);
    back_up(9);
    assert_null(world->frame);
}

TEST(values_that_do_not_come_are_unknown_in_time)
{
    HIT('a', "p1", "5", 1);
    turn_ran_cut();
    back_up(8);
    tick_after(5000);
    assert_told('a', UNKNOWN);
    values_read();
    assert_told('a', "");
    assert_true(coalesce_idle(world->c) || world->c->owed_n == 0);
}

/* --- kill --- */

TEST(another_server_process_needs_no_kill)
{
    HIT('a', "p1", "5", 1);
    turn_cut();
    forget_did();
    link_up(RUN_B, 8);
    assert_did("L");
    look_answered(NULL);
    frame_applied();
    assert_told('a', ":1\r\n");
}

TEST(a_cut_while_values_are_read_reads_them_again)
{
    HIT('a', "p1", "5", 1);
    turn_ran_cut();
    back_up(8);
    cut();
    forget_did();
    back_up(9);
    assert_int_equal(world->killed, 8);
    assert_did("KL~p1 V"); /* due by time is told again */
    values_read();
    assert_told('a', ":1\r\n");
    assert_int_equal(world->accepted, 1);
}

/* --- seq --- */

TEST(a_seq_ahead_is_fatal)
{
    round_of('a', "p1", "5", 1);
    cut();
    world->seq = 2;
    link_up(RUN_A, 8);
    forget_did();
    look_answered(NULL);
    assert_did("!");
    assert_int_equal(hit('a', "p1", "5", 1), ADD_DOWN);
}

TEST(answered_frames_that_redis_lost_are_counted)
{
    for (int i = 0; i < 5; i++)
        round_of('a', "p1", "5", 1);
    int64_t lost = STAT_GET(frames_lost);
    HIT('a', "p1", "5", 1);
    turn_cut();
    world->seq = 3;
    link_ready(RUN_B, 8);
    assert_int_equal(STAT_GET(frames_lost) - lost, 2);
    assert_int_equal(world->frame->seq, 6); /* sent again under its own number */
    frame_applied();
    cut();
    link_ready(RUN_B, 9);
    assert_int_equal(STAT_GET(frames_lost) - lost, 2); /* once */
}

TEST(a_seq_key_that_is_not_there_is_no_loss_in_the_beginning)
{
    int64_t lost = STAT_GET(frames_lost);
    HIT('a', "p1", "5", 1);
    turn_cut();
    back_up(8);
    assert_int_equal(STAT_GET(frames_lost), lost);
    frame_applied();
    assert_told('a', ":1\r\n");
}

/* --- weight, parking, ends --- */

TEST(a_cut_lets_go_of_the_weight_of_what_it_drops)
{
    while (hit('a', "p1", "5", DELTA_MAX) == ADD_OK)
        continue;
    cut();
    link_ready(RUN_A, 8);
    round_of('a', "p1", "5", 1);
}

TEST(what_dropped_clients_leave_is_forgotten)
{
    hit_goes('a', "p1", "5", 1);
    HIT('b', "p1", "5", 1);
    client('a')->o.gone = client('b')->o.gone = true;
    forget_did();
    cut();
    assert_did("b");
    assert_int_equal(client('b')->o.waiting, 0);
    back_up(8);
    frame_applied();
    assert_int_equal(client('a')->o.waiting, 0);
    assert_told('a', "");
}

TEST(abandoned_everybody_hears_the_end)
{
    struct test_claim sent, refused;
    hit_goes('a', "p1", "5", 1);
    claim_keys(&sent, 1, "p1", NULL);
    HIT('b', "p1", "5", 1);
    forget_did();
    coalesce_abandon(world->c, WHY);
    assert_told('a', UNKNOWN);
    assert_told('b', REFUSED "\r\n");
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.claim.outcome, CLAIM_GONE);
    claim_keys(&refused, 1, "p1", NULL);
    turn();
    assert_int_equal(refused.claim.outcome, CLAIM_REFUSED);
    assert_int_equal(hit('a', "p1", "5", 1), ADD_DOWN);
}

/* Also behind a frame in doubt, and when the link went before, while all was held: their memory waits for their answers. */
TEST(abandoned_nobody_waits_on)
{
    hit_goes('a', "p1", "5", 1);
    coalesce_hold(world->c, true);
    HIT('a', "p1", "5", 1);
    HIT('b', "p1", "5", 1);
    cut();
    coalesce_abandon(world->c, WHY);
    assert_int_equal(client('a')->o.waiting + client('b')->o.waiting, 0);
    assert_told('a', UNKNOWN REFUSED "\r\n");
    assert_told('b', REFUSED "\r\n");
}

TEST(the_table_has_no_move_that_takes_a_rule_out)
{
    const struct sm_state *table = world->c->link.table;
    assert_int_equal(table[LINK_KILL].to & TO(LINK_READY), 0); /* without a look */
    assert_int_equal(table[LINK_LOOK].to & TO(LINK_KILL), 0);  /* seq is read after the kill */
}

/* Who says until when all is merged must not pass it. */
TEST(a_hit_reaches_redis_no_older_than_lag_says)
{
    const uint32_t answer_ms = 5000, doubt_ms = 20000;
    reopen_with(config.doubt_ms = doubt_ms);
    hit_goes('a', "p1", "5", 1);
    int64_t score_ms = world->frame->dirty_ms, sent_ms = (int64_t)world->mono_ms;
    tick_after(answer_ms); /* as long as a link waits */
    cut();
    tick_after(doubt_ms - 1);
    back_up(8);
    assert_int_equal(world->frame->dirty_ms, score_ms);
    tick_after(answer_ms - 1); /* Redis may take it as late */
    frame_applied();
    assert_told('a', ":1\r\n");
    assert_true((int64_t)world->mono_ms - sent_ms < coalesce_lag_ms(world->c, answer_ms));
    assert_int_equal(coalesce_lag_ms(world->c, answer_ms), 30000);
}
