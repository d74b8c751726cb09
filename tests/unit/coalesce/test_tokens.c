/* test_tokens.c - increments with a token: one script applies them, in the frame of the cells, and nothing else moves them. */
#include "unit/coalesce/world.h"

static enum add_result token(char letter, const char *key, const char *field, int64_t delta, const char *id)
{
    struct coalesce_token t = {slice_str(key), slice_str(field), slice_str(id), delta, false};
    return coalesce_add_token(world->c, &client(letter)->o, &t, SLICE("u"));
}

#define TOKEN(letter, key, field, delta, id) assert_int_equal(token(letter, key, field, delta, id), ADD_OK)

TEST(its_key_names_the_store_and_the_id)
{
    TOKEN('a', "s12:v", "20140920", 5, "order:7");
    turn();
    const struct frame *f = world->frame;
    assert_int_equal(f->tokens_n, 1);
    assert_slice(FRAME_NAME(f, &f->tokens[0]), "tally:token:12:order:7");
    assert_slice(FRAME_FIELD(f, &f->tokens[0]), "20140920");
    assert_slice(FRAME_TEXT(f, f->tokens[0].user_at, f->tokens[0].user_n), "u");
    assert_slice(f->hashes[f->tokens[0].hash].key, "s12:v");
    assert_slice(f->tokens[0].counter->name, "visitors");
    assert_int_equal(f->tokens[0].delta, 5);
}

/* The script has all that a cell would have of the frame. */
TEST(neither_a_cell_nor_a_zadd_nor_a_share_goes_with_it)
{
    TOKEN('a', "s1:v", "20140920", 5, "x");
    turn();
    assert_int_equal(world->frame->cells_n, 0);
    assert_int_equal(share("visitors"), 0);
    assert_false(zadds("s1:v"));
    assert_true(asks_lock("s1:v"));
    frame_applied();
    assert_told('a', ":5\r\n");
    assert_int_equal(world->accepted, 5);
    round_of('a', "s1:v", "20140920", 1);
    assert_told('a', ":6\r\n");
    assert_int_equal(world->accepted, 6);
}

TEST(the_same_one_again_hears_what_the_first_one_heard)
{
    int64_t counted = STAT_GET(tokens), known = STAT_GET(tokens_known);
    TOKEN('a', "p1", "5", 3, "x");
    TOKEN('b', "p1", "5", 3, "x");
    TOKEN('c', "p1", "5", 4, "y");
    turn_applied();
    TOKEN('a', "p1", "5", 3, "x");
    TOKEN('b', "p1", "5", 9, "x");
    turn_applied();
    assert_told('a', ":3\r\n:3\r\n");
    assert_told('b', ":3\r\n-ERR other payload\r\n");
    assert_told('c', ":7\r\n");
    assert_int_equal(row("p1", "5"), 7);
    assert_int_equal(STAT_GET(tokens) - counted, 2);
    assert_int_equal(STAT_GET(tokens_known) - known, 2);
}

TEST(key_field_and_n_make_the_payload)
{
    TOKEN('a', "p1", "5", 3, "x");
    TOKEN('a', "p1", "5", 3, "x");
    TOKEN('a', "p1", "5", 4, "x");
    TOKEN('a', "p1", "6", 3, "x");
    TOKEN('a', "p11", "5", 3, "x");
    TOKEN('a', "p1", "53", 3, "x");
    turn();
    const struct frame_token *t = world->frame->tokens;
    assert_memory_equal(t[0].payload, t[1].payload, TOKEN_PAYLOAD);
    for (int i = 1; i < 6; i++)
        for (int j = i + 1; j < 6; j++)
            assert_memory_not_equal(t[i].payload, t[j].payload, TOKEN_PAYLOAD);
    assert_memory_equal(t[0].payload, "186d033fb8d4a324",
                        TOKEN_PAYLOAD); /* kept in Redis for a day: never change */
}

TEST(answers_keep_the_order_of_requests)
{
    HIT('a', "p1", "5", 1);
    TOKEN('a', "p2", "5", 3, "x");
    literal('a', "+PONG\r\n");
    round_of('a', "p1", "5", 1);
    assert_told('a', ":1\r\n:3\r\n+PONG\r\n:2\r\n");
}

