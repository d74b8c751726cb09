/* test_ops.c - series, timeboxes, events and visitors in frames: what is one op, what clients are told, feeds, `known:`,
 * bounds, and cuts. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"

static void event(char letter, const char *name, const char *type, const char *id, int64_t at)
{
    struct coalesce_op o = {
        .kind = OP_EVENT, .name = slice_str(name), .type = slice_str(type), .id = slice_str(id), .at = at};
    assert_int_equal(op(letter, &o), ADD_OK);
}
static void visit(char letter, const char *name, int64_t day, int64_t visitor, const char *text)
{
    struct coalesce_op o = {
        .kind = OP_UNIQ, .name = slice_str(name), .at = day, .visitor = visitor, .id = slice_str(text)};
    assert_int_equal(op(letter, &o), ADD_OK);
}

/* The op of the frame that is out on this name and time; there is one. */
static const struct frame_op *sent_at(const char *name, int64_t at)
{
    const struct frame *f = world->frame;
    const struct frame_op *found = NULL;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        if (!slice_eq(FRAME_NAME(f, &f->ops[i]), slice_str(name)) || f->ops[i].which != at) continue;
        assert_null(found);
        found = &f->ops[i];
    }
    assert_non_null(found);
    return found;
}

/* --- what is one op, and what clients are told --- */

TEST(series_of_one_second_are_one_op)
{
    series('a', "views", 2, NOW);
    series('b', "views", 3, COALESCE_NOW);
    series('a', "views", 7, NOW - 1);
    series('a', "clicks", 1, NOW);
    turn();
    assert_int_equal(world->frame->ops_n, 3);
    assert_int_equal(sent_at("views", NOW)->delta, 5);
    frame_applied();
    assert_told('a', ":2\r\n:2\r\n:2\r\n");
    assert_told('b', ":2\r\n");
    assert_int_equal(row("views", "1:1700000000"), 5);
    assert_int_equal(row("views", "1:1699999999"), 7);
    assert_int_equal(row("views", "60:1699999980"), 12);
    assert_true(coalesce_idle(world->c));
}

/* Redis' clock is asked once a turn, however many hits came. */
TEST(what_comes_in_one_turn_has_one_second)
{
    for (int round = 0; round < 2; round++) {
        series('a', "views", 1, COALESCE_NOW);
        world->redis_ms += 1000;
        series('a', "views", 1, COALESCE_NOW);
        turn();
        assert_int_equal(world->frame->ops_n, 1);
        assert_int_equal(world->frame->ops[0].which, NOW + round);
        frame_applied();
    }
}

TEST(a_late_hit_is_told_how_many_precisions_keep_it)
{
    series('a', "views", 1, NOW - 200);
    series('a', "views", 1, NOW - 200000);
    turn_applied();
    assert_told('a', ":1\r\n:0\r\n");
}

TEST(each_hit_on_a_box_gets_its_own_running_value)
{
    box('z', "b", 100, NOW);
    turn_applied();
    assert_told('z', ":100\r\n");
    box('a', "b", 1, NOW);
    box('b', "b", 10, NOW - 5);
    box('a', "b", 5, NOW - 60);
    box('a', "b", -4, NOW);
    turn();
    assert_int_equal(world->frame->ops_n, 2);
    assert_int_equal(sent_at("b", NOW - NOW % 60)->delta, 7);
    frame_applied();
    assert_told('a', ":101\r\n:5\r\n:107\r\n");
    assert_told('b', ":111\r\n");
}

TEST(hits_on_a_bucket_too_old_are_told_nothing_stands)
{
    box('a', "b", 3, NOW - 1000);
    box('b', "b", 4, NOW - 1000);
    turn_applied();
    assert_told('a', ":0\r\n");
    assert_told('b', ":0\r\n");
}

TEST(events_get_their_ids_in_the_order_of_arrival)
{
    event('a', "blob", "submit", "", NOW);
    event('b', "blob", "submit", "mine", NOW - 3);
    event('b', "blob", "submit", "", NOW - 3);
    event('a', "blob", "delete", "", NOW);
    turn();
    assert_int_equal(world->frame->ops_n, 2);
    assert_int_equal(world->frame->ops[0].items_n, 3);
    assert_int_equal(world->frame->items[world->frame->ops[0].last_item].at, NOW - 3);
    frame_applied();
    assert_told('a', "$1\r\n1\r\n$2\r\n35\r\n"); /* after the other's lease */
    assert_told('b', "$4\r\nmine\r\n$1\r\n2\r\n");
}

