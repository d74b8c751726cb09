/* coalesce/ops.c - puts clients' ops on series, timeboxes, events and visitors into the frame that collects, and
 * answers them. They count exactly once, as cells do, since they are in the same MULTI. */
#include "base/heap.h"
#include "base/slice.h"
#include "coalesce/inside.h"

#include <stdlib.h>

static const char lost_text[] = "ERR counted, but the answer was lost with the link to Redis, as an "
                                "error would be: a key of another type, an id that is refused";

/* --- the ops of a group --- */

struct op_codes {
    uint64_t name, all;
    int64_t which;
};

static bool op_is(const struct frame *f, const struct frame_op *have, const struct coalesce_op *op,
                  int64_t which, bool fed)
{
    return have->kind == op->kind && have->fed == fed && have->which == which &&
           slice_eq(FRAME_NAME(f, have), op->name) && slice_eq(FRAME_TYPE(f, have), op->type) &&
           slice_eq(FRAME_TEXT(f, have->user_at, have->user_n), op->user);
}

static struct frame_op *op_find(const struct group *g, const struct coalesce_op *op,
                                const struct op_codes *codes, bool fed)
{
    const struct op_slots *s = &g->op_slots;
    for (uint32_t i = (uint32_t)codes->all & (s->cap - 1); s->cap > 0; i = (i + 1) & (s->cap - 1)) {
        if (s->at[i] == 0) return NULL;
        struct frame_op *have = &g->frame.ops[s->at[i] - 1];
        if (have->code == codes->all && op_is(&g->frame, have, op, codes->which, fed)) return have;
    }
    return NULL;
}

static void op_slot_take(struct op_slots *s, uint64_t code, uint32_t op)
{
    uint32_t i = (uint32_t)code & (s->cap - 1);
    while (s->at[i] != 0)
        i = (i + 1) & (s->cap - 1);
    s->at[i] = op + 1;
    s->n++;
}

static struct frame_op *group_op_add(struct coalesce *c, struct group *g, const struct coalesce_op *op,
                                     const struct op_codes *codes, bool fed)
{
    struct op_slots *s = &g->op_slots;
    if (2 * s->n >= s->cap) {
        s->cap = s->cap == 0 ? 64 : 2 * s->cap;
        heap_free(s->at);
        s->at = heap_zalloc(s->cap * sizeof *s->at);
        s->n = 0;
        for (uint32_t i = 0; i < g->frame.ops_n; i++)
            op_slot_take(s, g->frame.ops[i].code, i);
    }
    struct frame_op *added = frame_add_op(&g->frame, op->kind, op->name, op->type, codes->which);
    added->user_at = (uint32_t)g->frame.bytes.n;
    added->user_n = (uint32_t)op->user.n;
    buf_put_slice(&g->frame.bytes, op->user);
    added->code = codes->all;
    added->name_code = codes->name;
    added->fed = fed;
    added->may_wait = checkpoint_takes(c, added);
    op_slot_take(s, codes->all, g->frame.ops_n - 1);
    return added;
}

static struct frame_op *ops_fed(struct coalesce *c, struct group *g, const struct coalesce_op *op)
{
    struct op_codes codes = {.name = coalesce_name_code(c, op->kind, op->name, op->type), .which = op->at};
    codes.all = coalesce_op_code(c, codes.name, op->at, true);
    struct frame_op *found = op_find(g, op, &codes, true);
    return found != NULL ? found : group_op_add(c, g, op, &codes, true);
}

/* --- the door --- */

static uint32_t quarters_of_op(const struct coalesce *c, enum op_kind kind)
{
    uint32_t quarters = op_kinds[kind].quarters;
    return quarters == QUARTERS_PRECISIONS ? c->counters->ops->precisions_n : quarters;
}

/* An op that waits in the journal costs the frame almost nothing, unless the journal comes home too slowly. In a
 * transaction, all of which was given room, it never costs more than without a journal. An event that needs no script
 * costs it a quarter. */
