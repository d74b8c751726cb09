/* base/steady.c - see steady.h. */
#include "base/steady.h"

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
