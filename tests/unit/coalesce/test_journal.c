/* test_journal.c - a journal as its daemon knows it: numbers, chains of times, sums, what is undone, and what another one
 * wrote. */
#include "lib/unit.h"

#include "base/heap.h"
#include "coalesce/journal.h"
#include "lib/dice.h"

static struct journal *j;

static int open_one(void **state)
{
    j = journal_create(SLICE("unit:1"), 1, 1000);
    return 0;
}

static int close_one(void **state)
{
    journal_destroy(j);
    return 0;
}

static struct journal_record record(enum op_kind kind, const char *name, const char *type, int64_t at)
{
    return (struct journal_record){.kind = kind, .name = slice_str(name), .type = slice_str(type), .at = at};
}

/* All ops share one code, so that only their names tell them apart. */
static uint64_t one_code(void *arg, const struct journal_record *of)
{
    return *(const uint64_t *)arg;
}

static uint32_t number(enum op_kind kind, const char *name, const char *type, int64_t at)
{
    struct journal_record of = record(kind, name, type, at);
    return journal_number(j, 7, &of);
}

static uint32_t first(enum op_kind kind, const char *name, const char *type)
{
    return journal_first(j, 7, kind, slice_str(name), slice_str(type));
}

static bool reads(struct journal *into, struct slice bytes)
{
    uint64_t code = 7;
    return journal_read(into, bytes, one_code, &code);
}

#define TEST(f) UNIT_IN(f, open_one, close_one)

TEST(an_op_keeps_its_number)
{
    assert_int_equal(number(OP_SERIES, "a", "", 5), 0);
    assert_int_equal(number(OP_SERIES, "b", "", 5), 1);
    assert_int_equal(number(OP_SERIES, "a", "", 6), 2);
    assert_int_equal(number(OP_TIMEBOX, "a", "", 5), 3);
    assert_int_equal(number(OP_EVENT, "a", "x", 5), 4);
    assert_int_equal(number(OP_EVENT, "ax", "", 5), 5);
    assert_int_equal(number(OP_SERIES, "a", "", 6), 2);
    assert_int_equal(number(OP_EVENT, "a", "x", 5), 4);
    assert_slice(journal_name(j, &j->ops[4]), "a");
    assert_slice(journal_type(j, &j->ops[4]), "x");
    assert_int_equal(j->names_n, 5);
    assert_int_equal(j->ops_n, 6);
}

TEST(times_of_a_name_are_a_chain)
{
    assert_int_equal(first(OP_SERIES, "a", ""), OP_END);
    for (int64_t at = 10; at < 14; at++) {
        number(OP_SERIES, "a", "", at);
        number(OP_SERIES, "b", "", at);
    }
    uint32_t i = first(OP_SERIES, "a", "");
    for (int64_t at = 10; at < 14; at++, i = j->ops[i].next) {
        assert_int_not_equal(i, OP_END);
        assert_int_equal(j->ops[i].which, at);
        assert_slice(journal_name(j, &j->ops[i]), "a");
    }
    assert_int_equal(i, OP_END);
    assert_int_equal(first(OP_TIMEBOX, "a", ""), OP_END);
    assert_int_equal(j->texts.n, 2); /* each name is there once */
}

TEST(a_name_has_so_many_times)
{
    for (int64_t at = 0; at < JOURNAL_TIMES_MAX; at++)
        assert_int_equal(number(OP_SERIES, "a", "", at), at);
    assert_int_equal(number(OP_SERIES, "a", "", JOURNAL_TIMES_MAX), OP_END);
    assert_int_equal(number(OP_SERIES, "a", "", JOURNAL_TIMES_MAX - 1), JOURNAL_TIMES_MAX - 1);
    assert_int_equal(number(OP_SERIES, "b", "", JOURNAL_TIMES_MAX), JOURNAL_TIMES_MAX);
    assert_int_equal(j->ops_n, JOURNAL_TIMES_MAX + 1);
}

TEST(many_names_are_all_found)
{
    char name[16];
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "n%u", i);
        struct journal_record of = record(OP_SERIES, name, "", 1);
        assert_int_equal(journal_number(j, i * UINT64_C(0x9e3779b97f4a7c15) >> 60, &of), i);
    }
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "n%u", i);
        uint64_t code = i * UINT64_C(0x9e3779b97f4a7c15) >> 60;
        assert_int_equal(journal_first(j, code, OP_SERIES, slice_str(name), SLICE("")), i);
    }
}