static uint32_t quarters_of_new(const struct coalesce *c, const struct coalesce_op *op,
                                const struct op_codes *codes)
{
    const struct frame_op is = {
        .kind = op->kind, .which = codes->which, .code = codes->all, .name_code = codes->name};
    uint32_t own = quarters_of_op(c, op->kind);
    if (!checkpoint_takes(c, &is)) return op->kind == OP_EVENT && codes->which != EVENT_DRAWS ? 1 : own;
    uint32_t price = checkpoint_price(c);
    return c->transaction && price > own ? own : price;
}

uint32_t coalesce_op_cells(const struct coalesce *c, enum op_kind kind)
{
    return (quarters_of_op(c, kind) + op_kinds[kind].item_quarters + 3) / 4;
}

/* The frame has the pending hash that new visitors move only for its lock: the script does its ZADD. */
static void op_moves(struct coalesce *c, struct group *g, struct frame_op *op, struct slice name)
{
    const struct op_limits *l = c->counters->ops;
    struct frame *f = &g->frame;
    buf_reset(&c->raw);
    if (!op_uniq_key(l, name, &c->raw)) return;
    struct slice key = buf_slice(&c->raw);
    struct hash_entry *e = coalesce_entry(c, key);
    if (e == NULL) return;
    op->counter = e->counter;
    op->key_at = (uint32_t)f->bytes.n;
    op->key_n = (uint32_t)key.n;
    buf_put_slice(&f->bytes, key);
    group_hash(g, e)->moved = true;
}

/* --- events --- */

/* When a client sends its own id twice, the second event keeps the second of the first. So it goes where the first one
 * went, and in a frame the events that draw numbers run first. */
static enum event_id event_id(struct coalesce *c, const struct coalesce_op *op, uint64_t name_code)
{
    const struct lease *l = leases_find(&c->leases, name_code);
    if (op->id.n == 0) return l != NULL && l->left > 0 ? EVENT_GIVEN : EVENT_DRAWS;
    if (op_id_is_number(op->id)) return EVENT_DRAWS;
    if (l != NULL) return EVENT_OWN;
    const struct op_codes own = {name_code, coalesce_op_code(c, name_code, EVENT_OWN, false), EVENT_OWN};
    return op_find(c->now, op, &own, false) != NULL ? EVENT_OWN : EVENT_DRAWS;
}

static void event_take(struct coalesce *c, const struct coalesce_op *op, struct frame_op *into,
                       struct op_item *item)
{
    if (into->which == EVENT_OWN) return;
    struct lease *l = leases_find(&c->leases, into->name_code);
    if (into->which == EVENT_GIVEN) {
        item->value = lease_take(l);
        into->lease_seq = l->seq;
    } else if (op->id.n > 0 && op_id_is_number(op->id)) {
        into->has_numbers = true;
        if (l != NULL) lease_bar(l);
    }
}

/* --- all of them --- */

static void op_take(struct coalesce *c, struct outlet *o, const struct coalesce_op *op, struct frame_op *into)
{
    struct group *g = c->now;
    into->delta += op->n;
    int64_t at = into->delta;
    if (op_kinds[op->kind].has_items) {
        int64_t what = op->kind == OP_EVENT ? op->at : op->id.n > 0 ? -1 : op->visitor;
        at = frame_add_item(&g->frame, into, what, op->id);
        if (op->kind == OP_EVENT) event_take(c, op, into, &g->frame.items[at]);
    }
    g->weight += (uint64_t)llabs(op->n);
    o->parked_ms = 0;
    coalesce_came(c);
    group_expect(g, o, ANSWER_OP | (uint32_t)(into - g->frame.ops), at);
}

static int64_t which_of(struct coalesce *c, const struct coalesce_op *op, uint64_t name_code)
{
    if (op->kind == OP_EVENT) return event_id(c, op, name_code);
    if (op->kind == OP_TIMEBOX) return op_slot(op->at, c->counters->ops->timebox_width_s);
    return op->at;
}

