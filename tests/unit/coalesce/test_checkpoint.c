/* test_checkpoint.c - series and feeds on their way through journals: what goes in, what comes out and when, and what becomes of
 * both when a frame is refused, cut, or found applied, or when another tallyd has taken over. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"

#define FIRST "unit:0123456789abcdef:1"
#define SECOND "unit:0123456789abcdef:2"

/* With `least` ops or more on it, a frame's ops go into the journal; `lines` of their commands in a frame bring them home. */
static void bounds(uint32_t least, uint32_t lines)
{
    reopen_with(config.journal_least = least, config.checkpoint_lines = lines);
}

static int64_t home(const char *name)
{
    return row(name, "1:1700000000");
}

/* One op that goes directly to its key, so that later ones may wait. */
static void known(const char *name)
{
    series('z', name, 1, NOW);
    turn_applied();
    buf_reset(&client('z')->o.out);
    forget_did();
    assert_int_equal(home(name), 1);
}

/* The op on this name in the frame that is out, with a command of its own or without; NULL: no such op. */
static const struct frame_op *sent(const char *name)
{
    const struct frame *f = world->frame;
    assert_non_null(f);
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (slice_eq(FRAME_NAME(f, &f->ops[i]), slice_str(name))) return &f->ops[i];
    return NULL;
}

static bool went_straight(const char *name)
{
    assert_non_null(sent(name));
    return !sent(name)->silent;
}

/* One that goes into the journal. */
static void journaled(const char *name, int64_t n)
{
    series('z', name, n, NOW);
    turn();
    assert_false(went_straight(name));
    frame_applied();
    assert_told('z', ":2\r\n");
    forget_did();
}

static uint64_t any_code(void *arg, const struct journal_record *of)
{
    return coalesce_name_code(arg, of->kind, of->name, of->type);
}

/* What a reader of this journal still has to add to a name, over all its times; -1: no journal. */
static int64_t waits_in(const char *journal, const char *name)
{
    const struct kept_journal *kept = journal_of(journal);
    if (kept == NULL) return -1;
    struct journal *j = journal_create(slice_str(journal), 1, 1);
    int64_t n = 0;
    assert_true(kept->listed);
    assert_true(journal_read(j, buf_slice(&kept->bytes), any_code, world->c));
    for (uint32_t i = 0; i < j->ops_n; i++)
        if (j->ops[i].adds > 0 && slice_eq(journal_name(j, &j->ops[i]), slice_str(name))) n += j->ops[i].n;
    journal_destroy(j);
    return n;
}

static bool none_stands(void)
{
    for (int i = 0; i < 8; i++)
        if (world->journals[i].name[0] != '\0') return false;
    return true;
}

/* Long enough for the next checkpoint; its first frame is out. */
static void comes_out(void)
{
    tick_after(500);
    turn();
    assert_non_null(world->frame);
}

static void up_again(void)
{
    link_up(RUN_B, 8);
    if (world->killed != 0) coalesce_on_killed(world->c);
    world->killed = 0;
    look_answered(NULL);
}

static int open_journals(void **state)
{
    world_open(state);
    bounds(1, 500);
    return 0;
}

#define JOURNALS_TEST(f) UNIT_IN(f, open_journals, world_close)

/* --- in --- */

JOURNALS_TEST(the_first_op_of_a_name_goes_straight)
{
    series('a', "s", 5, NOW);
    turn();
    assert_true(went_straight("s"));
    assert_int_equal(world->frame->appends_n, 0);
    frame_applied();
    assert_int_equal(home("s"), 5);
    assert_true(none_stands());
}

JOURNALS_TEST(later_ones_go_into_the_journal)
{
    known("s");
    series('a', "s", 5, NOW);
    series('b', "s", 2, NOW);
    series('b', "s", 1, NOW - 200);
    turn();
    assert_false(went_straight("s"));
    assert_int_equal(world->frame->appends_n, 1);
    assert_true(world->frame->appends[0].opens);
    frame_applied();
    assert_told('a', ":2\r\n");
    assert_told('b', ":2\r\n:1\r\n"); /* how many precisions keep it */
    assert_int_equal(home("s"), 1);
    assert_int_equal(waits_in(FIRST, "s"), 8);
    series('a', "s", 1, NOW);
    turn();
    assert_false(world->frame->appends[0].opens);
    frame_applied();
    assert_int_equal(waits_in(FIRST, "s"), 9);
}

