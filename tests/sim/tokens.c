/* tests/sim/tokens.c - see tokens.h. */
#include "sim/world.h"

#include "base/slice.h"
#include <stdio.h>

/* --- the way of a frame --- */

/* An id is hash.field.k: counters share a store's tokens. */
static unsigned number_of(struct slice name)
{
    int64_t k = 0;
    size_t at = name.n;
    while (at > 0 && name.p[at - 1] != '.')
        at--;
    if (!num_parse(slice_of(name.p + at, name.n - at), &k) || k < 0 || k >= SIM_HITS) UNREACHABLE();
    return (unsigned)k;
}

void tokens_to_wire(struct process *life, struct wire_frame *wire, const struct frame *f)
{
    PRE(f->tokens_n <= SIM_TOKENS);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        const struct frame_token *t = &f->tokens[i];
        int hash = world_hash_of(life->w, f->hashes[t->hash].key);
        wire->tokens[wire->tokens_n++] =
            (struct wire_token){.hash = hash,
                                .field = world_field_of(life->w, hash, FRAME_FIELD(f, t)),
                                .k = number_of(FRAME_NAME(f, t)),
                                .delta = t->delta};
        if (t->counter != &life->w->counter[world_counter_of(life->w, wire->tokens[i].hash)])
            fault_found(life->w, FAULT_PROTOCOL, "a token's share is another counter's");
    }
}

static void write_one(struct redis *r, const struct wire_token *t)
{
    r->now.tokens.has[t->hash][t->field] |= 1U << t->k;
    r->now.tokens.value[t->hash][t->field][t->k] = t->value;
}

static bool stands(const struct redis *r, const struct wire_token *t)
{
    return (r->now.tokens.has[t->hash][t->field] >> t->k & 1) != 0;
}

static void run_one(struct world *w, struct wire_token *t, int64_t dirty_ms)
{
    struct twin_state *s = &w->redis->now;
    struct twin_hash *h = &s->pending[t->hash];
    t->is_new = !stands(w->redis, t) || !world_rule(w, WORLD_TOKEN_ONCE);
    t->value = s->tokens.value[t->hash][t->field][t->k];
    if (!t->is_new) return;
    t->error = redis_cell_error(w->redis, t->hash, t->field);
    if (t->error != NULL) return;
    if ((h->has & 1 << t->field) == 0) h->value[t->field] = 0;
    h->has |= (uint8_t)(1 << t->field);
    t->value = h->value[t->field] += t->delta;
    s->accepted[world_counter_of(w, t->hash)] += t->delta;
    if (s->dirty[t->hash] == 0) s->dirty[t->hash] = dirty_ms;
    if (world_rule(w, WORLD_TOKEN_WITH)) write_one(w->redis, t);
}

void tokens_run(struct world *w, struct wire_frame *f)
{
    for (unsigned i = 0; i < f->tokens_n; i++)
        run_one(w, &f->tokens[i], f->dirty_ms);
}

bool tokens_later(const struct world *w, const struct wire_frame *f)
{
    return f->tokens_n > 0 && !f->refused && !world_rule(w, WORLD_TOKEN_WITH);
}

void tokens_write(struct world *w, const struct wire_frame *f)
{
    for (unsigned i = 0; i < f->tokens_n; i++)
        if (f->tokens[i].is_new && f->tokens[i].error == NULL) write_one(w->redis, &f->tokens[i]);
}

/* The value that its client is told, whichever client that is; unless Redis lost it: then it may have been another value. */
static void ran(struct world *w, const struct wire_token *t)
{
    struct hit *hit = &w->oracle.hits[t->hash][t->field][t->k];
    hit->value = t->value;
    hit->exact = !hit->was_lost;
    if (++hit->applied > 1)
        fault_found(w, FAULT_DOUBLE, "hit %u with a token on %.*s field %d ran twice in Redis", t->k,
                    SLICE_ARG(world_hash_name(w, t->hash)), t->field);
}

void tokens_executed(struct world *w, const struct wire_frame *f, struct execution *e)
{
    for (unsigned i = 0; i < f->tokens_n; i++) {
        const struct wire_token *t = &f->tokens[i];
        if (t->error != NULL && f->again)
            w->oracle.hits[t->hash][t->field][t->k].lost = true; /* replay_failed */
        if (t->error != NULL) continue;
        e->tokens[t->hash][t->field] |= 1U << t->k;
        if (!t->is_new) continue;
        e->new_tokens[t->hash][t->field] |= 1U << t->k;
        w->oracle.hits[t->hash][t->field][t->k].ran_by = e->life;
        ran(w, t);
    }
}

void tokens_each(struct world *w, const struct execution *e, bool only_new, void (*act)(struct hit *hit))
{
    for (int h = 0; h < SIM_HASHES; h++)
        for (int f = 0; f < SIM_HIT_FIELDS; f++) {
            uint32_t set = only_new ? e->new_tokens[h][f] : e->tokens[h][f];
            for (unsigned k = 0; k < SIM_HITS; k++)
                if ((set >> k & 1) != 0) act(&w->oracle.hits[h][f][k]);
        }
}

void tokens_read(struct redis *r, struct wire_frame *f)
{
    for (unsigned i = 0; i < f->tokens_n; i++) {
        struct wire_token *t = &f->tokens[i];
        t->stands = stands(r, t);
        t->value = r->now.tokens.value[t->hash][t->field][t->k];
    }
}

/* --- a client's request --- */

static bool may_come_again(const struct hit *hit)
{
    return hit->sent > 0 && hit->sent < SIM_SENDS;
}

bool tokens_draw(struct world *w, int *hash, int *field, unsigned *k)
{
    unsigned seen = 0;
    for (int h = 0; h < SIM_HASHES; h++)
        for (int f = 0; f < SIM_HIT_FIELDS; f++)
            for (unsigned at = 0; at < w->oracle.hits_n[h][f]; at++) {
                if (!may_come_again(&w->oracle.hits[h][f][at])) continue;
                if (world_below(w, ++seen) != 0) continue;
                *hash = h, *field = f, *k = at;
            }
    return seen > 0;
}

bool tokens_fit(const struct world *w, int hash)
{
    return !w->config.feeds || world_counter_of(w, hash) != 0;
}

enum add_result tokens_send(struct process *life, struct outlet *o, int hash, int field, unsigned k)
{
    char id[32];
    snprintf(id, sizeof id, "%d.%d.%u", hash, field, k);
    struct coalesce_token t = {world_hash_name(life->w, hash), world_field_name(life->w, hash, field),
                               slice_str(id), world_delta(life->w, field, k), false};
    return coalesce_add_token(life->coalesce, o, &t, SLICE(""));
}
