/* The ops of a frame on a real server: what is in Redis, what is answered, and that a failing op changes nothing. */
#include "base/heap.h"
#include "lib/child.h"
#include "lib/frame_cell.h"
#include "unit/redis/ops_world.h"

/* --- series --- */

FRAME_TEST(test_series)
{
    begin();
    op_new(OP_SERIES, "hits", NOW, 5)->known = 7;
    op_new(OP_SERIES, "late", NOW - 120, 2)->known = 7; /* the oldest slot that precision 1 has given up */
    op_new(OP_SERIES, "late", NOW - 119, 3)->known = 2;
    send_clean();
    assert_int_equal(g->f.ops[0].value, 3);
    assert_int_equal(g->f.ops[1].value, 2);
    assert_int_equal(g->f.ops[2].value, 3);
    assert_false(g->f.ops[0].fresh);
    assert_false(g->f.ops[1].fresh);
    assert_true(g->f.ops[2].fresh); /* precision 1 came into being, and its ZADD was left out */
    redis_has("1700000000 5", "HGETALL count:1:hits");
    redis_has("1699999980 5", "HGETALL count:60:hits");
    redis_has("1699999200 5", "HGETALL count:3600:hits");
    redis_has("1699999881 3", "HGETALL count:1:late");
    redis_has("1699999860 5", "HGETALL count:60:late");
    redis_has("1:hits 0 3600:hits 0 3600:late 0 60:hits 0 60:late 0", "ZRANGE known: 0 -1 WITHSCORES");
    begin();
    op_new(OP_SERIES, "hits", NOW, -7);
    send_applied();
    assert_false(g->f.ops[0].fresh);
    redis_has("1700000000 -2", "HGETALL count:1:hits");
}

/* Out of a journal: one HINCRBY a slot, however many of the name's seconds are in it. */
FRAME_TEST(test_series_joined)
{
    static const int64_t at[] = {NOW, NOW + 1, NOW + 2, NOW + 60};
    begin();
    for (int i = 0; i < 4; i++)
        op_new(OP_SERIES, "hits", at[i], 1 + i)->joined = i > 0;
    g->f.ops[0].known = 7;
    g->f.ops[2].silent = true; /* the op after it joins nothing */
    op_new(OP_SERIES, "other", NOW, 5);
    op_new(OP_SERIES, "other", NOW + 1, INT64_C(1) << 48)->joined = true; /* too large */
    send_clean();
    static const int64_t commands[] = {3, 1, 0, 3, 3, 3};
    for (int i = 0; i < 6; i++)
        assert_int_equal(g->f.ops[i].value, commands[i]);
    assert_false(g->f.ops[0].fresh);
    assert_true(g->f.ops[1].fresh && g->f.ops[3].fresh && g->f.ops[4].fresh);
    redis_has("1700000000 1 1700000001 2 1700000060 4", "HGETALL count:1:hits");
    redis_has("1699999980 3 1700000040 4", "HGETALL count:60:hits");
    redis_has("1699999200 7", "HGETALL count:3600:hits");
    redis_has("1699999980 281474976710661", "HGETALL count:60:other");
}

/* An owed op is its ZADD alone, also of a time that is not kept any more. */
FRAME_TEST(test_series_owed)
{
    begin();
    struct frame_op *op = op_new(OP_SERIES, "hits", 1000, 0);
    op->owed = true;
    op->known = 5;
    op = op_new(OP_SERIES, "kept", NOW, 0);
    op->owed = true;
    op->known = 2;
    send_applied();
    redis_has("1:hits 3600:hits 60:kept", "ZRANGE known: 0 -1");
    redis_has("known:", "KEYS [a-s]*");
    assert_int_equal(g->f.ops[0].value, 0);
}

FRAME_TEST(test_series_errors)
{
    redis_do("SET count:60:hits x");
    redis_do("HSET count:1:other 1700000000 word");
    redis_do("SET count:60:other x"); /* the first error is told */
    begin();
    op_new(OP_SERIES, "hits", NOW, 5);
    op_new(OP_SERIES, "other", NOW, 5);
    op_new(OP_SERIES, "good", NOW, 5);
    send_applied();
    assert_op_error(0, wrong_type);
    assert_op_error(1, "ERR hash value is not an integer");
    assert_op_error(2, "");
    redis_has("5", "HGET count:60:good 1699999980");
}

