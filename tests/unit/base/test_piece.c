/* A piece grows and shrinks to what is done in its time. */
#include "base/turns.h"
#include "lib/unit.h"

static struct piece begun(void)
{
    return (struct piece){.now = 1000, .least = 32, .most = 1000, .us = 500};
}

/* A server that needs each_us for each, and fixed_us for a piece. */
static uint32_t settles(double each_us, uint32_t fixed_us)
{
    struct piece p = begun();
    for (int i = 0; i < 60; i++)
        piece_took(&p, p.now, (uint64_t)(p.now * each_us) + fixed_us);
    return p.now;
}

UNIT(it_settles_at_what_is_done_in_its_time)
{
    assert_in_range(settles(5, 0), 95, 105);
    assert_in_range(settles(5, 40), 85, 100);
    assert_int_equal(settles(0.1, 0), 1000);
    assert_int_equal(settles(100, 0), 32);
    assert_int_equal(settles(0, 0), 1000);
}

/* Every second time includes 4 ms of other work; every tenth answer came together with the one before. */
UNIT(the_times_of_others_do_not_count)
{
    struct piece p = begun();
    for (int i = 0; i < 60; i++)
        piece_took(&p, p.now, 5 * p.now);
    for (int i = 0; i < 200; i++) {
        piece_took(&p, p.now, i % 10 == 5 ? 1 : 5 * p.now + (i % 2 == 0 ? 4000 : 0));
        assert_in_range(p.now, 70, 180);
    }
}

UNIT(a_small_one_says_little)
{
    struct piece p = begun();
    for (int i = 0; i < 60; i++)
        piece_took(&p, p.now, 5 * p.now);
    uint32_t now = p.now;
    piece_took(&p, 1, 100);
    piece_took(&p, 0, 10000);
    piece_took(&p, now / 2 - 1, 1);
    assert_int_equal(p.now, now);
    piece_took(&p, 1, 501);
    assert_true(p.now < now);
}
