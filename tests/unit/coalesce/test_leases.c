/* test_leases.c - events whose ids are known when they are sent: leased numbers, own texts, own numbers, cuts, and the
 * names in tally:events that others may take out. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"
#include "series/frame.h"

#define FIRST 32 /* numbers of a first lease */

static enum add_result add(char letter, const char *name, const char *id)
{
    struct coalesce_op o = {
        .kind = OP_EVENT, .name = slice_str(name), .type = SLICE("t"), .id = slice_str(id), .at = NOW};
    return coalesce_op(world->c, &client(letter)->o, &o);
}

static void event(const char *name, const char *id)
{
    assert_int_equal(add('a', name, id), ADD_OK);
}

static void event_goes(const char *name, const char *id)
{
    event(name, id);
    turn();
}

/* The op on that log whose ids are assigned this way; NULL: there is no such op. */
static const struct frame_op *sent(const char *name, enum event_id how)
{
    const struct frame *f = world->frame;
    const struct frame_op *found = NULL;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        if (!slice_eq(FRAME_NAME(f, &f->ops[i]), slice_str(name)) || f->ops[i].which != how) continue;
        assert_null(found);
        found = &f->ops[i];
    }
    return found;
}

/* Its first op went well: 1 is given, and 2 to 33 are leased. */
static void learn(const char *name)
{
    event_goes(name, "");
    assert_non_null(sent(name, EVENT_DRAWS));
    frame_applied();
    buf_reset(&client('a')->o.out);
}

static void up_again(void)
{
    link_ready(RUN_B, 8);
}

/* --- numbers --- */

TEST(the_first_op_draws_a_lease_and_the_next_ones_have_their_numbers)
{
    event_goes("e", "");
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, FIRST);
    frame_applied();
    assert_told('a', "$1\r\n1\r\n");
    event("e", "");
    event_goes("e", "");
    assert_int_equal(world->frame->ops_n, 1);
    const struct frame_op *op = sent("e", EVENT_GIVEN);
    assert_int_equal(op->items_n, 2);
    assert_int_equal(world->frame->items[op->first_item].value, 2);
    assert_false(op->named);
    frame_applied();
    assert_told('a', "$1\r\n2\r\n$1\r\n3\r\n");
    assert_int_equal(world->ticker, 33);
    assert_true(coalesce_idle(world->c));
}

TEST(a_lease_that_is_used_up_is_drawn_anew_and_larger)
{
    static const uint32_t want[] = {256, 1000, 1000};
    learn("e");
    for (uint32_t i = 0, left = FIRST; i < 3; left = want[i++]) {
        for (uint32_t n = 0; n < left + 2; n++)
            event("e", "");
        turn();
        assert_int_equal(sent("e", EVENT_GIVEN)->items_n, left);
        assert_int_equal(sent("e", EVENT_DRAWS)->items_n, 2);
        assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, want[i]);
        frame_applied();
    }
}

TEST(a_lease_of_a_frame_under_way_is_not_there_yet)
{
    event_goes("e", "");
    event("e", "");
    frame_applied();
    event_goes("e", "");
    assert_int_equal(sent("e", EVENT_DRAWS)->items_n, 1);
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, 0);
    assert_int_equal(sent("e", EVENT_GIVEN)->items_n, 1);
    frame_applied();
    assert_told('a', "$1\r\n1\r\n$2\r\n34\r\n$1\r\n2\r\n");
}

TEST(logs_do_not_share_leases)
{
    learn("e");
    event("f", "");
    event_goes("e", "");
    assert_int_equal(sent("f", EVENT_DRAWS)->items_n, 1);
    assert_int_equal(sent("e", EVENT_GIVEN)->items_n, 1);
}

TEST(feeds_and_ids_alone_draw_no_lease)
{
    event_goes("e", "mine");
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, 0);
    frame_applied();
    event_goes("e", "");
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, FIRST);
}

TEST(more_logs_than_are_remembered_cost_their_scripts)
{
    reopen_with(config.series_max = 1);
    for (char name[] = "a"; name[0] <= 'h'; name[0]++)
        learn(name);
    event("h", "");
    event_goes("a", "");
    assert_non_null(sent("h", EVENT_GIVEN));
    assert_non_null(sent("a", EVENT_DRAWS));
}

TEST(a_refused_request_takes_no_number)
{
    reopen_with(config.cells_max = 1);
    learn("e");
    event("e", "");
    assert_int_equal(add('a', "e", ""), ADD_FULL);
    turn();
    event("e", "");
    frame_applied();
    turn_applied();
    assert_told('a', "$1\r\n2\r\n$1\r\n3\r\n");
}

/* --- own ids --- */