/* --- timeboxes --- */

FRAME_TEST(test_box)
{
    begin();
    op_new(OP_TIMEBOX, "b", 120, 5);
    op_new(OP_TIMEBOX, "b", 60, 7);
    op_new(OP_TIMEBOX, "c", 60, -1);
    send_clean();
    assert_int_equal(g->f.ops[0].value, 5);
    assert_int_equal(g->f.ops[1].value, 7);
    assert_int_equal(g->f.ops[2].value, -1);
    begin();
    op_new(OP_TIMEBOX, "b", 120, 1);
    op_new(OP_TIMEBOX, "b", 240, 1);
    op_new(OP_TIMEBOX, "b", 300, 2); /* now 60 goes, from both */
    op_new(OP_TIMEBOX, "b", 60, 9);
    op_new(OP_TIMEBOX, "b", 180, 4); /* and 120, for one between those that are kept */
    send_applied();
    assert_int_equal(g->f.ops[0].value, 6);
    assert_int_equal(g->f.ops[3].value, 0);
    assert_true(g->f.ops[3].late);
    assert_false(g->f.ops[4].late);
    redis_has("180 180 240 240 300 300", "ZRANGE tb.b 0 -1 WITHSCORES");
    redis_has("240 1 300 2 180 4", "ZRANGE pv.b 0 -1 WITHSCORES");
    begin();
    g->limits.timebox_keep = 1; /* configured lower: at the next new bucket all others go */
    op_new(OP_TIMEBOX, "b", 360, 1);
    send_applied();
    redis_has("360", "ZRANGE tb.b 0 -1");
    redis_has("360", "ZRANGE pv.b 0 -1");
}

/* n0 to n9: n4 is another program's, and n7 has two buckets. */
FRAME_TEST(test_first_hits_of_many_boxes_share_commands)
{
    redis_do("SET pv.n4 mine");
    redis_do("CONFIG RESETSTAT");
    begin();
    for (int i = 0; i < 11; i++) {
        char name[] = {'n', (char)('0' + i - (i > 7)), 0};
        op_new(OP_TIMEBOX, name, i == 8 ? 60 : 120, i + 1);
    }
    send_applied();
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(g->f.ops[i].error_n > 0, i == 4);
        assert_int_equal(g->f.ops[i].value, i == 4 ? 0 : i + 1);
    }
    assert_int_equal(calls("zscore"), 12); /* of those and their neighbours, two each */
    redis_has("120 120", "ZRANGE tb.n0 0 -1 WITHSCORES");
    redis_has("120 8 60 9", "ZRANGE pv.n7 0 -1 WITHSCORES");
    redis_has("0", "EXISTS tb.n4");
    begin();
    op_new(OP_TIMEBOX, "far", 120, INT64_C(1) << 53);
    send_applied();
    assert_op_error(0, "ERR increment or decrement would overflow");
    redis_has("0", "EXISTS tb.far pv.far");
}

FRAME_TEST(test_box_errors)
{
    redis_do("SET tb.a x");
    redis_do("SET pv.b x");
    redis_do("ZADD pv.c 1.5 60");
    redis_do("ZADD pv.d 9007199254740990 60");
    redis_do("ZADD pv.e inf 60");
    begin();
    for (const char *name = "abcdef"; *name != '\0'; name++)
        op_new(OP_TIMEBOX, (char[]){*name, '\0'}, 60, 2);
    send_applied();
    assert_op_error(0, wrong_type);
    assert_op_error(1, wrong_type);
    assert_op_error(2, "ERR timebox value is not an integer");
    assert_op_error(3, "ERR increment or decrement would overflow");
    assert_op_error(4, "ERR timebox value is not an integer");
    assert_op_error(5, "");
    assert_int_equal(g->f.ops[5].value, 2);
    redis_has("0", "EXISTS pv.a tb.b tb.c tb.d tb.e");
    begin();
    op_new(OP_TIMEBOX, "d", 60, 1); /* 2^53 - 1 is a hit each */
    send_applied();
    assert_int_equal(g->f.ops[0].value, (INT64_C(1) << 53) - 1);
}

