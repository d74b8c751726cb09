/* coalesce/feeding.c - what a frame carries besides what clients asked for: the feeds of its hits, made when it is sent, so
 * that a hit pays nothing for them, and the upkeep of `known:`.
 * (!) An event whose id is GIVEN leaves it to others that its log's name stands in tally:events. The preener counts the
 *     names that he takes out, and a frame with events looks at that count: when it has moved since the name was known to
 *     stand, the name is owed; what is sent from then on has it in its own frame, until it is known to stand again.
 * (!) What `known:` holds of a series follows the order of sending, as the dirty index does: the ZADD goes with the first
 *     op of each new slot, a cut forgets what was sent, a refusal what the frame carried, and a sample that came into
 *     being without its ZADD owes it, until a frame with it is known to be applied. */
#include "base/heap.h"
#include "coalesce/engine.h"

#define OWED_A_FRAME_MAX 1000

/* --- names that are owed --- */

static void name_owe(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    if (!HOLDS(op->kind == OP_SERIES ? RULE_SERIES_OWED : RULE_EVENTS_OWED)) return;
    if (c->names_owed_n == c->names_owed_cap) {
        c->names_owed_cap = c->names_owed_cap == 0 ? 64 : 2 * c->names_owed_cap;
        c->names_owed = heap_realloc(c->names_owed, c->names_owed_cap * sizeof *c->names_owed);
    }
    c->names_owed[c->names_owed_n++] =
        (struct owed_name){op->kind, (uint32_t)c->owed_names.n, op->name_n, op->type_n, op->at};
    buf_put_slice(&c->owed_names, FRAME_NAME(f, op));
    buf_put_slice(&c->owed_names, FRAME_TYPE(f, op));
}

static void add_owed_names(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < OWED_A_FRAME_MAX && c->names_owed_n > 0; i++) {
        const struct owed_name *owed = &c->names_owed[--c->names_owed_n];
        struct slice name = slice_of(c->owed_names.p + owed->name_at, owed->name_n);
        struct slice type = slice_of(name.p + name.n, owed->type_n);
        struct frame_op *op = frame_add_op(&g->frame, owed->kind, name, type, owed->at);
        op->fed = op->owed = op->named = true;
        op->name_code = engine_name_code(c, owed->kind, name, type);
        op->known = known_all(c->counters->ops);
        c->owed_names.n = owed->name_at;
    }
}

static bool draws_a_number(const struct frame *f, const struct frame_op *op)
{
    uint32_t i = op->first_item;
    while (i != OP_END && f->items[i].text_n > 0)
        i = f->items[i].next;
    return i != OP_END;
}

static void note_event(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    const struct lease *l = leases_find(&c->leases, op->name_code);
    if (op_is_given(op)) {
        op->gone = c->events_gone;
        op->named = l == NULL || l->gone != op->gone;
    } else if (!op->has_numbers && draws_a_number(f, op)) {
        op->lease_n = leases_wanted(&c->leases, l);
    }
}

static void note_known(struct coalesce *c, struct frame *f)
{
    f->events_gone = -1;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->owed || op->silent) continue;
        if (op->kind == OP_SERIES) op->known = known_note(&c->known, c->counters->ops, op->name_code, op->at);
        if (op->kind == OP_EVENT) note_event(c, f, op);
    }
}

/* --- feeds --- */

static struct frame_op *feed_op(struct coalesce *c, struct group *g, enum feed which, struct slice name)
{
    static const enum op_kind kinds[] = {
        [FEED_SERIES] = OP_SERIES, [FEED_TIMEBOX] = OP_TIMEBOX, [FEED_EVENT] = OP_EVENT};
    struct coalesce_op op = {.kind = kinds[which], .name = name, .at = g->frame.dirty_ms / 1000};
    if (which == FEED_EVENT) {
        bool parted = event_split(name, &op.name, &op.type);
        INVARIANT(parted);
    }
    if (which == FEED_TIMEBOX) op.at = op_slot(op.at, c->counters->ops->timebox_width_s);
    return ops_fed(c, g, &op);
}

