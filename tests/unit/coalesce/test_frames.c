/* test_frames.c - hits into frames and out of them: running values, order, ZADDs, locks, dues, errors. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"

/* --- running values and order --- */

TEST(several_clients_on_one_cell_each_get_their_own_value)
{
    round_of('z', "p1", "5", 100);
    assert_told('z', ":100\r\n");
    HIT('a', "p1", "5", 1);
    HIT('b', "p1", "5", 10);
    HIT('a', "p1", "6", 3);
    HIT('c', "p1", "5", -4);
    hit_goes('a', "p1", "5", 1);
    assert_int_equal(world->frame->cells_n, 2);
    assert_int_equal(world->frame->cells[0].delta, 8);
    assert_int_equal(world->frame->hashes_n, 1);
    assert_int_equal(hash_of(world->frame, "p1")->cells, 2);
    frame_applied();
    assert_told('a', ":101\r\n:3\r\n:108\r\n");
    assert_told('b', ":111\r\n");
    assert_told('c', ":107\r\n");
    assert_int_equal(row("p1", "5"), 108);
    assert_int_equal(world->accepted, 111);
}

TEST(the_same_field_of_two_hashes_is_two_cells)
{
    HIT('a', "p1", "5", 1);
    hit_goes('a', "p2", "5", 2);
    assert_int_equal(world->frame->cells_n, 2);
    frame_applied();
    assert_told('a', ":1\r\n:2\r\n");
}

TEST(nothing_is_said_before_the_frame_is_answered)
{
    HIT('a', "p1", "5", 1);
    assert_int_equal(client('a')->o.waiting, 1);
    turn();
    assert_did("F");
    assert_told('a', "");
    assert_int_equal(client('a')->o.waiting, 1);
    frame_applied();
    assert_did("a");
    assert_told('a', ":1\r\n");
    assert_int_equal(client('a')->o.waiting, 0);
    assert_true(coalesce_idle(world->c));
}

TEST(literals_keep_their_place)
{
    HIT('a', "p1", "5", 1);
    assert_int_equal(literal('a', "+PONG\r\n"), ADD_OK);
    HIT('a', "p1", "5", 1);
    assert_int_equal(literal('a', "$1\r\nx\r\n"), ADD_OK);
    turn_applied();
    assert_told('a', ":1\r\n+PONG\r\n:2\r\n$1\r\nx\r\n");
    assert_did("Fa"); /* told once, whatever it was told */
}

TEST(a_literal_behind_a_sent_frame_waits_for_it_and_then_goes_at_once)
{
    hit_goes('a', "p1", "5", 1);
    assert_int_equal(literal('a', "+PONG\r\n"), ADD_OK);
    turn();
    assert_did("F");
    assert_told('a', "");
    frame_applied();
    assert_told('a', ":1\r\n");
    assert_int_equal(client('a')->o.waiting, 1);
    turn();
    assert_told('a', "+PONG\r\n");
    assert_did("aa");
    assert_true(coalesce_idle(world->c));
}

TEST(who_has_gone_is_told_nothing_and_owes_nothing)
{
    HIT('a', "p1", "5", 1);
    hit_goes('b', "p1", "5", 1);
    client('a')->o.gone = true;
    frame_applied();
    assert_told('a', "");
    assert_int_equal(client('a')->o.waiting, 0);
    assert_told('b', ":2\r\n");
    assert_did("Fab"); /* its connection is told, so that it can free itself */
}

/* --- clients that want no replies --- */

static void hush(char letter, uint32_t n)
{
    coalesce_hush(world->c, &client(letter)->o, n);
}

TEST(hushed_hits_count_and_keep_their_place)
{
    int64_t hits = STAT_GET(hits);
    HIT('a', "p1", "5", 1);
    HIT('b', "p1", "5", 2);
    HIT('a', "p1", "5", 3);
    HIT('a', "p1", "6", 4);
    hush('a', 2);
    hush('a', 0);
    HIT('a', "p1", "5", 5);
    literal('a', "+PONG\r\n");
    assert_int_equal(client('a')->o.waiting, 5);
    turn_applied();
    assert_told('a', ":1\r\n:11\r\n+PONG\r\n");
    assert_told('b', ":3\r\n");
    assert_int_equal(row("p1", "5"), 11);
    assert_int_equal(row("p1", "6"), 4);
    assert_int_equal(client('a')->o.waiting, 0);
    assert_int_equal(STAT_GET(hits) - hits, 5);
}

