/* base/histogram.h - durations in whole microseconds: a bucket for each power of two, from 16 us to an hour; the last
 * has all longer ones. Any thread writes and reads, with relaxed atomics. Count and sum may differ by what is being
 * added; both only grow. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_LEAST_POWER 4 /* of two: up to 16 us is one bucket */
#define HISTOGRAM_POWERS 28     /* up to 2^31 us, each known exactly */
#define HISTOGRAM_BUCKETS (HISTOGRAM_POWERS + 1)

struct histogram { /* all zero: empty */
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t sum_us;
};

void histogram_add_many(struct histogram *h, uint64_t us, uint64_t n); /* n of them took us */
static inline void histogram_add(struct histogram *h, uint64_t us)
{
    histogram_add_many(h, us, 1);
}

/* A copy that does not change, for the calls below. */
void histogram_read(const struct histogram *h, struct histogram *out);
uint64_t histogram_count(const struct histogram *h);
/* How many took at most 2^power us, for powers from HISTOGRAM_LEAST_POWER on. */
uint64_t histogram_within(const struct histogram *h, unsigned power);

#endif
