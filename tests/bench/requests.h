/* bench/requests.h - requests built before the clock starts, in one buffer. A hit is one HINCRBY; with the
 * seeds' protocol a SETNX of the lock stands behind each. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct requests_spec {
    uint32_t n; /* how many hits */
    uint32_t stores,
        first;    /* stores first .. first + stores - 1, pending hashes s<store>:unique_visitors:daily */
    double zipf;  /* exponent over the stores */
    bool in_turn; /* each store once before any comes again, in a scattered order; no Zipf */
    bool lock;    /* the seeds' SETNX behind each hit */
    int64_t delta;
};

struct requests {
    char *bytes; /* hit i is bytes[at[i] .. lock_at[i]), its SETNX bytes[lock_at[i] .. at[i + 1]) */
    size_t *at;  /* n + 1 */
    size_t *lock_at;
    uint32_t n;
};

void requests_build(struct requests *r, const struct requests_spec *spec);
void requests_free(struct requests *r);

#endif