TEST(sums_that_do_not_fit_are_told)
{
    uint32_t a = number(OP_SERIES, "a", "", 1);
    assert_true(journal_fits(j, a, JOURNAL_SUM_MAX - 1));
    assert_false(journal_fits(j, a, JOURNAL_SUM_MAX));
    assert_false(journal_fits(j, a, INT64_MIN));
    journal_add(j, a, JOURNAL_SUM_MAX - 1);
    assert_true(journal_fits(j, a, -1) && journal_fits(j, a, 0));
    assert_false(journal_fits(j, a, 1) || journal_fits(j, a, INT64_MAX));
    journal_take(j, a, j->ops[a].adds);
    assert_true(journal_fits(j, a, -JOURNAL_SUM_MAX + 1));
    assert_false(journal_fits(j, a, -JOURNAL_SUM_MAX));
}

TEST(what_is_added_is_pending_until_it_is_taken)
{
    uint32_t a = number(OP_SERIES, "a", "", 1), b = number(OP_TIMEBOX, "b", "", 1);
    assert_int_equal(j->pending, 0);
    journal_add(j, a, 5);
    journal_add(j, a, -5); /* a sum of 0 must be brought home as well: it creates its key */
    journal_add(j, b, 2);
    assert_int_equal(j->pending, 2);
    assert_int_equal(j->ops[a].n, 0);
    assert_int_equal(j->ops[a].adds, 2);
    j->from = 2;
    journal_take(j, a, j->ops[a].adds);
    assert_int_equal(j->pending, 1);
    assert_int_equal(j->ops[a].adds, 0);
    journal_add(j, a, 3);
    assert_int_equal(j->from, a);
    assert_int_equal(j->pending, 2);
    assert_int_equal(j->ops[a].n, 3);
}

TEST(an_op_is_told_once)
{
    struct journal_record r;
    uint32_t a = number(OP_EVENT, "name", "type", 17);
    journal_add(j, a, 5);
    journal_add(j, a, 6);
    journal_take(j, a, j->ops[a].adds);
    static const enum journal_mark marks[] = {JOURNAL_OP, JOURNAL_ADD, JOURNAL_ADD, JOURNAL_DONE};
    struct slice rest = buf_slice(&j->records);
    for (size_t i = 0; i < 4; i++) {
        assert_true(journal_next(&rest, &r));
        assert_int_equal(r.mark, marks[i]);
        assert_int_equal(r.number, a);
    }
    assert_int_equal(rest.n, 0);
}

TEST(what_did_not_run_is_undone)
{
    uint32_t a = number(OP_SERIES, "a", "", 1);
    journal_add(j, a, 5);
    journal_undo_add(j, a, 5, 1, false);
    assert_int_equal(j->pending, 0);
    assert_int_equal(j->ops[a].n, 0);
    assert_int_equal(j->ops[a].adds, 0);
    assert_false(j->ops[a].told);
    journal_add(j, a, 5);
    journal_add(j, a, 6);
    journal_undo_add(j, a, 6, 1, true);
    assert_true(j->ops[a].told);
    assert_int_equal(j->ops[a].n, 5);
    assert_int_equal(j->pending, 1);
    journal_take(j, a, j->ops[a].adds);
    journal_add(j, a, 1); /* meanwhile */
    j->from = 1;
    journal_undo_take(j, a, 5, 1, OP_END);
    assert_int_equal(j->ops[a].n, 6);
    assert_int_equal(j->ops[a].adds, 2);
    assert_int_equal(j->pending, 1);
    assert_int_equal(j->from, 0);
}

/* --- events --- */

#define LOG "e", "t", EVENT_GIVEN

/* Its events that are still to be added, their ids one after the other. */
static void assert_events(const struct journal *of, uint32_t number, const char *want)
{
    const struct journal_op *op = &of->ops[number];
    char ids[200] = "";
    uint32_t i = op->first_event;
    for (uint32_t left = op->adds; left > 0; left--, i = of->events[i].next) {
        const struct journal_event *e = &of->events[i];
        size_t n = strlen(ids);
        if (e->id > 0)
            snprintf(ids + n, sizeof ids - n, "%lld ", (long long)e->id);
        else
            snprintf(ids + n, sizeof ids - n, SLICE_FMT " ",
                     SLICE_ARG(slice_of(of->texts.p + e->text_at, e->text_n)));
        if (left == 1) assert_int_equal(op->last_event, i);
    }
    assert_string_equal(ids, want);
}