/* Hits on buckets that are known to exist are sent outside the script of the others. */
FRAME_TEST(test_box_stands)
{
    begin();
    op_new(OP_TIMEBOX, "b", 60, 5);
    op_new(OP_TIMEBOX, "c", 60, 5);
    op_new(OP_TIMEBOX, "d", 60, 5);
    send_applied();
    redis_do("DEL tb.c pv.c");
    redis_do("SET pv.d x");
    begin();
    op_new(OP_TIMEBOX, "b", 60, 2)->stands = true;
    op_new(OP_TIMEBOX, "b", 120, 3);
    op_new(OP_TIMEBOX, "c", 60, 4)->stands = true;
    op_new(OP_TIMEBOX, "d", 60, 4)->stands = true;
    op_new(OP_TIMEBOX, "b", 60, 1)->stands = true;
    send_applied();
    assert_int_equal(g->f.ops[0].value, 7);
    assert_int_equal(g->f.ops[1].value, 3);
    assert_int_equal(g->f.ops[2].value, 4);
    assert_op_error(3, wrong_type);
    assert_int_equal(g->f.ops[4].value, 8);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(g->f.ops[i].fresh, i == 2); /* another program had deleted it */
    redis_has("60 60 120 120", "ZRANGE tb.b 0 -1 WITHSCORES");
    redis_has("120 3 60 8", "ZRANGE pv.b 0 -1 WITHSCORES");
    redis_has("0", "EXISTS tb.c");
}

/* An owed op is the bucket's place alone: when it has hits, and newer ones leave room. */
FRAME_TEST(test_box_owed)
{
    redis_do("ZADD pv.lost 4 60");
    redis_do("ZADD pv.whole 4 60");
    redis_do("ZADD tb.whole 60 60");
    redis_do("ZADD pv.old 4 60 1 120 1 180 1 240");
    redis_do("ZADD tb.old 120 120 180 180 240 240");
    redis_do("ZADD pv.over 4 120 1 60 1 180 1 240");
    redis_do("ZADD tb.over 60 60 180 180 240 240");
    redis_do("ZADD pv.taken 4 60");
    redis_do("SET tb.taken x");
    begin();
    static const struct {
        const char *name;
        int64_t bucket;
    } owed[] = {{"lost", 60}, {"whole", 60}, {"gone", 60}, {"old", 60}, {"over", 120}, {"taken", 60}};
    for (size_t i = 0; i < sizeof owed / sizeof owed[0]; i++)
        op_new(OP_TIMEBOX, owed[i].name, owed[i].bucket, 0)->owed = true;
    op_new(OP_TIMEBOX, "b", 60, 0);
    send_clean();
    redis_has("60 60", "ZRANGE tb.lost 0 -1 WITHSCORES");
    redis_has("60 4", "ZRANGE pv.lost 0 -1 WITHSCORES");
    redis_has("60 4", "ZRANGE pv.whole 0 -1 WITHSCORES");
    redis_has("0", "EXISTS tb.gone pv.gone");
    redis_has("120 180 240", "ZRANGE tb.old 0 -1");
    redis_has("120 180 240", "ZRANGE pv.old 0 -1"); /* its hits are taken back */
    redis_has("120 180 240", "ZRANGE tb.over 0 -1");
    redis_has("180 240 120", "ZRANGE pv.over 0 -1");  /* 60 makes room */
    redis_has("60 0", "ZRANGE pv.b 0 -1 WITHSCORES"); /* a client's own 0 is a bucket */
}

/* Hits that are in pv. alone, because a tallyd died before it knew of them, get their place with the next new bucket; or, where
 * newer buckets leave no room, are deleted. A member that is not one of our buckets stays. */
