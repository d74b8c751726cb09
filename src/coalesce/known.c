/* coalesce/known.c - sets of four, the one with the oldest second makes room. */
#include "base/heap.h"
#include "base/log.h"
#include "coalesce/hash_cache.h"

struct known_way {
    uint64_t code;
    int64_t at; /* -1: free */
    int64_t value;
};

void known_init(struct known *k, uint32_t most)
{
    *k = (struct known){.most = most, .sets = 1};
    while (k->sets < most / KNOWN_WAYS)
        k->sets *= 2;
}

void known_close(struct known *k)
{
    heap_free(k->ways);
}

void known_forget_all(struct known *k)
{
    for (uint32_t i = 0; k->ways != NULL && i < KNOWN_WAYS * k->sets; i++)
        k->ways[i].at = -1;
}

static struct known_way *way_find(const struct known *k, uint64_t code)
{
    struct known_way *set = &k->ways[KNOWN_WAYS * (code & (k->sets - 1))], *oldest = set;
    for (struct known_way *w = set; w < set + KNOWN_WAYS; w++) {
        if (w->code == code && w->at >= 0) return w;
        if (w->at < oldest->at) oldest = w;
    }
    return oldest;
}

static void ways_make(struct known *k)
{
    if (k->ways != NULL) return;
    k->ways = heap_zalloc(KNOWN_WAYS * (size_t)k->sets * sizeof *k->ways);
    known_forget_all(k);
}

uint64_t known_note(struct known *k, const struct op_limits *l, uint64_t code, int64_t at)
{
    PRE(at >= 0);
    ways_make(k);
    struct known_way *w = way_find(k, code);
    bool is_new = w->code != code || w->at < 0;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < l->precisions_n; i++)
        if (is_new || op_slot(w->at, l->precisions[i]) != op_slot(at, l->precisions[i]))
            bits |= UINT64_C(1) << i;
    *w = (struct known_way){code, at, 0};
    return bits;
}

int64_t *known_value(const struct known *k, uint64_t code)
{
    if (k->ways == NULL) return NULL;
    struct known_way *set = &k->ways[KNOWN_WAYS * (code & (k->sets - 1))];
    for (struct known_way *w = set; w < set + KNOWN_WAYS; w++)
        if (w->code == code && w->at >= 0) return &w->value;
    return NULL;
}

bool known_is(const struct known *k, uint64_t code)
{
    return known_value(k, code) != NULL;
}

int64_t *known_add(struct known *k, uint64_t code, int64_t at)
{
    PRE(at >= 0);
    ways_make(k);
    struct known_way *w = way_find(k, code);
    *w = (struct known_way){code, at, 0};
    return &w->value;
}

void known_forget(struct known *k, uint64_t code)
{
    if (k->ways == NULL) return;
    struct known_way *w = way_find(k, code);
    if (w->code == code) w->at = -1;
}
