/* tests/sim/ops.c - see ops.h. */
#include "sim/world.h"

#include "base/slice.h"
#include <stdio.h>

const struct op_limits ops_limits = {
    .precisions = {1, 60},
    .precisions_n = SIM_PRECISIONS,
    .samples = 100000,
    .token_keep_s = 2592000,
    .timebox_width_s = 60,
    .timebox_keep = 1000,
    .uniq_limit = SIM_HITS / 2,
    .ahead_s = 60,
    .uniq_name = {{"v", 1}, {"", 0}, true, NULL},
};

void ops_feed(struct counter *c)
{
    c->feeds[FEED_SERIES] = (struct pattern){SLICE("f"), SLICE(""), true, NULL};
    c->feeds[FEED_TIMEBOX] = (struct pattern){SLICE("fed"), SLICE(""), false, NULL};
    c->feeds[FEED_EVENT] = (struct pattern){SLICE("f"), SLICE(":hit"), true, NULL};
}

/* The store of a hash is the text between its 's' and the ':'. */
static struct slice store_of(const struct world *w, int hash)
{
    struct slice name = world_hash_name(w, hash);
    const char *end = memchr(name.p, ':', name.n);
    return slice_of(name.p + 1, (size_t)(end - name.p) - 1);
}

/* The hash of the first counter whose store the name ends in, after one letter. */
static int hash_of_store(const struct world *w, struct slice name)
{
    for (int h = 0; h < SIM_HASHES; h++)
        if (world_counter_of(w, h) == 0 && slice_eq(store_of(w, h), slice_of(name.p + 1, name.n - 1)))
            return h;
    UNREACHABLE();
}

static struct hit *op_hit(struct world *w, int target, unsigned k)
{
    return &w->oracle.ops[target][k];
}

static void op_fault(struct world *w, enum fault f, int target, unsigned k, const char *what)
{
    static const char *const names[] = {"the series", "the box", "the events", "the visitors"};
    fault_found(w, f, "op %u on %s (target %d): %s", k,
                names[target < OP_VISITORS_TARGET ? target : OP_VISITORS_TARGET], target, what);
}

/* --- the way of a frame --- */

static int target_of(const struct world *w, struct slice name, const struct frame_op *op)
{
    if (op->fed && op->kind == OP_TIMEBOX) return -1;
    if (op->fed && slice_eq(name, SLICE("o"))) return -1;
    if (op->fed) return hash_of_store(w, name);
    static const int of_kind[] = {
        [OP_SERIES] = OP_SERIES_TARGET, [OP_TIMEBOX] = OP_BOX_TARGET, [OP_EVENT] = OP_EVENT_TARGET};
    return op->kind == OP_UNIQ ? OP_VISITORS_TARGET + hash_of_store(w, name) : of_kind[op->kind];
}

/* Own ids are the letter e and k, or a number that the ticker might give. */
static bool has_own_number(const struct world *w, unsigned k)
{
    return w->config.own_numbers && k % 4 == 3;
}

static struct slice own_id(const struct world *w, unsigned k, char id[24])
{
    if (k % 2 == 0) return SLICE("");
    snprintf(id, 24, has_own_number(w, k) ? "%u" : "e%u", has_own_number(w, k) ? 2 + k : k);
    return slice_str(id);
}

static struct wire_item item_of(const struct frame *f, const struct frame_op *op, const struct op_item *item)
{
    struct slice text = FRAME_TEXT(f, item->text_at, item->text_n);
    int64_t k = item->at, number = 0;
    if (op->kind == OP_EVENT) k -= OP_EVENT_AT;
    if (op->kind == OP_UNIQ && text.n > 0 && !num_parse(slice_of(text.p + 1, text.n - 1), &k)) UNREACHABLE();
    if ((op_is_given(op) || op->which == EVENT_KEPT) && text.n == 0) number = item->value;
    if (op->kind == OP_EVENT && text.n > 0 && !num_parse(text, &number)) number = 0;
    return (struct wire_item){.k = (unsigned)k,
                              .number = number,
                              .value = text.n == 0 ? number : 0,
                              .own_text = text.n > 0 && number == 0};
}

