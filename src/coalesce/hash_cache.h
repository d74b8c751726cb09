/* coalesce/hash_cache.h - the pending hashes that this process has seen, by key: what is known of each, and its place
 * in the frame that collects, so that one look-up finds a hit's cell. This is a bounded cache: forgetting an entry
 * costs one more ZADD and SET NX, never a count. Entries that a frame uses (pins) or that owe a ZADD remain. An entry
 * takes about 70 bytes, the key, and 27 bytes of table. The high bits of the hash select one of many parts of the
 * table; each part grows and forgets by itself. With a million entries the slowest add goes through 4,000. */
#ifndef COALESCE_HASH_CACHE_H
#define COALESCE_HASH_CACHE_H

#include "series/counter.h"

struct hash_entry {
    const struct counter *counter;
    uint64_t code; /* hash of the key */
    uint64_t
        lock_until_ms; /* mono: until then some process is known to hold the lock; without one: not due before */
    uint64_t hits;     /* sum of |delta| applied since the last claim */
    uint64_t epoch;    /* the group whose frame has this hash in `slot`; 0: none */
    uint32_t slot;
    uint32_t cell;               /* the first of this hash in that frame; GROUP_NO_CELL: none yet */
    uint32_t zone, zone_version; /* its store's, in that version of the loop's zone_view; 0: not looked up */
    uint16_t key_n;
    uint8_t pins;     /* frames that name it */
    bool known_dirty; /* in tally:dirty by the order of sending */
    bool owed;        /* on coalesce's list of owed ZADDs */
    bool due;         /* told to sync, not yet claimed */
    bool used;        /* second chance of the eviction sweep */
    char key[];
};

#define HASH_CACHE_PARTS 256

struct hash_cache_slot {
    uint64_t code;
    struct hash_entry *entry; /* NULL: free */
};

struct hash_cache_part {
    struct hash_cache_slot *slots;
    uint32_t n, cap;
};

struct hash_cache {
    struct hash_cache_part parts[HASH_CACHE_PARTS];
    size_t n, most;
    uint64_t seed; /* random, so that no client can choose keys that collide */
};

static inline struct slice hash_entry_key(const struct hash_entry *e)
{
    return slice_of(e->key, e->key_n);
}

void hash_cache_init(struct hash_cache *r, size_t most);
void hash_cache_close(struct hash_cache *r);
uint64_t hash_cache_code(const struct hash_cache *r, struct slice bytes);
uint64_t hash_entry_code(const struct hash_entry *e, struct slice field); /* of a field of it */
/* key must not be in it; code is its hash_cache_code(). Makes room by forgetting others when it is full. */
struct hash_entry *hash_cache_add(struct hash_cache *r, struct slice key, uint64_t code,
                                  const struct counter *counter);
/* Every cut: nothing is known to be dirty, no lock known held. Times of hashes without a lock remain. */
void hash_cache_forget_dirty(struct hash_cache *r);

static inline size_t hash_cache_part(uint64_t code)
{
    return code / (UINT64_MAX / HASH_CACHE_PARTS + 1);
}

static inline struct hash_entry *hash_cache_find(const struct hash_cache *r, struct slice key, uint64_t code)
{
    const struct hash_cache_part *p = &r->parts[hash_cache_part(code)];
    for (size_t i = code & (p->cap - 1);; i = (i + 1) & (p->cap - 1)) {
        struct hash_entry *e = p->slots[i].entry;
        if (e == NULL) return NULL;
        if (p->slots[i].code == code && slice_eq(hash_entry_key(e), key)) return e;
    }
}

static inline const struct hash_cache_slot *hash_cache_home(const struct hash_cache *r, uint64_t code)
{
    const struct hash_cache_part *p = &r->parts[hash_cache_part(code)];
    return &p->slots[code & (p->cap - 1)];
}

/* Two steps that bring what hash_cache_find(code) reads into the CPU's cache. With many keys, do the first step for
 * all, then the second for all: this hides most of the time that reading a million entries takes. */
static inline void hash_cache_prefetch(const struct hash_cache *r, uint64_t code)
{
    __builtin_prefetch(hash_cache_home(r, code));
}

static inline void hash_cache_prefetch_entry(const struct hash_cache *r, uint64_t code)
{
    uintptr_t e = (uintptr_t)hash_cache_home(r, code)->entry; /* 0 in an empty slot: nothing is fetched */
    __builtin_prefetch((const void *)e);
    __builtin_prefetch((const void *)(e + 64));
}

#endif
