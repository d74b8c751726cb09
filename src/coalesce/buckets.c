/* coalesce/buckets.c - which buckets of timeboxes are known to be in both of their sets, so that a hit needs one
 * ZINCRBY and no script (redis/frame_counts.c). It also keeps their hits, so that a hit can wait in a journal and its
 * client is answered.
 * (!) A bucket is known when the script's answer showed it in both sets after this hit. `keep` newer buckets remove it, and the
 *     clock tells when that many can have come. Redis may also forget it, but only after a cut.
 *     tallyd cannot know that a client deleted the keys, or that the clock jumped and came back. The answer shows it: the hits
 *     are those of the frame alone. The entry in `tb.` is then owed: frames carry it until one is known to be applied. The
 *     script adds the entry, or takes the hits back when `keep` newer buckets exist.
 * The hits are Redis' last answer plus what this process' journals hold. Those of other tallyds show when our journals
 * come home. */
#include "coalesce/inside.h"

/* From this many on, hits and sums go through the script, which refuses what a double cannot hold exactly. */
#define PLAIN_MOST (INT64_C(1) << 51)

static bool is_small(int64_t n)
{
    return n < PLAIN_MOST && n > -PLAIN_MOST;
}

/* One code for a client's op, which has it already, and for ops of feeds and journals. */
static uint64_t code_of(const struct coalesce *c, const struct frame_op *op)
{
    return op->fed ? coalesce_op_code(c, op->name_code, op->which, false) : op->code;
}

bool buckets_know(const struct coalesce *c, const struct frame_op *op)
{
    return known_is(&c->buckets, code_of(c, op));
}

bool buckets_plain(const struct coalesce *c, const struct frame *f, const struct frame_op *op, int64_t sum)
{
    return is_small(op->delta) && is_small(sum) && buckets_know(c, op) &&
           op_bucket_stays(c->counters->ops, op->which, f->dirty_ms / 1000);
}

/* --- hits that wait in a journal --- */

bool buckets_may_wait(const struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    const int64_t *hits = known_value(&c->buckets, code_of(c, op));
    return hits != NULL && buckets_plain(c, f, op, *hits + op->delta);
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

/* Hits that were answered, but were only in journals when Redis ran the op. */
static int64_t waiting(const struct coalesce *c, const struct frame *f, const struct frame_op *op)
{
    int64_t n = 0;
    list_for_each (node, &c->journals) {
        const struct journal *j = CONTAINER_OF(node, struct journal, link);
        uint32_t i = journal_first(j, op->name_code, OP_TIMEBOX, FRAME_NAME(f, op), SLICE(""));
        for (; i != OP_END; i = j->ops[i].next)
            if (j->ops[i].which == op->which) n += j->ops[i].n + j->ops[i].out;
    }
    return n;
}

void buckets_came_home(const struct frame_op *op)
{
    if (op->journal != NULL) op->journal->ops[op->number].out = 0;
}

void buckets_learn(struct coalesce *c, const struct frame *f, struct frame_op *op)
{
    uint64_t code = code_of(c, op);
    buckets_came_home(op);
    op->value += waiting(c, f, op);
    bool good = op->error_n == 0 && !op->late && !op->fresh && is_small(op->value);
    if (good)
        *known_add(&c->buckets, code, op->which) = op->value;
    else
        known_forget(&c->buckets, code);
}
