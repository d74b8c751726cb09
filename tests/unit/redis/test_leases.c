/* Events whose ids are known when the frame is sent, and the leases that give such ids, on a real server. */
#include "base/heap.h"
#include "lib/child.h"
#include "unit/redis/ops_world.h"

static struct frame_op *given_op(const char *name, const char *type)
{
    return frame_add_op(&g->f, OP_EVENT, slice_str(name), slice_str(type), EVENT_GIVEN);
}

static void number_new(struct frame_op *op, int64_t at, int64_t number)
{
    uint32_t item = frame_add_item(&g->f, op, at, SLICE(""));
    g->f.items[item].value = number;
}

/* --- leases --- */

FRAME_TEST(test_a_lease_is_drawn_with_the_numbers)
{
    begin();
    struct frame_op *op = event_op("e", "x");
    op->lease_n = 32;
    item_new(op, NOW, "");
    item_new(op, NOW, "mine");
    item_new(op, NOW, "");
    op = event_op("e", "y");
    item_new(op, NOW, "");
    send_clean();
    assert_int_equal(g->f.items[0].value, 1);
    assert_int_equal(g->f.items[1].value, 0);
    assert_int_equal(g->f.items[2].value, 2);
    assert_int_equal(g->f.items[3].value, 35);
    assert_int_equal(g->f.ops[0].value, 34);
    redis_has("1 2 mine", "ZRANGE e:x 0 -1");
    redis_has("35", "GET e:index");
    redis_has("e:x 34 0", "HGETALL tally:leased");
    begin();
    op = event_op("e", "x");
    op->lease_n = 1000;
    item_new(op, NOW, "");
    send_applied();
    assert_int_equal(g->f.items[0].value, 36);
    assert_int_equal(g->f.ops[0].value, 1036);
    redis_has("e:x 1036 0", "HGETALL tally:leased");
}

FRAME_TEST(test_no_number_of_a_lease_stands)
{
    redis_do("ZADD e:x 5 20");
    begin();
    struct frame_op *op = event_op("e", "x");
    op->lease_n = 32;
    item_new(op, NOW, "40"); /* comes with it */
    item_new(op, NOW, "");
    send_clean();
    assert_true(g->f.items[1].value > 40 || g->f.ops[0].value < 40);
    assert_true(g->f.items[1].value > 20);
    assert_int_equal(g->f.items[1].value + 32, g->f.ops[0].value);
}

/* One event that draws, with a lease of 32 after it; returns its number. */
static int64_t draw(const char *name)
{
    begin();
    struct frame_op *op = event_op(name, "x");
    op->lease_n = 32;
    item_new(op, NOW, "");
    send_clean();
    return g->f.items[0].value;
}

/* Of n0 to n9, where n4 has numbers already, and of a second log with n7's ticker. */
FRAME_TEST(test_first_events_of_many_logs_share_commands)
{
    redis_do("SET n4:index 7");
    redis_do("CONFIG RESETSTAT");
    begin();
    for (int i = 0; i < 11; i++) {
        char name[] = {'n', (char)('0' + i - (i > 7)), 0};
        struct frame_op *op = event_op(name, i == 8 ? "y" : "x");
        op->lease_n = 32;
        item_new(op, NOW + i, "");
    }
    send_clean();
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(g->f.items[i].value, i == 4 ? 8 : i == 8 ? 34 : 1);
        assert_int_equal(g->f.ops[i].value, g->f.items[i].value + 32);
    }
    assert_int_equal(calls("mset"), 2);
    assert_int_equal(calls("incrby"), 6); /* of those two and their neighbours */
    redis_has("33 33 40 66", "MGET n0:index n9:index n4:index n7:index");
    redis_has("33 0 33 0 40 0 33 0 66 0", "HMGET tally:leased n0:x n9:x n4:x n7:x n7:y");
    redis_has("1 1700000010", "ZRANGE n9:x 0 -1 WITHSCORES");
    redis_has("11", "ZCARD tally:events");
}

static void own(const char *name, const char *id)
{
    begin();
    struct frame_op *op = event_op(name, "x");
    op->has_numbers = true;
    item_new(op, NOW, id);
    send_clean();
}