TEST(hushed_hits_hear_no_error)
{
    int64_t refused = STAT_GET(hits_refused);
    HIT('a', "p1", "5", 1);
    hush('a', 1);
    hit_goes('b', "p1", "5", 1);
    frame_refused("OOM no");
    assert_told('a', "");
    assert_told('b', "-OOM no\r\n");
    assert_int_equal(STAT_GET(hits_refused) - refused, 2);
}

/* --- what the door refuses --- */

TEST(the_door_refuses)
{
    assert_int_equal(hit('a', "nothing:of:ours", "5", 1), ADD_NO_COUNTER);
    assert_int_equal(hit('a', "p1_00112233445566778899aabbccddeeff", "5", 1), ADD_NO_COUNTER);
    assert_int_equal(hit('a', "p1", "x", 1), ADD_FIELD);
    assert_int_equal(hit('a', "s1:v", "20140931", 1), ADD_FIELD);
    assert_int_equal(hit('a', "p1", "5", DELTA_MAX + 1), ADD_DELTA);
    assert_int_equal(hit('a', "p1", "5", -DELTA_MAX - 1), ADD_DELTA);
    assert_int_equal(hit('a', "p1", "5", INT64_MIN), ADD_DELTA);
    assert_int_equal(coalesce_try(world->c, SLICE("p1"), SLICE("5"), DELTA_MAX), ADD_OK);
    assert_int_equal(coalesce_try(world->c, SLICE("p1"), SLICE("5"), INT64_MIN), ADD_DELTA);
    assert_int_equal(coalesce_try(world->c, SLICE("p1"), SLICE("05"), 1), ADD_FIELD);
    assert_int_equal(coalesce_try(world->c, SLICE("q1"), SLICE("5"), 1), ADD_NO_COUNTER);
    assert_int_equal(client('a')->o.waiting, 0);
    turn();
    assert_did("");
}

TEST(while_the_link_is_down_hits_are_refused_at_once)
{
    cut();
    assert_int_equal(hit('a', "p1", "5", 1), ADD_DOWN);
    assert_string_equal(coalesce_down_why(world->c), WHY);
    assert_int_equal(client('a')->o.waiting, 0);
}

/* --- deltas --- */

TEST(the_greatest_deltas_add_up_without_overflow)
{
    uint32_t n = 0;
    while (hit('a', "p1", "5", DELTA_MAX) == ADD_OK)
        n++;
    assert_int_equal(n, 128); /* 2^60 */
    assert_int_equal(hit('a', "p1", "6", 0), ADD_FULL);
    turn();
    assert_int_equal(share("views"), INT64_C(1) << 60);
    frame_applied();
    buf_reset(&client('a')->o.out);
    HIT('a', "p1", "5", -DELTA_MAX); /* the next frame has room again */
}

/* Redis did not add a share, as the sum would overflow: the next frame has it, with its own, and after a refusal the one
 * after that. */
TEST(a_refused_share_is_in_the_next_frame)
{
    hit_goes('a', "p1", "5", 7);
    world->frame->shares[0].refused = true;
    frame_applied();
    hit_goes('a', "p1", "5", 2);
    assert_int_equal(share("views"), 9);
    frame_refused("OOM full");
    world->mono_ms += 1000;
    turn();
    assert_int_equal(share("views"), 7);
    frame_applied();
    assert_true(coalesce_idle(world->c));
}

/* The same weight again as a correction of the frame before: still no overflow in the shares. */
TEST(corrections_of_the_heaviest_frame_fit_into_the_next)
{
    while (hit('a', "p1", "5", DELTA_MAX) == ADD_OK)
        continue;
    turn();
    while (hit('a', "p1", "6", -DELTA_MAX) == ADD_OK)
        continue;
    frame_applied_but("5", "ERR increment or decrement would overflow");
    turn();
    assert_int_equal(share("views"), -(INT64_C(1) << 61));
    frame_refused("OOM full");
    world->mono_ms += 1000;
    turn();
    assert_int_equal(world->frame->cells_n, 0);
    assert_int_equal(share("views"), -(INT64_C(1) << 60));
    frame_applied();
    assert_int_equal(world->accepted, 0);
}

/* +10 and -10 fit together where +10 alone would not: both counted, and a value that no int64 holds is not
 * made up by wrapping round. */
