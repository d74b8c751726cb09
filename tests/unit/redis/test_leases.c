/* Events whose ids are known when the frame is sent, and the leases that give such ids, on a real server. */
#include "base/heap.h"
#include "lib/child.h"
#include "unit/redis/ops_world.h"

static struct frame_op *given_op(struct got *g, const char *name, const char *type)
{
    return frame_add_op(&g->f, OP_EVENT, slice_str(name), slice_str(type), EVENT_GIVEN);
}

static void number_new(struct got *g, struct frame_op *op, int64_t at, int64_t number)
{
    uint32_t item = frame_add_item(&g->f, op, at, SLICE(""));
    g->f.items[item].value = number;
}

/* --- leases --- */

static void test_a_lease_is_drawn_with_the_numbers(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    begin(g);
    struct frame_op *op = event_op(g, "e", "x");
    op->lease_n = 32;
    item_new(g, op, NOW, "");
    item_new(g, op, NOW, "mine");
    item_new(g, op, NOW, "");
    op = event_op(g, "e", "y");
    item_new(g, op, NOW, "");
    send_applied(g);
    assert_no_errors(g);
    assert_int_equal(g->f.items[0].value, 1);
    assert_int_equal(g->f.items[1].value, 0);
    assert_int_equal(g->f.items[2].value, 2);
    assert_int_equal(g->f.items[3].value, 35);
    assert_int_equal(g->f.ops[0].value, 34);
    assert_redis(s, "1 2 mine", "ZRANGE e:x 0 -1");
    assert_redis(s, "35", "GET e:index");
    assert_redis(s, "e:x 34 0", "HGETALL tally:leased");
    begin(g);
    op = event_op(g, "e", "x");
    op->lease_n = 1000;
    item_new(g, op, NOW, "");
    send_applied(g);
    assert_int_equal(g->f.items[0].value, 36);
    assert_int_equal(g->f.ops[0].value, 1036);
    assert_redis(s, "e:x 1036 0", "HGETALL tally:leased");
    got_close(g);
}

static void test_no_number_of_a_lease_stands(void **state)
{
    struct got *g = got_open();
    redis_ask(&g->w->server, "ZADD e:x 5 20");
    begin(g);
    struct frame_op *op = event_op(g, "e", "x");
    op->lease_n = 32;
    item_new(g, op, NOW, "40"); /* comes with it */
    item_new(g, op, NOW, "");
    send_applied(g);
    assert_no_errors(g);
    assert_true(g->f.items[1].value > 40 || g->f.ops[0].value < 40);
    assert_true(g->f.items[1].value > 20);
    assert_int_equal(g->f.items[1].value + 32, g->f.ops[0].value);
    got_close(g);
}

/* One event that draws, with a lease of 32 after it; returns its number. */
static int64_t draw(struct got *g, const char *name)
{
    begin(g);
    struct frame_op *op = event_op(g, name, "x");
    op->lease_n = 32;
    item_new(g, op, NOW, "");
    send_applied(g);
    assert_no_errors(g);
    return g->f.items[0].value;
}

/* Of n0 to n9, where n4 has numbers already, and of a second log with n7's ticker. */
static void test_first_events_of_many_logs_share_commands(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "SET n4:index 7");
    redis_ask(s, "CONFIG RESETSTAT");
    begin(g);
    for (int i = 0; i < 11; i++) {
        char name[] = {'n', (char)('0' + i - (i > 7)), 0};
        struct frame_op *op = event_op(g, name, i == 8 ? "y" : "x");
        op->lease_n = 32;
        item_new(g, op, NOW + i, "");
    }
    send_applied(g);
    assert_no_errors(g);
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(g->f.items[i].value, i == 4 ? 8 : i == 8 ? 34 : 1);
        assert_int_equal(g->f.ops[i].value, g->f.items[i].value + 32);
    }
    assert_int_equal(calls(g, "mset"), 2);
    assert_int_equal(calls(g, "incrby"), 6); /* of those two and their neighbours */
    assert_redis(s, "33 33 40 66", "MGET n0:index n9:index n4:index n7:index");
    assert_redis(s, "33 0 33 0 40 0 33 0 66 0", "HMGET tally:leased n0:x n9:x n4:x n7:x n7:y");
    assert_redis(s, "1 1700000010", "ZRANGE n9:x 0 -1 WITHSCORES");
    assert_redis(s, "11", "ZCARD tally:events");
    got_close(g);
}

static void own(struct got *g, const char *name, const char *id)
{
    begin(g);
    struct frame_op *op = event_op(g, name, "x");
    op->has_numbers = true;
    item_new(g, op, NOW, id);
    send_applied(g);
    assert_no_errors(g);
}

static void test_a_lease_jumps_over_own_numbers_that_it_was_told_of(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    assert_int_equal(draw(g, "e"), 1);
    own(g, "e", "50");
    own(g, "e", "40");
    assert_redis(s, "33 50", "HGET tally:leased e:x");
    assert_true(draw(g, "e") > 50);
    own(g, "f", "99999999999999999999");
    assert_redis(s, "0 9007199254740992", "HGET tally:leased f:x");
    assert_int_equal(draw(g, "f"), 1);
    got_close(g);
}