JOURNALS_TEST(few_ops_go_straight)
{
    bounds(3, 500);
    known("s");
    known("t");
    known("u");
    series('a', "s", 1, NOW);
    series('a', "t", 1, NOW);
    series('a', "new", 1, NOW); /* does not count */
    turn();
    assert_true(went_straight("s") && went_straight("t"));
    frame_applied();
    series('a', "s", 1, NOW);
    series('a', "t", 1, NOW);
    series('a', "u", 1, NOW);
    turn();
    assert_false(went_straight("s") || went_straight("t") || went_straight("u"));
    frame_applied();
    assert_int_equal(home("s"), 2);
    assert_int_equal(waits_in(FIRST, "s"), 1);
}

static const struct counter counters_fed[] = {
    {.name = {"visits", 6},
     .key = {{"s", 1}, {":v", 2}, true, NULL},
     .lock = {{"s", 1}, {":sync", 5}, true, NULL},
     .field = FIELD_DATE,
     .hits = INT64_MAX,
     .every_s = 60,
     .feeds = {[FEED_SERIES] = {{"s", 1}, {":views", 6}, true, NULL},
               [FEED_TIMEBOX] = {{"b", 1}, {"", 0}, true, NULL},
               [FEED_EVENT] = {{"g", 1}, {":sign", 5}, true, NULL}}},
};
static const struct counters counters_feeding = {
    .all = (struct counter *)counters_fed, .n = 1, .ops = &limits_two};

JOURNALS_TEST(feeds_go_into_it_at_once)
{
    struct coalesce_config config = coalesce_config_default;
    config.journal_least = 3;
    world_close(NULL);
    world_make_of(&config, &counters_feeding);
    link_ready(RUN_A, 7);
    HIT('a', "s1:v", "20140920", 4);
    hit_goes('a', "s1:v", "20140921", 3);
    assert_false(went_straight("s1:views") || went_straight("b1") || went_straight("g1"));
    frame_applied();
    assert_told('a', ":4\r\n:3\r\n");
    assert_int_equal(waits_in(FIRST, "s1:views"), 7);
    assert_int_equal(waits_in(FIRST, "b1"), 7);
    assert_int_equal(waits_in(FIRST, "g1"), 2);
    assert_int_equal(row("s1:views", "1:1700000000") + row("b1", "1699999980") + world->ticker, 0);
    comes_out();
    frame_applied();
    assert_int_equal(row("s1:views", "1:1700000000"), 7);
    assert_int_equal(row("b1", "1699999980"), 7);
    assert_int_equal(world->ticker, 2);
    assert_true(none_stands() && coalesce_idle(world->c));
}

/* The first hit on it goes directly, and so its hits become known; the second waits. */
static void box_waits(void)
{
    box('a', "b", 1, NOW);
    turn();
    assert_true(went_straight("b"));
    frame_applied();
    box('a', "b", 10, NOW);
    box('b', "b", 100, NOW);
    turn();
    assert_false(went_straight("b"));
}

JOURNALS_TEST(boxes_wait_when_it_is_known_what_to_answer)
{
    box_waits();
    frame_applied();
    assert_told('a', ":1\r\n:11\r\n");
    assert_told('b', ":111\r\n");
    assert_int_equal(waits_in(FIRST, "b"), 110);
}

JOURNALS_TEST(hits_that_go_straight_count_those_that_wait)
{
    bounds(2, 500);
    for (int i = 0; i < 2; i++) {
        box('a', "b", 1, NOW);
        box('a', "c", 1, NOW);
        turn_applied();
    }
    assert_int_equal(waits_in(FIRST, "b"), 1);
    box('b', "b", 10, NOW); /* alone: too few for the journal */
    turn();
    assert_true(went_straight("b"));
    frame_applied();
    assert_told('b', ":12\r\n");
    box('b', "b", 100, NOW);
    tick_after(500); /* what waits comes home in the same frame */
    turn_applied();
    assert_told('b', ":112\r\n");
}

JOURNALS_TEST(hits_of_others_show_when_ours_come_home)
{
    box_waits();
    frame_applied();
    comes_out();
    char bucket[24];
    snprintf(bucket, sizeof bucket, "%lld", (long long)(NOW - NOW % 60));
    row_of(SLICE("b"), slice_str(bucket))->value += 5000;
    frame_applied();
    box('c', "b", 1, NOW);
    turn_applied();
    assert_told('c', ":5112\r\n");
}

