/* base/clock.h
 *   mono_  CLOCK_MONOTONIC: waiting and remembering
 *   age_   CLOCK_BOOTTIME: the same, but goes on while the host sleeps: for ages that must not look young afterwards
 *   wall_  CLOCK_REALTIME: for people only
 *   ran_   CLOCK_THREAD_CPUTIME_ID: CPU time of this thread; a system call */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t mono_ms(void);
uint64_t mono_us(void);
uint64_t age_ms(void); /* not to be compared with mono_ms() */
int64_t wall_ms(void); /* since 1970 */
uint64_t ran_us(void);

#endif
