/* The ops of an answered frame, sent again to a Redis that lost it: what is there then, on a real server. */
#include "base/heap.h"
#include "series/frame.h"
#include "unit/redis/ops_world.h"

static struct kept_frame kept_of(bool told)
{
    struct kept_frame k = {.seq = g->f.seq, .dirty_ms = g->f.dirty_ms};
    for (uint32_t i = 0; i < g->f.ops_n; i++)
        kept_put_op(&k.records, &g->f, &g->f.ops[i], told);
    return k;
}

static struct frame_op *numbered(int64_t at, int64_t number)
{
    struct frame_op *op = event_op("e", "x");
    op->which = EVENT_GIVEN;
    uint32_t item = frame_add_item(&g->f, op, at, SLICE(""));
    g->f.items[item].value = number;
    return op;
}

/* Whatever way they went, they go straight now, with their names and places. */
FRAME_TEST(test_sums)
{
    begin();
    op_new(OP_SERIES, "hits", NOW, 5)->silent = true;
    op_new(OP_TIMEBOX, "b", 120, 7)->stands = true;
    op_new(OP_SERIES, "owed", NOW, 0)->owed = true;
    op_new(OP_EVENT, "fed", NOW, 3)->fed = true;
    struct kept_frame k = kept_of(true);
    replay(&k);
    assert_int_equal(g->outcome, FRAME_APPLIED);
    assert_int_equal(k.failed, 0);
    redis_has("1700000000 5", "HGETALL count:1:hits");
    redis_has("1:hits 1:owed 3600:hits 3600:owed 60:hits 60:owed", "ZRANGE known: 0 -1");
    redis_has("120 7", "ZRANGE pv.b 0 -1 WITHSCORES");
    redis_has("120 120", "ZRANGE tb.b 0 -1 WITHSCORES");
    redis_has("1 1700000000 2 1700000000 3 1700000000", "ZRANGE fed: 0 -1 WITHSCORES");
    redis_has("1", "GET tally:seq:shop:%s", g->w->life.id);
    redis_do("SET count:60:hits x");
    replay(&k);
    assert_int_equal(k.failed, 1);
    redis_has("10", "HGET count:1:hits 1700000000");
    buf_free(&k.records);
}

/* A number above the ticker is free; one of a lease that Redis knows is ours; else another is drawn. */
FRAME_TEST(test_numbers)
{
    begin();
    numbered(NOW, 7)->lease_seq = 4;
    struct kept_frame k = kept_of(true);
    replay(&k);
    assert_int_equal(k.failed + k.renumbered, 0);
    redis_has("7 1700000000", "ZRANGE e:x 0 -1 WITHSCORES");
    redis_has("7", "GET e:index");
    redis_has("e:x", "ZRANGE tally:events 0 -1");
    replay(&k); /* as if another one had been given it */
    assert_int_equal(k.renumbered, 1);
    redis_has("7 8", "ZRANGE e:x 0 -1");
    redis_do("DEL e:x");
    replay(&k);
    assert_int_equal(k.renumbered, 1);
    redis_has("9", "ZRANGE e:x 0 -1");
    redis_do("DEL e:x");
    k.found = 4;
    replay(&k);
    assert_int_equal(k.renumbered, 0);
    redis_has("7", "ZRANGE e:x 0 -1");
    redis_has("9", "GET e:index");
    redis_do("DEL e:x");
    redis_do("SET e:x other");
    replay(&k);
    assert_int_equal(k.failed, 1);
    assert_int_equal(k.renumbered, 0);
    buf_free(&k.records);
}

/* Drawn numbers are kept when clients were told of them; own ids stay as they were given. */
FRAME_TEST(test_drawn)
{
    begin();
    struct frame_op *op = event_op("e", "x");
    item_new(op, NOW, "");
    item_new(op, NOW + 1, "mine");
    item_new(op, NOW + 2, "");
    item_new(op, NOW + 3, "40");
    op->has_numbers = true;
    send_applied();
    redis_has("1 mine 2 40", "ZRANGE e:x 0 -1");
    struct kept_frame k = kept_of(true), lost = kept_of(false);
    redis_do("FLUSHALL");
    replay(&k);
    redis_has("1 mine 2 40", "ZRANGE e:x 0 -1");
    assert_int_equal(k.renumbered, 0);
    redis_do("FLUSHALL");
    redis_do("SET e:index 5");
    replay(&lost);
    assert_int_equal(lost.failed + lost.renumbered, 0);
    redis_has("6 mine 7 40", "ZRANGE e:x 0 -1");
    buf_free(&k.records);
    buf_free(&lost.records);
}

FRAME_TEST(test_what_was_refused_is_left_out)
{
    redis_do("HSET tally:leased e:x 50");
    begin();
    struct frame_op *op = event_op("e", "x");
    op->has_numbers = true;
    item_new(op, NOW, "40");
    send_applied();
    assert_int_equal(g->f.items[0].value, EVENT_REFUSED);
    struct kept_frame k = kept_of(true);
    redis_do("FLUSHALL");
    replay(&k);
    redis_has("0", "EXISTS e:x");
    buf_free(&k.records);
}

/* Another tallyd has drawn a lease since, of which the client's own number is one. */
FRAME_TEST(test_what_is_refused_now_is_told)
{
    begin();
    struct frame_op *op = event_op("e", "x");
    op->has_numbers = true;
    item_new(op, NOW, "40");
    item_new(op, NOW, "41");
    item_new(op, NOW, "");
    send_applied();
    struct kept_frame k = kept_of(true);
    redis_do("FLUSHALL");
    redis_do("HSET tally:leased e:x 40");
    redis_do("SET e:index 40");
    replay(&k);
    assert_int_equal(k.failed, 1);
    assert_int_equal(k.renumbered, 1);
    buf_free(&k.records);
}