TEST(a_running_value_beyond_int64_is_held_at_its_end)
{
    row_of(SLICE("p1"), SLICE("5"))->value = INT64_MAX - 5;
    HIT('a', "p1", "5", 10);
    round_of('b', "p1", "5", -10);
    assert_told('a', ":9223372036854775807\r\n");
    assert_told('b', ":9223372036854775802\r\n");
    row_of(SLICE("p1"), SLICE("6"))->value = INT64_MIN + 5;
    HIT('a', "p1", "6", -10);
    round_of('b', "p1", "6", 10);
    assert_told('a', ":-9223372036854775808\r\n");
}

/* --- ZADD, lock, due --- */

TEST(the_first_frame_of_a_hash_adds_it_to_the_index)
{
    hit_goes('a', "s1:v", "20140920", 1);
    assert_true(zadds("s1:v"));
    assert_int_equal(world->frame->dirty_ms, world->redis_ms);
    frame_applied();
    HIT('a', "s1:v", "20140920", 1);
    hit_goes('a', "s2:v", "20140920", 1);
    assert_false(zadds("s1:v"));
    assert_true(zadds("s2:v"));
    frame_applied();
}

TEST(the_lock_is_asked_for_until_it_is_known_to_be_held)
{
    world->pttl_ms = 5000;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_true(asks_lock("s1:v"));
    const struct frame_hash *h = hash_of(world->frame, "s1:v");
    assert_slice(slice_of(world->frame->bytes.p + h->lock_at, h->lock_n), "s1:sync");
    assert_int_equal(h->lock_s, 60);
    frame_applied(); /* another has it, for 5 s */
    assert_did("Fa");
    world->mono_ms += 4999;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_false(asks_lock("s1:v"));
    frame_applied();
    world->mono_ms += 1;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_true(asks_lock("s1:v"));
    frame_applied();
}

TEST(a_lock_of_unknown_life_is_asked_for_again)
{
    world->pttl_ms = -1;
    round_of('a', "s1:v", "20140920", 1);
    hit_goes('a', "s1:v", "20140920", 1);
    assert_true(asks_lock("s1:v"));
    frame_applied();
}

TEST(a_granted_lock_makes_due_once)
{
    world->grants = true;
    round_of('a', "s1:v", "20140920", 1);
    assert_did("F~s1:v a");
    world->mono_ms += 3600000;
    hit_goes('a', "s1:v", "20140920", 1);
    assert_false(asks_lock("s1:v")); /* due already */
    frame_applied();
    assert_did("Fa");
}

TEST(due_at_fifty_or_more_by_sevens)
{
    for (int i = 0; i < 7; i++)
        round_of('a', "s1:v", "20140920", 7);
    assert_null(strpbrk(world->did, "~^"));
    forget_did();
    round_of('a', "s1:v", "20140920", 7); /* 56 */
    assert_did("F^s1:v a");
    round_of('a', "s1:v", "20140920", 7);
    assert_did("Fa");
}

/* What others counted shows in the reply alone; what left again (-n) only in what we sent. */
TEST(due_by_the_reply_and_by_what_was_sent)
{
    row_of(SLICE("s1:v"), SLICE("20140920"))->value = 49;
    round_of('a', "s1:v", "20140920", 1);
    assert_did("F^s1:v a");
    for (int i = 0; i < 49; i++)
        round_of('a', "s2:v", "20140920", i % 2 == 0 ? 1 : -1);
    assert_null(strpbrk(world->did, "~^"));
    forget_did();
    round_of('a', "s2:v", "20140920", -1);
    assert_did("F^s2:v a");
}

