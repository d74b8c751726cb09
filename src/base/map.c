/* base/map.c - one array with two readings. Its start holds the entries, in the order they came; the same slots, read
 * by hash with linear probing, give the index of an entry. So a walk follows the order of insertion, whatever the seed,
 * and a simulation with a map in it can be repeated. A removed entry remains, without key, until the next rebuild, and
 * keeps the probing chains whole. The hash is seeded, since keys may come from clients. */
#include "base/map.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"

#include <pthread.h>
#include <xxhash.h>

#define MAP_CAP_FIRST 16 /* a power of two, as every cap */

struct map_slot {
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

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_close(struct map *m)
{
    for (size_t i = 0; i < m->n + m->dead; i++)
        heap_free(m->slots[i].key);
    heap_free(m->slots);
    map_init(m);
}

static struct map_slot *find(const struct map *m, struct slice key, uint64_t hash)
{
    if (m->cap == 0) return NULL;
    for (size_t at = hash & (m->cap - 1); m->slots[at].entry != 0; at = (at + 1) & (m->cap - 1)) {
        struct map_slot *e = &m->slots[m->slots[at].entry - 1];
        if (e->key != NULL && e->hash == hash && slice_eq(slice_of(e->key, e->key_n), key)) return e;
    }
    return NULL;
}

static void add_entry(struct map *m, char *key, size_t key_n, void *value, uint64_t hash)
{
    size_t i = m->n + m->dead;
    INVARIANT(i < m->cap);
    m->slots[i].key = key;
    m->slots[i].key_n = key_n;
    m->slots[i].value = value;
    m->slots[i].hash = hash;
    m->n++;
    size_t at = hash & (m->cap - 1);
    while (m->slots[at].entry != 0)
        at = (at + 1) & (m->cap - 1);
    m->slots[at].entry = i + 1;
}

/* A new array for n entries and one more, at most half full; without the removed ones. */
static void rebuild(struct map *m)
{
    struct map old = *m;
    map_init(m);
    m->cap = MAP_CAP_FIRST;
    while (m->cap / 2 < old.n + 1)
        m->cap *= 2;
    PRE(m->cap <= SIZE_MAX / sizeof *m->slots);
    m->slots = heap_zalloc(m->cap * sizeof *m->slots);
    for (size_t i = 0; i < old.n + old.dead; i++) {
        struct map_slot *e = &old.slots[i];
        if (e->key != NULL) add_entry(m, e->key, e->key_n, e->value, e->hash);
    }
    heap_free(old.slots);
}

bool map_put(struct map *m, struct slice key, void *value)
{
    uint64_t hash = key_hash(key);
    struct map_slot *e = find(m, key, hash);
    if (e != NULL) {
        e->value = value;
        return false;
    }
    if (m->n + m->dead >= m->cap / 4 * 3) rebuild(m);
    add_entry(m, heap_strndup(key.p, key.n), key.n, value, hash);
    return true;
}

bool map_has(const struct map *m, struct slice key)
{
    return find(m, key, key_hash(key)) != NULL;
}

void *map_get(const struct map *m, struct slice key)
{
    struct map_slot *e = find(m, key, key_hash(key));
    return e != NULL ? e->value : NULL;
}

bool map_remove(struct map *m, struct slice key)
{
    struct map_slot *e = find(m, key, key_hash(key));
    if (e == NULL) return false;
    heap_free(e->key);
    e->key = NULL;
    m->n--;
    m->dead++;
    return true;
}

bool map_next(const struct map *m, size_t *at, struct slice *key, void **value)
{
    while (*at < m->n + m->dead) {
        const struct map_slot *e = &m->slots[(*at)++];
        if (e->key == NULL) continue;
        if (key != NULL) *key = slice_of(e->key, e->key_n);
        if (value != NULL) *value = e->value;
        return true;
    }
    return false;
}