static uint32_t with_events(int64_t from, int64_t to)
{
    uint32_t e = number(OP_EVENT, LOG);
    for (int64_t id = from; id <= to; id++)
        journal_add_event(j, e, 100 + id, id, SLICE(""));
    return e;
}

TEST(events_go_in_the_order_they_came)
{
    uint32_t e = with_events(1, 3);
    journal_add_event(j, e, 200, 0, SLICE("mine"));
    journal_add_event(j, e, 200, 0, SLICE(""));
    assert_events(j, e, "1 2 3 mine  ");
    assert_int_equal(j->ops[e].adds, 5);
    assert_int_equal(j->pending, 1);
    journal_take(j, e, 2);
    assert_events(j, e, "3 mine  ");
    with_events(7, 7);
    assert_events(j, e, "3 mine  7 ");
    journal_take(j, e, 4);
    assert_events(j, e, "");
    assert_int_equal(j->pending, 0);
    with_events(8, 9);
    assert_events(j, e, "8 9 ");
    assert_int_equal(j->events[j->ops[e].first_event].second, 108);
}

TEST(events_that_did_not_run_are_undone)
{
    uint32_t e = with_events(1, 2);
    journal_undo_add(j, e, 0, 2, false);
    assert_events(j, e, "");
    assert_false(j->ops[e].told);
    assert_int_equal(j->pending, 0);
    with_events(3, 5);
    journal_undo_add(j, e, 0, 2, true);
    assert_events(j, e, "3 ");
    assert_true(j->ops[e].told);
    with_events(6, 6);
    assert_events(j, e, "3 6 ");
}

TEST(events_that_were_not_brought_home_are_first_again)
{
    uint32_t e = with_events(1, 4), first_event = j->ops[e].first_event;
    journal_take(j, e, 2);
    j->from = 1;
    journal_undo_take(j, e, 0, 2, first_event);
    assert_events(j, e, "1 2 3 4 ");
    assert_int_equal(j->from, 0);
    journal_take(j, e, 4);
    with_events(5, 5); /* meanwhile */
    journal_undo_take(j, e, 0, 4, first_event);
    assert_events(j, e, "1 2 3 4 5 ");
    journal_take(j, e, 5);
    journal_undo_take(j, e, 0, 5, first_event);
    assert_events(j, e, "1 2 3 4 5 ");
    assert_int_equal(j->pending, 1);
}

TEST(another_one_reads_the_events_that_are_not_gone)
{
    uint32_t e = with_events(1, 4);
    journal_add_event(j, e, 9, 0, SLICE("mine"));
    journal_take(j, e, 2);
    struct journal *other = journal_create(SLICE("other"), 2, 1000);
    assert_true(reads(other, buf_slice(&j->records)));
    assert_events(other, e, "3 4 mine ");
    assert_int_equal(other->events[other->ops[e].first_event].second, 103);
    assert_int_equal(other->pending, 1);
    journal_destroy(other);
}

/* --- another one's --- */

static void assert_pending(const struct journal *of, uint32_t i, const char *name, int64_t at, int64_t n)
{
    assert_true(i < of->ops_n && of->ops[i].adds > 0);
    assert_slice(journal_name(of, &of->ops[i]), name);
    assert_int_equal(of->ops[i].which, at);
    assert_int_equal(of->ops[i].n, n);
}

TEST(gaps_are_no_ops)
{
    struct buf bytes = {0};
    journal_put_op(&bytes, 9, OP_SERIES, 5, SLICE("a"),
                   SLICE("")); /* 0 to 8 were in a frame that was refused */
    journal_put_add(&bytes, 9, 2);
    journal_put_op(&bytes, 3, OP_TIMEBOX, 60, SLICE("b"), SLICE(""));
    journal_put_add(&bytes, 3, 4);
    assert_true(reads(j, buf_slice(&bytes)));
    assert_int_equal(j->pending, 2);
    assert_int_equal(j->from, 0);
    assert_int_equal(j->bytes, bytes.n);
    for (uint32_t i = 0; i < j->ops_n; i++)
        if (i != 3 && i != 9) assert_int_equal(j->ops[i].adds, 0);
    assert_pending(j, 3, "b", 60, 4);
    assert_pending(j, 9, "a", 5, 2);
    assert_int_equal(first(OP_SERIES, "a", ""), 9);
    buf_free(&bytes);
}

TEST(an_op_told_again_is_the_same)
{
    struct buf bytes = {0};
    for (int i = 0; i < 2; i++) {
        journal_put_op(&bytes, 0, OP_SERIES, 5, SLICE("a"), SLICE(""));
        journal_put_add(&bytes, 0, 2);
    }
    assert_true(reads(j, buf_slice(&bytes)));
    assert_pending(j, 0, "a", 5, 4);
    assert_int_equal(j->ops[0].next, OP_END);
    assert_int_equal(j->names_n, 1);
    buf_free(&bytes);
}