void ops_to_wire(struct process *life, struct wire_frame *wire, const struct frame *f)
{
    PRE(wire->ops_n + f->ops_n <= SIM_OPS && wire->items_n + f->items_n <= SIM_ITEMS);
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        struct wire_op *o = &wire->ops[wire->ops_n++];
        *o = (struct wire_op){.kind = op->kind,
                              .fed = op->fed,
                              .owed = op->owed,
                              .silent = op->silent,
                              .taken = op->adds > 0,
                              .stands = op->stands,
                              .box = op->kind == OP_TIMEBOX && !slice_eq(FRAME_NAME(f, op), SLICE("o")),
                              .target = target_of(life->w, FRAME_NAME(f, op), op),
                              .at = op->which,
                              .delta = op->delta,
                              .known = op->known,
                              .given = op_is_given(op),
                              .named = op->named,
                              .kept = op->kind == OP_EVENT && op->which == EVENT_KEPT,
                              .ours = op->ours,
                              .lease_n = op->lease_n,
                              .first_item = wire->items_n};
        TRACE(life->w, "life %d:   op of kind %d on target %d, at %lld: %lld%s%s%s", life->index,
              (int)op->kind, o->target, (long long)op->which, (long long)op->delta, op->fed ? ", fed" : "",
              op->silent ? ", into a journal" : "", op->adds > 0 ? ", out of a journal" : "");
        for (int p = 0; p < SIM_PRECISIONS; p++)
            o->joins[p] = op->kind == OP_SERIES && op_joins(op, ops_limits.precisions[p]);
        o->series = slice_eq(FRAME_NAME(f, op), SLICE("o")) ? 0 : 1 + o->target;
        for (uint32_t at = op->first_item; at != OP_END; at = f->items[at].next, o->items_n++)
            wire->items[wire->items_n++] = item_of(f, op, &f->items[at]);
        if (o->items_n != op->items_n) fault_found(life->w, FAULT_PROTOCOL, "an op has lost items");
        for (unsigned k = 0; k < SIM_HITS && !op->fed; k++)
            if (op_has(wire, o, k) && op_hit(life->w, o->target, k)->answered_unknown)
                op_fault(life->w, FAULT_ANSWER, o->target, k,
                         "answered with outcome unknown, then sent again");
    }
}

bool op_has(const struct wire_frame *f, const struct wire_op *op, unsigned k)
{
    for (unsigned i = 0; i < op->items_n; i++)
        if (f->items[op->first_item + i].k == k) return true;
    return op->items_n == 0 && hit_times(op->delta, k) != 0;
}

static void run_series(struct twin_series *s, struct wire_op *op)
{
    for (uint32_t p = 0; p < SIM_PRECISIONS; p++) {
        if ((op->known >> p & 1) != 0) s->known[p] = true;
        if (op->owed) continue;
        int64_t slot = op_slot(op->at, ops_limits.precisions[p]);
        if (!s->has[p] || s->slot[p] != slot) s->value[p] = 0;
        s->has[p] = true;
        s->slot[p] = slot;
        s->value[p] += op->delta;
        op->samples[p] = s->value[p];
        if (p == 0) s->total += op->delta;
    }
    op->value = SIM_PRECISIONS;
}

/* A plain ZINCRBY, or the script. */
static void run_box(struct twin_box *b, struct wire_op *op)
{
    if (!b->pv) b->hits = 0;
    if (op->owed) {
        b->tb |= b->pv;
        return;
    }
    b->tb |= !op->stands;
    b->pv = true;
    op->value = b->hits += op->delta;
    b->total += op->delta;
}

/* --- events --- */

static bool number_stands(const struct twin_log *l, int64_t n)
{
    PRE(n > 0 && n < SIM_NUMBERS);
    return (l->stands[n / 64] >> (n % 64) & 1) != 0;
}