FRAME_TEST(test_box_strays)
{
    redis_do("ZADD pv.b 4 120");
    redis_do("ZADD pv.old 4 60 1 120 1 180 1 240");
    redis_do("ZADD tb.old 120 120 180 180 240 240");
    redis_do("ZADD pv.late 4 240 1 180 1 120 8 9999999999999999 9 x");
    redis_do("ZADD tb.late 180 180 120 120");
    redis_do("ZADD pv.own 4 120 1 60");
    redis_do("ZADD tb.own 60 60");
    begin();
    op_new(OP_TIMEBOX, "b", 180, 1);
    op_new(OP_TIMEBOX, "old", 300, 1);
    op_new(OP_TIMEBOX, "late", 60, 1);
    op_new(OP_TIMEBOX, "own", 120, 1);
    send_clean();
    redis_has("120 120 180 180", "ZRANGE tb.b 0 -1 WITHSCORES");
    redis_has("180 1 120 4", "ZRANGE pv.b 0 -1 WITHSCORES");
    redis_has("180 240 300", "ZRANGE tb.old 0 -1");
    redis_has("180 240 300", "ZRANGE pv.old 0 -1");
    assert_true(g->f.ops[2].late); /* after the stray there is no room for it */
    redis_has("120 180 240", "ZRANGE tb.late 0 -1");
    redis_has("120 180 240 9999999999999999 x", "ZRANGE pv.late 0 -1");
    assert_int_equal(g->f.ops[3].value, 5);
    redis_has("60 1 120 5", "ZRANGE pv.own 0 -1 WITHSCORES");
}

/* --- events --- */

FRAME_TEST(test_events)
{
    begin();
    struct frame_op *op = event_op("blob", "submit");
    item_new(op, NOW, "");
    item_new(op, NOW, "");
    item_new(op, NOW - 5, "mine");
    item_new(op, NOW - 9, "");
    item_new(op, NOW + 1, "mine");
    op = event_op("blob", "fail");
    item_new(op, NOW, "");
    op = event_op("s1", "views");
    op->fed = true;
    op->which = NOW;
    op->delta = 3;
    send_clean();
    assert_int_equal(g->f.items[0].value, 1);
    assert_int_equal(g->f.items[1].value, 2);
    assert_int_equal(g->f.items[2].value, 0);
    assert_int_equal(g->f.items[3].value, 3);
    assert_int_equal(g->f.items[4].value, 0);
    assert_int_equal(g->f.items[5].value, 4);
    redis_has("3 1699999991 mine 1699999995 1 1700000000 2 1700000000", "ZRANGE blob:submit 0 -1 WITHSCORES");
    redis_has("4 1700000000", "ZRANGE blob:fail 0 -1 WITHSCORES");
    redis_has("1 1700000000 2 1700000000 3 1700000000", "ZRANGE s1:views 0 -1 WITHSCORES");
    redis_has("4 3", "MGET blob:index s1:index");
    redis_has("blob:fail 0 blob:submit 0 s1:views 0", "ZRANGE tally:events 0 -1 WITHSCORES");
    begin();
    op = event_op("blob", "submit");
    item_new(op, NOW + 7, "mine"); /* keeps its first second */
    send_applied();
    redis_has("1699999995", "ZSCORE blob:submit mine");
}

/* Ids that clients gave and that are numbers: the ticker skips them, and none is lost. */
FRAME_TEST(test_event_ids_that_are_numbers)
{
    static const char fill[] =
        "for i = 1, 100000 do redis.call('ZADD', KEYS[1], 5, string.format('%.0f', i)) end return 1";
    begin();
    struct frame_op *op = event_op("o", "x");
    item_new(op, NOW, "2");
    item_new(op, NOW, "");
    item_new(op, NOW, "");
    send_applied();
    redis_has("3", "ZCARD o:x");
    assert_int_equal(g->f.items[2].value, g->f.items[1].value + 1);
    assert_true(g->f.items[1].value > 2);
    redis_do("EVAL %s 1 o:y", fill);
    redis_do("EVAL %s 1 p:y", fill);
    begin();
    op = event_op("o", "y");
    for (int i = 0; i < 2500; i++)
        item_new(op, NOW + i, "");
    send_clean();
    redis_has("102500", "ZCARD o:y");
    redis_has("2500", "ZCOUNT o:y %d +inf", NOW);
    for (uint32_t i = 1; i < 2500; i++)
        assert_int_equal(g->f.items[i].value, g->f.items[0].value + i);
    redis_has("1700002499", "ZSCORE o:y %lld", (long long)g->f.items[2499].value);
    begin();
    item_new(event_op("p", "y"), NOW, "");
    send_applied();
    assert_in_range(g->f.items[0].value, 100002, 300000); /* it leapt over them, not one by one */
}

