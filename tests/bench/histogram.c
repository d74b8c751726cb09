/* bench/histogram.c - see histogram.h. Slot s < 64 is s ns; above, each power of two has 64 slots of equal
 * width. */
#include "histogram.h"

static unsigned slot_of(uint64_t ns)
{
    if (ns < 64) return (unsigned)ns;
    unsigned shift = 57u - (unsigned)__builtin_clzll(ns);
    return 64 * (shift + 1) + (unsigned)((ns >> shift) & 63);
}

static uint64_t slot_end_ns(unsigned slot)
{
    if (slot < 64) return slot;
    unsigned shift = slot / 64 - 1;
    return ((UINT64_C(64) + slot % 64 + 1) << shift) - 1;
}

void histogram_put(struct histogram *h, uint64_t ns)
{
    h->slots[slot_of(ns)]++;
    h->n++;
    if (ns > h->most_ns) h->most_ns = ns;
}

double histogram_us(const struct histogram *h, double share)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_SLOTS && h->n > 0; i++) {
        seen += h->slots[i];
        if ((double)seen < share * (double)h->n) continue;
        uint64_t ns = slot_end_ns(i);
        return (double)(ns < h->most_ns ? ns : h->most_ns) / 1e3;
    }
    return 0;
}
