/* bench/histogram.h - times in ns, each filed within 1.6 % of what it was: 64 slots to each power of two. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SLOTS (64 * 60)

struct histogram { /* all zero: empty */
    uint64_t n, most_ns;
    uint64_t slots[HISTOGRAM_SLOTS];
};

void histogram_put(struct histogram *h, uint64_t ns);
double histogram_us(const struct histogram *h,
                    double share); /* that share of them took at most the result; 0: empty */

#endif
