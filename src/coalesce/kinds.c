/* coalesce/kinds.c - what each kind of op does as its frame goes: what is known of its keys, what is owed to them.
 * (!) An event whose id is GIVEN does not list its log in tally:events. The cleaner counts the names that it removes. When
 *     that count has changed since we last saw the name listed, the name is owed, and frames list it again until one is
 *     applied.
 * (!) What is known of a series in `known:` follows the order of sending, as the dirty index does. The ZADD goes with the
 *     first op of each new slot; a cut forgets what was sent, a refusal what the frame carried. A sample that was created
 *     without its ZADD owes it, until a frame with it is known to be applied. */
#include "base/heap.h"
#include "coalesce/inside.h"

#define OWED_A_FRAME_MAX 1000

/* --- what is owed --- */

/* A series owes its ZADDs in `known:`, a bucket its entry in `tb.`, an event its log's name in tally:events. */
static void owe(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    if (!HOLDS(op_kinds[op->kind].owed_rule)) return;
    HEAP_GROW(c->ops_owed, c->ops_owed_n, c->ops_owed_cap, 64);
    c->ops_owed[c->ops_owed_n++] =
        (struct owed_op){op->kind, (uint32_t)c->owed_names.n, op->name_n, op->type_n, op->which};
    buf_put_slice(&c->owed_names, FRAME_NAME(f, op));
    buf_put_slice(&c->owed_names, FRAME_TYPE(f, op));
}

/* --- series --- */

static bool series_known(const struct coalesce *c, const struct frame_op *op)
{
    return known_is(&c->known, op->name_code);
}

static void series_on_send(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    (void)f;
    op->known = known_note(&c->known, c->counters->ops, op->name_code, op->which);
}

static void series_send_again(struct coalesce *c, struct frame *f, struct frame_op *op)
{
    (void)f;
    if (HOLDS(RULE_SERIES_RESEND)) op->known = known_all(c->counters->ops);
}

static void series_applied(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    if (op->silent) op->value = ops_precisions(c, f, op);
    if (op->fresh) owe(c, f, op);
    if (op->error_n > 0) known_forget(&c->known, op->name_code);
}

static void series_found_applied(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    if (op->known != known_all(c->counters->ops)) owe(c, f, op);
}

static void series_not_applied(struct coalesce *c, const struct frame_op *op)
{
    if (HOLDS(RULE_SERIES_FORGET)) known_forget(&c->known, op->name_code);
}

/* --- timeboxes --- */

static void bucket_on_send(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    op->stands = buckets_plain(c, f, op, op->delta);
}

static void bucket_send_again(struct coalesce *c, struct frame *f, struct frame_op *op)
{
    (void)c, (void)f;
    if (HOLDS(RULE_BUCKET_RESEND)) op->stands = false;
}

/* In the order in which Redis ran them: plain ZINCRBYs first, then those of the script. */
static void buckets_applied(struct coalesce *c, struct frame *f, bool stands)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->kind != OP_TIMEBOX || op->stands != stands || op->owed || op->silent) continue;
        buckets_learn(c, f, op);
        if (op->fresh) owe(c, f, op);
    }
}

static void bucket_found_applied(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    buckets_came_home(op);
    if (op->stands) owe(c, f, op);
}

/* --- events --- */

static bool event_known(const struct coalesce *c, const struct frame_op *op)
{
    (void)c;
    return op->which == EVENT_GIVEN;
}

static bool draws_a_number(const struct frame *f, const struct frame_op *op)
{
    uint32_t i = op->first_item;
    while (i != OP_END && f->items[i].text_n > 0)
        i = f->items[i].next;
    return i != OP_END;
}

static void event_on_send(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    const struct lease *l = leases_find(&c->leases, op->name_code);
    if (op_is_given(op)) {
        op->gone = c->events_gone;
        op->named = l == NULL || l->gone != op->gone;
    } else if (!op->has_numbers && draws_a_number(f, op)) {
        op->lease_n = leases_wanted(&c->leases, l);
    }
}

/* (!) Redis may have forgotten with its tail the numbers of a lease, so they are drawn again: no client knows them
 * yet. */
static void event_send_again(struct coalesce *c, struct frame *f, struct frame_op *op)
{
    (void)c;
    op->named = true;
    if (!op_is_given(op) || op->fed || !HOLDS(RULE_LEASE_RESEND)) return;
    op->which = EVENT_DRAWS;
    op->lease_n = 0;
    op->lease_seq = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        f->items[i].value = 0;
}

static void event_drew(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    struct lease *l = leases_learn(&c->leases, op->name_code);
    l->gone = c->events_gone;
    if (op->has_numbers) lease_bar(l);
    if (op->lease_n > 0) leases_fill(&c->leases, l, op->value, op->lease_n, f->seq);
}

/* Since this log was last known to be in tally:events, a log has left it. It may have been this one: then it is
 * owed. */
