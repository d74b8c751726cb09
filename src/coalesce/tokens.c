/* coalesce/tokens.c - increments with a token, which count once however often they are sent. They are no cells: a
 * script after the cells of their frame looks the token up, counts, and writes the token, so that all three happen or
 * none does. The frame keeps the order among them.
 * (!) Only that script moves what they move. Neither a share of tally:accepted nor a feed is summed from what was sent,
 *     since only Redis knows which tokens are new. A counter with feeds takes none.
 * When a frame is found applied after a cut, its tokens are read: each one that exists was counted, with that value. */
#include "base/stats.h"
#include "coalesce/inside.h"

/* Nine cells: 8 us of Redis' time where a HINCRBY takes 0.9, so a full frame takes as long as one of hits. */
#define TOKEN_QUARTERS 36

static enum add_result token_fits(const struct coalesce *c, const struct hash_entry *e,
                                  const struct coalesce_token *t)
{
    if (e == NULL) return ADD_NO_COUNTER;
    if (!coalesce_delta_fits(c, t->delta)) return ADD_DELTA;
    if (!counter_field_valid(e->counter, t->field)) return ADD_FIELD;
    return counter_feeds_any(e->counter) ? ADD_FED : ADD_OK;
}

enum add_result coalesce_try_token(struct coalesce *c, const struct coalesce_token *t)
{
    return token_fits(c, coalesce_entry(c, t->key), t);
}

uint32_t coalesce_token_cells(void)
{
    return (TOKEN_QUARTERS + 3) / 4;
}

static void token_take(struct coalesce *c, struct outlet *o, struct hash_entry *e,
                       const struct coalesce_token *t, struct slice user)
{
    struct group *g = c->now;
    group_hash(g, e)->moved = true;
    struct slice store = counter_store(e->counter, t->key);
    struct frame_token *made = frame_add_token(&g->frame, e->slot, store, t->id, t->field, t->delta, user);
    made->counter = e->counter;
    if (t->today) frame_token_today(&g->frame, made);
    g->op_quarters += TOKEN_QUARTERS;
    o->parked_ms = 0;
    coalesce_came(c);
    group_expect(g, o, ANSWER_TOKEN | (g->frame.tokens_n - 1), 0);
}

enum add_result coalesce_add_token(struct coalesce *c, struct outlet *o, const struct coalesce_token *t,
                                   struct slice user)
{
    struct hash_entry *e = coalesce_entry(c, t->key);
    enum add_result fits = token_fits(c, e, t);
    if (fits != ADD_OK) return fits;
    if (sm_now(&c->link) != LINK_READY) return coalesce_down_or_held(c, o);
    if (coalesce_answers_full(c, t->key.n + t->field.n + t->id.n + user.n) ||
        group_cells(c->now) >= c->config.cells_max)
        return coalesce_full(c, o);
    token_take(c, o, e, t, user);
    return ADD_OK;
}

void tokens_applied(struct coalesce *c, const struct frame *f)
{
    int64_t counted = 0, failed = 0;
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        const struct frame_token *t = &f->tokens[i];
        failed += t->error_n > 0;
        if (t->error_n > 0 || !t->is_new) continue;
        counted++;
        /* As a cell that was applied. */
        struct hash_entry *e = f->hashes[t->hash].entry;
        e->hits += (uint64_t)llabs(t->delta);
        if (e->hits >= (uint64_t)e->counter->hits || t->value >= e->counter->hits) flight_due(c, e, DUE_HITS);
    }
    if (f->tokens_n == 0) return;
    STAT_ADD(tokens, counted);
    STAT_ADD(tokens_known, f->tokens_n - failed - counted);
}

void tokens_answer(const struct group *g, const struct answer *a, struct buf *out)
{
    const struct frame_token *t = &g->frame.tokens[a->cell & ~ANSWER_TOKEN];
    if (t->error_n > 0)
        answer_error(out, FRAME_ERROR(&g->frame, t));
    else
        put_head(out, ':', t->value);
}
