/* coalesce/group.c - the tick map of one frame: (key, field) -> cell, and the answers in the order of arrival.
 */
#include "coalesce/group.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/stats.h"
#include <stdlib.h>

void group_init(struct group *g, uint32_t cells_max)
{
    *g = (struct group){.further_cap = 64};
    while (g->further_cap < 2 * cells_max)
        g->further_cap *= 2;
    g->further = heap_zalloc(g->further_cap * sizeof *g->further);
}

void group_close(struct group *g)
{
    frame_free(&g->frame);
    buf_free(&g->literals);
    heap_free(g->answers);
    heap_free(g->arrivals);
    heap_free(g->further);
    heap_free(g->op_slots.at);
}

static void further_clear(struct group *g)
{
    if (g->further_n > 0) memset(g->further, 0, g->further_cap * sizeof *g->further);
    g->further_n = 0;
}

static void ops_clear(struct group *g)
{
    struct op_slots *s = &g->op_slots;
    if (s->n > 0) memset(s->at, 0, s->cap * sizeof *s->at);
    s->n = 0;
    g->op_quarters = 0;
}

void group_reuse(struct group *g, uint64_t epoch)
{
    frame_reset(&g->frame);
    buf_reset(&g->literals);
    g->answers_n = g->literals_count = g->arrivals_n = 0;
    g->weight = 0;
    g->doubt_ms = 0;
    g->state = GROUP_COLLECTS;
    g->given_up = g->astray = g->unheard = g->undone = false;
    ops_clear(g);
    further_clear(g);
    g->epoch = epoch;
}

struct frame_hash *group_hash(struct group *g, struct hash_entry *e)
{
    if (e->epoch == g->epoch) return &g->frame.hashes[e->slot];
    struct frame_hash *h = frame_add_hash(&g->frame, e, hash_entry_key(e));
    e->epoch = g->epoch;
    e->slot = g->frame.hashes_n - 1;
    e->cell = GROUP_NO_CELL;
    e->pins++;
    e->used = true;
    return h;
}

void group_arrived(struct group *g, uint64_t us)
{
    HEAP_GROW(g->arrivals, g->arrivals_n, g->arrivals_cap, 16);
    g->arrivals[g->arrivals_n++] = (struct arrival){g->answers_n, us};
}

void group_unpin(struct group *g)
{
    for (uint32_t i = 0; i < g->frame.hashes_n; i++) {
        struct hash_entry *e = g->frame.hashes[i].entry;
        INVARIANT(e->pins > 0);
        e->pins--;
        if (e->epoch == g->epoch) e->epoch = 0;
    }
}

static uint32_t further_find(const struct group *g, const struct hash_entry *e, struct slice field,
                             uint64_t code)
{
    for (uint32_t i = (uint32_t)code & (g->further_cap - 1);; i = (i + 1) & (g->further_cap - 1)) {
        if (g->further[i] == 0) return GROUP_NO_CELL;
        const struct frame_cell *c = &g->frame.cells[g->further[i] - 1];
        if (c->code == code && c->hash == e->slot && slice_eq(FRAME_FIELD(&g->frame, c), field))
            return g->further[i] - 1;
    }
}

uint32_t group_find(const struct group *g, const struct hash_entry *e, struct slice field, uint64_t *code)
{
    *code = 0;
    if (e->epoch != g->epoch || e->cell == GROUP_NO_CELL) return GROUP_NO_CELL;
    if (slice_eq(FRAME_FIELD(&g->frame, &g->frame.cells[e->cell]), field)) return e->cell;
    *code = hash_entry_code(e, field);
    return further_find(g, e, field, *code);
}

uint32_t group_add_cell(struct group *g, struct hash_entry *e, struct slice raw, struct slice field,
                        uint64_t code, int64_t delta)
{
    uint32_t cell = g->frame.cells_n;
    group_hash(g, e);
    frame_add_raw(&g->frame, e->slot, raw, field, delta)->code = code;
    if (e->cell == GROUP_NO_CELL)
        e->cell = cell;
    else {
        PRE(g->further_n < g->further_cap / 2);
        uint32_t i = (uint32_t)code & (g->further_cap - 1);
        while (g->further[i] != 0)
            i = (i + 1) & (g->further_cap - 1);
        g->further[i] = cell + 1;
        g->further_n++;
    }
    return cell;
}

__attribute__((noinline, cold)) static void answers_grow(struct group *g)
{
    g->answers_cap = g->answers_cap == 0 ? 1024 : 2 * g->answers_cap;
    g->answers = heap_realloc(g->answers, g->answers_cap * sizeof *g->answers);
}

static inline struct answer *answer_add(struct group *g, struct outlet *o)
{
    if (g->answers_n == g->answers_cap) answers_grow(g);
    o->waiting++;
    struct answer *a = &g->answers[g->answers_n++];
    a->outlet = o;
    return a;
}

void group_expect(struct group *g, struct outlet *o, uint32_t cell, int64_t upto)
{
    struct answer *a = answer_add(g, o);
    a->cell = cell;
    a->at = upto;
}

void group_expect_literal(struct group *g, struct outlet *o, struct slice bytes)
{
    struct answer *a = answer_add(g, o);
    g->literals_count++;
    a->cell = ANSWER_LITERAL;
    a->literal_n = (uint32_t)bytes.n;
    a->at = (int64_t)g->literals.n;
    buf_put_slice(&g->literals, bytes);
}

void group_hush(struct group *g, const struct outlet *o, uint32_t n)
{
    INVARIANT(n <= g->answers_n);
    for (struct answer *a = &g->answers[g->answers_n - n]; n > 0; n--, a++) {
        INVARIANT(a->outlet == o);
        a->cell = ANSWER_LITERAL;
        a->literal_n = 0;
        a->at = 0;
    }
}

