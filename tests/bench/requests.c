/* bench/requests.c - see requests.h. */
#include "requests.h"
#include "clock.h"
#include "zipf.h"
#include <stdarg.h>

#define HIT_BYTES_MAX 128u /* with the longest store and delta; a command of any shape */
#define LOCK_BYTES_MAX 80u
#define BOX_S 60
#define BOXES 60
#define NUMBER_DIGITS 10
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

static const uint32_t precisions[] = {1, 5, 60, 300, 3600, 18000, 86400};
#define PRECISIONS_N (sizeof precisions / sizeof *precisions)

/* One word of a request. */
static size_t put_word(char *to, const char *format, ...)
{
    char word[80];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(word, sizeof word, format, args);
    va_end(args);
    return (size_t)sprintf(to, "$%d\r\n%s\r\n", n, word);
}

static size_t put_hit(char *to, const struct requests_spec *spec, uint32_t store)
{
    const char *key = spec->shape == SHAPE_FED ? "s%u:fed_visitors:daily" : "s%u:unique_visitors:daily";
    size_t n = (size_t)sprintf(to, "*4\r\n$7\r\nHINCRBY\r\n");
    n += put_word(to + n, key, store);
    n += put_word(to + n, "20140920");
    return n + put_word(to + n, "%lld", (long long)spec->delta);
}

static size_t put_series(char *to, const struct requests_spec *spec, uint32_t store)
{
    size_t n = (size_t)sprintf(to, "*3\r\n$13\r\nSERIES.INCRBY\r\n");
    n += put_word(to + n, "s%u:views", store);
    return n + put_word(to + n, "%lld", (long long)spec->delta);
}

static size_t put_series_seed(char *to, const struct requests_spec *spec, uint32_t store)
{
    size_t n = 0;
    for (size_t i = 0; i < PRECISIONS_N; i++) {
        int64_t slot = spec->now_s - spec->now_s % precisions[i];
        n += (size_t)sprintf(to + n, "*4\r\n$4\r\nZADD\r\n$6\r\nknown:\r\n$1\r\n0\r\n");
        n += put_word(to + n, "%u:s%u:views", precisions[i], store);
        n += (size_t)sprintf(to + n, "*4\r\n$7\r\nHINCRBY\r\n");
        n += put_word(to + n, "count:%u:s%u:views", precisions[i], store);
        n += put_word(to + n, "%lld", (long long)slot);
        n += put_word(to + n, "%lld", (long long)spec->delta);
    }
    return n;
}

static size_t put_box(char *to, const struct requests_spec *spec, uint32_t store)
{
    size_t n = (size_t)sprintf(to, "*3\r\n$10\r\nBOX.INCRBY\r\n");
    n += put_word(to + n, "s%u:views", store);
    return n + put_word(to + n, "%lld", (long long)spec->delta);
}

static size_t put_box_seed(char *to, const struct requests_spec *spec, uint32_t store)
{
    long long bucket = (long long)(spec->now_s - spec->now_s % BOX_S);
    size_t n = (size_t)sprintf(to, "*4\r\n$7\r\nZINCRBY\r\n");
    n += put_word(to + n, "pv.s%u:views", store);
    n += put_word(to + n, "%lld", (long long)spec->delta);
    n += put_word(to + n, "%lld", bucket);
    n += (size_t)sprintf(to + n, "*3\r\n$6\r\nZSCORE\r\n");
    n += put_word(to + n, "tb.s%u:views", store);
    n += put_word(to + n, "%lld", bucket);
    n += (size_t)sprintf(to + n, "*4\r\n$9\r\nZREVRANGE\r\n");
    n += put_word(to + n, "tb.s%u:views", store);
    n += put_word(to + n, "%d", BOXES);
    return n + put_word(to + n, "%d", BOXES);
}

static size_t put_event(char *to, const struct requests_spec *spec, uint32_t store)
{
    (void)spec;
    size_t n = (size_t)sprintf(to, "*3\r\n$9\r\nEVENT.ADD\r\n");
    n += put_word(to + n, "s%u", store);
    return n + put_word(to + n, "view");
}

