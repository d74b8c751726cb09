/* redis/frame_counts.c - the parts of a frame that count in keys of their own: series, timeboxes, visitors. */
#include "base/heap.h"
#include "redis/frame_parts.h"
#include <stdlib.h>

/* --- Series, which need no script: measured, a plain HINCRBY in a MULTI costs Redis two thirds of one called from Lua. What a
 * journal holds of one name goes home together, so its seconds share the HINCRBYs of all coarser slots. So an op on a series is
 * not all or nothing: when one precision's key has another type, the client gets the error, and the other precisions have
 * counted. --- */

/* Does the frame say that name and precision are known? */
static bool says_known(const struct frame *f, const struct op_limits *l, const struct frame_op *op,
                       uint32_t i)
{
    return (op->known >> i & 1) != 0 && (op->owed || op_keeps(l, i, op->which, f->dirty_ms / 1000));
}

/* Has the op a command of its own? An op that joins the previous one has none. */
static bool moves(const struct frame *f, const struct op_limits *l, const struct frame_op *op, uint32_t i)
{
    return !op->owed && op_keeps(l, i, op->which, f->dirty_ms / 1000) && !op_joins(op, l->precisions[i]);
}

/* By how much: with those that join it. */
static int64_t moves_by(const struct frame *f, const struct op_limits *l, const struct frame_op *op,
                        uint32_t i)
{
    int64_t n = op->delta;
    while (++op < f->ops + f->ops_n && op_joins(op, l->precisions[i]))
        n += op->delta;
    return n;
}

struct saying { /* an op that may say that its precisions are known */
    struct slice name;
    const struct frame_op *op;
};

static int saying_order(const void *a, const void *b)
{
    return slice_cmp(((const struct saying *)a)->name, ((const struct saying *)b)->name);
}

/* Sorted by name: with a million names in `known:` Redis then adds each next to the previous one, in half the time. */
static struct saying *sayings(const struct frame *f, uint32_t *n)
{
    struct saying *list = heap_alloc((f->ops_n + 1) * sizeof *list);
    *n = 0;
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        if (op->known != 0) list[(*n)++] = (struct saying){FRAME_NAME(f, op), op};
    qsort(list, *n, sizeof *list, saying_order);
    return list;
}

/* Before the HINCRBYs, so that a cleaner never finds a sample that is not in `known:`. */
uint32_t series_known_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct op_limits *l = fr->limits;
    uint32_t ops, n = 0;
    struct saying *list = sayings(f, &ops);
    for (uint32_t i = 0; i < ops * l->precisions_n; i++)
        n += says_known(f, l, list[i % ops].op, i / ops);
    if (n > 0) {
        request_array(out, 2 + 2 * (size_t)n);
        BUF_LIT(out, "$4\r\nZADD\r\n");
        REQUEST_KEY(out, fr->tag, KEY_KNOWN);
    }
    for (uint32_t i = 0; i < ops * l->precisions_n; i++) {
        if (!says_known(f, l, list[i % ops].op, i / ops)) continue;
        BUF_LIT(out, "$1\r\n0\r\n");
        OP_MEMBER(out, &fr->scratch, name_series(&fr->scratch, l->precisions[i / ops], list[i % ops].name));
    }
    heap_free(list);
    return n > 0;
}

void series_known_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)f, (void)n;
    if (r->type != REDIS_INTEGER) frames_trouble(fr, KEY_KNOWN, r);
}

uint32_t samples_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct op_limits *l = fr->limits;
    uint32_t n = 0;
    for (const struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; i < l->precisions_n; i++) {
            if (!moves(f, l, op, i)) continue;
            BUF_LIT(out, "*4\r\n$7\r\nHINCRBY\r\n");
            OP_KEY(out, fr->tag, &fr->scratch,
                   name_samples(&fr->scratch, l->precisions[i], FRAME_NAME(f, op)));
            request_int(out, op_slot(op->which, l->precisions[i]));
            request_int(out, moves_by(f, l, op, i));
            n++;
        }
    return n;
}