static void number_put(struct twin_log *l, int64_t n)
{
    l->stands[n / 64] |= UINT64_C(1) << (n % 64);
}

static void run_given(struct twin_log *l, struct wire_frame *f, const struct wire_op *op)
{
    for (unsigned i = 0; i < op->items_n; i++) {
        struct wire_item *item = &f->items[op->first_item + i];
        if (item->own_text) {
            l->texts |= 1U << item->k;
            continue;
        }
        item->lost = number_stands(l, item->number);
        number_put(l, item->number);
    }
    l->named |= op->named;
    l->has |= op->items_n > 0;
}

/* The last of n numbers, none of which is an id yet. */
static int64_t draw(struct twin_log *l, int64_t n)
{
    for (int64_t skip = 0;; skip = 2 * skip + 1) {
        bool taken = false;
        l->ticker += n + skip;
        for (int64_t i = 0; i < n; i++)
            taken |= number_stands(l, l->ticker - i);
        if (!taken) return l->ticker;
    }
}

static void run_draws(struct twin_log *l, struct wire_frame *f, struct wire_op *op)
{
    int64_t n = 0;
    for (unsigned i = 0; i < op->items_n; i++) {
        struct wire_item *item = &f->items[op->first_item + i];
        item->refused = item->number > 0 && item->number <= l->leased && !number_stands(l, item->number);
        if (item->number > 0 && !item->refused) number_put(l, item->number);
        if (item->own_text) l->texts |= 1U << item->k;
        n += item->number == 0 && !item->own_text;
        l->has |= !item->refused;
    }
    l->named = true;
    if (n == 0) return;
    op->value = draw(l, n + op->lease_n);
    if (op->lease_n > 0) l->leased = op->value;
    int64_t next = op->value - n - op->lease_n + 1;
    for (unsigned i = 0; i < op->items_n; i++) {
        struct wire_item *item = &f->items[op->first_item + i];
        if (item->number > 0 || item->own_text) continue;
        item->value = next++;
        number_put(l, item->value);
    }
}

static void run_kept(struct world *w, struct twin_log *l, struct wire_frame *f, const struct wire_op *op)
{
    int64_t drawn = l->ticker, again = 0;
    bool all = op->ours || !world_rule(w, WORLD_KEPT_NUMBER);
    struct wire_item *item = &f->items[op->first_item];
    for (unsigned i = 0; i < op->items_n; i++, item++) {
        item->lost = !world_rule(w, WORLD_KEPT_NUMBER) && number_stands(l, item->number);
        item->refused = !item->lost && ((!all && item->number <= drawn) || number_stands(l, item->number));
        again += item->refused;
        if (item->refused || item->lost) continue;
        number_put(l, item->number);
        if (item->number > l->ticker) l->ticker = item->number;
    }
    for (int64_t next = again > 0 ? draw(l, again) - again + 1 : 0; item-- > &f->items[op->first_item];) {
        if (!item->refused) continue;
        item->refused = false;
        item->number = item->value = next++;
        number_put(l, item->number);
    }
    l->has = l->named = true;
}

static void run_events(struct world *w, struct wire_frame *f, struct wire_op *op)
{
    struct twin_ops *o = &w->redis->now.ops;
    op->gone = o->log.gone;
    if (op->kept)
        run_kept(w, &o->log, f, op);
    else if (op->given)
        run_given(&o->log, f, op);
    else if (op->fed)
        o->fed_events[op->target] += op->delta;
    else
        run_draws(&o->log, f, op);
}

/* The script: a new visitor moves the pending hash and the books, and the hash goes into the index. No visitor comes twice here:
 * each is new. */