/* The event's number is made anew at each sending (requests_renew). */
static size_t put_event_seed(char *to, const struct requests_spec *spec, uint32_t store)
{
    size_t n = (size_t)sprintf(to, "*2\r\n$4\r\nINCR\r\n");
    n += put_word(to + n, "s%u:index", store);
    n += (size_t)sprintf(to + n, "*4\r\n$4\r\nZADD\r\n");
    n += put_word(to + n, "s%u:view", store);
    n += put_word(to + n, "%lld", (long long)spec->now_s);
    return n + put_word(to + n, "%0*d", NUMBER_DIGITS, 0);
}

static const struct {
    size_t (*put)(char *to, const struct requests_spec *spec, uint32_t store);
    uint32_t commands, lines;
} shapes[] = {
    [SHAPE_HIT] = {put_hit, 1, 1},
    [SHAPE_FED] = {put_hit, 1, 1},
    [SHAPE_SERIES] = {put_series, 1, 1},
    [SHAPE_SERIES_SEED] = {put_series_seed, 2 * PRECISIONS_N, 2 * PRECISIONS_N},
    [SHAPE_BOX] = {put_box, 1, 1},
    [SHAPE_BOX_SEED] = {put_box_seed, 3, 5}, /* a score has two lines, an empty list one */
    [SHAPE_EVENT] = {put_event, 1, 2},       /* the id is a bulk string */
    [SHAPE_EVENT_SEED] = {put_event_seed, 2, 2},
};

uint32_t requests_lines(enum shape shape)
{
    return shapes[shape].lines;
}

static size_t put_lock(char *to, uint32_t store)
{
    char key[64];
    int key_n = snprintf(key, sizeof key, "s%u:unique_visitors:sync", store);
    return (size_t)snprintf(to, LOCK_BYTES_MAX, "*3\r\n$5\r\nSETNX\r\n$%d\r\n%s\r\n$1\r\n1\r\n", key_n, key);
}

void requests_build(struct requests *r, const struct requests_spec *spec)
{
    size_t used = 0;
    size_t each = shapes[spec->shape].commands * HIT_BYTES_MAX + (spec->lock ? LOCK_BYTES_MAX : 0);
    struct zipf zipf;
    uint32_t turn = 0, step = step_over(spec->stores), n = spec->n * spec->parts;
    *r = (struct requests){.bytes = malloc(n * each), .n = n, .shape = spec->shape};
    r->at = malloc((n + 1) * sizeof *r->at);
    r->lock_at = malloc(n * sizeof *r->lock_at);
    if (r->bytes == NULL || r->at == NULL || r->lock_at == NULL) die("memory");
    zipf_init(&zipf, spec->stores, spec->zipf, SEED);
    for (uint32_t i = 0; i < n; i++) {
        turn = (uint32_t)(((uint64_t)turn + step) % spec->stores);
        uint32_t store = spec->first + i / spec->n * spec->stores + (spec->in_turn ? turn : zipf_draw(&zipf));
        r->at[i] = used;
        used += shapes[spec->shape].put(r->bytes + used, spec, store);
        r->lock_at[i] = used;
        if (spec->lock) used += put_lock(r->bytes + used, store);
    }
    r->at[n] = used;
    zipf_close(&zipf);
}

void requests_renew(struct requests *r, uint32_t first, uint32_t n)
{
    if (r->shape != SHAPE_EVENT_SEED) return;
    for (uint32_t i = first; i < first + n; i++) {
        uint32_t left = ++r->number;
        char *digit = r->bytes + r->at[i + 1] - 2;
        for (int d = 0; d < NUMBER_DIGITS; d++, left /= 10)
            *--digit = (char)('0' + left % 10);
    }
}

void requests_free(struct requests *r)
{
    free(r->bytes);
    free(r->at);
    free(r->lock_at);
}
