/* base/rand.h - bytes from getrandom(2); ends the process when the kernel has none. */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

void rand_bytes(void *out, size_t n);
uint64_t rand_below(uint64_t n); /* 0 <= result < n; n > 0 */

/* Exponential backoff with full jitter: before try number `attempt` (from 0), between base/2 and
 * min(base << attempt, most), in ms. */
uint64_t rand_backoff_ms(unsigned attempt, uint64_t base_ms, uint64_t most_ms);

#endif
