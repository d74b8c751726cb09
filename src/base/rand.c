/* base/rand.c - see clock.h. Batch ids must never repeat, so there is no weaker source to fall back on. */
#include "base/clock.h"

#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void rand_bytes(void *out, size_t n)
{
    char *at = out;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno != EINTR) {
            log_event(LOG_ERROR, "no_random", "reason=%s next=%s", LOGQ(strerror(errno)),
                      LOGQ("tallyd needs getrandom(2): allow it in the sandbox or use a newer kernel"));
            abort();
        }
        if (got <= 0) continue;
        at += got;
        n -= (size_t)got;
    }
}

uint64_t rand_below(uint64_t n)
{
    PRE(n > 0);
    uint64_t skewed = -n % n, r; /* as many lowest values as would make the small results likelier */
    do
        rand_bytes(&r, sizeof r);
    while (r < skewed);
    return r % n;
}

uint64_t rand_backoff_ms(unsigned attempt, uint64_t base_ms, uint64_t most_ms)
{
    bool fits = attempt < 64 && base_ms <= UINT64_MAX >> attempt;
    uint64_t top = fits && base_ms << attempt < most_ms ? base_ms << attempt : most_ms;
    uint64_t low = base_ms / 2 < top ? base_ms / 2 : top;
    return top - low == UINT64_MAX ? rand_below(UINT64_MAX) : low + rand_below(top - low + 1);
}