TEST(what_is_done_is_not_pending)
{
    struct buf bytes = {0};
    journal_put_op(&bytes, 0, OP_SERIES, 5, SLICE("a"), SLICE(""));
    journal_put_add(&bytes, 0, 2);
    journal_put_done(&bytes, 0);
    assert_true(reads(j, buf_slice(&bytes)));
    assert_int_equal(j->pending, 0);
    journal_put_add(&bytes, 0, 7);
    struct journal *again = journal_create(SLICE("again"), 2, 1000);
    assert_true(reads(again, buf_slice(&bytes)));
    assert_pending(again, 0, "a", 5, 7);
    assert_int_equal(again->pending, 1);
    journal_destroy(again);
    buf_free(&bytes);
}

/* Reads the OP and ADD of `a`, then what the test put after them. */
static void assert_torn_behind_a(struct buf *tail)
{
    struct buf bytes = {0};
    struct journal *torn = journal_create(SLICE("torn"), 2, 1000);
    journal_put_op(&bytes, 0, OP_SERIES, 5, SLICE("a"), SLICE(""));
    journal_put_add(&bytes, 0, 2);
    assert_true(reads(torn, buf_slice(&bytes)));
    journal_destroy(torn);
    torn = journal_create(SLICE("torn"), 2, 1000);
    buf_put_slice(&bytes, buf_slice(tail));
    assert_false(reads(torn, buf_slice(&bytes)));
    assert_int_equal(torn->pending, 1);
    assert_pending(torn, 0, "a", 5, 2);
    journal_destroy(torn);
    buf_free(&bytes);
    buf_reset(tail);
}

TEST(what_stands_before_a_tear_is_taken)
{
    struct buf tail = {0};
    BUF_LIT(&tail, "\x07");
    assert_torn_behind_a(&tail);
    BUF_LIT(&tail, "\x05"); /* an ADD without its sum */
    assert_torn_behind_a(&tail);
    journal_put_add(&tail, 1, 5); /* to an op never told */
    journal_put_add(&tail, 0, 5);
    assert_torn_behind_a(&tail);
    journal_put_done(&tail, UINT32_MAX);
    assert_torn_behind_a(&tail);
    journal_put_op(&tail, JOURNAL_NUMBERS_MAX, OP_SERIES, 5, SLICE("b"), SLICE(""));
    assert_torn_behind_a(&tail);
    journal_put_event(&tail, 0, 5, 1, SLICE("")); /* of what is no log */
    assert_torn_behind_a(&tail);
    journal_put_gone(&tail, 0, 1);
    assert_torn_behind_a(&tail);
    journal_put_add(&tail, 0, INT64_MAX); /* no sum that was ever written */
    assert_torn_behind_a(&tail);
    buf_free(&tail);
}

TEST(a_log_is_not_added_to_and_loses_no_more_than_it_has)
{
    struct buf bytes = {0};
    for (int i = 0; i < 3; i++) {
        buf_reset(&bytes);
        journal_put_op(&bytes, 0, OP_EVENT, EVENT_GIVEN, SLICE("e"), SLICE("t"));
        journal_put_event(&bytes, 0, 5, 7, SLICE(""));
        if (i == 0) journal_put_add(&bytes, 0, 1);
        if (i == 1) journal_put_done(&bytes, 0);
        if (i == 2) journal_put_gone(&bytes, 0, 2);
        struct journal *torn = journal_create(SLICE("torn"), 2, 1000);
        assert_false(reads(torn, buf_slice(&bytes)));
        assert_events(torn, 0, "7 ");
        journal_destroy(torn);
    }
    buf_free(&bytes);
}

TEST(no_bytes_are_no_ops)
{
    assert_true(reads(j, SLICE("")));
    assert_int_equal(j->ops_n, 0);
    assert_int_equal(j->pending, 0);
}