void samples_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    for (struct frame_op *op = op_next(f, OP_SERIES, NULL); op != NULL; op = op_next(f, OP_SERIES, op))
        for (uint32_t i = 0; i < fr->limits->precisions_n; i++) {
            if (!moves(f, fr->limits, op, i)) continue;
            if (r->type != REDIS_INTEGER)
                op_fail(f, op, r);
            else if ((op->known >> i & 1) == 0 && r->integer == moves_by(f, fr->limits, op, i))
                op->fresh = true;
            op->value++;
            r++;
        }
}

/* --- Timeboxes: `tb.<name>` holds the buckets by their time, `pv.<name>` the same buckets by their hits. A hit on a bucket that
 * is known to be in both is a plain ZINCRBY, 2.4 times cheaper; all others go through the script. The result does not depend on
 * the order of the hits: the newest `keep` buckets, each with all of its hits, since a bucket among the newest of all is among
 * the newest at any time before. A tallyd may die after a plain hit on a bucket that was deleted or trimmed meanwhile. The hit is
 * then in `pv.` alone, and no process owes its entry in `tb.`: the script that adds the name's next new bucket corrects such
 * hits. --- */

/* Those that the script is for. */
static struct frame_op *next_scripted(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_TIMEBOX, op);
    while (next != NULL && next->stands)
        next = op_next(f, OP_TIMEBOX, next);
    return next;
}

uint32_t timeboxes_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    size_t n = 0;
    const struct frame_op *op;
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op))
        n++;
    if (n == 0) return 0;
    request_eval(out, lua_frame_timebox, 2 * n, 1 + 2 * n);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        OP_KEY(out, fr->tag, &fr->scratch, name_buckets(&fr->scratch, FRAME_NAME(f, op)));
        OP_KEY(out, fr->tag, &fr->scratch, name_bucket_hits(&fr->scratch, FRAME_NAME(f, op)));
    }
    request_int(out, fr->limits->timebox_keep);
    for (op = next_scripted(f, NULL); op != NULL; op = next_scripted(f, op)) {
        request_int(out, op->which);
        if (op->owed)
            request_slice(out, SLICE(""));
        else
            request_int(out, op->delta);
    }
    return 1;
}

static bool bucket_take(struct frame *f, struct frame_op *op, const struct redis_answer *r,
                        const struct op_limits *l)
{
    (void)f, (void)l;
    op->late = r->type == REDIS_NIL;
    return op->late || answer_integer(r, &op->value);
}

void timeboxes_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    op_script_file(f, next_scripted, fr->limits, r, bucket_take);
}

static bool op_is_plain(const struct frame_op *op)
{
    return op->kind == OP_TIMEBOX && op->stands && !op->silent;
}

uint32_t timebox_hits_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    uint32_t n = 0;
    for (const struct frame_op *op = f->ops; op < f->ops + f->ops_n; op++) {
        if (!op_is_plain(op)) continue;
        BUF_LIT(out, "*4\r\n$7\r\nZINCRBY\r\n");
        OP_KEY(out, fr->tag, &fr->scratch, name_bucket_hits(&fr->scratch, FRAME_NAME(f, op)));
        request_int(out, op->delta);
        request_int(out, op->which);
        n++;
    }
    return n;
}

void timebox_hits_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)fr, (void)n;
    for (struct frame_op *op = f->ops; op < f->ops + f->ops_n; op++) {
        if (!op_is_plain(op)) continue;
        if (answer_integer(r, &op->value))
            op->fresh = op->value == op->delta;
        else
            op_fail(f, op, r);
        r++;
    }
}

/* --- Unique visitors of a day: integers under the limit are bits of a string, exact; the others are in a HyperLogLog. In the
 * same script a new visitor moves a counter's pending hash, its share of tally:accepted and the dirty index. So bit and counter
 * move together or not at all. By how much a user's bits grew in a day of UTC is counted, and bounded when the frame is sent
 * first: what was answered is not refused when Redis lost it. --- */

