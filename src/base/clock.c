/* base/clock.c - see clock.h. Neither clock can fail on Linux with a valid id. */
#include "base/clock.h"

#include "base/log.h"

#include <time.h>

static struct timespec now(clockid_t clock)
{
    struct timespec t;
    int failed = clock_gettime(clock, &t);
    INVARIANT(!failed);
    return t;
}

uint64_t mono_ms(void)
{
    return mono_us() / 1000;
}

uint64_t mono_us(void)
{
    struct timespec t = now(CLOCK_MONOTONIC);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t age_ms(void)
{
    struct timespec t = now(CLOCK_BOOTTIME);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int64_t wall_ms(void)
{
    struct timespec t = now(CLOCK_REALTIME);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

uint64_t ran_us(void)
{
    struct timespec t = now(CLOCK_THREAD_CPUTIME_ID);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int64_t steady_ms(struct steady *s, int64_t wall_ms, uint64_t mono_ms)
{
    int64_t offset_ms = wall_ms - (int64_t)mono_ms;
    bool follows = !s->known || offset_ms <= s->offset_ms + STEADY_SLACK_MS;
    if (!follows && !s->leapt) s->leapt_at_mono_ms = mono_ms;
    s->leapt = !follows;
    if (follows || mono_ms - s->leapt_at_mono_ms >= STEADY_SETTLE_MS) {
        s->offset_ms = offset_ms;
        s->known = true;
        s->leapt = false;
    }
    return (int64_t)mono_ms + s->offset_ms;
}
