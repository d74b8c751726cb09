/* coalesce/checkpoint.c - what frames do with journals (journal.h has the rules). From top to bottom: what a frame puts
 * in, what it brings home, what it tells Redis, and what became of it: applied, undone, sent again. */
#include "base/stats.h"
#include "coalesce/inside.h"

bool checkpoint_waits(const struct coalesce *c)
{
    return journals_wait(c) || settles_wait(c);
}

/* --- in --- */

bool checkpoint_takes(const struct coalesce *c, const struct frame_op *op)
{
    bool (*known)(const struct coalesce *c, const struct frame_op *op) = op_kinds[op->kind].known;
    bool may = op->fed || (known != NULL && known(c, op));
    return may && (c->journal == NULL || !journals_full(c, c->journal) || !journals_wait(c));
}

#define PRICE_MOST 64 /* 62 ops a frame */

/* How many more ops of frames the open journal has room for, if they are as those so far. */
static uint64_t checkpoint_room(const struct coalesce *c)
{
    const struct journal *j = c->journal;
    if (j == NULL || j->puts == 0) return c->config.journal_ops_max;
    uint64_t full = journals_fullness(c, j);
    return full >= JOURNAL_FULL ? 0 : j->puts * (JOURNAL_FULL - full) / (full + 1);
}

/* The price in quarters of a cell. While a closed journal comes home, a frame takes as large a part of the open one's
 * room as the last frame brought home of what is left. So the open one is full when the other is empty, not before: then
 * ops would go straight, and clients would wait for those. All clients wait a little, and always about as long. */
uint32_t checkpoint_price(const struct coalesce *c)
{
    if (!journals_wait(c)) return 0;
    uint64_t left = journals_oldest(c)->pending, takes = checkpoint_room(c) * c->homed;
    uint64_t all = UINT64_C(4) * c->config.cells_max * left;
    return all >= PRICE_MOST * takes ? PRICE_MOST : (uint32_t)(all / takes);
}

static void checkpoint_put(const struct frame *f, struct frame_op *op, struct journal *j, uint32_t number)
{
    op->way = OP_INTO;
    op->silent = true;
    op->journal = j;
    op->number = number;
    op->was_told = j->ops[number].told;
    j->puts++;
    if (!journal_has_events(&j->ops[number])) {
        journal_add(j, number, op->delta);
        return;
    }
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        journal_add_event(j, number, item->at, item->text_n > 0 ? 0 : item->value,
                          FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

static void put_in(struct frame *f, struct frame_op *op, struct journal *j)
{
    struct journal_record of = {
        .kind = op->kind, .at = op->which, .name = FRAME_NAME(f, op), .type = FRAME_TYPE(f, op)};
    uint32_t number = journal_number(j, op->name_code, &of);
    if (number != OP_END && journal_fits(j, number, op->delta)) checkpoint_put(f, op, j, number);
}

static void put_first(struct coalesce *c, struct frame *f, struct frame_op *op, struct journal *j)
{
    bool answers = op->kind == OP_TIMEBOX && !op->fed;
    if (!op->may_wait || (answers && !buckets_may_wait(c, f, op))) return;
    put_in(f, op, j);
    if (op->silent && op->kind == OP_TIMEBOX) buckets_wait(c, op);
}

static void put_all_in(struct coalesce *c, struct frame *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->ops_n; i++)
        n += f->ops[i].may_wait;
    if (n == 0 || n < c->config.journal_least) return;
    struct journal *j = journals_open(c);
    n = 0;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        put_first(c, f, &f->ops[i], j);
        n += f->ops[i].silent;
    }
    STAT_ADD(ops_journaled, n);
}

/* --- home --- */

static void events_out(struct frame *f, struct frame_op *op, const struct journal *j)
{
    uint32_t i = op->first_event;
    for (uint32_t left = op->adds; left > 0; left--, i = j->events[i].next) {
        const struct journal_event *e = &j->events[i];
        struct slice text = slice_of(j->texts.p + e->text_at, e->text_n);
        uint32_t item = frame_add_item(f, op, e->second, text); /* which may move them all */
        f->items[item].value = e->id;
    }
}

/* The op leaves its journal with this frame. A sum leaves whole, as it is now: when the frame is sent again, hits that
 * it had put into the journal may go straight (redo_into). If nothing is left of it, the journal may end before the frame
 * does. */
static void op_leave(struct frame_op *op)
{
    struct journal_op *from = &op->journal->ops[op->number];
    if (!journal_has_events(from)) {
        op->adds = from->adds;
        op->delta = from->out = from->n;
    }
    op->silent = op->adds == 0;
    if (op->silent)
        op->journal = NULL;
    else
        journal_take(op->journal, op->number, op->adds);
}

static uint32_t one_out(struct coalesce *c, struct frame *f, struct journal *j, uint32_t number,
                        uint32_t events_most, bool joins)
{
    const struct journal_op *from = &j->ops[number];
    struct frame_op *op =
        frame_add_op(f, from->kind, journal_name(j, from), journal_type(j, from), from->which);
    bool has_events = journal_has_events(from);
    op->way = OP_HOME;
    op->fed = true;
    op->name_code = from->code;
    op->code = coalesce_op_code(c, from->code, from->which, true);
    op->journal = j;
    op->number = number;
    op->adds = has_events && from->adds > events_most ? events_most : from->adds;
    op->first_event = from->first_event;
    op->joined = joins;
    if (has_events) events_out(f, op, j);
    op_leave(op);
    /* Adding an event to a log costs half of a HINCRBY, a hit on a known bucket two, on another one four. */
    if (op->kind == OP_SERIES) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < c->counters->ops->precisions_n; i++)
            n += !op_joins(op, c->counters->ops->precisions[i]);
        return n;
    }
    if (op->items_n > 0) return 1 + op->items_n / 2;
    return op->kind == OP_TIMEBOX && buckets_know(c, op) ? 2 : 4;
}

