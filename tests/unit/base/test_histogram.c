/* The histogram against lists: counts at powers of two are exact, and nothing is lost when threads write together. */
#include "lib/unit.h"

#include "base/stats.h"
#include "lib/dice.h"

#include <pthread.h>

#define VALUES 20000

UNIT(an_empty_one_says_nothing)
{
    struct histogram h = {0};
    assert_int_equal(histogram_count(&h), 0);
    assert_int_equal(histogram_within(&h, 31), 0);
}

static uint64_t within(const uint64_t *values, uint64_t bound)
{
    uint64_t n = 0;
    for (size_t i = 0; i < VALUES; i++)
        n += values[i] <= bound;
    return n;
}

UNIT(is_as_exact_as_it_says)
{
    static uint64_t values[VALUES];
    struct histogram h = {0};
    uint64_t sum = 0;
    struct dice dice = dice_new("histogram");
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = 1 + (dice_u64(&dice) >> (32 + dice_below(&dice, 32))) % UINT64_C(4000000000);
        sum += values[i];
        histogram_add(&h, values[i]);
    }
    assert_int_equal(histogram_count(&h), VALUES);
    assert_int_equal(h.sum_us, sum);
    for (unsigned power = 4; power < 32; power++)
        assert_int_equal(histogram_within(&h, power), within(values, UINT64_C(1) << power));
}

UNIT(upper_ends_belong_to_their_bucket)
{
    for (unsigned power = 4; power < 32; power++) {
        struct histogram h = {0};
        histogram_add_many(&h, UINT64_C(1) << power, 3);
        histogram_add_many(&h, (UINT64_C(1) << power) + 1, 5);
        assert_int_equal(histogram_within(&h, power), 3);
        assert_int_equal(histogram_count(&h), 8);
    }
}

UNIT(the_longest_and_the_shortest_have_a_place)
{
    struct histogram h = {0};
    histogram_add(&h, 0);
    histogram_add(&h, UINT64_C(1) << 40);
    assert_int_equal(histogram_count(&h), 2);
    assert_int_equal(histogram_within(&h, 4), 1);
    assert_int_equal(histogram_within(&h, 31), 1);
}

static void *adds(void *h)
{
    for (uint64_t i = 0; i < 50000; i++)
        histogram_add(h, i % 100);
    return NULL;
}

UNIT(threads_lose_nothing)
{
    struct histogram copy;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, adds, &latencies.merge), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    histogram_read(&latencies.merge, &copy);
    assert_int_equal(histogram_count(&copy), 200000);
    assert_int_equal(copy.sum_us, UINT64_C(4) * 500 * 4950);
}
