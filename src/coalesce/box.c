/* coalesce/box.c - the tick map of one frame: (key, field) -> cell, and the answers in the order of arrival.
 */
#include "coalesce/box.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/num.h"
#include <stdlib.h>

struct cell_slot {
    uint32_t epoch; /* low half of the box' epoch when it was filled; another one: free */
    uint32_t cell;
};

void box_init(struct box *b, uint32_t cells_max)
{
    *b = (struct box){.slots_cap = 64};
    while (b->slots_cap < 2 * cells_max)
        b->slots_cap *= 2;
    b->slots = heap_zalloc(b->slots_cap * sizeof *b->slots);
}

void box_close(struct box *b)
{
    frame_free(&b->frame);
    buf_free(&b->literals);
    heap_free(b->answers);
    heap_free(b->arrivals);
    heap_free(b->slots);
    heap_free(b->op_slots.at);
}

/* Slots know only the low half of an epoch, so they are cleared before it can come round again. */
static void epoch_set(struct box *b, uint64_t epoch)
{
    if (b->epoch >> 31 != epoch >> 31) memset(b->slots, 0, b->slots_cap * sizeof *b->slots);
    b->epoch = epoch;
}

static void ops_clear(struct box *b)
{
    struct op_slots *s = &b->op_slots;
    if (s->n > 0) memset(s->at, 0, s->cap * sizeof *s->at);
    s->n = 0;
    b->op_quarters = 0;
}

void box_reuse(struct box *b, uint64_t epoch)
{
    frame_reset(&b->frame);
    buf_reset(&b->literals);
    b->answers_n = b->literals_count = b->arrivals_n = 0;
    b->weight = 0;
    b->doubt_ms = 0;
    b->state = BOX_COLLECTS;
    b->given_up = b->undone = false;
    ops_clear(b);
    epoch_set(b, epoch);
}

struct frame_hash *box_hash(struct box *b, struct entry *e)
{
    if (e->epoch == b->epoch) return &b->frame.hashes[e->slot];
    struct frame_hash *h = frame_add_hash(&b->frame, e, entry_key(e));
    e->epoch = b->epoch;
    e->slot = b->frame.hashes_n - 1;
    e->pins++;
    return h;
}

void box_arrived(struct box *b, uint64_t us)
{
    if (b->arrivals_n == b->arrivals_cap) {
        b->arrivals_cap = b->arrivals_cap == 0 ? 16 : 2 * b->arrivals_cap;
        b->arrivals = heap_realloc(b->arrivals, b->arrivals_cap * sizeof *b->arrivals);
    }
    b->arrivals[b->arrivals_n++] = (struct arrival){b->answers_n, us};
}

void box_unpin(struct box *b)
{
    for (uint32_t i = 0; i < b->frame.hashes_n; i++) {
        struct entry *e = b->frame.hashes[i].entry;
        INVARIANT(e->pins > 0);
        e->pins--;
        if (e->epoch == b->epoch) e->epoch = 0;
    }
}

typedef uint64_t sixteen __attribute__((vector_size(16)));

static inline sixteen differ(const char *a, const char *b)
{
    sixteen have, want;
    memcpy(&have, a, 16);
    memcpy(&want, b, 16);
    return have ^ want;
}

/* A key and a field are mostly 32 to 64 bytes: four pieces that overlap, and one branch. */
static inline bool raw_eq(struct slice a, struct slice b)
{
    if (a.n != b.n) return false;
    if (a.n < 32 || a.n > 64) return slice_eq(a, b);
    sixteen d = differ(a.p, b.p) | differ(a.p + 16, b.p + 16) | differ(a.p + a.n - 32, b.p + a.n - 32) |
                differ(a.p + a.n - 16, b.p + a.n - 16);
    return (d[0] | d[1]) == 0;
}

uint32_t box_find(const struct box *b, struct slice raw, uint64_t code)
{
    for (uint32_t i = (uint32_t)code & (b->slots_cap - 1);; i = (i + 1) & (b->slots_cap - 1)) {
        const struct cell_slot *s = &b->slots[i];
        if (s->epoch != (uint32_t)b->epoch) return BOX_NO_CELL;
        const struct frame_cell *c = &b->frame.cells[s->cell];
        if (c->code == code && raw_eq(FRAME_RAW(&b->frame, c), raw)) return s->cell;
    }
}

void box_add_cell(struct box *b, struct entry *e, struct slice raw, struct slice field, uint64_t code,
                  int64_t delta)
{
    PRE(b->frame.cells_n < b->slots_cap / 2);
    box_hash(b, e);
    struct frame_cell *c = frame_add_raw(&b->frame, e->slot, raw, field, delta);
    c->code = code;
    uint32_t i = (uint32_t)code & (b->slots_cap - 1);
    while (b->slots[i].epoch == (uint32_t)b->epoch)
        i = (i + 1) & (b->slots_cap - 1);
    b->slots[i] = (struct cell_slot){(uint32_t)b->epoch, b->frame.cells_n - 1};
}

