/* redis/frame_visitors.c - unique visitors of a day: integers under the limit are bits of a string, exact; the others
 * are in a HyperLogLog. In the same script a new visitor moves a counter's pending hash, its share of tally:accepted
 * and the dirty index. So bit and counter move together or not at all. By how much a user's bits grew in a day of UTC is counted, and
 * bounded when the frame is sent first: what was answered is not refused when Redis lost it. */
#include "redis/frame_parts.h"
#include "redis/lua.h"

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