TEST(what_is_wrong_is_refused_at_the_door)
{
    assert_int_equal(token('a', "q1", "5", 3, "x"), ADD_NO_COUNTER);
    assert_int_equal(token('a', "p1", "five", 3, "x"), ADD_FIELD);
    assert_int_equal(token('a', "p1", "5", DELTA_MAX + 1, "x"), ADD_DELTA);
    struct coalesce_token t = {SLICE("p1"), SLICE("5"), SLICE("x"), INT64_MIN, false};
    assert_int_equal(coalesce_try_token(world->c, &t), ADD_DELTA);
    t.delta = 1;
    assert_int_equal(coalesce_try_token(world->c, &t), ADD_OK);
    cut();
    assert_int_equal(token('a', "p1", "5", 3, "x"), ADD_DOWN);
    assert_int_equal(client('a')->o.waiting, 0);
}

/* A feed would be added up from what was sent, new or not. */
TEST(a_counter_that_feeds_takes_none)
{
    struct counter all[2] = {counters_all[0], counters_all[1]};
    all[1].feeds[FEED_TIMEBOX] = (struct pattern){SLICE("p"), SLICE(""), true, NULL};
    struct counters feeding = {.all = all, .n = 2, .ops = &limits_two};
    world_close(state);
    world_make_of(&coalesce_config_default, &feeding);
    link_ready(RUN_A, 7);
    assert_int_equal(token('a', "p1", "5", 3, "x"), ADD_FED);
    struct coalesce_token t = {SLICE("p1"), SLICE("5"), SLICE("x"), 1, false};
    assert_int_equal(coalesce_try_token(world->c, &t), ADD_FED);
    assert_int_equal(token('a', "s1:v", "20140920", 3, "x"), ADD_OK);
    coalesce_destroy(&world->c);
}

TEST(a_frame_holds_so_many_and_no_more)
{
    struct coalesce_config small = coalesce_config_default;
    small.cells_max = 2 * coalesce_token_cells();
    world_reopen(&small);
    TOKEN('a', "p1", "5", 3, "x");
    TOKEN('a', "p1", "5", 3, "y");
    assert_int_equal(token('b', "p1", "5", 3, "z"), ADD_FULL);
    bool never;
    assert_false(coalesce_room(world->c, coalesce_token_cells(), 0, &never));
    turn();
    TOKEN('b', "p1", "5", 3, "z");
}

TEST(new_hits_make_the_hash_due_and_known_ones_do_not)
{
    TOKEN('a', "s1:v", "20140920", 30, "x");
    turn_applied();
    forget_did();
    TOKEN('a', "s1:v", "20140920", 30, "x");
    TOKEN('a', "s1:v", "20140920", 30, "x");
    turn_applied();
    assert_did("Fa");
    TOKEN('a', "s1:v", "20140920", 30, "y");
    turn_applied();
    assert_did("F^s1:v a");
}

/* --- cuts --- */

TEST(not_applied_it_is_sent_again)
{
    TOKEN('a', "p1", "5", 3, "x");
    turn();
    forget_did();
    cut();
    back_up(8);
    assert_did("KLF");
    assert_int_equal(world->frame->tokens_n, 1);
    frame_applied();
    assert_told('a', ":3\r\n");
    assert_int_equal(world->accepted, 3);
}

TEST(applied_each_hears_the_value_that_it_was_counted_with)
{
    HIT('a', "p1", "5", 1);
    TOKEN('a', "p1", "5", 3, "x");
    TOKEN('b', "p1", "5", 5, "y");
    turn();
    redis_runs(world->frame);
    row_of(SLICE("p1"), SLICE("5"))->value += 100; /* another daemon's */
    forget_did();
    cut();
    back_up(8);
    assert_did("KL~p1 V");
    values_read();
    assert_told('a', ":109\r\n:4\r\n");
    assert_told('b', ":9\r\n");
    assert_int_equal(world->accepted, 9);
}

TEST(applied_but_not_there_it_was_not_counted)
{
    TOKEN('a', "p1", "5", 3, "x");
    turn();
    redis_runs(world->frame);
    world->tokens_n = 0; /* the script met an error */
    cut();
    back_up(8);
    values_read();
    assert_told('a', "-ERR not counted\r\n");
}

TEST(given_up_it_counts_once_when_its_client_comes_back)
{
    TOKEN('a', "p1", "5", 3, "x");
    turn_ran_cut();
    tick_after(coalesce_config_default.doubt_ms);
    assert_told('a', UNKNOWN);
    back_up(8);
    values_read();
    TOKEN('b', "p1", "5", 3, "x");
    turn_applied();
    assert_told('a', "");
    assert_told('b', ":3\r\n");
    assert_int_equal(world->accepted, 3);
}

TEST(refused_nothing_is_taken_back)
{
    TOKEN('a', "p1", "5", 3, "x");
    turn_refused("OOM command not allowed");
    assert_told('a', "-OOM command not allowed\r\n");
    forget_did();
    tick_after(1000);
    turn();
    assert_did("");
    assert_true(coalesce_idle(world->c));
}
