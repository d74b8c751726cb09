/* Buffers: they hold what was put into them, over any mix of growth and dropping. */
#include "lib/unit.h"

#include "base/heap.h"
#include "lib/dice.h"

UNIT(puts_and_prints)
{
    struct buf b = {0};
    BUF_LIT(&b, "a=");
    buf_int(&b, INT64_MIN);
    buf_put_char(&b, ' ');
    buf_put_slice(&b, SLICE("key"));
    buf_put(&b, NULL, 0);
    buf_printf(&b, " %s:%d", "n", 7);
    assert_slice(buf_slice(&b), "a=-9223372036854775808 key n:7");
    buf_drop(&b, 2);
    assert_slice(buf_slice(&b), "-9223372036854775808 key n:7");
    buf_drop(&b, b.n);
    assert_int_equal(b.n, 0);
    buf_free(&b);
    assert_null(b.p);
    assert_int_equal(b.cap, 0);
}

UNIT(prints_longer_than_it_has_room)
{
    struct buf b = {0};
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    buf_printf(&b, "%s", text);
    assert_slice(buf_slice(&b), text);
    buf_free(&b);
}

UNIT(equals_a_plain_array)
{
    struct dice d = dice_new("equals_a_plain_array");
    struct buf b = {0};
    char *model = heap_alloc(1 << 20);
    size_t n = 0;
    for (int step = 0; step < 3000; step++) {
        if (dice_below(&d, 4) == 0) {
            size_t gone = dice_below(&d, n + 1);
            buf_drop(&b, gone);
            memmove(model, model + gone, n -= gone);
        } else {
            size_t more = dice_below(&d, 300);
            for (size_t i = 0; i < more; i++)
                model[n + i] = (char)dice_u64(&d);
            buf_put(&b, model + n, more);
            n += more;
        }
        assert_int_equal(b.n, n);
        assert_true(slice_eq(buf_slice(&b), slice_of(model, n)));
    }
    heap_free(model);
    buf_free(&b);
}
