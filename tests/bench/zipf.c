/* bench/zipf.c - see zipf.h. A drawn chance is looked up among the sums by halving. */
#include "zipf.h"
#include "clock.h"
#include <math.h>
#include <stdlib.h>

void zipf_init(struct zipf *z, uint32_t n, double exponent, uint64_t seed)
{
    double sum = 0;
    *z = (struct zipf){.sums = malloc(n * sizeof *z->sums), .n = n, .state = seed};
    if (z->sums == NULL) die("memory");
    for (uint32_t i = 0; i < n; i++)
        z->sums[i] = sum += pow(i + 1, -exponent);
    for (uint32_t i = 0; i < n; i++)
        z->sums[i] /= sum;
}

void zipf_close(struct zipf *z)
{
    free(z->sums);
}

static double chance(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

uint32_t zipf_draw(struct zipf *z)
{
    double drawn = chance(&z->state);
    uint32_t low = 0, high = z->n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (z->sums[middle] < drawn)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