TEST(an_own_text_needs_no_script_in_a_known_log)
{
    learn("e");
    static const char *const ids[] = {"mine", "0", "-1", "007", "1.0", "9007199254740992", "17x"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        event("e", ids[i]);
    turn();
    assert_int_equal(world->frame->ops_n, 1);
    assert_int_equal(sent("e", EVENT_OWN)->items_n, sizeof ids / sizeof ids[0]);
    frame_applied();
    assert_told('a', "$4\r\nmine\r\n$1\r\n0\r\n$2\r\n-1\r\n$3\r\n007\r\n$3\r\n1.0\r\n"
                     "$16\r\n9007199254740992\r\n$3\r\n17x\r\n");
}

TEST(an_own_number_needs_one_and_ends_the_leases)
{
    learn("e");
    event("e", "17");
    event_goes("e", "");
    assert_int_equal(world->frame->ops_n, 1);
    assert_int_equal(sent("e", EVENT_DRAWS)->items_n, 2);
    assert_true(sent("e", EVENT_DRAWS)->has_numbers);
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, 0);
    frame_applied();
    event("e", "");
    event_goes("e", "mine");
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, 0);
    assert_int_equal(sent("e", EVENT_OWN)->items_n, 1);
}

TEST(a_log_that_begins_with_own_numbers_gets_no_lease)
{
    event("e", "9007199254740991");
    turn_applied();
    event_goes("e", "");
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, 0);
}

TEST(a_number_refused_fails_its_client_alone)
{
    event("e", "17");
    assert_int_equal(add('b', "e", ""), ADD_OK);
    turn();
    struct frame *f = world->frame;
    redis_runs(f);
    f->items[0].value = EVENT_REFUSED;
    world->frame = NULL;
    coalesce_on_frame(world->c, f, FRAME_APPLIED);
    assert_told('a', "-ERR id 17 may be a number that another event gets; use a larger number or a text\r\n");
    assert_told('b', "$1\r\n1\r\n");
}

/* The log becomes known, or is forgotten, between the two: the second goes where the first is seen first. */
TEST(an_id_that_comes_twice_keeps_the_second_of_the_first)
{
    event_goes("e", "");
    event("e", "mine");
    frame_applied();
    event_goes("e", "mine");
    assert_int_equal(sent("e", EVENT_DRAWS)->items_n, 1); /* what draws runs first */
    assert_int_equal(sent("e", EVENT_OWN)->items_n, 1);
    frame_applied();
    event("e", "other");
    leases_forget_all(&world->c->leases);
    event_goes("e", "other");
    assert_int_equal(sent("e", EVENT_OWN)->items_n, 2);
}

TEST(numbers_wait_in_a_journal_and_texts_do_not)
{
    reopen_with(config.journal_least = 1);
    learn("e");
    event("e", "");
    event_goes("e", "mine");
    assert_true(sent("e", EVENT_GIVEN)->silent);
    assert_false(sent("e", EVENT_OWN)->silent);
}

/* --- errors and cuts --- */

TEST(an_error_forgets_the_log)
{
    learn("e");
    event_goes("e", "mine");
    frame_applied_but_op("e", "WRONGTYPE Operation against a key");
    assert_told('a', "-WRONGTYPE Operation against a key\r\n");
    event_goes("e", "");
    assert_non_null(sent("e", EVENT_DRAWS));
    frame_applied_but_op("e", "WRONGTYPE Operation against a key");
    event_goes("e", "");
    assert_non_null(sent("e", EVENT_DRAWS));
}

TEST(a_refused_frame_loses_its_numbers_and_nothing_else)
{
    learn("e");
    event("e", "");
    turn_refused("OOM full");
    assert_told('a', "-OOM full\r\n");
    event("e", "");
    turn_applied();
    assert_told('a', "$1\r\n3\r\n");
}

/* Of numbers drawn anew, a Redis that lost the frame knows nothing, even if it knows the lease of those before. */
TEST(numbers_drawn_anew_are_of_no_lease)
{
    struct buf records = {0};
    struct frame lost = {0};
    learn("e");
    event_goes("e", "");
    assert_int_equal(sent("e", EVENT_GIVEN)->lease_seq, 1);
    cut();
    up_again();
    world->frame->items[0].value = 34;
    kept_put_op(&records, world->frame, sent("e", EVENT_DRAWS), true);
    kept_take_ops(&lost, buf_slice(&records), 1);
    assert_int_equal(lost.ops[0].which, EVENT_KEPT);
    assert_false(lost.ops[0].ours);
    buf_free(&records);
    frame_free(&lost);
}

TEST(ids_that_were_given_are_told_also_without_an_answer)
{
    learn("e");
    event("e", "");
    event("e", "mine");
    event("f", "");
    turn_ran_cut();
    up_again();
    assert_told('a', "$1\r\n2\r\n$4\r\nmine\r\n" LOST);
    turn();
    event("e", "");
    event_goes("f", "");
    assert_int_equal(sent("e", EVENT_DRAWS)->lease_n, FIRST);
    assert_int_equal(sent("f", EVENT_DRAWS)->lease_n, FIRST); /* that frame's numbers are unused */
}

/* --- names in tally:events --- */

TEST(without_that_count_nothing_is_learned)
{
    learn("e");
    world->gone = -1;
    event("e", "");
    event("f", "");
    turn_applied();
    turn();
    assert_true(sent("e", EVENT_GIVEN)->owed);
    frame_applied();
    event("e", "");
    event_goes("f", "");
    assert_non_null(sent("e", EVENT_DRAWS));
    assert_non_null(sent("f", EVENT_DRAWS));
}
