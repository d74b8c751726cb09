/* bench/requests.c - see requests.h. */
#include "requests.h"
#include "clock.h"
#include "zipf.h"

#define HIT_BYTES_MAX 128u /* with the longest store and delta */
#define LOCK_BYTES_MAX 80u
#define SEED UINT64_C(88172645463325252)

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A step that visits all stores, far apart from each other. */
static uint32_t step_over(uint32_t stores)
{
    uint32_t step = (uint32_t)((double)stores * 0.618) + 1;
    while (common_divisor(step, stores) != 1)
        step++;
    return step;
}

static size_t put_hit(char *to, uint32_t store, int64_t delta)
{
    char key[64], digits[24];
    int key_n = snprintf(key, sizeof key, "s%u:unique_visitors:daily", store);
    int digits_n = snprintf(digits, sizeof digits, "%lld", (long long)delta);
    int n = snprintf(to, HIT_BYTES_MAX, "*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%s\r\n$8\r\n20140920\r\n$%d\r\n%s\r\n",
                     key_n, key, digits_n, digits);
    return (size_t)n;
}

static size_t put_lock(char *to, uint32_t store)
{
    char key[64];
    int key_n = snprintf(key, sizeof key, "s%u:unique_visitors:sync", store);
    return (size_t)snprintf(to, LOCK_BYTES_MAX, "*3\r\n$5\r\nSETNX\r\n$%d\r\n%s\r\n$1\r\n1\r\n", key_n, key);
}

void requests_build(struct requests *r, const struct requests_spec *spec)
{
    size_t used = 0, each = HIT_BYTES_MAX + (spec->lock ? LOCK_BYTES_MAX : 0);
    struct zipf zipf;
    uint32_t turn = 0, step = step_over(spec->stores);
    *r = (struct requests){.bytes = malloc(spec->n * each), .n = spec->n};
    r->at = malloc((spec->n + 1) * sizeof *r->at);
    r->lock_at = malloc(spec->n * sizeof *r->lock_at);
    if (r->bytes == NULL || r->at == NULL || r->lock_at == NULL) die("memory");
    zipf_init(&zipf, spec->stores, spec->zipf, SEED);
    for (uint32_t i = 0; i < spec->n; i++) {
        turn = (uint32_t)(((uint64_t)turn + step) % spec->stores);
        uint32_t store = spec->first + (spec->in_turn ? turn : zipf_draw(&zipf));
        r->at[i] = used;
        used += put_hit(r->bytes + used, store, spec->delta);
        r->lock_at[i] = used;
        if (spec->lock) used += put_lock(r->bytes + used, store);
    }
    r->at[spec->n] = used;
    zipf_close(&zipf);
}

void requests_free(struct requests *r)
{
    free(r->bytes);
    free(r->at);
    free(r->lock_at);
}
