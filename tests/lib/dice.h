/* lib/dice.h - random numbers that can be thrown again: the seed is printed, and TALLYD_SEED sets it. */
#ifndef LIB_DICE_H
#define LIB_DICE_H

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

struct dice {
    uint64_t state;
};

static inline struct dice dice_new(const char *test)
{
    const char *asked = getenv("TALLYD_SEED");
    uint64_t seed = asked != NULL ? strtoull(asked, NULL, 10) : rand_below(UINT64_MAX);
    printf("%s: TALLYD_SEED=%llu\n", test, (unsigned long long)seed);
    return (struct dice){seed};
}

/* splitmix64: any seed is a good one. */
static inline uint64_t dice_u64(struct dice *d)
{
    uint64_t z = (d->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline size_t dice_below(struct dice *d, size_t n)
{
    return (size_t)(dice_u64(d) % n);
}

#endif