FRAME_TEST(test_event_drops_windows)
{
    redis_do("HSET statcache:x n:windows 5,3600 n:1699999995:5 1 n:1700000000:5 2 n:1699999200:3600 3"
             " n:1699995600:3600 4 m:1700000000:5 5 m:windows 5");
    begin();
    struct frame_op *op = event_op("n", "x");
    item_new(op, NOW, "");
    item_new(op, NOW + 3, "mine");
    op = event_op("other", "x");
    item_new(op, NOW, "");
    send_applied();
    redis_has("n:windows 5,3600 n:1699999995:5 1 n:1699995600:3600 4 m:1700000000:5 5 m:windows 5",
              "HGETALL statcache:x");
    begin();
    op = event_op("n", "x");
    op->fed = true;
    op->which = NOW - 3600;
    op->delta = 1;
    send_applied();
    redis_has("0", "HEXISTS statcache:x n:1699995600:3600");
    redis_has("1", "HEXISTS statcache:x n:1699999995:5");
}

FRAME_TEST(test_event_errors)
{
    redis_do("SET a:x x");
    redis_do("SET h:x x");
    redis_do("MSET i:x x i:index 7");
    redis_do("RPUSH b:index x");
    redis_do("SET c:index word");
    redis_do("SET d:index 9223372036854775807");
    redis_do("SET e:index 9007199254740991");
    redis_do("SET statcache:z x");
    begin();
    for (const char *name = "abcde"; *name != '\0'; name++) {
        struct frame_op *op = event_op((char[]){*name, '\0'}, "x");
        item_new(op, NOW, "mine");
        item_new(op, NOW, "");
    }
    item_new(event_op("f", "z"), NOW, "");
    item_new(event_op("g", "x"), NOW, "");
    item_new(event_op("h", "x"), NOW, "");
    item_new(event_op("i", "x"), NOW, "");
    item_new(event_op("h", "x"), NOW, "mine");
    send_applied();
    for (uint32_t i = 7; i < 10; i++)
        assert_op_error(i, wrong_type);
    redis_has("nil 7", "MGET h:index i:index"); /* nothing was drawn */
    assert_op_error(0, wrong_type);
    assert_op_error(1, wrong_type);
    assert_op_error(2, "ERR value is not an integer or out of range");
    assert_op_error(3, "ERR increment or decrement would overflow");
    assert_op_error(4, "ERR increment or decrement would overflow");
    assert_op_error(5, wrong_type);
    assert_op_error(6, "");
    redis_has("0", "EXISTS a:index b:x c:x d:x e:x f:z f:index");
    redis_has("g:x", "ZRANGE tally:events 0 -1");
    redis_do("DEL tally:events");
    redis_do("SET tally:events x");
    begin();
    item_new(event_op("g", "x"), NOW, "");
    op_new(OP_TIMEBOX, "b", 60, 1);
    send_applied();
    assert_op_error(0, wrong_type);
    assert_op_error(1, "");
    redis_has("1", "ZCARD g:x");
}

/* --- visitors --- */

static void feed(struct frame_op *op, const char *key)
{
    op->counter = &g->w->all[0];
    op->key_at = (uint32_t)g->f.bytes.n;
    op->key_n = (uint32_t)strlen(key);
    buf_put(&g->f.bytes, key, strlen(key));
}

static void assert_new(const char *expected)
{
    char got[64] = "";
    assert_true(g->f.items_n < sizeof got);
    for (uint32_t i = 0; i < g->f.items_n; i++)
        got[i] = (char)('0' + g->f.items[i].value);
    assert_string_equal(got, expected);
}

