/* coalesce/feeds.c - what a frame carries besides what clients asked for: the feeds of its hits, made when it is sent, so
 * that a hit pays nothing for them, and the upkeep of `known:`.
 * (!) What `known:` holds of a series follows the order of sending, as the dirty index does: the ZADD goes with the first
 *     op of each new slot, a cut forgets what was sent, a refusal what the frame carried, and a sample that came into
 *     being without its ZADD owes it, until a frame with it is known to be applied. */
#include "base/heap.h"
#include "coalesce/engine.h"

#define OWED_A_FRAME_MAX 1000

/* --- known: of the series --- */

static void series_owe(struct coalesce *c, struct slice name, int64_t at)
{
    if (!HOLDS(RULE_SERIES_OWED)) return;
    if (c->series_owed_n == c->series_owed_cap) {
        c->series_owed_cap = c->series_owed_cap == 0 ? 64 : 2 * c->series_owed_cap;
        c->series_owed = heap_realloc(c->series_owed, c->series_owed_cap * sizeof *c->series_owed);
    }
    struct owed_series *owed = &c->series_owed[c->series_owed_n++];
    *owed = (struct owed_series){(uint32_t)c->series_names.n, (uint32_t)name.n, at};
    buf_put_slice(&c->series_names, name);
}

static void add_owed_series(struct coalesce *c, struct box *b)
{
    for (uint32_t i = 0; i < OWED_A_FRAME_MAX && c->series_owed_n > 0; i++) {
        const struct owed_series *owed = &c->series_owed[--c->series_owed_n];
        struct slice name = slice_of(c->series_names.p + owed->name_at, owed->name_n);
        struct frame_op *op = frame_add_op(&b->frame, OP_SERIES, name, SLICE(""), owed->at);
        op->fed = op->owed = true;
        op->name_code = engine_name_code(c, OP_SERIES, name, SLICE(""));
        op->known = known_all(c->counters->ops);
        c->series_names.n = owed->name_at;
    }
}

static void note_known(struct coalesce *c, struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->kind == OP_SERIES && !op->owed && !op->silent)
            op->known = known_note(&c->known, c->counters->ops, op->name_code, op->at);
    }
}

/* --- feeds --- */

static struct frame_op *feed_op(struct coalesce *c, struct box *b, enum feed which, struct slice name)
{
    static const enum op_kind kinds[] = {
        [FEED_SERIES] = OP_SERIES, [FEED_BOX] = OP_BOX, [FEED_EVENT] = OP_EVENT};
    struct coalesce_op op = {.kind = kinds[which], .name = name, .at = b->frame.dirty_ms / 1000};
    if (which == FEED_EVENT) {
        bool parted = event_split(name, &op.name, &op.type);
        INVARIANT(parted);
    }
    if (which == FEED_BOX) op.at = op_slot(op.at, c->counters->ops->box_width_s);
    return ops_fed(c, b, &op);
}

static void feed_hash(struct coalesce *c, struct box *b, const struct frame_hash *h)
{
    const struct counter *counter = ((const struct entry *)h->entry)->counter;
    for (int which = 0; which < FEEDS; which++) {
        int64_t n = which == FEED_EVENT ? h->fed_hits : h->fed_delta;
        buf_reset(&c->raw);
        if (n == 0 || !counter_feed_name(counter, which, h->key, &c->raw)) continue;
        feed_op(c, b, which, buf_slice(&c->raw))->delta += n;
    }
}

static void add_feeds(struct coalesce *c, struct box *b)
{
    struct frame *f = &b->frame;
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_hash *h = &f->hashes[f->cells[i].hash];
        h->fed_delta += f->cells[i].delta;
        h->fed_hits += f->cells[i].hits;
    }
    for (uint32_t i = 0; i < f->hashes_n; i++)
        if (f->hashes[i].cells > 0) feed_hash(c, b, &f->hashes[i]);
}

/* --- the frame's life --- */

void ops_on_send(struct coalesce *c, struct box *b)
{
    if (c->feeds) add_feeds(c, b);
    checkpoint_on_send(c, b);
    add_owed_series(c, b);
    note_known(c, &b->frame);
    buckets_on_send(c, b);
}

void ops_send_again(struct coalesce *c, struct box *b)
{
    for (uint32_t i = 0; i < b->frame.ops_n && HOLDS(RULE_SERIES_RESEND); i++)
        if (b->frame.ops[i].kind == OP_SERIES && !b->frame.ops[i].silent)
            b->frame.ops[i].known = known_all(c->counters->ops);
    buckets_send_again(b);
}

/* The visitors that are new moved a pending hash, as hits would have. */
static void visitors_applied(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    struct slice key = FRAME_TEXT(f, op->key_at, op->key_n);
    struct entry *e = engine_entry(c, key, registry_code(&c->registry, key));
    if (e == NULL) return;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        e->hits += f->items[i].value > 0;
    if (e->hits >= (uint64_t)e->counter->hits) engine_due(c, e, DUE_HITS);
}

void ops_applied(struct coalesce *c, struct box *b)
{
    struct frame *f = &b->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->silent && op->kind == OP_SERIES) op->value = ops_precisions(c, f, op);
        if (op->kind == OP_SERIES && op->fresh) series_owe(c, FRAME_NAME(f, op), op->at);
        if (op->counter != NULL && op->error_n == 0) visitors_applied(c, f, op);
    }
    checkpoint_applied(c, b);
    buckets_applied(c, f);
}

void ops_found_applied(struct coalesce *c, const struct box *b)
{
    const struct frame *f = &b->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        bool left_out = op->kind == OP_SERIES && !op->silent && op->known != known_all(c->counters->ops);
        if (left_out) series_owe(c, FRAME_NAME(f, op), op->at);
    }
    buckets_found_applied(c, f);
}

void ops_not_applied(struct coalesce *c, const struct box *b)
{
    const struct frame *f = &b->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        if (op->kind != OP_SERIES || op->silent) continue;
        if (HOLDS(RULE_SERIES_FORGET)) known_forget(&c->known, op->name_code);
        if (op->owed) series_owe(c, FRAME_NAME(f, op), op->at);
    }
    buckets_not_applied(c, f);
}
