/* coalesce/claims.c - claims go down the frame link, so that frames and claims have one order. (!) Known dirty follows
 * the order of sending: when a claim is sent, its hashes stop being known dirty. (!) A claim is sent once; when its
 * answer is lost, tallyd looks for its registry (doubt.c). */
#include "base/stats.h"
#include "coalesce/inside.h"
#include <stdio.h>

static struct hash_entry *claimed_entry(struct coalesce *c, const struct claim *claim, uint32_t i)
{
    uint64_t code = hash_cache_code(&c->hash_cache, claim->keys[i]);
    return hash_cache_find(&c->hash_cache, claim->keys[i], code);
}

static void forget_dirty(struct coalesce *c, const struct claim *claim)
{
    for (uint32_t i = 0; i < claim->keys_n; i++) {
        struct hash_entry *e = claimed_entry(c, claim, i);
        if (e != NULL) e->known_dirty = false;
    }
}

/* The script sets the locks of the hashes that it claims, so that the next claim waits for `every` or for `hits`. It
 * leaves a lock that has nine tenths of `every` left: setting one is a third of what the claim costs Redis. */
static void begin_anew(struct coalesce *c, const struct claim *claim)
{
    uint64_t every_ms = UINT64_C(1000) * claim->counter->every_s;
    uint64_t until = c->ports.mono_ms(c->ports.arg) + every_ms;
    for (uint32_t i = 0; i < claim->keys_n; i++) {
        struct hash_entry *e = claimed_entry(c, claim, i);
        if (e == NULL) continue;
        e->hits = 0;
        e->due = false;
        bool fresh = claim->fresh != NULL && e->lock_until_ms >= until - every_ms / 10;
        if (fresh)
            claim->fresh[i] = true;
        else
            e->lock_until_ms = until;
    }
}

static void unlock(struct coalesce *c, const struct claim *claim)
{
    for (uint32_t i = 0; i < claim->keys_n; i++) {
        struct hash_entry *e = claimed_entry(c, claim, i);
        if (e != NULL) e->lock_until_ms = 1; /* over, and not unknown */
    }
}

void coalesce_claim(struct coalesce *c, struct claim *claim)
{
    PRE(claim->keys_n > 0 && claim->keys_n <= CLAIM_HASHES_MAX);
    if (sm_now(&c->link) != LINK_READY) {
        list_push(&c->refused, &claim->link);
        return;
    }
    begin_anew(c, claim);
    if (HOLDS(RULE_FORGET_AT_SEND)) forget_dirty(c, claim);
    list_push(&c->claims, &claim->link);
    STAT_ADD(claims, 1);
    c->ports.send_claim(c->ports.arg, claim);
}

void coalesce_on_claim(struct coalesce *c, struct claim *claim)
{
    list_remove(&claim->link);
    if (!HOLDS(RULE_FORGET_AT_SEND)) forget_dirty(c, claim);
    if (claim->outcome == CLAIM_REFUSED) unlock(c, claim);
    claim->done(claim);
}

void claims_refuse_all(struct coalesce *c)
{
    struct list refused;
    list_init(&refused);
    list_move_all(&refused, &c->refused);
    for (struct list *node; (node = list_pop(&refused)) != NULL;) {
        struct claim *claim = CONTAINER_OF(node, struct claim, link);
        claim->outcome = CLAIM_REFUSED;
        snprintf(claim->text, sizeof claim->text, "%.*s", (int)sizeof claim->text - 1, c->down_why);
        claim->done(claim);
    }
}