TEST(a_name_and_a_type_are_not_one_text)
{
    event('a', "ab", "c", "", NOW);
    event('a', "a", "bc", "", NOW);
    turn();
    assert_int_equal(world->frame->ops_n, 2);
}

TEST(a_visitor_is_new_once)
{
    visit('a', "w", 20140920, 5, "");
    visit('b', "w", 20140920, 5, "");
    visit('a', "w", 20140920, 0, "bob");
    visit('a', "w", 20140921, 5, "");
    turn();
    assert_int_equal(world->frame->ops_n, 2);
    assert_int_equal(world->frame->items[world->frame->ops[0].last_item].at, -1);
    assert_null(world->frame->ops[0].counter);
    frame_applied();
    assert_told('a', ":1\r\n:1\r\n:1\r\n");
    assert_told('b', ":0\r\n");
}

TEST(visitors_of_users_are_apart)
{
    static const char *const users[] = {"1", "2", "1", ""};
    for (size_t i = 0; i < 4; i++) {
        struct coalesce_op o = {
            .kind = OP_UNIQ, .name = SLICE("w"), .at = 20140920, .visitor = 5, .user = slice_str(users[i])};
        assert_int_equal(op('a', &o), ADD_OK);
    }
    turn();
    const struct frame *f = world->frame;
    assert_int_equal(f->ops_n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_slice(FRAME_TEXT(f, f->ops[i].user_at, f->ops[i].user_n), i == 2 ? "" : users[i]);
    frame_applied();
    assert_told('a', ":1\r\n:0\r\n:0\r\n:0\r\n");
}

TEST(kinds_do_not_mix)
{
    series('a', "x", 1, NOW);
    box('a', "x", 1, NOW);
    event('a', "x", "", "", NOW);
    visit('a', "x", NOW, 1, "");
    turn();
    assert_int_equal(world->frame->ops_n, 4);
    frame_applied();
    assert_told('a', ":2\r\n:1\r\n$1\r\n1\r\n:1\r\n");
}

TEST(hits_literals_and_ops_keep_the_order_of_a_client)
{
    HIT('a', "p1", "5", 7);
    box('a', "b", 3, NOW);
    assert_int_equal(literal('a', "+PONG\r\n"), ADD_OK);
    event('a', "e", "t", "mine", NOW);
    round_of('a', "p1", "5", 1);
    assert_told('a', ":7\r\n:3\r\n+PONG\r\n$4\r\nmine\r\n:8\r\n");
}

TEST(an_error_on_an_op_fails_its_clients_alone)
{
    HIT('a', "p1", "5", 1);
    event('a', "e", "t", "", NOW);
    event('b', "e", "t", "", NOW);
    box('a', "b", 1, NOW);
    turn();
    frame_applied_but_op("e", "WRONGTYPE Operation against a key");
    assert_told('a', ":1\r\n-WRONGTYPE Operation against a key\r\n:1\r\n");
    assert_told('b', "-WRONGTYPE Operation against a key\r\n");
}

/* --- visitors that move a counter --- */

TEST(new_visitors_move_the_counter_of_their_store)
{
    visit('a', "v7", 20140920, 1, "");
    turn();
    const struct frame_op *sent = &world->frame->ops[0];
    assert_ptr_equal(sent->counter, &counters_all[0]);
    assert_true(slice_eq(FRAME_TEXT(world->frame, sent->key_at, sent->key_n), SLICE("s7:v")));
    assert_true(asks_lock("s7:v"));
    assert_false(zadds("s7:v"));
    world->grants = true;
    forget_did();
    frame_applied();
    assert_did("~s7:v a");
    assert_int_equal(row("s7:v", "20140920"), 1);
    visit('a', "vx", 20140920, 1, ""); /* no store */
    turn();
    assert_null(world->frame->ops[0].counter);
}

TEST(fifty_new_visitors_make_due_and_known_ones_do_not)
{
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < 49; i++)
            visit('a', "v7", 20140920, i, "");
        turn();
        forget_did();
        frame_applied();
        assert_did("a");
    }
    visit('a', "v7", 20140920, 49, "");
    turn();
    forget_did();
    frame_applied();
    assert_did("^s7:v a");
}