JOURNALS_TEST(a_name_with_too_many_times_goes_straight)
{
    known("s");
    for (int64_t i = 0; i <= JOURNAL_TIMES_MAX; i++)
        series('a', "s", 1, NOW - i);
    turn();
    uint32_t straight = 0;
    for (uint32_t i = 0; i < world->frame->ops_n; i++)
        straight += !world->frame->ops[i].silent;
    assert_int_equal(straight, 1);
    assert_int_equal(world->frame->ops_n, JOURNAL_TIMES_MAX + 1);
    frame_applied();
    assert_int_equal(waits_in(FIRST, "s"), JOURNAL_TIMES_MAX);
    assert_int_equal(row("s", "1:1699999936"), 1);
}

JOURNALS_TEST(a_sum_that_does_not_fit_goes_straight)
{
    known("s");
    for (int i = 0; i < 511; i++)
        journaled("s", INT64_C(1) << 53);
    series('a', "s", INT64_C(1) << 53, NOW);
    turn();
    assert_true(went_straight("s"));
    frame_applied();
    assert_int_equal(home("s"), 1 + (INT64_C(1) << 53));
    assert_true(waits_in(FIRST, "s") == 511 * (INT64_C(1) << 53));
}

JOURNALS_TEST(a_full_journal_is_followed_by_another)
{
    reopen_with(config.journal_least = 1, config.journal_ops_max = 2,
                config.checkpoint_lines = 2); /* a name a frame */
    for (char name[] = "s"; name[0] <= 'w'; name[0]++)
        known(name);
    series('a', "s", 1, NOW);
    series('a', "t", 1, NOW);
    turn_applied();
    series('a', "u", 1, NOW);
    turn();
    assert_true(coalesce_has_journal(world->c, SLICE(FIRST)) &&
                coalesce_has_journal(world->c, SLICE(SECOND)));
    assert_int_equal(sent("s")->delta, 1); /* one from the first journal is sent already */
    assert_null(sent("t"));
    frame_applied();
    assert_int_equal(waits_in(FIRST, "t") + waits_in(SECOND, "u"), 2);
    assert_int_equal(waits_in(FIRST, "s"), 0);
    series('a', "v", 1, NOW);
    turn_applied();
    assert_true(journal_of(FIRST) == NULL);
    assert_int_equal(waits_in(SECOND, "v"), 1);
}

/* As long as the one before is not home, ops go straight rather than into a third. */
JOURNALS_TEST(two_full_journals_take_no_more)
{
    reopen_with(config.journal_least = 1, config.journal_ops_max = 1, config.checkpoint_lines = 1);
    for (char name[] = "s"; name[0] <= 'v'; name[0]++)
        known(name);
    for (char name[] = "s"; name[0] <= 'u'; name[0]++)
        series('a', name, 1, NOW);
    turn(); /* all three go into the first, which is then full */
    frame_applied();
    series('a', "v", 1, NOW);
    turn();
    assert_false(went_straight("v"));
    frame_applied();
    series('a', "s", 1, NOW);
    turn();
    assert_true(went_straight("s"));
    frame_applied();
    while (!none_stands()) {
        comes_out();
        frame_applied();
    }
    for (char name[] = "s"; name[0] <= 'v'; name[0]++)
        assert_int_equal(home(name), name[0] == 's' ? 3 : 2);
}

/* A hundred are to be brought home, and fifty are in the open journal. */
static void two_journals(uint32_t ops_max, uint32_t lines)
{
    reopen_with(config.journal_least = 1, config.journal_ops_max = ops_max, config.checkpoint_lines = lines);
    char name[16];
    for (int i = 0; i < 100; i++)
        snprintf(name, sizeof name, "s%d", i), known(name);
    for (int i = 0; i < 100; i++)
        snprintf(name, sizeof name, "s%d", i), series('a', name, 1, NOW);
    turn_applied();
    assert_int_equal(checkpoint_price(world->c), 0); /* none waits */
    tick_after(500);
    for (int i = 0; i < 50; i++)
        snprintf(name, sizeof name, "s%d", i), series('a', name, 1, NOW);
    turn_applied();
}

