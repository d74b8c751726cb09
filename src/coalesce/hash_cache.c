/* coalesce/hash_cache.c - open addressing with linear probing and backward-shift deletion; eviction is a second-chance
 * sweep. */
#define XXH_INLINE_ALL
#include "coalesce/hash_cache.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include <xxhash.h>

#define CAP_FIRST 16

void hash_cache_init(struct hash_cache *r, size_t most)
{
    *r = (struct hash_cache){.most = most};
    for (int i = 0; i < HASH_CACHE_PARTS; i++) {
        r->parts[i].cap = CAP_FIRST;
        r->parts[i].slots = heap_zalloc(CAP_FIRST * sizeof *r->parts[i].slots);
    }
    rand_bytes(&r->seed, sizeof r->seed);
}

void hash_cache_close(struct hash_cache *r)
{
    for (int i = 0; i < HASH_CACHE_PARTS; i++) {
        for (uint32_t j = 0; j < r->parts[i].cap; j++)
            heap_free(r->parts[i].slots[j].entry);
        heap_free(r->parts[i].slots);
    }
    *r = (struct hash_cache){0};
}

uint64_t hash_cache_code(const struct hash_cache *r, struct slice bytes)
{
    return XXH3_64bits_withSeed(bytes.p, bytes.n, r->seed);
}

uint64_t hash_entry_code(const struct hash_entry *e, struct slice field)
{
    return XXH3_64bits_withSeed(field.p, field.n, e->code);
}

static void slot_insert(struct hash_cache_part *p, struct hash_entry *e)
{
    size_t i = e->code & (p->cap - 1);
    while (p->slots[i].entry != NULL)
        i = (i + 1) & (p->cap - 1);
    p->slots[i] = (struct hash_cache_slot){e->code, e};
}

static bool evictable(struct hash_entry *e)
{
    if (e->pins > 0 || e->owed) return false;
    bool used = e->used;
    e->used = false;
    return !used;
}

/* Two rounds clear every `used`; if still no entry can go, frames hold all. */
static bool part_evict(struct hash_cache_part *p, uint64_t code)
{
    for (uint32_t steps = 0; steps < 2 * p->cap && p->n > 0; steps++) {
        size_t i = (code + steps) & (p->cap - 1);
        if (p->slots[i].entry == NULL || !evictable(p->slots[i].entry)) continue;
        /* Removes slot i and moves back the entries that had probed past it. */
        size_t mask = p->cap - 1;
        heap_free(p->slots[i].entry);
        for (size_t j = (i + 1) & mask; p->slots[j].entry != NULL; j = (j + 1) & mask) {
            size_t home = p->slots[j].code & mask;
            if (((j - home) & mask) < ((j - i) & mask)) continue;
            p->slots[i] = p->slots[j];
            i = j;
        }
        p->slots[i] = (struct hash_cache_slot){0};
        p->n--;
        return true;
    }
    return false;
}

/* Evicts near where the new one goes, so that no add sweeps far; in another part only when all there are held. */
static void evict_one(struct hash_cache *r, uint64_t code)
{
    for (size_t i = 0; i < HASH_CACHE_PARTS; i++)
        if (part_evict(&r->parts[(hash_cache_part(code) + i) % HASH_CACHE_PARTS], code)) {
            r->n--;
            return;
        }
}

struct hash_entry *hash_cache_add(struct hash_cache *r, struct slice key, uint64_t code,
                                  const struct counter *counter)
{
    PRE(key.n <= KEY_BYTES_MAX);
    struct hash_cache_part *p = &r->parts[hash_cache_part(code)];
    if (r->n >= r->most) evict_one(r, code);
    if (p->n * 5 >= p->cap * 3) {
        struct hash_cache_slot *old = p->slots;
        uint32_t old_cap = p->cap;
        p->cap *= 2;
        p->slots = heap_zalloc(p->cap * sizeof *p->slots);
        for (size_t i = 0; i < old_cap; i++)
            if (old[i].entry != NULL) slot_insert(p, old[i].entry);
        heap_free(old);
    }
    struct hash_entry *e = heap_alloc(sizeof *e + key.n);
    *e = (struct hash_entry){.counter = counter, .code = code, .key_n = (uint16_t)key.n, .used = true};
    memcpy(e->key, key.p, key.n);
    slot_insert(p, e);
    p->n++;
    r->n++;
    return e;
}

void hash_cache_forget_dirty(struct hash_cache *r)
{
    for (int i = 0; i < HASH_CACHE_PARTS; i++) {
        struct hash_cache_part *p = &r->parts[i];
        for (size_t k = 0; k < p->cap; k++) {
            struct hash_entry *e = p->slots[k].entry;
            if (e == NULL) continue;
            e->known_dirty = false;
            if (counter_locks(e->counter)) e->lock_until_ms = 0;
        }
    }
}
