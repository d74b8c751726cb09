/* A clock that is followed, falls back, leaps ahead and is mended, or leaps for good. */
#include "lib/unit.h"

#include "base/clock.h"

#define BEGIN INT64_C(1700000000000)
#define DAY INT64_C(86400000)

/* Its time after after_ms, when the clock is wrong by wrong_ms. */
static int64_t at(struct steady *s, uint64_t after_ms, int64_t wrong_ms)
{
    return steady_ms(s, BEGIN + (int64_t)after_ms + wrong_ms, 5000 + after_ms) - BEGIN - (int64_t)after_ms;
}

UNIT(test_follows)
{
    struct steady s = {0};
    assert_int_equal(at(&s, 0, 0), 0);
    for (uint64_t i = 1; i < 1000; i++) /* slewed: 5 s too fast in 1,000 s, and more than the slack in all */
        assert_int_equal(at(&s, i * 1000, (int64_t)i * 50), (int64_t)i * 50);
}

UNIT(test_falls_back)
{
    struct steady s = {0};
    at(&s, 0, 0);
    assert_int_equal(at(&s, 1000, -3600000), -3600000);
}

UNIT(test_leap_mended)
{
    struct steady s = {0};
    at(&s, 0, 0);
    assert_int_equal(at(&s, 1000, DAY), 0);
    assert_true(s.leapt);
    assert_int_equal(at(&s, 1000 + STEADY_SETTLE_MS - 1, DAY), 0);
    assert_int_equal(at(&s, 1000 + STEADY_SETTLE_MS, 100), 100);
    assert_false(s.leapt);
    assert_int_equal(at(&s, 2000 + STEADY_SETTLE_MS, DAY), 100); /* the next leap waits as long */
}

UNIT(test_leap_believed)
{
    struct steady s = {0};
    at(&s, 0, 0);
    at(&s, 1000, DAY);
    assert_int_equal(at(&s, 1000 + STEADY_SETTLE_MS, DAY), DAY);
    assert_int_equal(at(&s, 2000 + STEADY_SETTLE_MS, DAY), DAY);
}
