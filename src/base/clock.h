/* base/clock.h - mono_: CLOCK_MONOTONIC, for waiting and remembering; age_: CLOCK_BOOTTIME, the same, but it goes on while
 * the host sleeps: for what must not be taken for young then; wall_: CLOCK_REALTIME, for people only; ran_: CLOCK_THREAD_CPUTIME_ID,
 * what this thread itself took, at the price of a system call. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t mono_ms(void);
uint64_t mono_us(void);
uint64_t age_ms(void); /* not to be compared with mono_ms() */
int64_t wall_ms(void); /* since 1970 */
uint64_t ran_us(void);

#endif