TEST(hits_that_failed_do_not_make_due)
{
    hit_goes('a', "s1:v", "20140920", 60);
    frame_applied_but("20140920", "WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_did("Fa");
}

/* --- owed ZADDs --- */

TEST(a_fresh_hash_without_its_zadd_owes_one_that_goes_also_without_hits)
{
    round_of('a', "p1", "5", 2);
    row_of(SLICE("p1"), SLICE("5"))->value = 0; /* another process claimed it */
    hit_goes('a', "p1", "5", 3);
    assert_false(zadds("p1"));
    frame_applied();
    assert_false(coalesce_idle(world->c));
    forget_did();
    turn();
    assert_did("F");
    assert_int_equal(world->frame->cells_n, 0);
    assert_int_equal(world->frame->shares_n, 0);
    assert_true(zadds("p1"));
    assert_false(asks_lock("p1"));
    frame_applied();
    assert_true(coalesce_idle(world->c));
    turn();
    assert_did("");
}

TEST(a_refused_owed_zadd_is_owed_again_and_a_claim_does_not_pay_it)
{
    round_of('a', "p1", "5", 2);
    row_of(SLICE("p1"), SLICE("5"))->value = 0;
    round_of('a', "p1", "5", 3);
    turn();
    assert_true(hash_of(world->frame, "p1")->owed);
    frame_refused("OOM full");
    assert_false(coalesce_idle(world->c));
    struct test_claim t;
    claim_keys(&t, 1, "p1", NULL);
    claim_answered(CLAIM_EMPTY);
    world->mono_ms += 1000;
    turn();
    assert_true(hash_of(world->frame, "p1")->owed);
    frame_applied();
    assert_true(coalesce_idle(world->c));
}

/* A full Redis also refuses what no client waits for; sending it again at once would never end. */
TEST(what_no_client_waits_for_is_not_sent_again_at_once)
{
    round_of('a', "p1", "5", 2);
    row_of(SLICE("p1"), SLICE("5"))->value = 0;
    round_of('a', "p1", "5", 3);
    turn_refused("OOM full");
    forget_did();
    turn();
    turn();
    assert_did("");
    HIT('a', "p2", "5", 1); /* hits take it with them */
    turn();
    assert_true(hash_of(world->frame, "p1")->owed);
    frame_refused("OOM full");
    forget_did();
    world->mono_ms += 100;
    turn();
    assert_did("F");
    frame_applied();
}

/* --- errors --- */

TEST(a_refused_frame_fails_each_client_with_its_exact_line)
{
    HIT('a', "p1", "5", 1);
    literal('a', "+PONG\r\n");
    hit_goes('b', "p1", "5", 1);
    frame_refused("OOM command not allowed when used memory > 'maxmemory'.");
    assert_told('a', "-OOM command not allowed when used memory > 'maxmemory'.\r\n+PONG\r\n");
    assert_told('b', "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    assert_int_equal(row("p1", "5"), 0);
    assert_int_equal(world->accepted, 0);
    assert_true(coalesce_idle(world->c));
}

TEST(a_refused_frame_takes_its_zadds_back_and_no_others)
{
    round_of('a', "p1", "5", 1);
    HIT('a', "p1", "5", 1);
    hit_goes('a', "p2", "5", 1);
    frame_refused("OOM full");
    HIT('a', "p1", "5", 1);
    hit_goes('a', "p2", "5", 1);
    assert_false(zadds("p1"));
    assert_true(zadds("p2"));
    frame_applied();
}

TEST(an_error_on_a_cell_fails_its_clients_alone_and_its_share_goes_back)
{
    HIT('a', "p1", "5", 1);
    HIT('b', "p1", "6", 2);
    hit_goes('c', "p1", "5", 4);
    assert_int_equal(share("views"), 7);
    frame_applied_but("5", "WRONGTYPE no hash");
    assert_told('a', "-WRONGTYPE no hash\r\n");
    assert_told('b', ":2\r\n");
    assert_told('c', "-WRONGTYPE no hash\r\n");
    assert_int_equal(world->accepted, 7);
    turn(); /* also without hits */
    assert_int_equal(share("views"), -5);
    assert_int_equal(world->frame->cells_n, 0);
    frame_applied();
    assert_int_equal(world->accepted, 2);
    assert_true(coalesce_idle(world->c));
}

/* The answers that a cut connection did not get: those of hits that were counted, and no others. */
TEST(counted_are_hits_that_were)
{
    HIT('a', "p1", "5", 1);
    HIT('a', "p1", "6", 2);
    HIT('a', "p1", "6", 2);
    assert_int_equal(literal('a', "+PONG\r\n"), ADD_OK);
    turn();
    frame_applied_but("5", "WRONGTYPE no hash");
    assert_int_equal(client('a')->o.counted, 2);
    turn_applied();
    hit_goes('a', "p1", "6", 3);
    frame_refused("OOM full");
    assert_int_equal(client('a')->o.counted, 2);
}

/* --- the heap and the numbers --- */

TEST(a_warm_hit_allocates_nothing)
{
    char field[24];
    for (int round = 0; round < 200; round++) {
        if (round == 100) world->allocations = 0;
        for (int i = 0; i < 50; i++) {
            snprintf(field, sizeof field, "%d", i);
            HIT((char)('a' + i % 26), "p1", field, 1);
            HIT((char)('a' + i % 7), "s1:v", "20140920", 1);
        }
        literal('a', "+PONG\r\n");
        turn_applied();
        for (int i = 0; i < 26; i++)
            buf_reset(&client((char)('a' + i))->o.out);
    }
    assert_int_equal(world->allocations, 0);
}

/* A frame forgets the cells of the one before, whichever of their hash they were. */
TEST(a_hash_may_have_many_cells)
{
    for (int i = 1; i <= 5; i++) {
        char field[12];
        for (int j = 0; j < 80 * i; j++) {
            snprintf(field, sizeof field, "%d", 1 + j % (40 * i));
            HIT('a', "p1", field, 1);
        }
        turn();
        assert_int_equal(world->frame->hashes_n, 1);
        assert_int_equal(world->frame->cells_n, 40 * i);
        for (int j = 0; j < 40 * i; j++)
            assert_int_equal(world->frame->cells[j].delta, 2);
        frame_applied();
        assert_true(slice_ends(buf_slice(&client('a')->o.out), SLICE(":2\r\n")));
        buf_reset(&client('a')->o.out);
    }
}

static enum add_result today(const char *key, struct zone_view *v, int64_t at_s)
{
    struct buf head = {0};
    put_bulk(&head, slice_str(key));
    struct coalesce_hit h = {.bytes = {.raw = buf_slice(&head)}};
    h.bytes.key = slice_of(head.p + head.n - 2 - strlen(key), strlen(key));
    coalesce_look(world->c, &h);
    enum add_result got = coalesce_take_today(world->c, &client('a')->o, &h, v, at_s);
    buf_free(&head);
    return got;
}

/* The entry knows its store's zone, until another table of zones is published. */
TEST(a_hit_of_today_is_one_on_the_day_in_its_stores_zone)
{
    const int64_t noon = INT64_C(1775304000); /* 2026-04-04 12:00 UTC, the next day in Auckland */
    struct zones zones;
    struct zone_view view;
    struct zone_table *first = zone_table_create(NULL, NULL), *second = zone_table_create(NULL, NULL);
    zone_table_add(first, SLICE("2"), SLICE("Pacific/Auckland"));
    zone_table_add(second, SLICE("1"), SLICE("Pacific/Auckland"));
    zones_init(&zones, first, true);
    zone_view_init(&view, &zones);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(today("s1:v", &view, noon), ADD_OK);
        assert_int_equal(today("s2:v", &view, noon), ADD_OK);
    }
    HIT('a', "s1:v", "20260404", 5);
    assert_int_equal(today("x", &view, noon), ADD_NO_COUNTER);
    assert_int_equal(today("p1", &view, noon), ADD_FIELD);
    turn();
    assert_int_equal(world->frame->cells_n, 2);
    assert_true(slice_eq(FRAME_RAW(world->frame, &world->frame->cells[0]),
                         SLICE("$4\r\ns1:v\r\n$8\r\n20260404\r\n")));
    frame_applied();
    assert_told('a', ":1\r\n:1\r\n:2\r\n:2\r\n:7\r\n");
    assert_int_equal(row("s2:v", "20260405"), 2);
    zones_publish(&zones, second);
    zone_view_refresh(&view);
    assert_int_equal(today("s1:v", &view, noon), ADD_OK);
    assert_int_equal(today("s2:v", &view, noon), ADD_OK);
    turn_applied();
    assert_int_equal(row("s1:v", "20260405"), 1);
    assert_int_equal(row("s2:v", "20260404"), 1);
    zone_view_close(&view);
    zones_close(&zones);
}

/* From the turn in which it came to its answer. */
TEST(hits_are_timed)
{
    uint64_t before = histogram_count(&latencies.hit), sum_us = latencies.hit.sum_us;
    HIT('a', "p1", "1", 1);
    hit_goes('b', "p1", "1", 1);
    world->mono_ms += 2;
    HIT('c', "p1", "1", 1); /* waits for the next frame */
    turn();
    world->mono_ms += 3;
    frame_applied();
    assert_int_equal(histogram_count(&latencies.hit) - before, 2);
    assert_int_equal(latencies.hit.sum_us - sum_us, 2 * 5000);
    turn();
    world->mono_ms += 1;
    frame_applied();
    assert_int_equal(histogram_count(&latencies.hit) - before, 3);
    assert_int_equal(latencies.hit.sum_us - sum_us, 2 * 5000 + 4000);
}
