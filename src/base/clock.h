/* base/clock.h - mono_: CLOCK_MONOTONIC, for waiting and remembering; wall_: CLOCK_REALTIME, for people only. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t mono_ms(void);
uint64_t mono_us(void);
int64_t wall_ms(void); /* since 1970 */

#endif
