/* base/steady.h - another machine's wall clock, used to decide what is old enough to delete. It follows steps back,
 * since they only make things look younger. A leap ahead may be a mistake, so it follows only one that has lasted for
 * STEADY_SETTLE_MS. */
#ifndef BASE_STEADY_H
#define BASE_STEADY_H

#include <stdbool.h>
#include <stdint.h>

#define STEADY_SLACK_MS 5000
#define STEADY_SETTLE_MS (10 * 60 * 1000)

struct steady {
    int64_t offset_ms;         /* the believed clock minus mono */
    uint64_t leapt_at_mono_ms; /* when a leap was seen that is not believed yet */
    bool known, leapt;
};

/* The time to use when that clock reads wall_ms and ours mono_ms. This call notices a leap. */
int64_t steady_ms(struct steady *s, int64_t wall_ms, uint64_t mono_ms);

#endif