__attribute__((noinline, cold)) static void answers_grow(struct box *b)
{
    b->answers_cap = b->answers_cap == 0 ? 1024 : 2 * b->answers_cap;
    b->answers = heap_realloc(b->answers, b->answers_cap * sizeof *b->answers);
}

static inline struct answer *answer_add(struct box *b, struct outlet *o)
{
    if (b->answers_n == b->answers_cap) answers_grow(b);
    o->waiting++;
    struct answer *a = &b->answers[b->answers_n++];
    a->outlet = o;
    return a;
}

void box_expect(struct box *b, struct outlet *o, uint32_t cell, int64_t upto)
{
    struct answer *a = answer_add(b, o);
    a->cell = cell;
    a->at = upto;
}

void box_expect_literal(struct box *b, struct outlet *o, struct slice bytes)
{
    struct answer *a = answer_add(b, o);
    b->literals_count++;
    a->cell = ANSWER_LITERAL;
    a->literal_n = (uint32_t)bytes.n;
    a->at = (int64_t)b->literals.n;
    buf_put_slice(&b->literals, bytes);
}

void box_hush(struct box *b, const struct outlet *o, uint32_t n)
{
    INVARIANT(n <= b->answers_n);
    for (struct answer *a = &b->answers[b->answers_n - n]; n > 0; n--, a++) {
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
static bool write_other(const struct box *b, const struct answer *a, struct buf *out)
{
    size_t at = out->n;
    if (a->cell == ANSWER_LITERAL) {
        if (a->literal_n > 0) buf_put(out, b->literals.p + a->at, a->literal_n); /* 0: hushed */
        return false;
    }
    if ((a->cell & ANSWER_OP) != 0)
        ops_answer(b, a, out);
    else
        tokens_answer(b, a, out);
    return out->p[at] != '-';
}

/* False: nothing was counted for it. */
static bool write_answer(const struct box *b, const struct answer *a, struct buf *out)
{
    if (a->cell >= ANSWER_TOKEN) return write_other(b, a, out);
    const struct frame_cell *c = &b->frame.cells[a->cell];
    if (c->error_n > 0) {
        answer_error(out, FRAME_ERROR(&b->frame, c));
        return false;
    }
    put_head(out, ':', answer_running(c->value, c->delta - a->at));
    return true;
}

/* Answers of one outlet, one behind the other: a client that pipelines. */
static void deliver(const struct box *b, const struct answer *a, uint32_t n, struct list *touched)
{
    struct outlet *o = a->outlet;
    INVARIANT(o->waiting >= n);
    o->waiting -= n;
    o->counted += n;
    for (uint32_t i = 0; i < n && !o->gone; i++)
        if (!write_answer(b, &a[i], &o->out)) o->counted--;
    if (!list_linked(&o->touched)) list_push(touched, &o->touched);
}

void box_answer(struct box *b, struct list *touched)
{
    for (uint32_t i = 0, n; i < b->answers_n; i += n) {
        for (n = 1; i + n < b->answers_n && b->answers[i + n].outlet == b->answers[i].outlet;)
            n++;
        deliver(b, &b->answers[i], n, touched);
    }
    b->answers_n = b->literals_count = 0;
}

void box_answer_free_ones(struct box *b, struct list *touched)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->answers_n; i++) {
        if (b->answers[i].outlet->behind)
            b->answers[kept++] = b->answers[i];
        else
            deliver(b, &b->answers[i], 1, touched);
    }
    b->answers_n = b->literals_count = kept;
}

void box_fail(struct box *b, struct slice line)
{
    int64_t at = (int64_t)b->literals.n;
    answer_error(&b->literals, line);
    uint32_t n = (uint32_t)(b->literals.n - (size_t)at);
    for (uint32_t i = 0; i < b->answers_n; i++) {
        struct answer *a = &b->answers[i];
        if (a->cell == ANSWER_LITERAL) continue;
        *a = (struct answer){a->outlet, ANSWER_LITERAL, n, at};
    }
    b->literals_count = b->answers_n;
}

void box_drop_frame(struct box *b, uint64_t epoch)
{
    box_unpin(b);
    b->frame.hashes_n = b->frame.cells_n = b->frame.tokens_n = b->frame.ops_n = b->frame.items_n = 0;
    b->arrivals_n = 0;
    ops_clear(b);
    buf_reset(&b->frame.bytes);
    buf_reset(&b->frame.errors);
    b->weight = 0;
    for (uint32_t i = 0; i < b->frame.shares_n; i++)
        b->weight += (uint64_t)llabs(b->frame.shares[i].delta);
    epoch_set(b, epoch);
}

void box_correct(struct box *b, const struct counter *c, int64_t delta)
{
    b->weight += (uint64_t)llabs(delta);
    frame_add_share(&b->frame, c, delta);
}
