/* coalesce/hash_cache.h - the pending hashes that this process has seen, by key: what is known of each, and its place
 * in the frame that collects, so that one look-up finds a hit's cell. This is a bounded cache: forgetting an entry
 * costs one more ZADD and SET NX, never a count. Entries that a frame uses (pins) or that owe a ZADD remain. An entry
 * takes about 70 bytes, the key, and 27 bytes of table. The high bits of the hash select one of many parts of the
 * table; each part grows and forgets by itself. With a million entries the slowest add goes through 4,000. */
#ifndef COALESCE_HASH_CACHE_H
#define COALESCE_HASH_CACHE_H

#include "series/counter.h"
#include "series/op.h"

#include <stdbool.h>
#include <stdint.h>

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

/* --- what is known to be in Redis. For each series: the second of its last op sent; a new slot needs a ZADD in `known:`, an old
 * one does not. For each bucket of a timebox: that it was in both sets. This is a cache without names. When two share a 64-bit
 * code, or an entry is lost, that costs at most a ZADD: now, or owed after the answer showed a fresh sample or bucket. (For two
 * buckets it also costs one hit's answer.) Nothing is allocated before the first entry. --- */

#define KNOWN_WAYS 4

struct known {
    struct known_way *ways;
    uint32_t most, sets;
};

void known_init(struct known *k, uint32_t most);
void known_close(struct known *k);
/* Notes an op at `at`. Bit i: the slot of precision i differs from that of the last op. */
uint64_t known_note(struct known *k, const struct op_limits *l, uint64_t code, int64_t at);
bool known_is(const struct known *k, uint64_t code);
/* A value for its user, 0 at first; good until the next addition. NULL: not known. */
int64_t *known_value(const struct known *k, uint64_t code);
int64_t *known_add(struct known *k, uint64_t code,
                   int64_t at); /* at: what is older makes room first; its value is 0 */
void known_forget(struct known *k, uint64_t code);
void known_forget_all(struct known *k);
static inline uint64_t known_all(const struct op_limits *l)
{
    return (UINT64_C(1) << l->precisions_n) - 1;
}

/* --- numbers that this process may give out, for each event log that Redis took an op of since the
 * last cut. An event that gets its number here needs no script: one plain ZADD a log.
 *   A log is learned when its op is known to be applied: then it is a sorted set, and its name is in tally:events.
 *   An op that finds the lease empty draws the next one, beyond its own numbers; each lease is eight times as large as the
 *     previous one. None of its numbers is in the log at that moment, and tallyd accepts no client's own id among them
 *     afterwards (KEY_LEASED). Numbers not used are lost: ids are unique, not dense.
 *   (!) A cut forgets all: a Redis that lost its tail does not know what it leased.
 * This is a cache without names: if two logs shared a seeded 64-bit code, one would give out the other's numbers. A
 * forgotten log costs a script, and its numbers. Nothing is allocated before the first event. --- */

struct lease {
    uint64_t code;
    int64_t next;  /* the number that is given next */
    uint64_t seq;  /* the frame that drew it */
    int64_t gone;  /* frame.events_gone when its name was last known to be in tally:events */
    uint64_t used; /* leases.now at its last use, 0: free */
    uint16_t left; /* numbers */
    uint16_t want; /* how many the next lease has */
    bool barred;   /* it has own ids that are numbers: it gets no lease */
};

struct leases {
    struct lease *ways;
    uint64_t now;               /* uses so far */
    uint32_t sets, first, most; /* first, most: numbers of a lease */
};

/* logs: how many are remembered; a lease has `first` to `most` numbers, most <= UINT16_MAX. */
void leases_init(struct leases *l, uint32_t logs, uint32_t first, uint32_t most);
void leases_close(struct leases *l);
struct lease *leases_find(struct leases *l, uint64_t code); /* NULL: that log is not known */
struct lease *leases_learn(struct leases *l,
                           uint64_t code); /* found, or in the place of the one unused longest */
void leases_forget(struct leases *l, uint64_t code);
void leases_forget_all(struct leases *l);

int64_t lease_take(struct lease *l); /* there is one left */
uint32_t leases_wanted(const struct leases *l,
                       const struct lease *of); /* how many to draw; of: NULL, not known */
void leases_fill(const struct leases *l, struct lease *of, int64_t last, uint32_t n,
                 uint64_t seq); /* n > 0 numbers, the last of them, drawn by that frame */
void lease_bar(struct lease *l);

#endif