static bool is_bit(const struct op_item *item, const struct op_limits *l)
{
    return item->text_n == 0 && item->at >= 0 && item->at < (int64_t)l->uniq_limit;
}

static uint32_t bits_count(const struct frame *f, const struct frame_op *op, const struct op_limits *l)
{
    uint32_t n = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        n += is_bit(&f->items[i], l);
    return n;
}

/* How long the string of bits must be, when a user has to have room for it; 0: nobody has. */
static int64_t bytes_needed(const struct frame *f, const struct frame_op *op, const struct op_limits *l)
{
    int64_t n = 0;
    for (uint32_t i = op->user_n > 0 ? op->first_item : OP_END; i != OP_END; i = f->items[i].next)
        if (is_bit(&f->items[i], l) && f->items[i].at / 8 >= n) n = f->items[i].at / 8 + 1;
    return n;
}

/* Those in bits, or the others: an integer beyond the limit is sketched by its digits. */
static void visitors_of(struct buf *out, const struct frame *f, const struct frame_op *op,
                        const struct op_limits *l, bool bits)
{
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (is_bit(item, l) != bits) continue;
        if (item->text_n > 0)
            request_slice(out, FRAME_TEXT(f, item->text_at, item->text_n));
        else
            request_int(out, item->at);
    }
}

uint32_t visitors_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct op_limits *l = fr->limits;
    size_t keys = 3, args = 2;
    const struct frame_op *op;
    for (op = op_next(f, OP_UNIQ, NULL); op != NULL; op = op_next(f, OP_UNIQ, op)) {
        keys += 3;
        args += 6 + (size_t)op->items_n;
        fr->bounded |= op->user_n > 0;
    }
    if (keys == 3) return 0;
    request_eval(out, lua_frame_visitors, keys, args);
    REQUEST_KEY(out, fr->tag, KEY_ACCEPTED);
    REQUEST_KEY(out, fr->tag, KEY_DIRTY);
    OP_KEY(out, fr->tag, &fr->scratch, name_grown(&fr->scratch, f->dirty_ms / 1000));
    for (op = op_next(f, OP_UNIQ, NULL); op != NULL; op = op_next(f, OP_UNIQ, op)) {
        struct buf *name = &fr->scratch;
        OP_KEY(out, fr->tag, name, name_visitors(name, FRAME_NAME(f, op), op->which));
        OP_KEY(out, fr->tag, name, name_visitors_sketch(name, FRAME_NAME(f, op), op->which));
        if (op->counter != NULL)
            request_key(out, fr->tag, FRAME_TEXT(f, op->key_at, op->key_n));
        else
            OP_KEY(out, fr->tag, name, name_visitors(name, FRAME_NAME(f, op), op->which));
    }
    request_int(out, f->dirty_ms);
    request_int(out, fr->again ? 0 : l->uniq_growth);
    for (op = op_next(f, OP_UNIQ, NULL); op != NULL; op = op_next(f, OP_UNIQ, op)) {
        uint32_t bits = bits_count(f, op, l);
        request_int(out, op->which);
        request_slice(out, op->counter != NULL ? op->counter->name : SLICE(""));
        request_int(out, bits);
        request_int(out, op->items_n - bits);
        request_slice(out, FRAME_TEXT(f, op->user_at, op->user_n));
        request_int(out, bytes_needed(f, op, l));
        visitors_of(out, f, op, l, true);
        visitors_of(out, f, op, l, false);
    }
    return 1;
}

static bool visitors_take(struct frame *f, struct frame_op *op, const struct redis_answer *r,
                          const struct op_limits *l)
{
    uint32_t bit = 0, other = bits_count(f, op, l);
    if (r->type != REDIS_STRING || r->str.n != op->items_n) return false;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        struct op_item *item = &f->items[i];
        item->value = r->str.p[is_bit(item, l) ? bit++ : other++] == '1';
    }
    return true;
}

static struct frame_op *visitors_next(const struct frame *f, const struct frame_op *op)
{
    return op_next(f, OP_UNIQ, op);
}

void visitors_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    op_script_file(f, visitors_next, fr->limits, r, visitors_take);
}
