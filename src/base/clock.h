/* base/clock.h - clocks, and random numbers:
 *   mono_  CLOCK_MONOTONIC: waiting and remembering
 *   age_   CLOCK_BOOTTIME: the same, but goes on while the host sleeps: for ages that must not look young afterwards
 *   wall_  CLOCK_REALTIME: for people only
 *   ran_   CLOCK_THREAD_CPUTIME_ID: CPU time of this thread; a system call */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t mono_ms(void);
uint64_t mono_us(void);
uint64_t age_ms(void); /* not to be compared with mono_ms() */
int64_t wall_ms(void); /* since 1970 */
uint64_t ran_us(void);

/* Another machine's wall clock, used to decide what is old enough to delete. It follows steps back, since they only
 * make things look younger. A leap ahead may be a mistake, so it follows only one that has lasted for STEADY_SETTLE_MS. */

#define STEADY_SLACK_MS 5000
#define STEADY_SETTLE_MS (10 * 60 * 1000)

struct steady {
    int64_t offset_ms;         /* the believed clock minus mono */
    uint64_t leapt_at_mono_ms; /* when a leap was seen that is not believed yet */
    bool known, leapt;
};

/* The time to use when that clock reads wall_ms and ours mono_ms. This call notices a leap. */
int64_t steady_ms(struct steady *s, int64_t wall_ms, uint64_t mono_ms);

/* Bytes from getrandom(2); ends the process when the kernel has none. */

void rand_bytes(void *out, size_t n);
uint64_t rand_below(uint64_t n); /* 0 <= result < n; n > 0 */

/* Exponential backoff with full jitter: before try number `attempt` (from 0), between base/2 and
 * min(base << attempt, most), in ms. */
uint64_t rand_backoff_ms(unsigned attempt, uint64_t base_ms, uint64_t most_ms);

#endif
