/* coalesce/hash_cache.h - the pending hashes this process has seen, by key: what is known of each. A cache:
 * bounded, and forgetting an entry costs a ZADD and a SET NX more, never a count. Entries that a frame holds
 * (pins) or that owe a ZADD stay. About 60 bytes, the key, and 27 bytes of table an entry. */
#ifndef COALESCE_HASH_CACHE_H
#define COALESCE_HASH_CACHE_H

#include "series/counter.h"

struct hash_entry {
    const struct counter *counter;
    uint64_t code;          /* hash of the key */
    uint64_t lock_until_ms; /* mono: the lock is known to be held till then, by whomever */
    uint64_t hits;          /* sum of |delta| applied since the last claim */
    uint64_t epoch;         /* the group whose frame has this hash in `slot`; 0: none */
    uint32_t slot;
    uint32_t pins; /* frames that name it */
    uint16_t key_n;
    bool known_dirty; /* in tally:dirty by the order of sending */
    bool owed;        /* on coalesce's list of owed ZADDs */
    bool due;         /* told to sync, not yet claimed */
    bool used;        /* second chance of the eviction sweep */
    char key[];
};

struct hash_cache {
    struct hash_cache_slot *slots;
    size_t n, cap, most;
    size_t hand;   /* of the eviction sweep */
    uint64_t seed; /* so that nobody can choose keys that collide */
};

static inline struct slice hash_entry_key(const struct hash_entry *e)
{
    return slice_of(e->key, e->key_n);
}

void hash_cache_init(struct hash_cache *r, size_t most);
void hash_cache_close(struct hash_cache *r);
struct hash_entry *hash_cache_find(struct hash_cache *r, struct slice key, uint64_t *code);
struct hash_entry *hash_cache_find_code(struct hash_cache *r, struct slice key, uint64_t code);
/* Two steps that bring what hash_cache_find_code(code) reads into the cache: of many keys, the first for all, then the
 * second for all, hides most of the time that a million entries take to be read. */
void hash_cache_prefetch(const struct hash_cache *r, uint64_t code);
void hash_cache_prefetch_entry(const struct hash_cache *r, uint64_t code);
/* key must not be in it; code is what hash_cache_find gave. Makes room by forgetting others when it is full. */
struct hash_entry *hash_cache_add(struct hash_cache *r, struct slice key, uint64_t code,
                                  const struct counter *counter);
void hash_cache_forget_dirty(
    struct hash_cache *r); /* every cut: nothing is known to be dirty, no lock known held */
uint64_t hash_cache_code(const struct hash_cache *r, struct slice bytes);

#endif
