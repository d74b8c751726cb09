/* coalesce/registry.c - open addressing with linear probing and backward-shift deletion; eviction is a clock
 * sweep. */
#define XXH_INLINE_ALL
#include "coalesce/registry.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/rand.h"
#include <xxhash.h>

struct registry_slot {
    uint64_t code;
    struct entry *entry; /* NULL: free */
};

#define CAP_FIRST 1024

void registry_init(struct registry *r, size_t most)
{
    *r = (struct registry){.cap = CAP_FIRST, .most = most};
    r->slots = heap_zalloc(r->cap * sizeof *r->slots);
    rand_bytes(&r->seed, sizeof r->seed);
}

void registry_close(struct registry *r)
{
    for (size_t i = 0; i < r->cap; i++)
        heap_free(r->slots[i].entry);
    heap_free(r->slots);
    *r = (struct registry){0};
}

uint64_t registry_code(const struct registry *r, struct slice bytes)
{
    return XXH3_64bits_withSeed(bytes.p, bytes.n, r->seed);
}

struct entry *registry_find_code(struct registry *r, struct slice key, uint64_t code)
{
    for (size_t i = code & (r->cap - 1);; i = (i + 1) & (r->cap - 1)) {
        struct entry *e = r->slots[i].entry;
        if (e == NULL) return NULL;
        if (r->slots[i].code != code || !slice_eq(entry_key(e), key)) continue;
        e->used = true;
        return e;
    }
}

struct entry *registry_find(struct registry *r, struct slice key, uint64_t *code)
{
    *code = registry_code(r, key);
    return registry_find_code(r, key, *code);
}

void registry_prefetch(const struct registry *r, uint64_t code)
{
    __builtin_prefetch(&r->slots[code & (r->cap - 1)]);
}

void registry_prefetch_entry(const struct registry *r, uint64_t code)
{
    uintptr_t e = (uintptr_t)r->slots[code & (r->cap - 1)].entry; /* 0 in an empty slot: nothing is fetched */
    __builtin_prefetch((const void *)e);
    __builtin_prefetch((const void *)(e + 64));
}

static void slot_insert(struct registry *r, struct entry *e)
{
    size_t i = e->code & (r->cap - 1);
    while (r->slots[i].entry != NULL)
        i = (i + 1) & (r->cap - 1);
    r->slots[i] = (struct registry_slot){e->code, e};
}

static void table_double(struct registry *r)
{
    struct registry_slot *old = r->slots;
    size_t old_cap = r->cap;
    r->cap *= 2;
    r->slots = heap_zalloc(r->cap * sizeof *r->slots);
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].entry != NULL) slot_insert(r, old[i].entry);
    heap_free(old);
}

/* Takes out slot i and moves back what had probed past it. */
static void slot_remove(struct registry *r, size_t i)
{
    size_t mask = r->cap - 1;
    heap_free(r->slots[i].entry);
    for (size_t j = (i + 1) & mask; r->slots[j].entry != NULL; j = (j + 1) & mask) {
        size_t home = r->slots[j].code & mask;
        if (((j - home) & mask) < ((j - i) & mask)) continue;
        r->slots[i] = r->slots[j];
        i = j;
    }
    r->slots[i] = (struct registry_slot){0};
    r->n--;
}

static bool evictable(struct entry *e)
{
    if (e->pins > 0 || e->owed) return false;
    bool used = e->used;
    e->used = false;
    return !used;
}

/* Two rounds clear every `used`; if still nothing goes, all are held by frames, and those are few. */
static void evict_one(struct registry *r)
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

struct entry *registry_add(struct registry *r, struct slice key, uint64_t code, const struct counter *counter)
{
    PRE(key.n <= KEY_BYTES_MAX);
    if (r->n >= r->most) evict_one(r);
    if (r->n * 5 >= r->cap * 3) table_double(r);
    struct entry *e = heap_alloc(sizeof *e + key.n);
    *e = (struct entry){.counter = counter, .code = code, .key_n = (uint16_t)key.n, .used = true};
    memcpy(e->key, key.p, key.n);
    slot_insert(r, e);
    r->n++;
    return e;
}

void registry_forget_dirty(struct registry *r)
{
    for (size_t i = 0; i < r->cap; i++) {
        struct entry *e = r->slots[i].entry;
        if (e == NULL) continue;
        e->known_dirty = false;
        e->lock_until_ms = 0;
    }
}
