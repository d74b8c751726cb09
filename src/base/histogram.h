/* base/histogram.h - how long something took, so often: a log-linear histogram of whole microseconds, after Gil Tene's
 * HdrHistogram. Each power of two is cut into 16 equal parts, so a value is known within 1/16 of itself, from 1 us to an
 * hour; what took longer is in the last part. Fixed size, nothing is ever lost or scaled.
 *
 * Written and read by any thread, with relaxed atomics: a reader sees each number as it was at some moment, so count and
 * sum may be apart by what is being added just then; both only grow. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PARTS 16
#define HISTOGRAM_POWERS 28 /* of two, after the first 16 us: up to 2^32 us */
#define HISTOGRAM_BUCKETS (HISTOGRAM_PARTS * (HISTOGRAM_POWERS + 1))

struct histogram { /* all zero: empty */
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t sum_us;
};

void histogram_add_many(struct histogram *h, uint64_t us, uint64_t n); /* n of them took so long */
static inline void histogram_add(struct histogram *h, uint64_t us)
{
    histogram_add_many(h, us, 1);
}

/* A copy that stands still; what else is asked is asked of such a one. */
void histogram_read(const struct histogram *h, struct histogram *out);
uint64_t histogram_count(const struct histogram *h);
/* How many took at most 2^power us; exact for powers from 4 on. */
uint64_t histogram_within(const struct histogram *h, unsigned power);
/* So long took the fastest q of them (0.99: all but the slowest hundredth), at most 1/16 too much; 0: there are none. */
uint64_t histogram_quantile_us(const struct histogram *h, double q);

#endif