static int room_in_a_frame(void)
{
    char name[16];
    enum add_result got = ADD_OK;
    int taken = 0;
    for (; got == ADD_OK; taken++) {
        snprintf(name, sizeof name, "s%d", taken % 100);
        struct coalesce_op o = {
            .kind = OP_SERIES, .name = slice_str(name), .n = 1, .at = NOW + 1 + taken / 100};
        got = coalesce_op(world->c, &client('a')->o, &o);
    }
    assert_int_equal(got, ADD_FULL);
    return taken - 1;
}

/* A frame brought home a tenth of what is left, so the next takes a tenth of the open journal's room. */
JOURNALS_TEST(a_frame_takes_in_as_others_go_home)
{
    two_journals(2400, 10 * limits_two.precisions_n);
    uint32_t left = 90, homed = 10, room = 2400 - 50;
    assert_int_equal(checkpoint_price(world->c), 4000 * left / (homed * room));
    assert_int_equal(room_in_a_frame(), 4000 / 15 + 1);
}

/* A frame that could hold four thousand of them takes few when almost nothing comes home. */
JOURNALS_TEST(what_fills_too_fast_waits_at_the_door)
{
    two_journals(240, 1);
    assert_int_equal(checkpoint_price(world->c), 64);
    assert_int_equal(room_in_a_frame(), 63);
}

/* coalesce_room() is asked for what an op costs without a journal. */
JOURNALS_TEST(a_transaction_that_was_given_room_is_taken_whole)
{
    bool never;
    char name[16];
    two_journals(240, 1);
    for (int i = 0; i < 60; i++) /* 16 cells each */
        snprintf(name, sizeof name, "s%d", i), series('a', name, 1, NOW);
    uint32_t cells = coalesce_op_cells(world->c, OP_SERIES) + 1, n = 30 / cells;
    assert_true(n > 3 && coalesce_room(world->c, n * cells, 1000, &never));
    coalesce_transaction(world->c, true);
    for (uint32_t i = 0; i < n; i++)
        snprintf(name, sizeof name, "s%u", 60 + i), series('b', name, 1, NOW);
    coalesce_transaction(world->c, false);
}

/* --- out --- */

JOURNALS_TEST(the_seconds_of_a_name_come_out_together)
{
    bounds(1, 1);
    known("s");
    known("t");
    series('a', "s", 1, NOW);
    series('a', "t", 1, NOW);
    series('a', "s", 2, NOW + 1);
    turn_applied();
    tick_after(500);
    turn();
    const struct frame *f = world->frame;
    assert_int_equal(f->ops_n, 2);
    assert_slice(FRAME_NAME(f, &f->ops[1]), "s");
    assert_true(!f->ops[0].joined && f->ops[1].joined);
    assert_int_equal(f->ops[0].delta + f->ops[1].delta, 3);
    while (!none_stands()) {
        frame_applied();
        turn();
    }
    assert_int_equal(home("s"), 2);
    assert_int_equal(home("t"), 2);
}

JOURNALS_TEST(what_is_in_comes_out_after_a_while)
{
    known("s");
    journaled("s", 5);
    journaled("s", 6);
    tick_after(499);
    nothing_goes();
    tick_after(1);
    turn();
    assert_true(went_straight("s"));
    assert_int_equal(sent("s")->delta, 11);
    assert_true(world->frame->appends[0].ends);
    assert_false(coalesce_idle(world->c));
    frame_applied();
    assert_int_equal(home("s"), 12);
    assert_true(none_stands() && coalesce_idle(world->c));
    nothing_goes();
}

JOURNALS_TEST(a_frame_brings_so_much_home)
{
    static const char *const names[] = {"s", "t", "u", "v", "w"};
    bounds(5, 4); /* two names of two precisions */
    for (int i = 0; i < 5; i++)
        known(names[i]);
    for (int i = 0; i < 5; i++)
        series('a', names[i], 2, NOW);
    turn_applied();
    comes_out();
    for (uint32_t left = 5; left > 0; left -= left < 2 ? left : 2) {
        assert_int_equal(world->frame->ops_n, left < 2 ? left : 2);
        assert_int_equal(world->frame->appends[0].ends, left <= 2);
        frame_applied();
        int64_t waits = 0;
        for (int i = 0; i < 5 && journal_of(FIRST) != NULL; i++)
            waits += waits_in(FIRST, names[i]) + home(names[i]);
        if (left > 2) assert_int_equal(waits, 5 + 5 * 2);
        turn();
    }
    assert_null(world->frame);
    for (int i = 0; i < 5; i++)
        assert_int_equal(home(names[i]), 3);
    assert_true(none_stands() && coalesce_idle(world->c));
}

