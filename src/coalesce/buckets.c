/* coalesce/buckets.c - which buckets of timeboxes are known to stand in both of their sets, so that a hit is one ZINCRBY and
 * no script (redis/op_box.c).
 * (!) Known is what the script's answer showed: it stood, after this hit. Nothing but keep newer buckets takes it away, and
 *     the clock tells when so many can have come; nothing but a cut, when Redis may have lost what it answered. What we
 *     cannot know, that somebody deleted the keys, or that the clock leapt there and back, shows in the answer: the hits
 *     are those of the frame alone. Then its place in `tb.` is owed, and the script puts it there, or, when newer
 *     ones stand in its way, takes the hits back, until a frame with it is known to be applied. */
#include "base/heap.h"
#include "coalesce/engine.h"

#define OWED_A_FRAME_MAX 1000
/* Hits, and sums, from here on go by the script, which refuses what a double does not hold. */
#define PLAIN_MOST (INT64_C(1) << 51)

static bool is_small(int64_t n)
{
    return n < PLAIN_MOST && n > -PLAIN_MOST;
}

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

static void add_owed(struct coalesce *c, struct box *b)
{
    for (uint32_t i = 0; i < OWED_A_FRAME_MAX && c->buckets_owed_n > 0; i++) {
        const struct owed_bucket *owed = &c->buckets_owed[--c->buckets_owed_n];
        struct slice name = slice_of(c->bucket_names.p + owed->name_at, owed->name_n);
        struct frame_op *op = frame_add_op(&b->frame, OP_BOX, name, SLICE(""), owed->at);
        op->fed = op->owed = true;
        c->bucket_names.n = owed->name_at;
    }
}

void buckets_on_send(struct coalesce *c, struct box *b)
{
    struct frame *f = &b->frame;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->kind == OP_BOX && !op->silent)
            op->stands = is_small(op->delta) && known_is(&c->buckets, op->code) &&
                         op_bucket_stays(c->counters->ops, op->at, f->dirty_ms / 1000);
    }
    add_owed(c, b);
}

void buckets_send_again(struct box *b)
{
    for (uint32_t i = 0; i < b->frame.ops_n && HOLDS(RULE_BUCKET_RESEND); i++)
        b->frame.ops[i].stands = false;
}

static void bucket_applied(struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    bool good = op->error_n == 0 && !op->late && !op->fresh && is_small(op->value);
    if (good && !op->stands) known_add(&c->buckets, op->code, op->at);
    if (!good) known_forget(&c->buckets, op->code);
    if (op->fresh) bucket_owe(c, FRAME_NAME(f, op), op->at);
}

void buckets_applied(struct coalesce *c, const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (f->ops[i].kind == OP_BOX && !f->ops[i].owed && !f->ops[i].silent)
            bucket_applied(c, f, &f->ops[i]);
}

void buckets_found_applied(struct coalesce *c, const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        if (op->kind == OP_BOX && op->stands) bucket_owe(c, FRAME_NAME(f, op), op->at);
    }
}

void buckets_not_applied(struct coalesce *c, const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        if (op->kind == OP_BOX && op->owed) bucket_owe(c, FRAME_NAME(f, op), op->at);
    }
}
