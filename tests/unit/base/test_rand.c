/* Randomness and clocks: bounds hold, and all values within them are met. */
#include "lib/unit.h"

#include "base/clock.h"

#include <time.h>

UNIT(stays_below)
{
    bool seen[7] = {false};
    for (int i = 0; i < 2000; i++)
        seen[rand_below(7)] = true;
    for (int i = 0; i < 7; i++)
        assert_true(seen[i]);
    assert_int_equal(rand_below(1), 0);
}

UNIT(fills_every_byte)
{
    uint8_t bytes[301] = {0}, met[300] = {0};
    for (int i = 0; i < 20; i++) {
        rand_bytes(bytes, 300);
        for (int at = 0; at < 300; at++)
            met[at] |= bytes[at];
    }
    for (int at = 0; at < 300; at++)
        assert_int_not_equal(met[at], 0);
    assert_int_equal(bytes[300], 0);
}

static void backs_off(unsigned attempt, uint64_t base_ms, uint64_t most_ms, uint64_t low, uint64_t top)
{
    bool low_met = false, top_met = false;
    for (int i = 0; i < 4000; i++) {
        uint64_t ms = rand_backoff_ms(attempt, base_ms, most_ms);
        assert_true(ms >= low && ms <= top);
        low_met = low_met || ms == low;
        top_met = top_met || ms == top;
    }
    if (top - low < 100) assert_true(low_met && top_met);
}

UNIT(backs_off_within_bounds)
{
    backs_off(0, 100, 5000, 50, 100);
    backs_off(1, 20, 5000, 10, 40);
    backs_off(3, 100, 5000, 50, 800);
    backs_off(20, 100, 130, 50, 130);
    backs_off(64, 100, 120, 50, 120);
    backs_off(1000000, 100, 120, 50, 120);
    backs_off(0, 100, 30, 30, 30);
    backs_off(5, 0, 100, 0, 0);
    backs_off(63, UINT64_MAX, UINT64_MAX, UINT64_MAX / 2, UINT64_MAX);
}

UNIT(clocks_tell_time)
{
    uint64_t before_us = mono_us(), before_ms = mono_ms();
    while (mono_us() < before_us + 3000)
        continue;
    assert_true(mono_ms() >= before_ms + 2);
    int64_t wall = wall_ms(), now = (int64_t)time(NULL) * 1000;
    assert_true(wall > now - 60000 && wall < now + 60000);
}
