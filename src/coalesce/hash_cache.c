/* coalesce/hash_cache.c - open addressing with linear probing and backward-shift deletion; eviction is a clock
 * sweep. */
#define XXH_INLINE_ALL
#include "coalesce/hash_cache.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/rand.h"
#include <xxhash.h>

struct hash_cache_slot {
    uint64_t code;
    struct hash_entry *entry; /* NULL: free */
};

#define CAP_FIRST 1024

void hash_cache_init(struct hash_cache *r, size_t most)
{
    *r = (struct hash_cache){.cap = CAP_FIRST, .most = most};
    r->slots = heap_zalloc(r->cap * sizeof *r->slots);
    rand_bytes(&r->seed, sizeof r->seed);
}

void hash_cache_close(struct hash_cache *r)
{
    for (size_t i = 0; i < r->cap; i++)
        heap_free(r->slots[i].entry);
    heap_free(r->slots);
    *r = (struct hash_cache){0};
}

uint64_t hash_cache_code(const struct hash_cache *r, struct slice bytes)
{
    return XXH3_64bits_withSeed(bytes.p, bytes.n, r->seed);
}

struct hash_entry *hash_cache_find_code(struct hash_cache *r, struct slice key, uint64_t code)
{
    for (size_t i = code & (r->cap - 1);; i = (i + 1) & (r->cap - 1)) {
        struct hash_entry *e = r->slots[i].entry;
        if (e == NULL) return NULL;
        if (r->slots[i].code != code || !slice_eq(hash_entry_key(e), key)) continue;
        e->used = true;
        return e;
    }
}

struct hash_entry *hash_cache_find(struct hash_cache *r, struct slice key, uint64_t *code)
{
    *code = hash_cache_code(r, key);
    return hash_cache_find_code(r, key, *code);
}

void hash_cache_prefetch(const struct hash_cache *r, uint64_t code)
{
    __builtin_prefetch(&r->slots[code & (r->cap - 1)]);
}

void hash_cache_prefetch_entry(const struct hash_cache *r, uint64_t code)
{
    uintptr_t e = (uintptr_t)r->slots[code & (r->cap - 1)].entry; /* 0 in an empty slot: nothing is fetched */
    __builtin_prefetch((const void *)e);
    __builtin_prefetch((const void *)(e + 64));
}

static void slot_insert(struct hash_cache *r, struct hash_entry *e)
{
    size_t i = e->code & (r->cap - 1);
    while (r->slots[i].entry != NULL)
        i = (i + 1) & (r->cap - 1);
    r->slots[i] = (struct hash_cache_slot){e->code, e};
}

static void table_double(struct hash_cache *r)
{
    struct hash_cache_slot *old = r->slots;
    size_t old_cap = r->cap;
    r->cap *= 2;
    r->slots = heap_zalloc(r->cap * sizeof *r->slots);
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].entry != NULL) slot_insert(r, old[i].entry);
    heap_free(old);
}

/* Takes out slot i and moves back what had probed past it. */
static void slot_remove(struct hash_cache *r, size_t i)
{
    size_t mask = r->cap - 1;
    heap_free(r->slots[i].entry);
    for (size_t j = (i + 1) & mask; r->slots[j].entry != NULL; j = (j + 1) & mask) {
        size_t home = r->slots[j].code & mask;
        if (((j - home) & mask) < ((j - i) & mask)) continue;
        r->slots[i] = r->slots[j];
        i = j;
    }
    r->slots[i] = (struct hash_cache_slot){0};
    r->n--;
}

static bool evictable(struct hash_entry *e)
{
    if (e->pins > 0 || e->owed) return false;
    bool used = e->used;
    e->used = false;
    return !used;
}

/* Two rounds clear every `used`; if still nothing goes, all are held by frames, and those are few. */
static void evict_one(struct hash_cache *r)
{
    for (size_t steps = 0; steps < 2 * r->cap; steps++) {
        size_t i = r->hand;
        if (r->slots[i].entry != NULL && evictable(r->slots[i].entry)) {
            slot_remove(r, i);
            return;
        }
        r->hand = (i + 1) & (r->cap - 1);
    }
}

struct hash_entry *hash_cache_add(struct hash_cache *r, struct slice key, uint64_t code,
                                  const struct counter *counter)
{
    PRE(key.n <= KEY_BYTES_MAX);
    if (r->n >= r->most) evict_one(r);
    if (r->n * 5 >= r->cap * 3) table_double(r);
    struct hash_entry *e = heap_alloc(sizeof *e + key.n);
    *e = (struct hash_entry){.counter = counter, .code = code, .key_n = (uint16_t)key.n, .used = true};
    memcpy(e->key, key.p, key.n);
    slot_insert(r, e);
    r->n++;
    return e;
}

void hash_cache_forget_dirty(struct hash_cache *r)
{
    for (size_t i = 0; i < r->cap; i++) {
        struct hash_entry *e = r->slots[i].entry;
        if (e == NULL) continue;
        e->known_dirty = false;
        e->lock_until_ms = 0;
    }
}