static void run_visitors(struct world *w, struct wire_frame *f, struct wire_op *op)
{
    struct twin_state *s = &w->redis->now;
    int h = op->target - OP_VISITORS_TARGET;
    struct twin_hash *pending = &s->pending[h];
    op->error = redis_cell_error(w->redis, h, SIM_VISITORS);
    if (op->error != NULL) return;
    if ((pending->has & 1 << SIM_VISITORS) == 0) pending->value[SIM_VISITORS] = 0;
    pending->has |= 1 << SIM_VISITORS;
    pending->value[SIM_VISITORS] += op->items_n;
    s->accepted[0] += op->items_n;
    if (s->dirty[h] == 0) s->dirty[h] = f->dirty_ms;
    for (unsigned i = 0; i < op->items_n; i++)
        f->items[op->first_item + i].value = 1;
}

static void run_boxes(struct twin_ops *o, struct wire_frame *f, bool stands)
{
    for (unsigned i = 0; i < f->ops_n; i++) {
        struct wire_op *op = &f->ops[i];
        if (op->kind == OP_TIMEBOX && !op->silent && op->stands == stands) run_box(&o->boxes[op->box], op);
    }
}

static bool series_strays(const struct twin_series *s, int p)
{
    return s->has[p] && !s->known[p];
}

static bool box_strays(const struct twin_box *b)
{
    return b->tb != b->pv;
}

static bool log_strays(const struct twin_log *l)
{
    return l->has && !l->named;
}

static void note_unheard(struct twin_ops *o, const struct twin_ops *was, bool nobody)
{
    for (int i = 0; i < SIM_SERIES; i++)
        for (int p = 0; p < SIM_PRECISIONS; p++)
            if (!series_strays(&was->series[i], p)) o->series[i].unheard[p] = nobody;
    for (int i = 0; i < SIM_BOXES; i++)
        if (!box_strays(&was->boxes[i])) o->boxes[i].unheard = nobody;
    if (!log_strays(&was->log)) o->log.unheard = nobody;
}

void ops_run(struct world *w, const struct link *l, struct wire_frame *f)
{
    struct twin_ops *o = &w->redis->now.ops, was = *o;
    run_boxes(o, f, true);
    run_boxes(o, f, false); /* the script runs after the plain ones */
    for (unsigned i = 0; i < f->ops_n; i++) {
        struct wire_op *op = &f->ops[i];
        if (op->silent) continue;
        if (op->kind == OP_SERIES) run_series(&o->series[op->series], op);
        if (op->kind == OP_EVENT) run_events(w, f, op);
        if (op->kind == OP_UNIQ) run_visitors(w, f, op);
    }
    note_unheard(o, &was, !daemon_hears(w, l->life));
}

/* What a frame feeds is what its cells are. */
static void check_feeds(struct world *w, const struct wire_frame *f)
{
    int64_t series[SIM_HASHES] = {0}, events[SIM_HASHES] = {0}, box = 0;
    for (unsigned i = 0; i < f->ops_n; i++) {
        const struct wire_op *op = &f->ops[i];
        if (!op->fed || op->owed || op->taken) continue;
        if (op->kind == OP_SERIES) series[op->target] += op->delta;
        if (op->kind == OP_EVENT) events[op->target] += op->delta;
        if (op->kind == OP_TIMEBOX) box += op->delta;
    }
    for (unsigned i = 0; i < f->cells_n; i++) {
        const struct wire_cell *c = &f->cells[i];
        if (world_counter_of(w, c->hash) != 0 || !w->config.feeds) continue;
        series[c->hash] -= c->delta;
        box -= c->delta;
        for (unsigned k = 0; k < SIM_HITS; k++)
            events[c->hash] -= world_times(w, c->field, c->delta, k);
    }
    bool good = box == 0;
    for (int h = 0; h < SIM_HASHES; h++)
        good &= series[h] == 0 && events[h] == 0;
    if (!good) fault_found(w, FAULT_BOOKS, "what a frame feeds is not what its hits are");
}

static const struct wire_item *item_with(const struct wire_frame *f, const struct wire_op *op, unsigned k)
{
    for (unsigned i = 0; i < op->items_n; i++)
        if (f->items[op->first_item + i].k == k) return &f->items[op->first_item + i];
    return NULL;
}