static void test_what_older_versions_left_is_looked_at(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "HSET tally:leased e:x 33");
    redis_ask(s, "SET e:index 33");
    redis_ask(s, "ZADD e:x 1 7 1 60");
    own(g, "e", "50"); /* does not make it known what else there is */
    assert_redis(s, "33", "HGET tally:leased e:x");
    assert_true(draw(g, "e") > 60);
    redis_ask(s, "UNLINK e:x");
    int64_t next = draw(g, "e");
    char notes[40];
    snprintf(notes, sizeof notes, "%lld 0", (long long)next + 32);
    assert_redis(s, notes, "HGET tally:leased e:x");
    got_close(g);
}

/* Numbers are above 0, and so are those that coalesce takes from a lease: a lower one is Redis' or another program's. */
static void test_a_ticker_that_somebody_set_below_0(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "SET e:index -1000");
    for (uint32_t lease_n = 0; lease_n <= 32; lease_n += 32) {
        begin(g);
        struct frame_op *op = event_op(g, "e", "x");
        op->lease_n = lease_n;
        item_new(g, op, NOW, "");
        item_new(g, op, NOW, "mine");
        send_applied(g);
        assert_memory_equal(g->f.errors.p + g->f.ops[0].error_at, "ERR the ticker e:index is below 0", 33);
        assert_redis(s, "-1000", "GET e:index");
        assert_redis(s, "0", "EXISTS e:x tally:leased");
    }
    got_close(g);
}

static void test_a_log_that_became_somebody_elses_costs_no_number(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    assert_int_equal(draw(g, "e"), 1);
    redis_ask(s, "SET e:x mine");
    begin(g);
    struct frame_op *op = event_op(g, "e", "x");
    op->lease_n = 32;
    item_new(g, op, NOW, "");
    send_applied(g);
    assert_true(g->f.ops[0].error_n > 0);
    assert_redis(s, "33", "GET e:index");
    got_close(g);
}

static void test_an_own_number_that_may_be_leased_is_refused(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    static const char *const ids[] = {"7", "17", "", "34", "mine", "33", "017", "0", "9007199254740993"};
    redis_ask(s, "HSET tally:leased e:x 33");
    redis_ask(s, "SET e:index 40");
    redis_ask(s, "ZADD e:x 1 7");
    begin(g);
    struct frame_op *op = event_op(g, "e", "x");
    op->has_numbers = true;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        item_new(g, op, NOW, ids[i]);
    op = event_op(g, "e", "never"); /* without leases any number is as good */
    op->has_numbers = true;
    item_new(g, op, NOW, "17");
    op = event_op(g, "e", "x");
    op->has_numbers = true;
    item_new(g, op, NOW, "12"); /* nothing else in that op */
    send_applied(g);
    assert_no_errors(g);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_int_equal(g->f.items[i].value, i == 1 || i == 5 ? EVENT_REFUSED : i == 2 ? 41 : 0);
    assert_int_equal(g->f.items[9].value, 0);
    assert_int_equal(g->f.items[10].value, EVENT_REFUSED);
    assert_redis(s, "7 0 017 34 41 9007199254740993 mine", "ZRANGE e:x 0 -1");
    assert_redis(s, "17", "ZRANGE e:never 0 -1");
    got_close(g);
}

static void test_leases_of_somebody_else(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "SET tally:leased x");
    begin(g);
    struct frame_op *op = event_op(g, "e", "x");
    op->lease_n = 32;
    item_new(g, op, NOW, "");
    send_applied(g);
    assert_op_error(g, 0, wrong_type);
    assert_redis(s, "0", "EXISTS e:x e:index");
    got_close(g);
}

/* --- given --- */

static void test_given(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "SET tally:events:gone 7");
    begin(g);
    struct frame_op *op = given_op(g, "e", "x");
    number_new(g, op, NOW, 5);
    item_new(g, op, NOW - 1, "mine");
    number_new(g, op, NOW, 9007199254740991);
    op = given_op(g, "f", "x");
    op->named = true;
    number_new(g, op, NOW, 5);
    op = given_op(g, "owed", "x");
    op->named = op->owed = op->fed = true;
    send_applied(g);
    assert_no_errors(g);
    assert_int_equal(g->f.events_gone, 7);
    assert_int_equal(g->f.items[0].value, 5);
    assert_redis(s, "mine 1699999999 5 1700000000 9007199254740991 1700000000", "ZRANGE e:x 0 -1 WITHSCORES");
    assert_redis(s, "f:x 0 owed:x 0", "ZRANGE tally:events 0 -1 WITHSCORES");
    assert_redis(s, "1", "EXISTS f:x owed:x");
    begin(g);
    op = given_op(g, "e", "x");
    item_new(g, op, NOW + 7, "mine"); /* keeps its first second */
    send_applied(g);
    assert_redis(s, "1699999999", "ZSCORE e:x mine");
    got_close(g);
}