static enum add_result op_place(struct coalesce *c, struct outlet *o, const struct coalesce_op *op)
{
    struct group *g = c->now;
    struct op_codes codes = {.name = coalesce_name_code(c, op->kind, op->name, op->type)};
    codes.which = which_of(c, op, codes.name);
    codes.all = coalesce_op_code(c, codes.name, codes.which, false);
    struct frame_op *into = op_find(g, op, &codes, false);
    uint32_t quarters =
        (into == NULL ? quarters_of_new(c, op, &codes) : 0) + op_kinds[op->kind].item_quarters;
    if (coalesce_answers_full(c, op->name.n + op->type.n + op->id.n + op->user.n) ||
        (quarters > 0 && group_cells(g) >= c->config.cells_max))
        return coalesce_full(c, o);
    g->op_quarters += quarters;
    if (into == NULL) {
        into = group_op_add(c, g, op, &codes, false);
        if (op->kind == OP_UNIQ) op_moves(c, g, into, op->name);
    }
    op_take(c, o, op, into);
    return ADD_OK;
}

enum add_result coalesce_op(struct coalesce *c, struct outlet *o, const struct coalesce_op *op)
{
    PRE(c->counters->ops != NULL);
    struct coalesce_op placed = *op;
    if (!coalesce_delta_fits(c, op->n)) return ADD_DELTA;
    if (sm_now(&c->link) != LINK_READY) return coalesce_down_or_held(c, o);
    if (op_kinds[op->kind].has_items) placed.n = 0;
    if (op->kind != OP_UNIQ && op->at == COALESCE_NOW) {
        if (c->turn_s == 0) c->turn_s = c->ports.redis_ms(c->ports.arg) / 1000;
        placed.at = c->turn_s;
    }
    PRE(placed.at >= 0);
    return op_place(c, o, &placed);
}

/* --- answers --- */

static void write_item(const struct frame *f, const struct frame_op *op, const struct op_item *item,
                       struct buf *out)
{
    char digits[24];
    struct slice id = FRAME_TEXT(f, item->text_at, item->text_n);
    if (op->kind == OP_UNIQ) {
        put_head(out, ':', item->value);
        return;
    }
    if (op->kind == OP_EVENT && item->value == EVENT_REFUSED) {
        buf_printf(out,
                   "-ERR id " SLICE_FMT
                   " may be a number that another event gets; use a larger number or a text\r\n",
                   SLICE_ARG(id));
        return;
    }
    if (id.n == 0) id = slice_of(digits, num_write(item->value, digits));
    put_bulk(out, id);
}

void ops_answer(const struct group *g, const struct answer *a, struct buf *out)
{
    const struct frame *f = &g->frame;
    const struct frame_op *op = &f->ops[a->cell & ~ANSWER_OP];
    if (op->error_n > 0)
        answer_error(out, FRAME_ERROR(f, op));
    else if (op_kinds[op->kind].has_items)
        write_item(f, op, &f->items[a->at], out);
    else if (op->kind == OP_TIMEBOX)
        put_head(out, ':', op->late ? 0 : answer_running(op->value, op->delta - a->at));
    else
        put_head(out, ':', op->value);
}

int64_t ops_precisions(const struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    const struct op_limits *l = c->counters->ops;
    int64_t n = 0;
    for (uint32_t i = 0; i < l->precisions_n; i++)
        n += op_keeps(l, i, op->which, f->dirty_ms / 1000);
    return n;
}

/* Applied, but its answers were lost: gives those that are known without them. */
void ops_answers_lost(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        op->fresh = false;
        if (op->kind == OP_SERIES)
            op->value = ops_precisions(c, f, op);
        else if (!op_is_given(op) && !op->silent)
            frame_fail_op(f, op, slice_str(lost_text));
    }
}

/* --- adds up what the hits of a frame feed, from its cells when the frame is sent, so that a hit costs nothing more. --- */

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

void feeding_on_send(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_hash *h = &f->hashes[f->cells[i].hash];
        h->fed_delta += f->cells[i].delta;
        h->fed_hits += f->cells[i].hits;
    }
    for (uint32_t i = 0; i < f->hashes_n; i++)
        if (f->hashes[i].cells > 0) {
            const struct frame_hash *h = &f->hashes[i];
            const struct counter *counter = ((const struct hash_entry *)h->entry)->counter;
            for (int which = 0; which < FEEDS; which++) {
                int64_t n = which == FEED_EVENT ? h->fed_hits : h->fed_delta;
                buf_reset(&c->raw);
                if (n == 0 || !counter_feed_name(counter, which, h->key, &c->raw)) continue;
                feed_op(c, g, which, buf_slice(&c->raw))->delta += n;
            }
        }
}
