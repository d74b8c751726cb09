/* http/bearers.c - see bearers.h. */
#include "http/bearers.h"

#include "base/heap.h"
#include "conf/conf.h"

struct bearer_set {
    struct conf_bearers bearers;
    struct bearer_set *before;
};

void bearers_init(struct bearers *s, const struct conf_bearers *first)
{
    *s = (struct bearers){.now = first};
}

void bearers_close(struct bearers *s)
{
    while (s->last != NULL) {
        struct bearer_set *set = s->last;
        s->last = set->before;
        bearers_free(&set->bearers);
        heap_free(set);
    }
}

const struct conf_bearers *bearers_now(const struct bearers *s)
{
    return __atomic_load_n(&s->now, __ATOMIC_ACQUIRE);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_bearers(const struct conf_bearers *a, const struct conf_bearers *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = same_text(a->all[i].name, b->all[i].name) && same_text(a->all[i].secret, b->all[i].secret) &&
               same_text(a->all[i].store, b->all[i].store);
    return same;
}

void bearers_take(struct bearers *s, struct conf_bearers *bearers)
{
    if (same_bearers(s->now, bearers)) {
        bearers_free(bearers);
        return;
    }
    struct bearer_set *set = heap_alloc(sizeof *set);
    *set = (struct bearer_set){.bearers = *bearers, .before = s->last};
    *bearers = (struct conf_bearers){0};
    s->last = set;
    __atomic_store_n(&s->now, &set->bearers, __ATOMIC_RELEASE);
}