/* The later seconds of a series in that journal go with it. */
uint32_t checkpoint_take_out(struct coalesce *c, struct frame *f, struct journal *j, uint32_t number,
                             uint32_t events_most)
{
    uint32_t lines = one_out(c, f, j, number, events_most, false), i = j->ops[number].next;
    for (; i != OP_END && j->ops[i].kind == OP_SERIES; i = j->ops[i].next)
        if (j->ops[i].adds > 0) lines += one_out(c, f, j, i, 0, true);
    return lines;
}

/* --- what the frame says to Redis --- */

static void append(struct frame *f, struct journal *j)
{
    bool ends = j->closed && j->pending == 0 && j->frames == 0;
    if (!ends && j->records.n == 0) return;
    struct frame_append *a =
        frame_add_append(f, buf_slice(&j->name), ends ? SLICE("") : buf_slice(&j->records));
    a->journal = j;
    a->ends = ends;
    a->opens = !j->opened;
    j->opened = true;
    j->frames++;
    j->bytes += a->bytes_n;
    buf_reset(&j->records);
}

static void append_all(struct coalesce *c, struct frame *f)
{
    for (struct list *node = c->journals.next, *next; node != &c->journals; node = next) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        next = node->next;
        bool never_was = j->closed && j->pending == 0 && !j->opened && j->records.n == 0 && j->frames == 0;
        if (never_was)
            journals_drop(c, j);
        else
            append(f, j);
    }
}

void checkpoint_on_send(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (f->ops_n > 0) put_all_in(c, f);
    settles_out(c, f);
    uint32_t lines = 0, most = c->config.checkpoint_lines, before = f->ops_n;
    list_for_each (node, &c->journals) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        while (j->closed && j->from < j->ops_n && lines < most) {
            if (j->ops[j->from].adds > 0) lines += checkpoint_take_out(c, f, j, j->from, 2 * (most - lines));
            if (j->ops[j->from].adds == 0) j->from++;
        }
    }
    if (lines >= most) c->homed = f->ops_n - before;
    append_all(c, f);
}

/* --- what became of it --- */

void checkpoint_applied(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->appends_n; i++) {
        const struct frame_append *a = &f->appends[i];
        if (a->journal == NULL) continue;
        a->journal->frames--;
        if (a->ends) journals_drop(c, a->journal);
    }
    settles_applied(c, f->seq);
}

/* Backwards, so that records are undone in reverse order. */
void checkpoint_undo(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (g->undone || !HOLDS(RULE_JOURNAL_UNDO)) return;
    g->undone = true;
    for (uint32_t i = f->ops_n; i-- > 0;) {
        const struct frame_op *op = &f->ops[i];
        struct journal *j = op->journal;
        if (j == NULL) continue; /* it goes straight, or the journal is not ours any more */
        bool has_events = journal_has_events(&j->ops[op->number]);
        if (op->way == OP_HOME) {
            if (!has_events) j->ops[op->number].out = 0;
            journal_undo_take(j, op->number, op->delta, op->adds, op->first_event);
            continue;
        }
        if (op->kind == OP_TIMEBOX) buckets_undo(c, op);
        journal_undo_add(j, op->number, has_events ? 0 : op->delta, has_events ? op->items_n : 1,
                         op->was_told);
    }
    for (uint32_t i = 0; i < f->appends_n; i++) {
        struct frame_append *a = &f->appends[i];
        if (a->journal == NULL) continue;
        a->journal->frames--;
        if (a->opens) a->journal->opened = false;
        a->journal = NULL;
    }
    f->appends_n = 0;
    buf_reset(&f->records);
}

/* A client's hits on a timebox go straight, since Redis may have lost the total that they would be answered with. So do
 * events whose journal is lost: the script draws their numbers again, since Redis may have forgotten that it gave
 * them. */
static void redo_into(struct frame *f, struct frame_op *op, struct journal *other)
{
    bool answers = op->kind == OP_TIMEBOX && !op->fed;
    bool is_given = op->kind == OP_EVENT && op->which == EVENT_GIVEN;
    if (op->journal != NULL && !answers) {
        checkpoint_put(f, op, op->journal, op->number);
        return;
    }
    op->way = OP_STRAIGHT;
    op->silent = false;
    op->journal = NULL;
    if (!answers && !is_given) put_in(f, op, other);
}

/* Does an op go into a journal that is not ours any more? */
static bool lost_one(const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (f->ops[i].way == OP_INTO && f->ops[i].journal == NULL) return true;
    return false;
}

void checkpoint_redo(struct coalesce *c, struct group *g)
{
    if (!g->undone) return;
    g->undone = false;
    struct journal *other = lost_one(&g->frame) ? journals_open(c) : NULL;
    for (uint32_t i = 0; i < g->frame.ops_n; i++) {
        /* An op out of a journal that is not ours any more belongs to its new owner. */
        struct frame_op *op = &g->frame.ops[i];
        if (op->way == OP_INTO)
            redo_into(&g->frame, op, other);
        else if (op->way == OP_HOME && op->journal != NULL)
            op_leave(op);
        else if (op->way == OP_HOME)
            op->silent = true;
    }
    append_all(c, &g->frame);
}