static int64_t running(const struct wire_frame *f, const struct wire_op *op, unsigned k)
{
    const struct wire_item *item = item_with(f, op, k);
    if (item != NULL) return item->value;
    int64_t later = 0;
    for (unsigned j = k + 1; j < SIM_HITS && op->kind == OP_TIMEBOX; j++)
        later += (int64_t)hit_times(op->delta, j) * hit_delta(j);
    return op->value - later;
}

/* All of them that Redis holds; of what is not brought home yet a daemon knows its own alone. */
static void box_bounds(struct world *w, struct hit *hit, const struct wire_op *op, unsigned k)
{
    bool is_alone = w->lives_n == 1 && !w->oracle.box_deleted && !w->oracle.tail_lost;
    int64_t most = 0;
    for (unsigned j = 0; j < SIM_HITS; j++)
        most += (int64_t)op_hit(w, op->target, j)->applied * hit_delta(j);
    hit->least = is_alone ? most : op->silent ? hit_delta(k) : hit->value;
    hit->value = most;
}

/* Did it? */
static bool op_ran(struct world *w, const struct wire_frame *f, const struct wire_op *op, unsigned k)
{
    struct hit *hit = op_hit(w, op->target, k);
    const struct wire_item *item = item_with(f, op, k);
    hit->failed |= item != NULL && item->refused;
    if (item != NULL && (item->refused || item->lost)) return false;
    hit->value = running(f, op, k);
    hit->exact |= op->given || op->silent; /* it is told also when Redis' answer is lost */
    if (++hit->applied > 1) op_fault(w, FAULT_DOUBLE, op->target, k, "ran twice in Redis");
    if (op->kind == OP_TIMEBOX) box_bounds(w, hit, op, k);
    if (hit->told == TOLD_REFUSED) op_fault(w, FAULT_ANSWER, op->target, k, "refused, then run");
    return true;
}

/* Out of a journal: its client was answered long ago. */
static void check_brought_home(struct world *w, const struct wire_frame *f, const struct wire_op *op)
{
    for (unsigned i = 0; i < op->items_n; i++) {
        const struct wire_item *item = &f->items[op->first_item + i];
        if (item->lost) op_fault(w, FAULT_LOSS, OP_EVENT_TARGET, item->k, "its number stood already");
    }
}

void ops_executed(struct world *w, struct wire_frame *f, struct execution *e)
{
    if (!f->again) check_feeds(w, f);
    for (unsigned i = 0; i < f->ops_n; i++)
        if (f->ops[i].given && f->ops[i].fed && !f->ops[i].silent) check_brought_home(w, f, &f->ops[i]);
    for (unsigned i = 0; i < f->ops_n; i++) {
        const struct wire_op *op = &f->ops[i];
        for (unsigned k = 0; k < SIM_HITS && !op->fed; k++) {
            if (!op_has(f, op, k)) continue;
            op_hit(w, op->target, k)->failed = op->error != NULL;
            op_hit(w, op->target, k)->lost |= op->error != NULL && f->again; /* replay_failed */
            if (op->error != NULL || !op_ran(w, f, op, k)) continue;
            op_hit(w, op->target, k)->ran_by = e->life;
            e->ops[op->target] |= 1U << k;
        }
    }
}

void ops_exact(struct world *w, const struct wire_frame *f)
{
    for (const struct wire_op *op = f->ops; op < f->ops + f->ops_n; op++)
        for (unsigned k = 0; k < SIM_HITS && !op->fed; k++)
            if (op_has(f, op, k)) op_hit(w, op->target, k)->exact = true;
}

/* --- clients --- */

