/* base/stats.c - see stats.h. */
#include "base/stats.h"

#include "base/log.h"

struct stats stats;

/* Bucket b has the values that are over 2^(b + 3) and at most 2^(b + 4): upper ends belong to it, as Prometheus has it. */
static unsigned bucket_of(uint64_t us)
{
    if (us <= UINT64_C(1) << HISTOGRAM_LEAST_POWER) return 0;
    unsigned bucket = 64 - HISTOGRAM_LEAST_POWER - (unsigned)__builtin_clzll(us - 1);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

void histogram_add_many(struct histogram *h, uint64_t us, uint64_t n)
{
    __atomic_fetch_add(&h->buckets[bucket_of(us)], n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&h->sum_us, us * n, __ATOMIC_RELAXED);
}

void histogram_read(const struct histogram *h, struct histogram *out)
{
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
        out->buckets[b] = __atomic_load_n(&h->buckets[b], __ATOMIC_RELAXED);
    out->sum_us = __atomic_load_n(&h->sum_us, __ATOMIC_RELAXED);
}

static uint64_t sum_to(const struct histogram *h, unsigned end)
{
    uint64_t n = 0;
    for (unsigned b = 0; b < end; b++)
        n += h->buckets[b];
    return n;
}

uint64_t histogram_count(const struct histogram *h)
{
    return sum_to(h, HISTOGRAM_BUCKETS);
}

uint64_t histogram_within(const struct histogram *h, unsigned power)
{
    PRE(power >= HISTOGRAM_LEAST_POWER && power < HISTOGRAM_LEAST_POWER + HISTOGRAM_POWERS);
    return sum_to(h, power - HISTOGRAM_LEAST_POWER + 1);
}

struct latencies latencies;
