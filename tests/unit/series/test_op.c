/* Ops: slots and what is kept of them, and which visitors move a counter. */
#include "lib/unit.h"

#include "series/op.h"

UNIT(slots_begin_at_multiples_of_their_width)
{
    assert_int_equal(op_slot(0, 60), 0);
    assert_int_equal(op_slot(59, 60), 0);
    assert_int_equal(op_slot(60, 60), 60);
    assert_int_equal(op_slot(INT64_MAX, 1), INT64_MAX);
}

UNIT(a_slot_is_kept_while_it_is_among_the_samples)
{
    static const struct op_limits l = {.precisions = {1, 60}, .precisions_n = 2, .samples = 3};
    assert_true(op_keeps(&l, 0, 1000, 1000));
    assert_true(op_keeps(&l, 0, 998, 1000));
    assert_false(op_keeps(&l, 0, 997, 1000));
    assert_true(op_keeps(&l, 0, 1005, 1000)); /* somewhat ahead */
    assert_true(op_keeps(&l, 1, 899, 1019));
    assert_false(op_keeps(&l, 1, 899, 1020));
    for (int64_t now = 1200; now < 1320; now++) { /* never more than the samples and the open one */
        int kept = 0;
        for (int64_t slot = 0; slot <= now; slot += 60)
            kept += op_keeps(&l, 1, slot, now);
        assert_int_equal(kept, 3);
    }
}

UNIT(visitors_of_a_store_move_its_counter)
{
    static const struct counter c = {.key = {{"s", 1}, {":daily", 6}, true, NULL}, .store = STORE_INTEGER};
    struct op_limits l = {.uniq_name = {{"shop", 4}, {":who", 4}, true, NULL}};
    struct buf b = {0};
    assert_false(op_uniq_key(&l, SLICE("shop1:who"), &b));
    l.uniq_counter = &c;
    assert_true(op_uniq_key(&l, SLICE("shop12:who"), &b));
    assert_slice(buf_slice(&b), "s12:daily");
    assert_false(op_uniq_key(&l, SLICE("shop012:who"), &b));
    assert_false(op_uniq_key(&l, SLICE("shopx:who"), &b));
    assert_false(op_uniq_key(&l, SLICE("other"), &b));
    assert_slice(buf_slice(&b), "s12:daily");
    buf_free(&b);
}