JOURNALS_TEST(it_comes_out_beside_what_clients_send)
{
    known("s");
    journaled("s", 5);
    tick_after(500);
    series('a', "s", 2, NOW);
    turn();
    assert_int_equal(world->frame->ops_n, 2);
    frame_applied();
    assert_told('a', ":2\r\n");
    assert_int_equal(home("s"), 6);
    assert_null(journal_of(FIRST));
    assert_int_equal(waits_in(SECOND, "s"), 2);
}

JOURNALS_TEST(stopping_brings_home_at_once)
{
    known("s");
    journaled("s", 5);
    assert_false(coalesce_idle(world->c));
    nothing_goes();
    coalesce_flush(world->c);
    turn();
    assert_int_equal(sent("s")->delta, 5);
    frame_applied();
    assert_int_equal(home("s"), 6);
    assert_true(coalesce_idle(world->c));
    coalesce_flush(world->c);
    nothing_goes();
}

/* --- cut --- */

JOURNALS_TEST(a_frame_that_did_not_run_goes_in_when_it_is_sent_again)
{
    known("s");
    series('a', "s", 5, NOW);
    turn_cut();
    assert_true(none_stands());
    up_again();
    assert_int_equal(world->journals_looked, 1);
    assert_false(went_straight("s"));
    assert_true(world->frame->appends[0].opens);
    frame_applied();
    assert_told('a', ":2\r\n");
    assert_int_equal(waits_in(FIRST, "s"), 5);
    comes_out();
    frame_applied();
    assert_int_equal(home("s"), 6);
    assert_true(none_stands() && coalesce_idle(world->c));
}

/* --- another tallyd --- */

JOURNALS_TEST(what_was_on_its_way_into_it_goes_into_another)
{
    known("s");
    journaled("s", 5);
    series('a', "s", 7, NOW);
    turn_cut();
    world->others = true;
    up_again();
    assert_false(went_straight("s"));
    frame_applied();
    assert_told('a', ":2\r\n");
    assert_int_equal(waits_in(FIRST, "s"), 5);
    assert_int_equal(waits_in(SECOND, "s"), 7);
    world->others = false;
    comes_out();
    frame_applied();
    assert_int_equal(home("s"), 8);
    assert_int_equal(waits_in(FIRST, "s"), 5);
}

JOURNALS_TEST(what_was_on_its_way_out_of_it_is_brought_home_by_him)
{
    known("s");
    journaled("s", 5);
    tick_after(500);
    series('a', "t", 3, NOW); /* of a client, in the same frame */
    turn();
    assert_true(went_straight("s"));
    cut();
    world->others = true;
    up_again();
    assert_false(went_straight("s"));
    assert_int_equal(world->frame->appends_n, 0);
    frame_applied();
    assert_told('a', ":2\r\n");
    assert_int_equal(home("s"), 1);
    assert_int_equal(home("t"), 3);
    assert_int_equal(waits_in(FIRST, "s"), 5);
    assert_true(coalesce_idle(world->c) || world->c->journal != NULL);
}

static void adopted_with(struct buf *bytes)
{
    struct kept_journal *j = journal_of("");
    assert_non_null(j);
    memcpy(j->name, "dead:1", sizeof "dead:1");
    j->listed = true;
    buf_put_slice(&j->bytes, buf_slice(bytes));
    coalesce_adopt(world->c, SLICE("dead:1"), buf_slice(bytes));
    buf_free(bytes);
}

