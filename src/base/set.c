/* base/set.c - one array with two readings: the entries stand from its start in the order they came, and the
 * same slots, read by hash with linear probing, say at which entry to look. So a walk goes in order of
 * insertion, whatever the seed: a simulation with a set in it can be repeated. A removed entry stays, without
 * key, until the next rebuild, and keeps the probing chains whole meanwhile. The hash is seeded: keys may
 * come from clients. */
#include "base/set.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/rand.h"

#include <pthread.h>
#include <xxhash.h>

#define SET_CAP_FIRST 16 /* a power of two, as every cap */

struct set_slot {
    /* as entry number i, when i < n + dead */
    char *key; /* NULL: removed */
    size_t key_n;
    void *value;
    uint64_t hash;
    /* as place number i of the table */
    size_t entry; /* 1 + number of an entry; 0: empty */
};

static uint64_t seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static void seed_draw(void)
{
    rand_bytes(&seed, sizeof seed);
}

static uint64_t key_hash(struct slice key)
{
    pthread_once(&seed_once, seed_draw);
    return XXH3_64bits_withSeed(key.n > 0 ? key.p : "", key.n, seed);
}

void set_init(struct set *s)
{
    *s = (struct set){0};
}

void set_close(struct set *s)
{
    for (size_t i = 0; i < s->n + s->dead; i++)
        heap_free(s->slots[i].key);
    heap_free(s->slots);
    set_init(s);
}

static struct set_slot *find(const struct set *s, struct slice key, uint64_t hash)
{
    if (s->cap == 0) return NULL;
    for (size_t at = hash & (s->cap - 1); s->slots[at].entry != 0; at = (at + 1) & (s->cap - 1)) {
        struct set_slot *e = &s->slots[s->slots[at].entry - 1];
        if (e->key != NULL && e->hash == hash && slice_eq(slice_of(e->key, e->key_n), key)) return e;
    }
    return NULL;
}

static void add_entry(struct set *s, char *key, size_t key_n, void *value, uint64_t hash)
{
    size_t i = s->n + s->dead;
    INVARIANT(i < s->cap);
    s->slots[i].key = key;
    s->slots[i].key_n = key_n;
    s->slots[i].value = value;
    s->slots[i].hash = hash;
    s->n++;
    size_t at = hash & (s->cap - 1);
    while (s->slots[at].entry != 0)
        at = (at + 1) & (s->cap - 1);
    s->slots[at].entry = i + 1;
}

/* A new array for n entries and one more, at most half full; the removed ones go. */
static void rebuild(struct set *s)
{
    struct set old = *s;
    set_init(s);
    s->cap = SET_CAP_FIRST;
    while (s->cap / 2 < old.n + 1)
        s->cap *= 2;
    PRE(s->cap <= SIZE_MAX / sizeof *s->slots);
    s->slots = heap_zalloc(s->cap * sizeof *s->slots);
    for (size_t i = 0; i < old.n + old.dead; i++) {
        struct set_slot *e = &old.slots[i];
        if (e->key != NULL) add_entry(s, e->key, e->key_n, e->value, e->hash);
    }
    heap_free(old.slots);
}

bool set_put(struct set *s, struct slice key, void *value)
{
    uint64_t hash = key_hash(key);
    struct set_slot *e = find(s, key, hash);
    if (e != NULL) {
        e->value = value;
        return false;
    }
    if (s->n + s->dead >= s->cap / 4 * 3) rebuild(s);
    add_entry(s, heap_strndup(key.p, key.n), key.n, value, hash);
    return true;
}

bool set_has(const struct set *s, struct slice key)
{
    return find(s, key, key_hash(key)) != NULL;
}

void *set_get(const struct set *s, struct slice key)
{
    struct set_slot *e = find(s, key, key_hash(key));
    return e != NULL ? e->value : NULL;
}

bool set_remove(struct set *s, struct slice key)
{
    struct set_slot *e = find(s, key, key_hash(key));
    if (e == NULL) return false;
    heap_free(e->key);
    e->key = NULL;
    s->n--;
    s->dead++;
    return true;
}

bool set_next(const struct set *s, size_t *at, struct slice *key, void **value)
{
    while (*at < s->n + s->dead) {
        const struct set_slot *e = &s->slots[(*at)++];
        if (e->key == NULL) continue;
        if (key != NULL) *key = slice_of(e->key, e->key_n);
        if (value != NULL) *value = e->value;
        return true;
    }
    return false;
}