FRAME_TEST(test_a_lease_jumps_over_own_numbers_that_it_was_told_of)
{
    assert_int_equal(draw("e"), 1);
    own("e", "50");
    own("e", "40");
    redis_has("33 50", "HGET tally:leased e:x");
    assert_true(draw("e") > 50);
    own("f", "99999999999999999999");
    redis_has("0 9007199254740992", "HGET tally:leased f:x");
    assert_int_equal(draw("f"), 1);
}

FRAME_TEST(test_what_older_versions_left_is_looked_at)
{
    redis_do("HSET tally:leased e:x 33");
    redis_do("SET e:index 33");
    redis_do("ZADD e:x 1 7 1 60");
    own("e", "50"); /* does not make it known what else there is */
    redis_has("33", "HGET tally:leased e:x");
    assert_true(draw("e") > 60);
    redis_do("UNLINK e:x");
    int64_t next = draw("e");
    char notes[40];
    snprintf(notes, sizeof notes, "%lld 0", (long long)next + 32);
    redis_has(notes, "HGET tally:leased e:x");
}

/* Numbers are above 0, and so are those that coalesce takes from a lease: a lower one is Redis' or another program's. */
FRAME_TEST(test_a_ticker_that_somebody_set_below_0)
{
    redis_do("SET e:index -1000");
    for (uint32_t lease_n = 0; lease_n <= 32; lease_n += 32) {
        begin();
        struct frame_op *op = event_op("e", "x");
        op->lease_n = lease_n;
        item_new(op, NOW, "");
        item_new(op, NOW, "mine");
        send_applied();
        assert_memory_equal(g->f.errors.p + g->f.ops[0].error_at, "ERR the ticker e:index is below 0", 33);
        redis_has("-1000", "GET e:index");
        redis_has("0", "EXISTS e:x tally:leased");
    }
}

FRAME_TEST(test_a_log_that_became_somebody_elses_costs_no_number)
{
    assert_int_equal(draw("e"), 1);
    redis_do("SET e:x mine");
    begin();
    struct frame_op *op = event_op("e", "x");
    op->lease_n = 32;
    item_new(op, NOW, "");
    send_applied();
    assert_true(g->f.ops[0].error_n > 0);
    redis_has("33", "GET e:index");
}

FRAME_TEST(test_an_own_number_that_may_be_leased_is_refused)
{
    static const char *const ids[] = {"7", "17", "", "34", "mine", "33", "017", "0", "9007199254740993"};
    redis_do("HSET tally:leased e:x 33");
    redis_do("SET e:index 40");
    redis_do("ZADD e:x 1 7");
    begin();
    struct frame_op *op = event_op("e", "x");
    op->has_numbers = true;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        item_new(op, NOW, ids[i]);
    op = event_op("e", "never"); /* without leases any number is as good */
    op->has_numbers = true;
    item_new(op, NOW, "17");
    op = event_op("e", "x");
    op->has_numbers = true;
    item_new(op, NOW, "12"); /* nothing else in that op */
    send_clean();
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_int_equal(g->f.items[i].value, i == 1 || i == 5 ? EVENT_REFUSED : i == 2 ? 41 : 0);
    assert_int_equal(g->f.items[9].value, 0);
    assert_int_equal(g->f.items[10].value, EVENT_REFUSED);
    redis_has("7 0 017 34 41 9007199254740993 mine", "ZRANGE e:x 0 -1");
    redis_has("17", "ZRANGE e:never 0 -1");
}

FRAME_TEST(test_leases_of_somebody_else)
{
    redis_do("SET tally:leased x");
    begin();
    struct frame_op *op = event_op("e", "x");
    op->lease_n = 32;
    item_new(op, NOW, "");
    send_applied();
    assert_op_error(0, wrong_type);
    redis_has("0", "EXISTS e:x e:index");
}

/* --- given --- */

FRAME_TEST(test_given)
{
    redis_do("SET tally:events:gone 7");
    begin();
    struct frame_op *op = given_op("e", "x");
    number_new(op, NOW, 5);
    item_new(op, NOW - 1, "mine");
    number_new(op, NOW, 9007199254740991);
    op = given_op("f", "x");
    op->named = true;
    number_new(op, NOW, 5);
    op = given_op("owed", "x");
    op->named = op->owed = op->fed = true;
    send_clean();
    assert_int_equal(g->f.events_gone, 7);
    assert_int_equal(g->f.items[0].value, 5);
    redis_has("mine 1699999999 5 1700000000 9007199254740991 1700000000", "ZRANGE e:x 0 -1 WITHSCORES");
    redis_has("f:x 0 owed:x 0", "ZRANGE tally:events 0 -1 WITHSCORES");
    redis_has("1", "EXISTS f:x owed:x");
    begin();
    op = given_op("e", "x");
    item_new(op, NOW + 7, "mine"); /* keeps its first second */
    send_applied();
    redis_has("1699999999", "ZSCORE e:x mine");
}