JOURNALS_TEST(what_a_dead_one_left_is_brought_home)
{
    struct buf bytes = {0};
    bounds(1, 2);
    journal_put_op(&bytes, 7, OP_SERIES, NOW, SLICE("s"), SLICE(""));
    journal_put_add(&bytes, 7, 5);
    journal_put_op(&bytes, 9, OP_TIMEBOX, NOW - NOW % 60, SLICE("b"), SLICE(""));
    journal_put_add(&bytes, 9, 3);
    journal_put_op(&bytes, 8, OP_EVENT, NOW, SLICE("e"), SLICE("t"));
    journal_put_add(&bytes, 8, 2);
    journal_put_op(&bytes, 2, OP_SERIES, NOW, SLICE("done"), SLICE(""));
    journal_put_add(&bytes, 2, 9);
    journal_put_done(&bytes, 2);
    adopted_with(&bytes);
    assert_true(coalesce_has_journal(world->c, SLICE("dead:1")));
    assert_false(coalesce_has_journal(world->c, SLICE("dead:2")));
    assert_false(coalesce_idle(world->c));
    for (int frame = 0; frame < 3; frame++) {
        turn();
        assert_int_equal(world->frame->ops_n, 1);
        assert_int_equal(world->frame->appends[0].ends, frame == 2);
        frame_applied();
    }
    assert_int_equal(home("s"), 5);
    assert_int_equal(row("b", "1699999980"), 3);
    assert_int_equal(world->ticker, 2);
    assert_int_equal(home("done"), 0);
    assert_true(none_stands() && coalesce_idle(world->c));
}

JOURNALS_TEST(an_empty_one_is_ended)
{
    struct buf bytes = {0};
    adopted_with(&bytes);
    turn();
    assert_int_equal(world->frame->ops_n, 0);
    assert_true(world->frame->appends[0].ends);
    frame_applied();
    assert_true(none_stands() && coalesce_idle(world->c));
}

/* --- reads --- */

struct reading {
    struct coalesce_settle settle;
    unsigned done;
    char why[300];
};

static void on_settled(struct coalesce_settle *s)
{
    struct reading *r = CONTAINER_OF(s, struct reading, settle);
    r->done++;
    snprintf(r->why, sizeof r->why, "%s", s->failed ? s->why : "");
}

static struct reading reading(const char *name)
{
    bool all = name == NULL;
    return (struct reading){.settle = {.kind = OP_SERIES,
                                       .name = slice_str(all ? "" : name),
                                       .type = SLICE(""),
                                       .all = all,
                                       .done = on_settled}};
}

JOURNALS_TEST(what_is_in_no_journal_is_read_at_once)
{
    struct reading one = reading("t"), all = reading(NULL);
    assert_false(coalesce_settle(world->c, &all.settle));
    known("s");
    journaled("s", 5);
    assert_false(coalesce_settle(world->c, &one.settle));
    one = reading("s");
    one.settle.kind = OP_TIMEBOX;
    assert_false(coalesce_settle(world->c, &one.settle));
    nothing_goes();
}

JOURNALS_TEST(a_read_of_a_name_waits_for_that_name)
{
    struct reading one = reading("s");
    known("s");
    known("t");
    journaled("s", 5);
    journaled("t", 6);
    assert_true(coalesce_settle(world->c, &one.settle));
    turn();
    assert_non_null(sent("s"));
    assert_null(sent("t"));
    assert_int_equal(one.done, 0);
    frame_applied();
    assert_int_equal(one.done, 1);
    assert_string_equal(one.why, "");
    assert_int_equal(home("s"), 6);
    assert_int_equal(waits_in(FIRST, "s"), 0);
    assert_int_equal(waits_in(FIRST, "t"), 6);
    comes_out();
    assert_null(sent("s")); /* once */
    frame_applied();
    assert_int_equal(home("t"), 7);
    assert_int_equal(one.done, 1);
    assert_true(none_stands());
}

JOURNALS_TEST(all_times_of_the_name_come_out)
{
    bounds(1, 1);
    struct reading one = reading("s");
    known("s");
    for (int64_t i = 0; i < 5; i++)
        series('a', "s", 1, NOW - i);
    turn_applied();
    assert_true(coalesce_settle(world->c, &one.settle));
    turn();
    assert_int_equal(world->frame->ops_n, 5);
    frame_applied();
    assert_int_equal(one.done, 1);
    assert_int_equal(row("s", "60:1699999980"), 6);
}

/* A frame that puts a hit into a journal and takes it home at once, since a read waits, is cut before Redis ran it. */
JOURNALS_TEST(what_goes_in_and_comes_home_in_one_frame_counts_once)
{
    box_waits();
    frame_applied();
    struct reading one = reading("b");
    one.settle.kind = OP_TIMEBOX;
    assert_true(coalesce_settle(world->c, &one.settle));
    box('c', "b", 1000, NOW);
    turn_cut();
    up_again();
    for (; world->frame != NULL; turn())
        frame_applied();
    if (!none_stands()) comes_out();
    for (; world->frame != NULL; turn())
        frame_applied();
    assert_int_equal(row("b", "1699999980"), 1111);
    assert_true(none_stands() && coalesce_idle(world->c));
}