void answer_error(struct buf *out, struct slice line)
{
    buf_put_char(out, '-');
    buf_put_slice(out, line);
    BUF_LIT(out, "\r\n");
}

/* What is not the value of a cell. False: nothing was counted for it. */
static bool write_other(const struct group *g, const struct answer *a, struct buf *out)
{
    size_t at = out->n;
    if (a->cell == ANSWER_LITERAL) {
        if (a->literal_n > 0) buf_put(out, g->literals.p + a->at, a->literal_n); /* 0: hushed */
        return false;
    }
    if ((a->cell & ANSWER_OP) != 0)
        ops_answer(g, a, out);
    else
        tokens_answer(g, a, out);
    return out->p[at] != '-';
}

/* False: nothing was counted for it. */
static inline bool write_answer(const struct group *g, const struct answer *a, struct buf *out)
{
    if (a->cell >= ANSWER_TOKEN) return write_other(g, a, out);
    const struct frame_cell *c = &g->frame.cells[a->cell];
    if (c->error_n > 0) {
        answer_error(out, FRAME_ERROR(&g->frame, c));
        return false;
    }
    put_head(out, ':', answer_running(c->value, c->delta - a->at));
    return true;
}

__attribute__((noinline)) static void write_text(const struct group *g, const struct answer *a,
                                                 struct outlet *o, uint32_t i)
{
    size_t at = outlet_text_begin(o, i);
    bool counts = false;
    if (a->cell >= ANSWER_TOKEN)
        counts = write_other(g, a, o->texts);
    else
        answer_error(o->texts, FRAME_ERROR(&g->frame, &g->frame.cells[a->cell]));
    outlet_text_end(o, at, counts);
}

/* Into a queue; returns how many there were, one after the other. */
__attribute__((noinline)) static uint32_t write_apart(const struct group *g, const struct answer *a,
                                                      uint32_t most, struct outlet *o)
{
    const struct frame_cell *cells = g->frame.cells;
    uint32_t n, room = most < o->waiting ? most : o->waiting;
    char *to = outlet_reserve(o, room);
    for (n = 0; n < room && a[n].outlet == o; n++, to += OUTLET_VALUE) {
        int64_t v = 0;
        if (a[n].cell < ANSWER_TOKEN && cells[a[n].cell].error_n == 0)
            v = answer_running(cells[a[n].cell].value, cells[a[n].cell].delta - a[n].at);
        else
            write_text(g, &a[n], o, n);
        memcpy(to, &v, sizeof v);
    }
    outlet_gave(o, n);
    return n;
}

/* Likewise, for a client that pipelines. */
static inline uint32_t write_all(const struct group *g, const struct answer *a, uint32_t most,
                                 struct outlet *o)
{
    uint32_t n;
    for (n = 0; n < most && a[n].outlet == o; n++)
        if (!o->gone && !write_answer(g, &a[n], &o->out)) o->counted--;
    o->counted += n;
    return n;
}

/* The first answer, and what follows for the same outlet. */
static uint32_t deliver(const struct group *g, const struct answer *a, uint32_t most, struct list *touched)
{
    struct outlet *o = a->outlet;
    uint32_t n = o->texts != NULL && !o->gone ? write_apart(g, a, most, o) : write_all(g, a, most, o);
    INVARIANT(o->waiting >= n);
    o->waiting -= n;
    if (!list_linked(&o->touched)) list_push(touched, &o->touched);
    return n;
}

void group_answer(struct group *g, struct list *touched)
{
    for (uint32_t i = 0; i < g->answers_n;)
        i += deliver(g, &g->answers[i], g->answers_n - i, touched);
    g->answers_n = g->literals_count = 0;
}

void group_answer_free_ones(struct group *g, struct list *touched)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->answers_n; i++) {
        if (g->answers[i].outlet->behind)
            g->answers[kept++] = g->answers[i];
        else
            (void)deliver(g, &g->answers[i], 1, touched);
    }
    g->answers_n = g->literals_count = kept;
}

void group_refused(const struct group *g, struct slice error)
{
    const struct frame *f = &g->frame;
    STAT_ADD(hits_refused, g->answers_n - g->literals_count);
    refusals_add(g->answers_n - g->literals_count, error, f->hashes_n > 0 ? f->hashes[0].key : SLICE(""), "");
}

void group_fail(struct group *g, struct slice line)
{
    int64_t at = (int64_t)g->literals.n;
    answer_error(&g->literals, line);
    uint32_t n = (uint32_t)(g->literals.n - (size_t)at);
    for (uint32_t i = 0; i < g->answers_n; i++) {
        struct answer *a = &g->answers[i];
        if (a->cell == ANSWER_LITERAL) continue;
        *a = (struct answer){a->outlet, ANSWER_LITERAL, n, at};
    }
    g->literals_count = g->answers_n;
}

void group_drop_frame(struct group *g, uint64_t epoch)
{
    group_unpin(g);
    g->frame.hashes_n = g->frame.cells_n = g->frame.tokens_n = g->frame.ops_n = g->frame.items_n = 0;
    g->arrivals_n = 0;
    ops_clear(g);
    buf_reset(&g->frame.bytes);
    buf_reset(&g->frame.errors);
    g->weight = 0;
    for (uint32_t i = 0; i < g->frame.shares_n; i++)
        g->weight += (uint64_t)llabs(g->frame.shares[i].delta);
    further_clear(g);
    g->epoch = epoch;
}

void group_correct(struct group *g, const struct counter *c, int64_t delta)
{
    g->weight += (uint64_t)llabs(delta);
    frame_add_share(&g->frame, c, delta);
}
