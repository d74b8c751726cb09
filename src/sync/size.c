/* sync/size.c - how many hashes a claim takes. Its script is one step of Redis, and hits wait behind it. So while hits
 * come, a claim is a piece of claim_us, and one claim is out at a time. More may be out when that does not keep up with
 * what becomes due. When no hits come, a claim is as large as possible: that costs Redis and MySQL less a hash. */
#include "sync/inside.h"

#define PAGE_BESIDE_HITS 400 /* names of the dirty index: 1.3 us of Redis each, at a million */

void size_init(struct sync *s)
{
    s->size = (struct claim_size){
        .piece = {CLAIM_HASHES_MAX, s->config.claim_least, CLAIM_HASHES_MAX, s->config.claim_us, 0},
        .hits = s->ports.hits(s->ports.arg)};
}

void size_tick(struct sync *s, uint64_t now_ms)
{
    uint64_t hits = s->ports.hits(s->ports.arg);
    if (hits != s->size.hits) s->size.until_ms = now_ms + s->config.busy_ms;
    s->size.hits = hits;
    s->size.hits_come = now_ms < s->size.until_ms;
}

uint32_t size_now(const struct sync *s)
{
    return s->size.hits_come ? s->size.piece.now : CLAIM_HASHES_MAX;
}

uint32_t size_page(const struct sync *s)
{
    return s->size.hits_come ? PAGE_BESIDE_HITS : CLAIM_HASHES_MAX;
}

bool sync_hits_come(const struct sync *s)
{
    return s->size.hits_come;
}

bool size_room(const struct sync *s)
{
    return s->claims_out < (s->size.hits_come && !s->behind ? 1 : s->config.claims_max);
}

void size_claimed(struct sync *s, const struct claim *c)
{
    if (c->outcome == CLAIM_STANDS) piece_took(&s->size.piece, c->keys_n - c->left, c->took_us);
}