FRAME_TEST(test_visitors)
{
    begin();
    struct frame_op *op = op_new(OP_UNIQ, "u", 20071204, 0);
    item_new(op, 0, "");
    item_new(op, -1, "anna");
    item_new(op, 999, "");
    item_new(op, 1000, ""); /* the limit: sketched */
    item_new(op, 0, "");
    item_new(op, -1, "anna");
    item_new(op, -1, "1000");
    op = op_new(OP_UNIQ, "u", 20071205, 0);
    item_new(op, 0, "");
    send_clean();
    assert_new("11110001");
    redis_has("2", "BITCOUNT u_2007_12_04");
    redis_has("1 1", "BITFIELD u_2007_12_04 GET u1 0 GET u1 999");
    redis_has("2", "PFCOUNT u_2007_12_04:hll");
    redis_has("1", "BITCOUNT u_2007_12_05");
    redis_has("0", "EXISTS u_2007_12_05:hll tally:dirty tally:accepted");
}

FRAME_TEST(test_visitors_feed)
{
    for (int round = 0; round < 2; round++) {
        begin();
        struct frame_op *op = op_new(OP_UNIQ, "s1", 20140920, 0);
        feed(op, "s1:unique_visitors:daily");
        for (int i = 0; i < 900; i++)
            item_new(op, i, "");
        item_new(op, -1, "anna");
        send_clean();
        for (uint32_t i = 0; i < 901; i++)
            assert_int_equal(g->f.items[i].value, 1 - round);
        redis_has("20140920 901", "HGETALL s1:unique_visitors:daily");
        redis_has("unique_visitors 901", "HGETALL tally:accepted");
        redis_has("s1:unique_visitors:daily 1700000000001", "ZRANGE tally:dirty 0 -1 WITHSCORES");
    }
}

/* Of the ops of a frame that Redis lost, visitors alone are sent again. */
FRAME_TEST(test_visitors_replayed)
{
    g->frames.keeps = true;
    begin();
    op_new(OP_TIMEBOX, "b", 60, 4);
    struct frame_op *op = op_new(OP_UNIQ, "s1", 20140920, 0);
    feed(op, "s1:unique_visitors:daily");
    item_new(op, 7, "");
    item_new(op, -1, "anna");
    send_clean();
    redis_do("FLUSHALL");
    for (int round = 0; round < 2; round++) {
        replay_applied();
        redis_has("20140920 2", "HGETALL s1:unique_visitors:daily");
        redis_has("unique_visitors 2", "HGETALL tally:accepted");
        redis_has("0", "EXISTS tb.b pv.b");
    }
}

/* Bit, sketch and counter move together or not at all. */
FRAME_TEST(test_visitors_errors)
{
    redis_do("RPUSH a_2014_09_20 x");
    redis_do("SET b_2014_09_20:hll x");
    redis_do("SET s3:unique_visitors:daily x");
    redis_do("HSET s4:unique_visitors:daily 20140920 word");
    redis_do("HSET s5:unique_visitors:daily 20140920 9223372036854775807");
    begin();
    for (int i = 0; i < 6; i++) {
        char name[] = {(char)('a' + i), '\0'}, key[40];
        struct frame_op *op = op_new(OP_UNIQ, name, 20140920, 0);
        snprintf(key, sizeof key, "s%d:unique_visitors:daily", i + 1);
        feed(op, key);
        item_new(op, 7, "");
        item_new(op, -1, "anna");
    }
    send_applied();
    assert_op_error(0, wrong_type);
    assert_op_error(1, "WRONGTYPE Key is not a valid HyperLogLog string value.");
    assert_op_error(2, wrong_type);
    assert_op_error(3, "ERR hash value is not an integer");
    assert_op_error(4, "ERR increment or decrement would overflow");
    assert_op_error(5, "");
    redis_has("0", "EXISTS a_2014_09_20:hll b_2014_09_20 c_2014_09_20 c_2014_09_20:hll d_2014_09_20"
                   " d_2014_09_20:hll e_2014_09_20 e_2014_09_20:hll s1:unique_visitors:daily"
                   " s2:unique_visitors:daily");
    redis_has("s6:unique_visitors:daily", "ZRANGE tally:dirty 0 -1");
    redis_has("2", "HGET s6:unique_visitors:daily 20140920");
    redis_do("DEL tally:dirty");
    redis_do("HSET tally:accepted unique_visitors 9223372036854775807");
    begin();
    feed(op_new(OP_UNIQ, "f", 20140920, 0), "s6:unique_visitors:daily");
    item_new(&g->f.ops[0], 9, "");
    send_applied();
    assert_op_error(0, "");
    redis_has("-9223372036854775808", "HGET tally:accepted unique_visitors");
    redis_do("DEL tally:dirty");
    redis_do("SET tally:dirty x");
    begin();
    struct frame_op *op = op_new(OP_UNIQ, "f", 20140920, 0);
    feed(op, "s6:unique_visitors:daily");
    item_new(op, 8, "");
    send_applied();
    assert_op_error(0, wrong_type);
    redis_has("0", "GETBIT f_2014_09_20 8");
}

