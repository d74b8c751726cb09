#include "base/histogram.h"

#include "base/check.h"

/* Bucket b has the values that are over bound(b - 1) and at most bound(b): upper ends belong to it, as Prometheus has it.
 * The first 16 are one microsecond wide; from there on 16 of them double the bound. */
static unsigned bucket_of(uint64_t us)
{
    uint64_t v = us == 0 ? 0 : us - 1;
    if (v < HISTOGRAM_PARTS) return (unsigned)v;
    unsigned power = 63 - (unsigned)__builtin_clzll(v); /* >= 4 */
    unsigned part = (unsigned)(v >> (power - 4)) - HISTOGRAM_PARTS;
    unsigned bucket = HISTOGRAM_PARTS * (power - 3) + part;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t bound_us(unsigned bucket)
{
    if (bucket < HISTOGRAM_PARTS) return bucket + 1;
    unsigned power = bucket / HISTOGRAM_PARTS + 3, part = bucket % HISTOGRAM_PARTS;
    return (uint64_t)(HISTOGRAM_PARTS + part + 1) << (power - 4);
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
    PRE(power >= 4 && power < HISTOGRAM_POWERS + 4);
    return sum_to(h, HISTOGRAM_PARTS * (power - 3));
}

uint64_t histogram_quantile_us(const struct histogram *h, double q)
{
    PRE(q > 0 && q <= 1);
    uint64_t all = histogram_count(h), seen = 0;
    if (all == 0) return 0;
    double wanted = q * (double)all;
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
        seen += h->buckets[b];
        if ((double)seen >= wanted) return bound_us(b);
    }
    UNREACHABLE();
}
