/* coalesce/buckets.c - which buckets of timeboxes are known to stand in both of their sets, so that a hit is one ZINCRBY and
 * no script (redis/frame_timebox.c); and with how many hits, so that one may wait in a journal and its client is answered.
 * (!) Known is what the script's answer showed: it stood, after this hit. Nothing but keep newer buckets takes it away, and
 *     the clock tells when so many can have come; nothing but a cut, when Redis may have lost what it answered. What we
 *     cannot know, that somebody deleted the keys, or that the clock leapt there and back, shows in the answer: the hits
 *     are those of the frame alone. Then its place in `tb.` is owed, and the script puts it there, or, when newer
 *     ones stand in its way, takes the hits back, until a frame with it is known to be applied.
 * Its hits are what Redis said last and what journals of ours hold; those of other tallyds show when ours come home. */
#include "base/heap.h"
#include "coalesce/engine.h"

#define OWED_A_FRAME_MAX 1000
/* Hits, and sums, from here on go by the script, which refuses what a double does not hold. */
#define PLAIN_MOST (INT64_C(1) << 51)

static bool is_small(int64_t n)
{
    return n < PLAIN_MOST && n > -PLAIN_MOST;
}

/* One for a client's op, which has it, and for what feeds and journals bring. */
static uint64_t code_of(const struct coalesce *c, const struct frame_op *op)
{
    return op->fed ? engine_op_code(c, op->name_code, op->at, false) : op->code;
}

bool buckets_know(const struct coalesce *c, const struct frame_op *op)
{
    return known_is(&c->buckets, code_of(c, op));
}

/* --- hits that wait in a journal --- */

bool buckets_may_wait(const struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    const int64_t *hits = known_value(&c->buckets, code_of(c, op));
    return hits != NULL && is_small(op->delta) && is_small(*hits + op->delta) &&
           op_bucket_stays(c->counters->ops, op->at, f->dirty_ms / 1000);
}

void buckets_wait(struct coalesce *c, struct frame_op *op)
{
    int64_t *hits = known_value(&c->buckets, code_of(c, op));
    if (hits == NULL) return;
    op->value = *hits += op->delta;
}

void buckets_undo(struct coalesce *c, const struct frame_op *op)
{
    int64_t *hits = known_value(&c->buckets, code_of(c, op));
    if (hits != NULL) *hits -= op->delta;
}

/* What is answered and stood in journals alone when Redis ran the op. */
static int64_t waiting(const struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    int64_t n = 0;
    list_for_each (node, &c->journals) {
        const struct journal *j = CONTAINER_OF(node, struct journal, link);
        uint32_t i = journal_first(j, op->name_code, OP_TIMEBOX, FRAME_NAME(f, op), SLICE(""));
        for (; i != OP_END; i = j->ops[i].next)
            if (j->ops[i].at == op->at) n += j->ops[i].n + j->ops[i].out;
    }
    return n;
}

static void came_home(const struct frame_op *op)
{
    if (op->journal != NULL) op->journal->ops[op->number].out = 0;
}

/* --- places in `tb.` --- */

static void bucket_owe(struct coalesce *c, struct slice name, int64_t at)
{
    if (!HOLDS(RULE_BUCKET_OWED)) return;
    if (c->buckets_owed_n == c->buckets_owed_cap) {
        c->buckets_owed_cap = c->buckets_owed_cap == 0 ? 64 : 2 * c->buckets_owed_cap;
        c->buckets_owed = heap_realloc(c->buckets_owed, c->buckets_owed_cap * sizeof *c->buckets_owed);
    }
    struct owed_bucket *owed = &c->buckets_owed[c->buckets_owed_n++];
    *owed = (struct owed_bucket){(uint32_t)c->bucket_names.n, (uint32_t)name.n, at};
    buf_put_slice(&c->bucket_names, name);
}

static void buckets_add_owed(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < OWED_A_FRAME_MAX && c->buckets_owed_n > 0; i++) {
        const struct owed_bucket *owed = &c->buckets_owed[--c->buckets_owed_n];
        struct slice name = slice_of(c->bucket_names.p + owed->name_at, owed->name_n);
        struct frame_op *op = frame_add_op(&g->frame, OP_TIMEBOX, name, SLICE(""), owed->at);
        op->fed = op->owed = true;
        c->bucket_names.n = owed->name_at;
    }
}

void buckets_on_send(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->kind == OP_TIMEBOX && !op->silent)
            op->stands = is_small(op->delta) && buckets_know(c, op) &&
                         op_bucket_stays(c->counters->ops, op->at, f->dirty_ms / 1000);
    }
    buckets_add_owed(c, g);
}

void buckets_send_again(struct group *g)
{
    for (uint32_t i = 0; i < g->frame.ops_n && HOLDS(RULE_BUCKET_RESEND); i++)
        g->frame.ops[i].stands = false;
}

static void bucket_applied(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    uint64_t code = code_of(c, op);
    came_home(op);
    op->value += waiting(c, f, op);
    bool good = op->error_n == 0 && !op->late && !op->fresh && is_small(op->value);
    if (good)
        *known_add(&c->buckets, code, op->at) = op->value;
    else
        known_forget(&c->buckets, code);
    if (op->fresh) bucket_owe(c, FRAME_NAME(f, op), op->at);
}

static void all_applied(struct coalesce *c, struct frame *f, bool stands)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->kind == OP_TIMEBOX && op->stands == stands && !op->owed && !op->silent)
            bucket_applied(c, f, op);
    }
}

/* In the order in which Redis ran them. */
void buckets_applied(struct coalesce *c, struct frame *f)
{
    all_applied(c, f, true);
    all_applied(c, f, false);
}

void buckets_found_applied(struct coalesce *c, const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        if (op->kind == OP_TIMEBOX && !op->silent) came_home(op);
        if (op->kind == OP_TIMEBOX && op->stands) bucket_owe(c, FRAME_NAME(f, op), op->at);
    }
}

void buckets_not_applied(struct coalesce *c, const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        if (op->kind == OP_TIMEBOX && op->owed) bucket_owe(c, FRAME_NAME(f, op), op->at);
    }
}