static struct frame_op *visit_by(const char *user, const char *name, int64_t visitor)
{
    struct frame_op *op = op_new(OP_UNIQ, name, 20140920, 0);
    op->user_at = (uint32_t)g->f.bytes.n;
    op->user_n = (uint32_t)strlen(user);
    buf_put(&g->f.bytes, user, op->user_n);
    item_new(op, visitor, "");
    return op;
}

#define GROWN "tally:grown:20231114"
#define NO_ROOM(had, more)                                                                                   \
    "OOM this user's visitors took " had " bytes today, and " more                                           \
    " more would pass uniques.growth; nothing was added"

/* What would pass the bound is refused whole, and nothing else of the frame; bits that are there, and a few more, are
 * anybody's. */
FRAME_TEST(test_bits_of_a_user_grow_so_far)
{
    g->limits.uniq_limit = 1 << 24;
    g->limits.uniq_growth = 10000;
    g->frames.keeps = true;
    begin();
    visit_by("1", "a", 8 * 6000 - 1);
    struct frame_op *op = visit_by("1", "b", 8 * 4001 - 1);
    feed(op, "s1:unique_visitors:daily");
    item_new(op, 7, "");
    item_new(op, -1, "anna");
    visit_by("2", "b", 8 * 4001 - 1);
    visit_by("1", "b", 8 * 4001 - 2);
    visit_by("1", "c", 8 * 4000 - 1);
    visit_by("1", "d", 8 * 128 - 1);
    visit_by("1", "e", 8 * 129 - 1);
    visit_by("", "f", (1 << 24) - 1);
    send_applied();
    for (uint32_t i = 0; i < g->f.ops_n; i++)
        assert_op_error(i, i == 1 ? NO_ROOM("6000", "4001") : i == 6 ? NO_ROOM("10000", "129") : "");
    assert_new("1000111101");
    redis_has("0", "EXISTS b_2014_09_20:hll e_2014_09_20 s1:unique_visitors:daily tally:accepted");
    for (int round = 0; round < 2;
         round++) { /* and again, to a Redis that lost it and has less room, or none lost */
        redis_has("10000 4001", "HMGET " GROWN " 1 2");
        redis_has("172800", "TTL " GROWN);
        redis_has("0", "EXISTS b_2014_09_20:hll e_2014_09_20");
        if (round > 0) continue;
        redis_do("FLUSHALL");
        g->limits.uniq_growth = 1;
        replay_applied();
    }
    g->limits.uniq_growth = 10129;
    begin();
    visit_by("1", "e", 8 * 129 - 1);
    send_clean();
    redis_do("DEL e_2014_09_20");
    replay_applied(); /* all of it, and it is counted */
    redis_has("129 10258", "EVAL %s 2 e_2014_09_20 " GROWN,
              "return redis.call('STRLEN', KEYS[1]) .. ' ' .. redis.call('HGET', KEYS[2], '1')");
}

