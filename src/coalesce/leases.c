/* coalesce/leases.c - sets of four, the one unused longest makes room. */
#include "base/heap.h"
#include "base/log.h"
#include "coalesce/hash_cache.h"
#include <string.h>

#define WAYS 4
#define GROWTH 8

void leases_init(struct leases *l, uint32_t logs, uint32_t first, uint32_t most)
{
    PRE(first > 0 && first <= most && most <= UINT16_MAX);
    *l = (struct leases){.sets = 1, .first = first, .most = most};
    while (l->sets < logs / WAYS)
        l->sets *= 2;
}

void leases_close(struct leases *l)
{
    heap_free(l->ways);
}

void leases_forget_all(struct leases *l)
{
    if (l->ways != NULL) memset(l->ways, 0, WAYS * (size_t)l->sets * sizeof *l->ways);
}

/* The way of that log, else a free one, else the one unused longest. */
static struct lease *way_of(const struct leases *l, uint64_t code)
{
    struct lease *set = &l->ways[WAYS * (code & (l->sets - 1))], *oldest = set;
    for (struct lease *w = set; w < set + WAYS; w++) {
        if (w->code == code && w->used > 0) return w;
        if (w->used < oldest->used) oldest = w;
    }
    return oldest;
}

struct lease *leases_find(struct leases *l, uint64_t code)
{
    if (l->ways == NULL) return NULL;
    struct lease *w = way_of(l, code);
    if (w->code != code || w->used == 0) return NULL;
    w->used = ++l->now;
    return w;
}

struct lease *leases_learn(struct leases *l, uint64_t code)
{
    if (l->ways == NULL) l->ways = heap_zalloc(WAYS * (size_t)l->sets * sizeof *l->ways);
    struct lease *w = way_of(l, code);
    if (w->code != code || w->used == 0) *w = (struct lease){.code = code, .want = (uint16_t)l->first};
    w->used = ++l->now;
    return w;
}

void leases_forget(struct leases *l, uint64_t code)
{
    struct lease *w = leases_find(l, code);
    if (w != NULL) *w = (struct lease){0};
}

int64_t lease_take(struct lease *l)
{
    PRE(l->left > 0);
    l->left--;
    return l->next++;
}

uint32_t leases_wanted(const struct leases *l, const struct lease *of)
{
    if (of == NULL) return l->first;
    return of->barred || of->left > 0 ? 0 : of->want;
}

void leases_fill(const struct leases *l, struct lease *of, int64_t last, uint32_t n, uint64_t seq)
{
    PRE(n > 0 && n <= l->most && last >= n);
    if (of->barred) return;
    of->next = last - n + 1;
    of->seq = seq;
    of->left = (uint16_t)n;
    of->want = (uint16_t)(GROWTH * n < l->most ? GROWTH * n : l->most);
}

void lease_bar(struct lease *l)
{
    l->barred = true;
    l->left = 0;
}