/* Sent again, the hit goes straight. Its journal, which Redis never had, is closed by then and ends at once. */
JOURNALS_TEST(what_came_home_from_a_journal_that_never_was_forgets_it)
{
    box_waits();
    frame_applied();
    struct reading one = reading("b");
    one.settle.kind = OP_TIMEBOX;
    comes_out();
    assert_true(coalesce_settle(world->c, &one.settle));
    frame_applied();
    box('c', "b", 1000, NOW);
    turn();
    assert_int_equal(world->frame->ops_n, 2);
    for (int i = 0; i < 3; i++) {
        cut();
        tick_after(600);
        up_again();
        tick_after(100);
    }
    for (; world->frame != NULL; turn())
        frame_applied();
    assert_int_equal(row("b", "1699999980"), 1111);
    assert_true(none_stands() && coalesce_idle(world->c));
}

JOURNALS_TEST(a_read_waits_for_a_checkpoint_that_is_under_way)
{
    struct reading one = reading("s");
    known("s");
    journaled("s", 5);
    comes_out();
    assert_true(coalesce_settle(world->c, &one.settle));
    assert_int_equal(one.done, 0);
    frame_applied();
    turns_applied();
    assert_int_equal(one.done, 1);
    assert_int_equal(home("s"), 6);
}

JOURNALS_TEST(a_read_of_all_names_waits_for_all)
{
    bounds(1, 2);
    struct reading all = reading(NULL);
    known("s");
    known("t");
    journaled("s", 5);
    journaled("t", 6);
    assert_true(coalesce_settle(world->c, &all.settle));
    turn_applied();
    assert_int_equal(all.done, 0);
    journaled("s", 1); /* goes into the next journal, without a waiter; and brings home the rest */
    assert_int_equal(all.done, 1);
    assert_string_equal(all.why, "");
    assert_int_equal(home("s"), 6);
    assert_int_equal(home("t"), 7);
    assert_int_equal(waits_in(SECOND, "s"), 1);
}

JOURNALS_TEST(a_read_hears_that_redis_refuses)
{
    struct reading one = reading("s");
    known("s");
    journaled("s", 5);
    assert_true(coalesce_settle(world->c, &one.settle));
    turn_refused("OOM full");
    assert_int_equal(one.done, 1);
    assert_string_equal(one.why, "OOM full");
    assert_int_equal(waits_in(FIRST, "s"), 5);
    assert_int_equal(home("s"), 1);
}

JOURNALS_TEST(a_read_hears_of_a_cut)
{
    struct reading sent_one = reading("s"), waiting = reading("t");
    known("s");
    known("t");
    journaled("s", 5);
    journaled("t", 5);
    assert_true(coalesce_settle(world->c, &sent_one.settle));
    turn();
    assert_true(coalesce_settle(world->c, &waiting.settle));
    cut();
    assert_int_equal(sent_one.done + waiting.done, 2);
    assert_string_equal(sent_one.why, WHY);
    assert_string_equal(waiting.why, WHY);
    up_again();
    frame_applied();
    assert_int_equal(sent_one.done + waiting.done, 2);
}

JOURNALS_TEST(a_read_while_redis_is_away_fails_soon)
{
    struct reading one = reading("s");
    cut();
    assert_true(coalesce_settle(world->c, &one.settle));
    assert_int_equal(one.done, 0);
    tick_after(100);
    assert_int_equal(one.done, 1);
    assert_string_equal(one.why, WHY);
}

/* --- events whose ids are known --- */

/* The log of a dead tallyd, with this many events, ids 1, 2, ... */
static void adopted_log(int64_t events)
{
    struct buf bytes = {0};
    journal_put_op(&bytes, 0, OP_EVENT, EVENT_GIVEN, SLICE("e"), SLICE("t"));
    for (int64_t id = 1; id <= events; id++)
        journal_put_event(&bytes, 0, NOW + id, id, SLICE(""));
    adopted_with(&bytes);
}

static int64_t sum_to(int64_t n)
{
    return n * (n + 1) / 2;
}