/* --- bounds --- */

TEST(ops_count_against_the_bound_of_a_frame)
{
    reopen_with(config.cells_max = 3); /* two series of two precisions count as one */
    struct coalesce_op more = {.kind = OP_SERIES, .name = SLICE("s3"), .n = 1, .at = NOW};
    bool never;
    series('a', "s1", 1, NOW);
    series('a', "s2", 1, NOW);
    assert_true(coalesce_room(world->c, coalesce_op_cells(world->c, OP_SERIES), 10, &never));
    HIT('a', "p1", "5", 1);
    HIT('a', "p1", "6", 1);
    assert_int_equal(op('a', &more), ADD_FULL);
    assert_false(coalesce_room(world->c, coalesce_op_cells(world->c, OP_SERIES), 10, &never));
    assert_int_equal(hit('a', "p1", "7", 1), ADD_FULL);
    series('a', "s1", 5, NOW); /* costs Redis nothing more */
    hit_goes('a', "p1", "6", 1);
    assert_int_equal(op('a', &more), ADD_OK);
    frame_applied();
    assert_told('a', ":2\r\n:2\r\n:1\r\n:1\r\n:2\r\n:2\r\n");
}

TEST(each_event_and_each_visitor_counts)
{
    reopen_with(config.cells_max = 3);
    struct coalesce_op more = {.kind = OP_EVENT, .name = SLICE("e"), .type = SLICE("t"), .at = NOW};
    event('a', "e", "t", "", NOW);
    visit('a', "w", 20140920, 1, "");
    assert_int_equal(op('a', &more), ADD_FULL);
    coalesce_park(world->c, &client('a')->o);
    forget_did();
    turn();
    assert_did("FA");
}

TEST(the_door_refuses_what_could_overflow_and_what_cannot_be_sent)
{
    struct coalesce_op o = {.kind = OP_TIMEBOX, .name = SLICE("b"), .n = DELTA_MAX + 1, .at = NOW};
    assert_int_equal(op('a', &o), ADD_DELTA);
    o.n = DELTA_MAX;
    cut();
    assert_int_equal(op('a', &o), ADD_DOWN);
    assert_int_equal(client('a')->o.waiting, 0);
    assert_true(coalesce_idle(world->c));
}

TEST(a_warm_op_allocates_nothing)
{
    uint64_t before = 0;
    for (int round = 0; round < 20; round++) {
        if (round == 10) before = world->allocations;
        for (char name[] = "s0"; name[1] <= '4'; name[1]++) { /* too few for a journal */
            series('a', name, 1, NOW + round);
            box('a', name, 1, NOW);
            event('a', name, "t", "", NOW);
            visit('a', name, 20140920, round, "");
        }
        turn();
        world->rows_n = 0;
        frame_applied();
        buf_reset(&client('a')->o.out);
    }
    assert_int_equal(world->allocations, before);
}

/* --- feeds --- */