/* How often Redis is asked: an ADD inside the bits costs no more than a STRLEN. */
FRAME_TEST(test_bits_that_are_there_cost_little)
{
    g->limits.uniq_growth = 10000;
    for (int round = 0; round < 2; round++) {
        begin();
        visit_by("1", "a", 8 * 100 - 1);
        visit_by("", "b", 8 * 100 - 1);
        redis_do("CONFIG RESETSTAT");
        send_applied();
        assert_int_equal(calls("strlen"), 1);
        assert_int_equal(calls("bitfield"), 2);
        assert_int_equal(calls("hget") + calls("hincrby") + calls("getbit"), 0);
    }
}

/* --- the whole frame --- */

/* All kinds, with cells and locks: each answer finds its place. */
FRAME_TEST(test_mixed)
{
    begin();
    struct frame_hash *h = frame_add_hash(&g->f, NULL, SLICE("s1:unique_visitors:daily"));
    h->zadd = h->ask_lock = true;
    h->lock_at = (uint32_t)g->f.bytes.n;
    h->lock_n = 4;
    h->lock_s = 60;
    buf_put(&g->f.bytes, "lock", 4);
    frame_add_cell(&g->f, 0, SLICE("20140920"), 3);
    frame_add_share(&g->f, &g->w->all[0], 3);
    item_new(op_new(OP_UNIQ, "u", 20140920, 0), 4, "");
    op_new(OP_TIMEBOX, "b", 60, 2);
    op_new(OP_SERIES, "v", NOW, 3)->known = 7;
    item_new(event_op("e", "x"), NOW, "");
    op_new(OP_TIMEBOX, "b", 60, 2);
    op_new(OP_SERIES, "v", NOW, 3);
    send_clean();
    assert_int_equal(g->f.cells[0].value, 3);
    assert_true(g->f.hashes[0].lock_granted);
    assert_int_equal(g->f.ops[1].value, 2);
    assert_int_equal(g->f.ops[4].value, 4);
    assert_int_equal(g->f.ops[5].value, 3);
    assert_false(g->f.ops[5].fresh); /* 6 after it: its sample stood */
    assert_new("11");
    redis_has("1", "GET tally:seq:shop:%s", g->w->life.id);
}

/* Refused at queue time, so nothing of the frame ran; EVALs alone, so that no other command answers for them. */
FRAME_TEST(test_refused)
{
    redis_do("CONFIG SET maxmemory 1");
    begin();
    op_new(OP_TIMEBOX, "b", 60, 2);
    send_and_wait();
    assert_int_equal(g->outcome, FRAME_REFUSED);
    assert_slice(buf_slice(&g->f.errors), "OOM command not allowed when used memory > 'maxmemory'.");
    redis_do("CONFIG SET maxmemory 0");
    redis_has("0", "EXISTS tb.b pv.b");
    send_applied();
    assert_int_equal(g->f.ops[0].value, 2);
}

/* A frame in doubt without cells has no values to read: it is answered all the same, and not inside the call. */
FRAME_TEST(test_values_of_ops_only)
{
    begin();
    op_new(OP_TIMEBOX, "b", 60, 2);
    redis_frames_values(&g->frames, &g->f);
    assert_int_equal(g->values, 0);
    WAIT_UNTIL(g->w, g->values == 1);
    send_applied();
}

/* What a feed cannot move is logged, at most once a second; known: of another type as well, once. */
static void fail_feeds(void *arg)
{
    got_open(NULL);
    redis_do("SET tb.b x");
    redis_do("SET known: x");
    for (int i = 0; i < 3; i++) {
        begin();
        op_new(OP_TIMEBOX, "b", 60, 2)->fed = true;
        op_new(OP_SERIES, "v", NOW, 2)->known = 1;
        send_applied();
    }
    got_close(NULL);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

UNIT(test_feed_errors_are_logged)
{
    struct child_end end = child_run(fail_feeds, NULL);
    assert_true(child_exited(&end));
    assert_int_equal(count(end.stderr_, "event=feed_failed name=b error=\"WRONGTYPE"), 1);
    assert_int_equal(count(end.stderr_, "event=frame_side key=known:"), 1);
}
