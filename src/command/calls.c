/* command/calls.c - how often each command was called, and how long that took; INFO's commandstats and stats. HINCRBYs that
 * are taken many at once (session.c) are counted as often, with one sum. */
#include "command/inside.h"

uint64_t calls_all(const struct command *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < SPECS_MAX; i++)
        n += c->calls[i].n;
    return n;
}

void calls_timed(struct calls *k, uint64_t begun_us, uint32_t n)
{
    k->next = k->n + CALLS_TIMED;
    if (n == 0) return; /* no call was taken */
    k->timed += n;
    k->timed_us += mono_us() - begun_us;
}

uint64_t calls_us(const struct calls *k)
{
    return k->timed == 0 ? 0 : (uint64_t)((double)k->timed_us * (double)k->n / (double)k->timed);
}

enum taken calls_run(struct session *s, const struct spec *whole, const struct spec *spec,
                     const struct request *r, struct buf *out)
{
    struct calls *k = &s->command->calls[whole - specs]; /* s may be gone after the call */
    uint64_t begun_us = calls_begin(k);
    enum taken taken = spec->run(s, r, out);
    calls_end(k, begun_us, taken == TAKEN ? 1 : 0);
    return taken;
}

void calls_tick(struct command *c, uint64_t now_ms)
{
    struct ops_rate *o = &c->ops;
    if (o->taken > 0 && now_ms - o->at_ms[(o->taken - 1) % OPS_SAMPLES] < OPS_SAMPLE_MS) return;
    o->at_ms[o->taken % OPS_SAMPLES] = now_ms;
    o->n[o->taken % OPS_SAMPLES] = calls_all(c);
    o->taken++;
}

uint64_t calls_per_s(const struct command *c)
{
    const struct ops_rate *o = &c->ops;
    if (o->taken < 2) return 0;
    uint32_t oldest = o->taken < OPS_SAMPLES ? 0 : o->taken % OPS_SAMPLES;
    uint32_t newest = (o->taken - 1) % OPS_SAMPLES;
    return (o->n[newest] - o->n[oldest]) * 1000 / (o->at_ms[newest] - o->at_ms[oldest]);
}