FRAME_TEST(test_given_in_pieces)
{
    begin();
    struct frame_op *op = given_op("e", "x");
    for (int i = 1; i <= 2500; i++)
        number_new(op, NOW + i % 2, i);
    op = given_op("f", "x");
    for (int i = 1; i <= 1000; i++)
        number_new(op, NOW, i);
    op_new(OP_UNIQ, "v", 20140920, 0);
    item_new(&g->f.ops[2], 5, "");
    send_clean();
    redis_has("2500", "ZCARD e:x");
    redis_has("1000", "ZCARD f:x");
    assert_int_equal(g->f.items[3500].value, 1); /* the answers after them are filed right */
}

/* The first op was drawing when the log was not known yet. */
FRAME_TEST(test_what_draws_runs_first)
{
    begin();
    item_new(given_op("e", "x"), NOW + 1, "mine");
    item_new(event_op("e", "x"), NOW, "mine");
    send_applied();
    redis_has("1700000000", "ZSCORE e:x mine");
}

FRAME_TEST(test_given_errors)
{
    redis_do("SET a:x x");
    redis_do("SET statcache:z x");
    begin();
    item_new(given_op("a", "x"), NOW, "mine");
    item_new(given_op("b", "x"), NOW, "mine");
    item_new(given_op("c", "z"), NOW, "mine"); /* that cache holds nothing of ours */
    send_applied();
    assert_op_error(0, wrong_type);
    assert_op_error(1, "");
    assert_op_error(2, "");
    redis_has("2", "EXISTS b:x c:z");
}

FRAME_TEST(test_given_drops_windows)
{
    redis_do("HSET statcache:x n:windows 5,3600 n:1699999995:5 1 n:1700000000:5 2 n:1699999200:3600 3"
             " n:1699995600:3600 4 m:1700000000:5 5 m:windows 5");
    redis_do("HSET statcache:y 5:a;7:windows 5 5:a;7:1700000000:5 2 5:a;7:1699999995:5 1 n:windows 5 "
             "n:1700000000:5 1");
    begin();
    struct frame_op *op = given_op("n", "x");
    number_new(op, NOW, 1);
    number_new(op, NOW, 2);
    item_new(op, NOW + 3, "mine");
    op = given_op("5:a;7", "y"); /* as awkward as a name may be */
    number_new(op, NOW - 1, 1);
    op = given_op("other", "x");
    number_new(op, NOW, 3);
    op = given_op("n", "empty");
    number_new(op, NOW, 4);
    send_clean();
    redis_has("n:windows 5,3600 n:1699999995:5 1 n:1699995600:3600 4 m:1700000000:5 5 m:windows 5",
              "HGETALL statcache:x");
    redis_has("5:a;7:windows 5 5:a;7:1700000000:5 2 n:windows 5 n:1700000000:5 1", "HGETALL statcache:y");
}

/* --- without a waiter --- */

static void lose_events(void *arg)
{
    got_open(NULL);
    redis_do("ZADD e:x 5 17");
    redis_do("SET tally:events x");
    redis_do("RPUSH tally:events:gone x");
    begin();
    struct frame_op *op = given_op("e", "x");
    op->named = true;
    number_new(op, NOW, 16);
    number_new(op, NOW, 17);
    send_applied();
    assert_op_error(0, "");
    assert_int_equal(g->f.events_gone, -1);
    got_close(NULL);
}

UNIT(test_lost_events_and_side_trouble_are_logged)
{
    struct child_end end = child_run(lose_events, NULL);
    assert_true(child_exited(&end));
    assert_non_null(strstr(end.stderr_, "event=events_lost name=e events=1 "));
    assert_non_null(strstr(end.stderr_, "event=frame_side key=tally:events error=\"WRONGTYPE"));
}