enum add_result ops_send(struct process *life, struct outlet *o, int target, unsigned k)
{
    struct coalesce_op op = {.name = SLICE("o"), .type = SLICE("")};
    char name[16], id[24];
    switch (target) {
    case OP_SERIES_TARGET:
    case OP_BOX_TARGET:
        op.kind = target == OP_BOX_TARGET ? OP_TIMEBOX : OP_SERIES;
        op.at = target == OP_BOX_TARGET ? OP_BOX_AT : COALESCE_NOW;
        op.n = hit_delta(k);
        break;
    case OP_EVENT_TARGET:
        op.kind = OP_EVENT;
        op.type = SLICE("e");
        op.at = OP_EVENT_AT + k;
        op.id = own_id(life->w, k, id);
        break;
    default:
        op.kind = OP_UNIQ;
        snprintf(name, sizeof name, "v" SLICE_FMT, SLICE_ARG(store_of(life->w, target - OP_VISITORS_TARGET)));
        op.name = slice_str(name);
        op.at = SIM_VISITORS_DAY;
        op.visitor = k;
        if (k % 2 == 1) op.id = slice_of(id, (size_t)snprintf(id, sizeof id, "e%u", k));
    }
    return coalesce_op(life->coalesce, o, &op);
}

static bool said_right(const struct world *w, const struct hit *hit, int target, unsigned k,
                       struct slice reply)
{
    int64_t value;
    char id[24];
    if (target == OP_EVENT_TARGET && k % 2 == 1) return slice_eq(reply, own_id(w, k, id));
    if (target != OP_EVENT_TARGET) reply = slice_of(reply.p + 1, reply.n - 1);
    if (!num_parse(reply, &value)) return false;
    if (target == OP_SERIES_TARGET) return value == SIM_PRECISIONS;
    if (target == OP_BOX_TARGET && hit->exact) return value >= hit->least && value <= hit->value;
    return !hit->exact || value == hit->value;
}

static struct hit *told(struct world *w, int target, unsigned k, enum told what)
{
    struct hit *hit = op_hit(w, target, k);
    if (hit->told != TOLD_NOTHING) op_fault(w, FAULT_ANSWER, target, k, "answered twice");
    hit->told = what;
    return hit;
}

void ops_refused(struct world *w, int target, unsigned k)
{
    if (told(w, target, k, TOLD_REFUSED)->applied > 0)
        op_fault(w, FAULT_ANSWER, target, k, "refused, but Redis ran it");
}

void ops_told_unknown(struct world *w, int target, unsigned k)
{
    (void)told(w, target, k, TOLD_UNKNOWN);
}

void ops_told(struct world *w, int target, unsigned k, struct slice reply)
{
    bool lost = slice_starts(reply, SLICE("-ERR counted, but the answer was lost"));
    if (slice_starts(reply, SLICE("-ERR outcome unknown"))) {
        told(w, target, k, TOLD_UNKNOWN)->answered_unknown = true;
    } else if (lost && op_hit(w, target, k)->failed) {
        (void)told(w, target, k,
                   TOLD_UNKNOWN); /* what refused it was lost, too: a Redis that lost the frame may take it */
    } else if (reply.n > 0 && reply.p[0] == '-' && !lost) {
        ops_refused(w, target, k);
    } else {
        const struct hit *hit = told(w, target, k, TOLD_DONE);
        if (hit->applied == 0 && !hit->lost && !hit->awaited && !lost)
            op_fault(w, FAULT_LOSS, target, k, "answered, but Redis never ran it");
        if (!lost && !said_right(w, hit, target, k, reply))
            op_fault(w, FAULT_ANSWER, target, k, "a wrong reply");
    }
}

/* --- known:, tb., and the end --- */

static void clean_box(struct world *w, struct twin_box *b)
{
    if (!b->pv) return;
    TRACE(w, "redis: somebody deletes a timebox");
    *b = (struct twin_box){.total = b->total};
    w->oracle.box_deleted = true;
    redis_wrote(w, NULL);
}