static void test_given_in_pieces(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    begin(g);
    struct frame_op *op = given_op(g, "e", "x");
    for (int i = 1; i <= 2500; i++)
        number_new(g, op, NOW + i % 2, i);
    op = given_op(g, "f", "x");
    for (int i = 1; i <= 1000; i++)
        number_new(g, op, NOW, i);
    op_new(g, OP_UNIQ, "v", 20140920, 0);
    item_new(g, &g->f.ops[2], 5, "");
    send_applied(g);
    assert_no_errors(g);
    assert_redis(s, "2500", "ZCARD e:x");
    assert_redis(s, "1000", "ZCARD f:x");
    assert_int_equal(g->f.items[3500].value, 1); /* the answers after them are filed right */
    got_close(g);
}

/* The first op was drawing when the log was not known yet. */
static void test_what_draws_runs_first(void **state)
{
    struct got *g = got_open();
    begin(g);
    item_new(g, given_op(g, "e", "x"), NOW + 1, "mine");
    item_new(g, event_op(g, "e", "x"), NOW, "mine");
    send_applied(g);
    assert_redis(&g->w->server, "1700000000", "ZSCORE e:x mine");
    got_close(g);
}

static void test_given_errors(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "SET a:x x");
    redis_ask(s, "SET statcache:z x");
    begin(g);
    item_new(g, given_op(g, "a", "x"), NOW, "mine");
    item_new(g, given_op(g, "b", "x"), NOW, "mine");
    item_new(g, given_op(g, "c", "z"), NOW, "mine"); /* that cache holds nothing of ours */
    send_applied(g);
    assert_op_error(g, 0, wrong_type);
    assert_op_error(g, 1, "");
    assert_op_error(g, 2, "");
    assert_redis(s, "2", "EXISTS b:x c:z");
    got_close(g);
}

static void test_given_drops_windows(void **state)
{
    struct got *g = got_open();
    struct redis_server *s = &g->w->server;
    redis_ask(s, "HSET statcache:x n:windows 5,3600 n:1699999995:5 1 n:1700000000:5 2 n:1699999200:3600 3"
                 " n:1699995600:3600 4 m:1700000000:5 5 m:windows 5");
    redis_ask(s, "HSET statcache:y 5:a;7:windows 5 5:a;7:1700000000:5 2 5:a;7:1699999995:5 1 n:windows 5 "
                 "n:1700000000:5 1");
    begin(g);
    struct frame_op *op = given_op(g, "n", "x");
    number_new(g, op, NOW, 1);
    number_new(g, op, NOW, 2);
    item_new(g, op, NOW + 3, "mine");
    op = given_op(g, "5:a;7", "y"); /* as awkward as a name may be */
    number_new(g, op, NOW - 1, 1);
    op = given_op(g, "other", "x");
    number_new(g, op, NOW, 3);
    op = given_op(g, "n", "empty");
    number_new(g, op, NOW, 4);
    send_applied(g);
    assert_no_errors(g);
    assert_redis(s, "n:windows 5,3600 n:1699999995:5 1 n:1699995600:3600 4 m:1700000000:5 5 m:windows 5",
                 "HGETALL statcache:x");
    assert_redis(s, "5:a;7:windows 5 5:a;7:1700000000:5 2 n:windows 5 n:1700000000:5 1",
                 "HGETALL statcache:y");
    got_close(g);
}

/* --- without a waiter --- */

static void lose_events(void *arg)
{
    struct got *g = got_open();
    redis_ask(&g->w->server, "ZADD e:x 5 17");
    redis_ask(&g->w->server, "SET tally:events x");
    redis_ask(&g->w->server, "RPUSH tally:events:gone x");
    begin(g);
    struct frame_op *op = given_op(g, "e", "x");
    op->named = true;
    number_new(g, op, NOW, 16);
    number_new(g, op, NOW, 17);
    send_applied(g);
    assert_op_error(g, 0, "");
    assert_int_equal(g->f.events_gone, -1);
    got_close(g);
}

static void test_lost_events_and_side_trouble_are_logged(void **state)
{
    struct child_end end = child_run(lose_events, NULL);
    assert_true(child_exited(&end));
    assert_non_null(strstr(end.stderr_, "event=events_lost name=e events=1 "));
    assert_non_null(strstr(end.stderr_, "event=frame_side key=tally:events error=\"WRONGTYPE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lease_is_drawn_with_the_numbers),
        cmocka_unit_test(test_no_number_of_a_lease_stands),
        cmocka_unit_test(test_first_events_of_many_logs_share_commands),
        cmocka_unit_test(test_a_lease_jumps_over_own_numbers_that_it_was_told_of),
        cmocka_unit_test(test_what_older_versions_left_is_looked_at),
        cmocka_unit_test(test_a_ticker_that_somebody_set_below_0),
        cmocka_unit_test(test_a_log_that_became_somebody_elses_costs_no_number),
        cmocka_unit_test(test_an_own_number_that_may_be_leased_is_refused),
        cmocka_unit_test(test_leases_of_somebody_else),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_given_in_pieces),
        cmocka_unit_test(test_what_draws_runs_first),
        cmocka_unit_test(test_given_errors),
        cmocka_unit_test(test_given_drops_windows),
        cmocka_unit_test(test_lost_events_and_side_trouble_are_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
