/* base/steady.h - another machine's wall clock, for those who delete by it. It is followed as it goes and as it falls
 * back, which only makes things look younger; a leap ahead is first taken for a mistake that somebody will mend, and
 * believed when it has stood for STEADY_SETTLE_MS. */
#ifndef BASE_STEADY_H
#define BASE_STEADY_H

#include <stdbool.h>
#include <stdint.h>

#define STEADY_SLACK_MS 5000
#define STEADY_SETTLE_MS (10 * 60 * 1000)

struct steady {
    int64_t offset_ms;         /* the clock less mono, as believed */
    uint64_t leapt_at_mono_ms; /* when a leap was seen that is not believed yet */
    bool known, leapt;
};

/* The time to go by, when that clock says wall_ms and ours mono_ms. A leap is noticed when it is asked. */
int64_t steady_ms(struct steady *s, int64_t wall_ms, uint64_t mono_ms);

#endif