static const struct counter feeding[] = {
    {.name = {"pages", 5},
     .key = {{"s", 1}, {":pages", 6}, true, NULL},
     .lock = {{"lock:", 5}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = INT64_MAX,
     .every_s = 10,
     .feeds = {[FEED_SERIES] = {{"s", 1}, {":views", 6}, true, NULL},
               [FEED_TIMEBOX] = {{"all", 3}, {"", 0}, false, NULL}}},
    {.name = {"signs", 5},
     .key = {{"g", 1}, {"", 0}, true, NULL},
     .lock = {{"lg", 2}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = INT64_MAX,
     .every_s = 10,
     .feeds = {[FEED_EVENT] = {{"g", 1}, {":sign", 5}, true, NULL}}},
};
static const struct counters counters_feeding = {
    .all = (struct counter *)feeding, .n = 2, .ops = &limits_two};

static void feeding_open(uint32_t cells_max)
{
    struct coalesce_config config = coalesce_config_default;
    config.cells_max = cells_max;
    world_close(NULL);
    world_make_of(&config, &counters_feeding);
    link_ready(RUN_A, 7);
    forget_did();
}

TEST(a_hit_feeds_in_the_same_frame)
{
    feeding_open(100);
    HIT('a', "s1:pages", "5", 2);
    HIT('b', "s1:pages", "5", 1);
    HIT('b', "s1:pages", "6", 10);
    HIT('a', "s2:pages", "5", 100);
    HIT('a', "s3:pages", "5", 4);
    HIT('a', "s3:pages", "6", -4);
    world->redis_ms += 7000;
    turn();
    assert_int_equal(world->frame->ops_n, 3);
    assert_int_equal(sent_at("s1:views", NOW + 7)->delta, 13);
    assert_int_equal(sent_at("s2:views", NOW + 7)->delta, 100);
    assert_int_equal(sent_at("all", NOW - NOW % 60)->delta, 113);
    assert_true(world->frame->ops[0].fed);
    frame_applied();
    assert_told('a', ":2\r\n:100\r\n:4\r\n:-4\r\n");
    assert_told('b', ":3\r\n:10\r\n");
    assert_int_equal(row("s1:views", "1:1700000007"), 13);
    assert_true(coalesce_idle(world->c));
}

TEST(each_hit_is_an_event)
{
    feeding_open(100);
    HIT('a', "g1", "5", 20);
    HIT('a', "g1", "5", -20);
    hit_goes('a', "g1", "6", 1);
    assert_int_equal(world->frame->ops_n, 1);
    const struct frame_op *sent = sent_at("g1", NOW);
    assert_true(slice_eq(FRAME_TYPE(world->frame, sent), SLICE("sign")));
    assert_int_equal(sent->delta, 3);
    assert_int_equal(sent->items_n, 0);
    frame_applied();
    assert_int_equal(world->ticker, 3);
}

TEST(hits_that_are_events_are_bounded_and_others_are_not)
{
    feeding_open(3);
    HIT('a', "g1", "5", 1);
    for (int i = 0; i < 20; i++)
        HIT('a', "s1:pages", "5", 1);
    HIT('a', "g1", "5", 1);
    assert_int_equal(hit('a', "g1", "5", 1), ADD_FULL);
    HIT('a', "s1:pages", "5", 1);
}

TEST(a_feed_is_not_shared_with_clients)
{
    feeding_open(100);
    box('a', "all", 1, NOW);
    hit_goes('a', "s1:pages", "5", 5);
    assert_int_equal(world->frame->ops_n, 3);
    frame_applied();
    assert_told('a', ":1\r\n:5\r\n");
    assert_int_equal(row("all", "1699999980"), 6);
}

TEST(what_is_refused_feeds_nothing)
{
    feeding_open(100);
    hit_goes('a', "s1:pages", "5", 5);
    frame_refused("OOM full");
    assert_told('a', "-OOM full\r\n");
    hit_goes('a', "s1:pages", "5", 1);
    assert_int_equal(sent_at("s1:views", NOW)->delta, 1);
}

/* --- known: --- */

static uint64_t known_of(const char *name, int64_t at)
{
    series('a', name, 1, at);
    turn();
    uint64_t known = sent_at(name, at)->known;
    frame_applied();
    return known;
}

TEST(a_new_slot_is_made_known_and_an_old_one_is_not)
{
    assert_int_equal(known_of("s", NOW), 3);
    assert_int_equal(known_of("s", NOW), 0);
    assert_int_equal(known_of("s", NOW + 1), 1);
    assert_int_equal(known_of("t", NOW + 1), 3);
    assert_int_equal(known_of("s", NOW + 60), 3);
    assert_int_equal(known_of("s", NOW), 3);
    assert_true(coalesce_idle(world->c));
}

TEST(ops_of_one_frame_are_known_by_the_one_before)
{
    series('a', "s", 1, NOW);
    series('a', "s", 1, NOW + 1);
    turn();
    assert_int_equal(sent_at("s", NOW)->known, 3);
    assert_int_equal(sent_at("s", NOW + 1)->known, 1);
}

TEST(more_series_than_are_remembered_cost_their_zadds)
{
    reopen_with(config.series_max = 1);
    for (char name[] = "a"; name[0] <= 'h'; name[0]++)
        assert_int_equal(known_of(name, NOW + (name[0] - 'a')), 3);
    assert_int_equal(known_of("h", NOW + 7), 0);
    assert_int_equal(known_of("a", NOW), 3);
}

/* --- buckets that exist --- */

#define BUCKET (NOW - NOW % 60)

/* Does a hit on the bucket go alone? It is answered. */
static bool stands(const char *name, int64_t n, int64_t at)
{
    box('z', name, n, at);
    turn();
    bool alone = sent_at(name, at - at % 60)->stands;
    frame_applied();
    return alone;
}

TEST(a_bucket_that_stood_is_hit_alone)
{
    assert_false(stands("b", 1, NOW));
    assert_true(stands("b", 2, NOW));
    assert_true(stands("b", 0, NOW + 20));
    assert_false(stands("b", 1, NOW + 60));
    assert_false(stands("c", 1, NOW));
    assert_told('z', ":1\r\n:3\r\n:3\r\n:1\r\n:1\r\n");
    assert_true(coalesce_idle(world->c));
}

TEST(one_that_newer_ones_may_have_pushed_out_is_not)
{
    assert_false(stands("b", 1, NOW - 120));
    assert_true(stands("b", 1, NOW - 120)); /* two newer ones, one for the clocks, and itself are four */
    world->redis_ms += 60000;
    assert_false(stands("b", 1, NOW - 120));
}

TEST(nor_one_too_old)
{
    assert_false(stands("b", 1, NOW - 1000));
    assert_false(stands("b", 1, NOW - 1000));
    assert_told('z', ":0\r\n:0\r\n");
}

TEST(sums_that_come_near_what_a_double_holds_go_by_the_script)
{
    assert_false(stands("b", 1, NOW));
    assert_false(stands("b", INT64_C(1) << 51, NOW)); /* such hits never go alone */
    assert_false(stands("b", 1, NOW));                /* nor hits on such a sum */
    assert_false(stands("b", -1000, NOW));
    assert_true(stands("b", 1, NOW));
    assert_true(stands("b", (INT64_C(1) << 51) - 1, NOW));
    assert_false(stands("b", 1, NOW));
}

TEST(an_error_forgets_that_a_bucket_stands)
{
    stands("b", 1, NOW);
    box('a', "b", 1, NOW);
    turn();
    assert_true(sent_at("b", BUCKET)->stands);
    frame_applied_but_op("b", "WRONGTYPE Operation against a key");
    assert_told('a', "-WRONGTYPE Operation against a key\r\n");
    assert_false(stands("b", 1, NOW));
}

/* --- cuts --- */

static void sent_all_kinds(void)
{
    HIT('a', "p1", "5", 1);
    series('a', "s", 1, NOW);
    box('a', "b", 1, NOW);
    event('a', "e", "t", "", NOW);
    visit('a', "v7", 20140920, 1, "");
    turn();
    forget_did();
}

TEST(a_frame_found_applied_has_lost_what_ops_answered)
{
    sent_all_kinds();
    redis_runs(world->frame);
    cut();
    link_ready(RUN_B, 8);
    assert_null(world->frame);
    values_read();
    assert_told('a', ":1\r\n:2\r\n" LOST LOST LOST);
    turn();
    assert_int_equal(row("b", "1699999980"), 1);
    assert_int_equal(world->ticker, 33); /* with the lease, which has no owner now */
}

TEST(so_has_one_without_cells)
{
    box('a', "b", 1, NOW);
    series('b', "s", 1, NOW - 200);
    turn_ran_cut();
    forget_did();
    link_ready(RUN_B, 8);
    assert_did("Lab");
    assert_told('a', LOST);
    assert_told('b', ":1\r\n");
    assert_true(coalesce_idle(world->c));
}

TEST(ops_not_sent_yet_fail_at_once)
{
    series('a', "s", 1, NOW);
    event('b', "e", "t", "", NOW);
    cut();
    assert_told('a', REFUSED "\r\n");
    assert_told('b', REFUSED "\r\n");
    link_ready(RUN_B, 8);
    nothing_goes();
    assert_int_equal(known_of("s", NOW), 3);
}
