/* users/guesses.c - see guesses.h. A slot holds one time. Each wrong guess moves it on by the gap; when it is more than
 * `at_once` gaps ahead of now, the next guess has to wait. */
#include "users/guesses.h"

#include "base/clock.h"

#include <xxhash.h>

#define WAYS 4 /* slots that one may be in */

void guesses_init(struct guesses *g, const struct guess_limits *limits)
{
    memset(g, 0, sizeof(*g));
    g->limits = *limits;
    rand_bytes(&g->seed, sizeof(g->seed));
}

static uint64_t hash_of(struct slice address, uint64_t seed)
{
    uint64_t who = XXH3_64bits_withSeed(address.p, address.n, seed);
    return who == 0 ? 1 : who;
}

static uint64_t who_is(const struct guesses *g, struct slice address, struct slice user)
{
    return hash_of(address, XXH3_64bits_withSeed(user.p, user.n, g->seed));
}

/* All users of an address; no name hashes to the same, not even an empty one. */
static uint64_t all_of(const struct guesses *g, struct slice address)
{
    return hash_of(address, g->seed);
}

/* NULL: it has none. */
static struct guess *slot_find(struct guesses *g, uint64_t who)
{
    for (unsigned i = 0; i < WAYS; i++)
        if (g->slots[(who + i) % GUESSES_SLOTS].who == who) return &g->slots[(who + i) % GUESSES_SLOTS];
    return NULL;
}

/* A new entry takes the slot that expires first. */
static struct guess *slot_take(struct guesses *g, uint64_t who)
{
    struct guess *mildest = slot_find(g, who);
    if (mildest != NULL) return mildest;
    mildest = &g->slots[who % GUESSES_SLOTS];
    for (unsigned i = 1; i < WAYS; i++)
        if (g->slots[(who + i) % GUESSES_SLOTS].until_ms < mildest->until_ms)
            mildest = &g->slots[(who + i) % GUESSES_SLOTS];
    *mildest = (struct guess){.who = who};
    return mildest;
}

static bool may(struct guesses *g, uint64_t who, uint64_t now_ms, struct guess_limit limit)
{
    const struct guess *at = slot_find(g, who);
    return at == NULL || at->until_ms <= now_ms + (limit.at_once - UINT64_C(1)) * limit.gap_ms;
}

bool guess_may(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms)
{
    return may(g, all_of(g, address), now_ms, g->limits.wide) &&
           may(g, who_is(g, address, user), now_ms, g->limits.user);
}

static void count(struct guess *at, uint64_t now_ms, uint64_t gap_ms)
{
    at->until_ms = (at->until_ms > now_ms ? at->until_ms : now_ms) + gap_ms;
}

void guess_wrong(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms)
{
    count(slot_take(g, all_of(g, address)), now_ms, g->limits.wide.gap_ms);
    count(slot_take(g, who_is(g, address, user)), now_ms, g->limits.user.gap_ms);
}