/* All deleted events are older than any later one; what was leased before may be used after. */
static void clean_events(struct world *w)
{
    struct twin_log *l = &w->redis->now.ops.log;
    if (!l->has) return;
    TRACE(w, "redis: somebody deletes events");
    l->has = l->named = false;
    l->gone++;
    memset(l->stands, 0, sizeof l->stands);
    l->texts = 0;
    if ((w->config.world_off & WORLD_LEASED) != 0) l->leased = 0;
    w->oracle.events_deleted = true;
    redis_wrote(w, NULL);
}

void ops_clean(struct world *w)
{
    uint64_t which = world_below(w, SIM_SERIES + SIM_BOXES + 1);
    if (which == SIM_SERIES + SIM_BOXES) {
        clean_events(w);
        return;
    }
    if (which >= SIM_SERIES) {
        clean_box(w, &w->redis->now.ops.boxes[which - SIM_SERIES]);
        return;
    }
    struct twin_series *s = &w->redis->now.ops.series[which];
    uint64_t p = world_below(w, SIM_PRECISIONS);
    if (!s->has[p]) return;
    TRACE(w, "redis: somebody deletes samples");
    s->has[p] = s->known[p] = false;
    w->oracle.series_deleted = true;
    redis_wrote(w, NULL);
}

/* Marks what strays now: a daemon will know of what strays later, or note_unheard corrects it. */
void ops_forgot(struct world *w)
{
    struct twin_ops *o = &w->redis->now.ops;
    for (int i = 0; i < SIM_SERIES; i++)
        for (int p = 0; p < SIM_PRECISIONS; p++)
            o->series[i].unheard[p] = true;
    for (int i = 0; i < SIM_BOXES; i++)
        o->boxes[i].unheard = true;
    o->log.unheard = true;
}

void ops_named(struct world *w, int target, uint32_t which)
{
    for (unsigned k = 0; k < SIM_HITS; k++) {
        const struct hit *hit = op_hit(w, target, k);
        if ((which >> k & 1) != 0 && hit->told == TOLD_DONE && hit->applied == 0 && !hit->failed)
            op_fault(w, FAULT_LOSS, target, k, "answered, lost, and not named by frames_lost");
    }
}

int64_t ops_visitors(const struct world *w, int hash)
{
    int64_t n = 0;
    for (unsigned k = 0; k < SIM_HITS; k++)
        n += w->oracle.ops[OP_VISITORS_TARGET + hash][k].applied;
    return n;
}

/* The sums are those of the ops that ran, once each; feeds follow the hits that were sent, also when these met an error. */
static void totals_at_end(struct world *w)
{
    const struct twin_ops *o = &w->redis->now.ops;
    int64_t box = 0, own = 0;
    for (unsigned k = 0; k < SIM_HITS; k++)
        own += op_hit(w, OP_SERIES_TARGET, k)->applied * hit_delta(k);
    if (o->series[0].total != own)
        fault_found(w, o->series[0].total < own ? FAULT_LOSS : FAULT_DOUBLE,
                    "%lld in the series of clients, %lld ran", (long long)o->series[0].total, (long long)own);
    for (int h = 0; h < SIM_HASHES && w->config.feeds && !w->oracle.cell_errors; h++) {
        int64_t sum = 0, n = 0;
        for (int f = 0; f < SIM_HIT_FIELDS && world_counter_of(w, h) == 0; f++)
            for (unsigned k = 0; k < SIM_HITS; k++) {
                sum += w->oracle.hits[h][f][k].applied * hit_delta(k);
                n += w->oracle.hits[h][f][k].applied;
            }
        box += sum;
        bool fewer = o->series[1 + h].total < sum || o->fed_events[h] < n;
        bool more = o->series[1 + h].total > sum || o->fed_events[h] > n;
        if (more || (fewer && !w->oracle.ops_lost))
            fault_found(w, o->series[1 + h].total < sum || o->fed_events[h] < n ? FAULT_LOSS : FAULT_DOUBLE,
                        "hash %d feeds %lld and %lld events, its hits are %lld, %lld", h,
                        (long long)o->series[1 + h].total, (long long)o->fed_events[h], (long long)sum,
                        (long long)n);
    }
    if (w->config.feeds && !w->oracle.cell_errors && o->boxes[1].total != box &&
        (o->boxes[1].total > box || !w->oracle.ops_lost))
        fault_found(w, o->boxes[1].total < box ? FAULT_LOSS : FAULT_DOUBLE, "the fed box has %lld of %lld",
                    (long long)o->boxes[1].total, (long long)box);
}