TEST(broken_bytes_are_read_to_some_end)
{
    struct dice d = dice_new(__func__);
    struct buf bytes = {0};
    char name[8];
    for (int round = 0; round < 2000; round++) {
        buf_reset(&bytes);
        for (uint32_t i = 0; i < 30; i++) {
            snprintf(name, sizeof name, "n%u", (unsigned)dice_below(&d, 8));
            journal_put_op(&bytes, i, OP_SERIES, (int64_t)dice_below(&d, 3), slice_str(name), SLICE(""));
            journal_put_add(&bytes, (uint32_t)dice_below(&d, i + 1), (int64_t)dice_u64(&d) >> 3);
            if (dice_below(&d, 3) == 0) journal_put_done(&bytes, (uint32_t)dice_below(&d, i + 1));
            journal_put_op(&bytes, 40 + i, OP_EVENT, EVENT_GIVEN, slice_str(name), SLICE("t"));
            journal_put_event(&bytes, 40 + (uint32_t)dice_below(&d, i + 1), 5, (int64_t)dice_below(&d, 3),
                              SLICE("id"));
            if (dice_below(&d, 8) == 0) journal_put_gone(&bytes, 40 + (uint32_t)dice_below(&d, i + 1), 1);
        }
        for (size_t i = 0, n = dice_below(&d, 4); i < n; i++)
            bytes.p[dice_below(&d, bytes.n)] ^= (char)(1 << dice_below(&d, 6));
        struct journal *broken = journal_create(SLICE("broken"), 2, 1000);
        (void)reads(broken, buf_slice(&bytes));
        uint32_t pending = 0;
        for (uint32_t i = 0; i < broken->ops_n; i++)
            pending += broken->ops[i].adds > 0;
        assert_int_equal(broken->pending, pending);
        journal_destroy(broken);
    }
    buf_free(&bytes);
}

/* One op in or out, in a frame that runs or does not. */
static void some_sum(struct dice *d, uint32_t i, bool runs)
{
    struct journal_op before = j->ops[i];
    int64_t n = (int64_t)dice_below(d, 100) - 50;
    if (before.adds > 0 && dice_below(d, 3) == 0) {
        journal_take(j, i, before.adds);
        if (!runs) journal_undo_take(j, i, before.n, before.adds, OP_END);
    } else {
        journal_add(j, i, n);
        if (!runs) journal_undo_add(j, i, n, 1, before.told);
    }
}

static void some_events(struct dice *d, uint32_t i, bool runs)
{
    struct journal_op before = j->ops[i];
    uint32_t n = 1 + (uint32_t)dice_below(d, 5);
    if (before.adds >= n && dice_below(d, 2) == 0) {
        journal_take(j, i, n);
        if (!runs) journal_undo_take(j, i, 0, n, before.first_event);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        journal_add_event(j, i, (int64_t)dice_below(d, 9), (int64_t)dice_below(d, 1000), SLICE("id"));
    if (!runs) journal_undo_add(j, i, 0, n, before.told);
}

static void assert_same_pending(const struct journal *a, const struct journal *b, uint32_t number)
{
    const struct journal_op *x = &a->ops[number], *y = &b->ops[number];
    assert_int_equal(x->adds, y->adds);
    assert_int_equal(x->n, y->n);
    assert_int_equal(x->which, y->which);
    assert_true(slice_eq(journal_name(a, x), journal_name(b, y)));
    uint32_t p = x->first_event, q = y->first_event;
    for (uint32_t left = journal_has_events(x) ? x->adds : 0; left > 0; left--) {
        assert_true(a->events[p].id == b->events[q].id && a->events[p].second == b->events[q].second);
        p = a->events[p].next;
        q = b->events[q].next;
    }
}

/* A daemon's own state of its journal is what another daemon reads from it, whatever was refused. */
TEST(the_other_reads_what_this_one_remembers)
{
    struct dice d = dice_new(__func__);
    struct buf bytes = {0};
    char name[8];
    for (int frame = 0; frame < 6000; frame++) {
        bool runs = dice_below(&d, 4) > 0, sums = dice_below(&d, 2) == 0;
        snprintf(name, sizeof name, "n%u", (unsigned)dice_below(&d, 40));
        if (sums)
            some_sum(&d, number(OP_SERIES, name, "", (int64_t)dice_below(&d, 5)), runs);
        else
            some_events(&d, number(OP_EVENT, name, "t", EVENT_GIVEN), runs);
        if (runs) buf_put_slice(&bytes, buf_slice(&j->records));
        buf_reset(&j->records);
    }
    struct journal *other = journal_create(SLICE("other"), 2, 1000);
    assert_true(reads(other, buf_slice(&bytes)));
    assert_int_equal(other->pending, j->pending);
    for (uint32_t i = 0; i < j->ops_n; i++)
        if (j->ops[i].adds > 0) assert_same_pending(j, other, i);
    journal_destroy(other);
    buf_free(&bytes);
}
