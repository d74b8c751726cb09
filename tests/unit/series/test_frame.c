/* Frames: they hold what was added, sums per counter, and a warm frame allocates nothing. */
#include "lib/unit.h"

#include "base/heap.h"
#include "lib/child.h"
#include "lib/frame_cell.h"

static struct counter counters[3];
static size_t allocations;

static void *counted(void *arg, void *p, size_t size)
{
    allocations++;
    return realloc(p, size);
}

static void uncounted(void *arg, void *p)
{
    free(p);
}

static void fill(struct frame *f, uint32_t hashes, uint32_t cells)
{
    for (uint32_t h = 0; h < hashes; h++) {
        struct frame_hash *hash = frame_add_hash(f, &counters[h % 3], SLICE("s1:daily"));
        hash->zadd = true;
        for (uint32_t i = 0; i < cells; i++) {
            char field[16];
            size_t n = (size_t)snprintf(field, sizeof field, "%u-%u", h, i);
            struct frame_cell *c = frame_add_cell(f, h, slice_of(field, n), (int64_t)i + 1);
            c->value = 7;
            frame_add_share(f, &counters[h % 3], (int64_t)i + 1);
        }
    }
}

UNIT(holds_what_was_added)
{
    struct frame f = {0};
    fill(&f, 300, 5);
    assert_int_equal(f.hashes_n, 300);
    assert_int_equal(f.cells_n, 1500);
    assert_int_equal(f.shares_n, 3);
    for (uint32_t i = 0; i < f.cells_n; i++) {
        char field[16];
        (void)snprintf(field, sizeof field, "%u-%u", i / 5, i % 5);
        assert_slice(FRAME_FIELD(&f, &f.cells[i]), field);
        assert_int_equal(f.cells[i].hash, i / 5);
        assert_int_equal(f.cells[i].delta, i % 5 + 1);
        assert_int_equal(f.hashes[i / 5].cells, 5);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_ptr_equal(f.shares[i].counter, &counters[i]);
        assert_int_equal(f.shares[i].delta, 100 * 15);
    }
    frame_free(&f);
    assert_null(f.cells);
}

UNIT(holds_ops_and_their_items_in_order)
{
    struct frame f = {0};
    char text[16];
    for (uint32_t i = 0; i < 100; i++) {
        size_t n = (size_t)snprintf(text, sizeof text, "log%u", i);
        struct frame_op *op = frame_add_op(&f, OP_EVENT, slice_of(text, n), SLICE("submit"), 0);
        assert_int_equal(op->first_item, OP_END);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        size_t n = (size_t)snprintf(text, sizeof text, "id%u", i);
        assert_int_equal(frame_add_item(&f, &f.ops[i % 100], i, slice_of(text, i % 2 == 0 ? n : 0)), i);
    }
    for (uint32_t i = 0; i < 100; i++) {
        const struct frame_op *op = &f.ops[i];
        uint32_t at = i;
        (void)snprintf(text, sizeof text, "log%u", i);
        assert_slice(FRAME_NAME(&f, op), text);
        assert_slice(FRAME_TYPE(&f, op), "submit");
        assert_int_equal(op->items_n, 10);
        for (uint32_t item = op->first_item; item != OP_END; item = f.items[item].next, at += 100) {
            (void)snprintf(text, sizeof text, "id%u", at);
            assert_int_equal(f.items[item].at, at);
            assert_slice(FRAME_TEXT(&f, f.items[item].text_at, f.items[item].text_n),
                         at % 2 == 0 ? text : "");
        }
        assert_int_equal(at, i + 1000);
    }
    frame_fail_op(&f, &f.ops[7], SLICE("ERR one"));
    frame_fail_op(&f, &f.ops[8], SLICE("ERR two"));
    assert_slice(FRAME_ERROR(&f, &f.ops[8]), "ERR two");
    assert_int_equal(f.ops[9].error_n, 0);
    frame_reset(&f);
    assert_int_equal(f.ops_n + f.items_n, 0);
    frame_free(&f);
}

UNIT(forgets_all_when_reset)
{
    struct frame f = {0};
    fill(&f, 3, 2);
    BUF_LIT(&f.errors, "ERR x");
    frame_reset(&f);
    assert_int_equal(f.hashes_n + f.cells_n + f.shares_n + f.bytes.n + f.errors.n, 0);
    struct frame_hash *h = frame_add_hash(&f, NULL, SLICE("k"));
    assert_false(h->zadd);
    assert_int_equal(h->cells, 0);
    assert_int_equal(frame_add_cell(&f, 0, SLICE("f"), -4)->value, 0);
    frame_add_share(&f, &counters[0], -4);
    assert_int_equal(f.shares[0].delta, -4);
    frame_free(&f);
}

UNIT(allocates_nothing_once_warm)
{
    static const struct heap counting = {counted, uncounted, NULL};
    struct frame f = {0};
    heap_replace(&counting);
    fill(&f, 500, 4);
    assert_true(allocations > 0 && allocations < 40);
    allocations = 0;
    for (int turn = 0; turn < 3; turn++) {
        frame_reset(&f);
        fill(&f, 500, 4);
    }
    assert_int_equal(allocations, 0);
    frame_free(&f);
    heap_replace(NULL);
}

static void overflow(void *arg)
{
    struct frame *f = arg;
    frame_add_share(f, &counters[0], INT64_MAX);
    frame_add_share(f, &counters[0], 1);
}

static void unknown_hash(void *arg)
{
    (void)frame_add_raw(arg, 0, SLICE("f"), SLICE("f"), 1);
}

UNIT(our_own_mistakes_end_it)
{
    struct frame f = {0};
    struct child_end end = child_run(overflow, &f);
    assert_true(child_was_killed(&end, SIGABRT));
    assert_non_null(strstr(end.stderr_, "kind=invariant"));
    end = child_run(unknown_hash, &f);
    assert_true(child_was_killed(&end, SIGABRT));
    assert_non_null(strstr(end.stderr_, "kind=precondition"));
}