/* Another program deleted it, and no daemon knows what was made after that: its life was dead, or died, or Redis lost what
 * was owed and paid. So it stays until the next bucket of that name, whose script mends it, the ZADD of the series' next
 * slot, the log's next events; the calm end has none of these. */
static bool may_stray(const struct world *w, bool deleted, bool unheard)
{
    return deleted && unheard && world_rule(w, WORLD_MENDED);
}

static void known_at_end(struct world *w)
{
    const struct twin_log *l = &w->redis->now.ops.log;
    if (log_strays(l) && !may_stray(w, w->oracle.events_deleted, l->unheard))
        fault_found(w, FAULT_STUCK, "the log is not in tally:events");
    for (int i = 0; i < SIM_SERIES; i++)
        for (int p = 0; p < SIM_PRECISIONS; p++) {
            const struct twin_series *s = &w->redis->now.ops.series[i];
            if (series_strays(s, p) && !may_stray(w, w->oracle.series_deleted, s->unheard[p]))
                fault_found(w, FAULT_STUCK, "samples of series %d, precision %u, are not in known:", i,
                            ops_limits.precisions[p]);
        }
}

static void boxes_at_end(struct world *w)
{
    for (int i = 0; i < SIM_BOXES; i++) {
        const struct twin_box *b = &w->redis->now.ops.boxes[i];
        if (box_strays(b) && !may_stray(w, w->oracle.box_deleted, b->unheard))
            fault_found(w, FAULT_STUCK, "the bucket of box %d stands in one set alone", i);
    }
}

/* Each event that was added is there, under its own id. */
static void events_at_end(struct world *w)
{
    const struct twin_log *l = &w->redis->now.ops.log;
    for (unsigned k = 0; k < SIM_HITS && !w->oracle.events_deleted; k++) {
        const struct hit *hit = op_hit(w, OP_EVENT_TARGET, k);
        if (hit->applied == 0) continue;
        bool is_text = k % 2 == 1 && !has_own_number(w, k);
        int64_t number = k % 2 == 1 ? 2 + k : hit->value;
        bool stands = is_text ? (l->texts >> k & 1) != 0 : number_stands(l, number);
        if (!stands) op_fault(w, FAULT_LOSS, OP_EVENT_TARGET, k, "does not stand in the log");
    }
}

void ops_at_end(struct world *w)
{
    events_at_end(w);
    for (int target = 0; target < OP_TARGETS; target++)
        for (unsigned k = 0; k < w->oracle.ops_n[target]; k++) {
            const struct hit *hit = op_hit(w, target, k);
            w->oracle.told[hit->told]++;
            if (hit->told == TOLD_NOTHING) op_fault(w, FAULT_ANSWER, target, k, "never answered");
            if (hit->told == TOLD_DONE && hit->applied == 0 && !hit->lost)
                op_fault(w, FAULT_LOSS, target, k, "answered, but gone");
        }
    for (int h = 0; h < SIM_HASHES; h++) {
        int64_t merged = mysql_has(&w->mysql, h, SIM_VISITORS), visitors = ops_visitors(w, h);
        if (merged != visitors)
            fault_found(w, merged < visitors ? FAULT_LOSS : FAULT_DOUBLE,
                        "%lld visitors of hash %d in MySQL, %lld in Redis' history", (long long)merged, h,
                        (long long)visitors);
    }
    known_at_end(w);
    totals_at_end(w);
    boxes_at_end(w);
}
