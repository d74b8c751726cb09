/* bench/zipf.h - which store is hit next: by Zipf's law (or uniformly, exponent 0), the same ones in every
 * run, so that two servers are given the same. */
#ifndef BENCH_ZIPF_H
#define BENCH_ZIPF_H

#include <stdint.h>

struct zipf {
    double *sums; /* sums[i]: the chance of one of 0..i; owned */
    uint32_t n;
    uint64_t state; /* of xorshift64* */
};

void zipf_init(struct zipf *z, uint32_t n, double exponent, uint64_t seed); /* seed > 0 */
void zipf_close(struct zipf *z);
uint32_t zipf_draw(struct zipf *z); /* 0..n-1; 0 is the likeliest */

#endif