static void feed_hash(struct coalesce *c, struct group *g, const struct frame_hash *h)
{
    const struct counter *counter = ((const struct hash_entry *)h->entry)->counter;
    for (int which = 0; which < FEEDS; which++) {
        int64_t n = which == FEED_EVENT ? h->fed_hits : h->fed_delta;
        buf_reset(&c->raw);
        if (n == 0 || !counter_feed_name(counter, which, h->key, &c->raw)) continue;
        feed_op(c, g, which, buf_slice(&c->raw))->delta += n;
    }
}

static void add_feeds(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_hash *h = &f->hashes[f->cells[i].hash];
        h->fed_delta += f->cells[i].delta;
        h->fed_hits += f->cells[i].hits;
    }
    for (uint32_t i = 0; i < f->hashes_n; i++)
        if (f->hashes[i].cells > 0) feed_hash(c, g, &f->hashes[i]);
}

/* --- the frame's life --- */

void ops_on_send(struct coalesce *c, struct group *g)
{
    if (c->feeds) add_feeds(c, g);
    checkpoint_on_send(c, g);
    add_owed_names(c, g);
    note_known(c, &g->frame);
    buckets_on_send(c, g);
}

/* (!) Numbers of a lease that Redis may have forgotten with its tail are drawn anew: nobody was told them yet. */
static void event_send_again(struct frame *f, struct frame_op *op)
{
    op->named = true;
    if (!op_is_given(op) || op->fed || !HOLDS(RULE_LEASE_RESEND)) return;
    op->at = EVENT_DRAWS;
    op->lease_n = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        f->items[i].value = 0;
}

void ops_send_again(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < g->frame.ops_n; i++) {
        struct frame_op *op = &g->frame.ops[i];
        if (op->silent) continue;
        if (op->kind == OP_SERIES && HOLDS(RULE_SERIES_RESEND)) op->known = known_all(c->counters->ops);
        if (op->kind == OP_EVENT) event_send_again(&g->frame, op);
    }
    buckets_send_again(g);
}

/* The visitors that are new moved a pending hash, as hits would have. */
static void visitors_applied(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    struct slice key = FRAME_TEXT(f, op->key_at, op->key_n);
    struct hash_entry *e = engine_entry(c, key, hash_cache_code(&c->hash_cache, key));
    if (e == NULL) return;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        e->hits += f->items[i].value > 0;
    if (e->hits >= (uint64_t)e->counter->hits) engine_due(c, e, DUE_HITS);
}

static void event_drew(struct coalesce *c, const struct frame_op *op)
{
    struct lease *l = leases_learn(&c->leases, op->name_code);
    l->gone = c->events_gone;
    if (op->has_numbers) lease_bar(l);
    if (op->lease_n > 0) leases_fill(&c->leases, l, op->value, op->lease_n);
}

/* A log that has left tally:events since its name was known to stand there may have been this one: then it is back. */
static void event_was_given(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    struct lease *l = leases_find(&c->leases, op->name_code);
    if (!op->named && op->gone != f->events_gone)
        name_owe(c, f, op);
    else if (l != NULL)
        l->gone = f->events_gone;
}

static void event_applied(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    bool is_unsure = op->error_n > 0 || f->events_gone < 0;
    if (is_unsure) leases_forget(&c->leases, op->name_code);
    if (op->error_n == 0 && op_is_given(op))
        event_was_given(c, f, op);
    else if (!is_unsure && !op->fed)
        event_drew(c, op);
}

void ops_applied(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (f->events_gone >= 0) c->events_gone = f->events_gone;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->silent && op->kind == OP_SERIES) op->value = ops_precisions(c, f, op);
        if (op->kind == OP_SERIES && op->fresh) name_owe(c, f, op);
        if (op->kind == OP_EVENT && !op->silent) event_applied(c, f, op);
        if (op->counter != NULL && op->error_n == 0) visitors_applied(c, f, op);
    }
    buckets_applied(c, f); /* before a journal ends that brought hits home */
    checkpoint_applied(c, g);
}

void ops_found_applied(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        bool left_out = op->kind == OP_SERIES && !op->silent && op->known != known_all(c->counters->ops);
        if (left_out) name_owe(c, f, op);
    }
    buckets_found_applied(c, f);
}

void ops_not_applied(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        if (op->silent) continue;
        if (op->kind == OP_SERIES && HOLDS(RULE_SERIES_FORGET)) known_forget(&c->known, op->name_code);
        if (op->owed && op->kind != OP_TIMEBOX) name_owe(c, f, op);
    }
    buckets_not_applied(c, f);
}