static void event_was_given(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    struct lease *l = leases_find(&c->leases, op->name_code);
    if (!op->named && op->gone != f->events_gone)
        owe(c, f, op);
    else if (l != NULL)
        l->gone = f->events_gone;
}

static void event_applied(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    if (op->silent) return;
    bool is_unsure = op->error_n > 0 || f->events_gone < 0;
    if (is_unsure) leases_forget(&c->leases, op->name_code);
    if (op->error_n == 0 && op_is_given(op))
        event_was_given(c, f, op);
    else if (!is_unsure && !op->fed)
        event_drew(c, f, op);
}

/* --- visitors --- */

/* The visitors that are new moved a pending hash, as hits would have. */
static void visitors_applied(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    if (op->counter == NULL || op->error_n > 0) return;
    struct slice key = FRAME_TEXT(f, op->key_at, op->key_n);
    struct hash_entry *e = coalesce_entry(c, key);
    if (e == NULL) return;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        e->hits += f->items[i].value > 0;
    if (e->hits >= (uint64_t)e->counter->hits) flight_due(c, e, DUE_HITS);
}

/* --- all of them --- */

/* In quarters of a cell. A frame of ops alone takes Redis about 4 ms, not 1. In a smaller one hardly any two hits of a
 * turn would meet in a name, so more hits would wait longer, not fewer shorter. */
const struct op_kind_rules op_kinds[] = {
    [OP_SERIES] = {.quarters = QUARTERS_PRECISIONS,
                   .owed_rule = RULE_SERIES_OWED,
                   .known = series_known,
                   .on_send = series_on_send,
                   .send_again = series_send_again,
                   .applied = series_applied,
                   .found_applied = series_found_applied,
                   .not_applied = series_not_applied},
    [OP_TIMEBOX] = {.quarters = 4,
                    .owed_rule = RULE_BUCKET_OWED,
                    .known = buckets_know,
                    .on_send = bucket_on_send,
                    .send_again = bucket_send_again,
                    .found_applied = bucket_found_applied},
    [OP_EVENT] = {.quarters = 4,
                  .item_quarters = 1,
                  .has_items = true,
                  .owed_rule = RULE_EVENTS_OWED,
                  .known = event_known,
                  .on_send = event_on_send,
                  .send_again = event_send_again,
                  .applied = event_applied},
    [OP_UNIQ] = {.quarters = 2, .item_quarters = 2, .has_items = true, .applied = visitors_applied},
};

void ops_on_send(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (c->feeds) feeding_on_send(c, g);
    checkpoint_on_send(c, g);
    for (uint32_t i = 0; i < OWED_A_FRAME_MAX && c->ops_owed_n > 0; i++) {
        const struct owed_op *owed = &c->ops_owed[--c->ops_owed_n];
        struct slice name = slice_of(c->owed_names.p + owed->name_at, owed->name_n);
        struct slice type = slice_of(name.p + name.n, owed->type_n);
        struct frame_op *op = frame_add_op(&g->frame, owed->kind, name, type, owed->which);
        op->fed = op->owed = op->named = true;
        op->name_code = coalesce_name_code(c, owed->kind, name, type);
        op->known = known_all(c->counters->ops);
        c->owed_names.n = owed->name_at;
    }
    f->events_gone = -1;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        const struct op_kind_rules *kind = &op_kinds[op->kind];
        if (kind->on_send != NULL && !op->owed && !op->silent) kind->on_send(c, f, op);
    }
}

void ops_send_again(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < g->frame.ops_n; i++) {
        struct frame_op *op = &g->frame.ops[i];
        const struct op_kind_rules *kind = &op_kinds[op->kind];
        if (kind->send_again != NULL && !op->silent) kind->send_again(c, &g->frame, op);
    }
}

void ops_held(struct coalesce *c, struct group *g)
{
    ops_send_again(c, g);
    for (uint32_t i = 0; i < g->frame.ops_n; i++)
        g->frame.ops[i].may_wait &= checkpoint_takes(c, &g->frame.ops[i]);
}

void ops_applied(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (f->events_gone >= 0) c->events_gone = f->events_gone;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct op_kind_rules *kind = &op_kinds[f->ops[i].kind];
        if (kind->applied != NULL) kind->applied(c, f, &f->ops[i]);
    }
    buckets_applied(c, f, true); /* before a journal ends that brought hits home */
    buckets_applied(c, f, false);
    checkpoint_applied(c, g);
}

void ops_found_applied(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct op_kind_rules *kind = &op_kinds[f->ops[i].kind];
        if (kind->found_applied != NULL && !f->ops[i].silent) kind->found_applied(c, f, &f->ops[i]);
    }
}

void ops_not_applied(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        const struct op_kind_rules *kind = &op_kinds[op->kind];
        if (op->silent) continue;
        if (kind->not_applied != NULL) kind->not_applied(c, op);
        if (op->owed) owe(c, f, op);
    }
}
