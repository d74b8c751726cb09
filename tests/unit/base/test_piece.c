/* A piece grows and shrinks to what is done in its time. */
#include "base/piece.h"
#include "lib/unit.h"

/* A server that needs so long for each, and fixed_us for a piece; from 1,000 at most. */
static uint32_t settles(double each_us, uint32_t fixed_us)
{
    struct piece p = {.now = 1000, .least = 32, .most = 1000, .us = 500};
    for (int i = 0; i < 20; i++)
        piece_took(&p, p.now, (uint64_t)(p.now * each_us) + fixed_us);
    return p.now;
}

static void it_settles_at_what_is_done_in_its_time(void **state)
{
    (void)state;
    assert_in_range(settles(5, 0), 99, 101);
    assert_in_range(settles(5, 40), 88, 100);
    assert_int_equal(settles(0.1, 0), 1000);
    assert_int_equal(settles(100, 0), 32);
    assert_int_equal(settles(0, 0), 1000);
}

static void it_moves_by_a_factor_of_two_at_most(void **state)
{
    (void)state;
    struct piece p = {.now = 400, .least = 32, .most = 1000, .us = 500};
    piece_took(&p, 400, 60000);
    assert_int_equal(p.now, 200);
    piece_took(&p, 200, 1);
    assert_int_equal(p.now, 400);
}

static void a_small_one_says_little(void **state)
{
    (void)state;
    struct piece p = {.now = 400, .least = 32, .most = 1000, .us = 500};
    piece_took(&p, 1, 100);
    assert_int_equal(p.now, 400);
    piece_took(&p, 399, 1);
    assert_int_equal(p.now, 400);
    piece_took(&p, 1, 501);
    assert_int_equal(p.now, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_settles_at_what_is_done_in_its_time),
                                       cmocka_unit_test(it_moves_by_a_factor_of_two_at_most),
                                       cmocka_unit_test(a_small_one_says_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