JOURNALS_TEST(events_come_home_some_at_a_time)
{
    static const uint64_t home_after[] = {4, 8, 9};
    bounds(1, 2); /* an event is half a line */
    adopted_log(9);
    for (int i = 0; i < 3; i++) {
        turn();
        const struct op_item *item = &world->frame->items[world->frame->ops[0].first_item];
        assert_int_equal(item->value, 4 * i + 1);
        assert_int_equal(item->at, NOW + item->value);
        assert_int_equal(world->frame->appends[0].ends, i == 2);
        frame_applied();
        assert_int_equal(world->given, home_after[i]);
    }
    assert_int_equal(world->given_sum, sum_to(9));
    assert_int_equal(world->ticker, 0);
    assert_true(none_stands() && coalesce_idle(world->c));
}

JOURNALS_TEST(events_that_were_refused_or_cut_come_again)
{
    bounds(1, 2);
    adopted_log(9);
    turn_applied();
    turn_refused("OOM full");
    assert_int_equal(world->given, 4);
    tick_after(100);
    turn_cut();
    up_again();
    frame_applied();
    assert_int_equal(world->given, 8);
    turn_ran_cut();
    up_again();
    turns_applied();
    assert_int_equal(world->given, 9);
    assert_int_equal(world->given_sum, sum_to(9));
    assert_true(none_stands() && coalesce_idle(world->c));
}

static struct reading log_reading(void)
{
    struct reading log = reading("e");
    log.settle.kind = OP_EVENT;
    log.settle.type = SLICE("t");
    return log;
}

JOURNALS_TEST(a_read_of_a_long_log_waits_for_all_of_it)
{
    struct reading log = log_reading();
    bounds(1, 1);
    adopted_log(4500);
    assert_true(coalesce_settle(world->c, &log.settle));
    for (int frames = 0; log.done == 0; frames++) {
        assert_true(frames < 4); /* some 2,000 events each */
        turn_applied();
    }
    assert_int_equal(log.done, 1);
    assert_string_equal(log.why, "");
    assert_int_equal(world->given, 4500);
    assert_int_equal(world->given_sum, sum_to(4500));
    turns_applied();
    assert_int_equal(world->given, 4500);
    assert_true(none_stands() && coalesce_idle(world->c));
}

JOURNALS_TEST(a_read_of_a_long_log_counts_no_frame_that_was_refused)
{
    struct reading log = log_reading();
    bounds(1, 1);
    adopted_log(4500);
    assert_true(coalesce_settle(world->c, &log.settle));
    turn_refused("OOM full");
    tick_after(100);
    for (int frames = 0; log.done == 0; frames++) {
        assert_true(frames < 4);
        turn_applied();
    }
    assert_string_equal(log.why, "");
    assert_int_equal(world->given, 4500);
}

/* A feed's events of a log have an op of each second. */
JOURNALS_TEST(a_read_of_a_long_log_waits_for_what_feeds_made_of_it)
{
    struct reading log = log_reading();
    struct buf bytes = {0};
    bounds(1, 1);
    journal_put_op(&bytes, 0, OP_SERIES, NOW, SLICE("s"), SLICE(""));
    journal_put_add(&bytes, 0, 1); /* what a frame brings home of all is this */
    journal_put_op(&bytes, 1, OP_EVENT, EVENT_GIVEN, SLICE("e"), SLICE("t"));
    for (int64_t id = 1; id <= 2000; id++)
        journal_put_event(&bytes, 1, NOW + id, id, SLICE(""));
    journal_put_op(&bytes, 2, OP_EVENT, NOW, SLICE("e"), SLICE("t"));
    journal_put_add(&bytes, 2, 3);
    adopted_with(&bytes);
    assert_true(coalesce_settle(world->c, &log.settle));
    while (log.done == 0) {
        turn_applied();
    }
    assert_int_equal(world->given, 2000);
    assert_int_equal(world->ticker, 3);
}

/* --- another program's key --- */

JOURNALS_TEST(after_an_error_the_next_op_of_that_name_goes_straight)
{
    known("s");
    known("t");
    journaled("s", 5);
    journaled("t", 5);
    comes_out();
    frame_applied_but_op("s", "WRONGTYPE not mine");
    assert_true(none_stands());
    series('a', "s", 1, NOW);
    series('b', "t", 1, NOW);
    turn();
    assert_true(went_straight("s"));
    assert_false(went_straight("t"));
    frame_applied_but_op("s", "WRONGTYPE not mine");
    assert_told('a', "-WRONGTYPE not mine\r\n");
    assert_told('b', ":2\r\n");
}
