/* series/journal.c - see frame.h. */
#include "series/frame.h"

#include "base/log.h"

#define VARINT_BYTES 10

static void put_unsigned(struct buf *out, uint64_t v)
{
    char *p = buf_reserve(out, VARINT_BYTES);
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        p[n++] = (char)(v | 0x80);
    p[n++] = (char)v;
    out->n += n;
}

static void put_signed(struct buf *out, int64_t v)
{
    put_unsigned(out, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static void journal_put_text(struct buf *out, struct slice s)
{
    put_unsigned(out, s.n);
    buf_put_slice(out, s);
}

static void put_entry(struct buf *out, uint32_t number, enum journal_mark mark)
{
    put_unsigned(out, (uint64_t)number << 3 | (uint64_t)mark);
}

void journal_put_op(struct buf *out, uint32_t number, enum op_kind kind, int64_t at, struct slice name,
                    struct slice type)
{
    put_entry(out, number, JOURNAL_OP);
    put_unsigned(out, (uint64_t)kind);
    put_signed(out, at);
    journal_put_text(out, name);
    journal_put_text(out, type);
}

void journal_put_add(struct buf *out, uint32_t number, int64_t n)
{
    put_entry(out, number, JOURNAL_ADD);
    put_signed(out, n);
}

void journal_put_done(struct buf *out, uint32_t number)
{
    put_entry(out, number, JOURNAL_DONE);
}

void journal_put_event(struct buf *out, uint32_t number, int64_t second, int64_t id, struct slice text)
{
    put_entry(out, number, JOURNAL_EVENT);
    put_signed(out, second);
    put_signed(out, id);
    if (id == 0) journal_put_text(out, text);
}

void journal_put_gone(struct buf *out, uint32_t number, uint32_t n)
{
    put_entry(out, number, JOURNAL_GONE);
    put_signed(out, n);
}

static bool take_unsigned(struct slice *s, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; s->n > 0 && shift < 64; shift += 7) {
        uint8_t byte = (uint8_t)*s->p;
        *s = slice_of(s->p + 1, s->n - 1);
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool take_signed(struct slice *s, int64_t *v)
{
    uint64_t u;
    if (!take_unsigned(s, &u)) return false;
    *v = (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
    return true;
}

static bool take_text(struct slice *s, struct slice *text)
{
    uint64_t n;
    if (!take_unsigned(s, &n) || n > s->n || n > OP_NAME_BYTES_MAX) return false;
    *text = slice_of(s->p, (size_t)n);
    *s = slice_of(s->p + n, s->n - (size_t)n);
    return true;
}

static bool take_op(struct slice *s, struct journal_record *r)
{
    uint64_t kind;
    if (!take_unsigned(s, &kind) || kind > OP_EVENT || !take_signed(s, &r->at) || r->at < 0) return false;
    r->kind = (enum op_kind)kind;
    return take_text(s, &r->name) && take_text(s, &r->type);
}

static bool take_rest(struct slice *s, struct journal_record *r)
{
    switch (r->mark) {
    case JOURNAL_OP:
        return take_op(s, r);
    case JOURNAL_ADD:
        return take_signed(s, &r->n);
    case JOURNAL_DONE:
        return true;
    case JOURNAL_EVENT:
        return take_signed(s, &r->at) && r->at >= 0 && take_signed(s, &r->n) && r->n >= 0 &&
               (r->n > 0 || take_text(s, &r->name));
    case JOURNAL_GONE:
        return take_signed(s, &r->n) && r->n > 0 && r->n <= UINT32_MAX;
    case JOURNAL_MARKS:
        break;
    }
    UNREACHABLE();
}

bool journal_next(struct slice *rest, struct journal_record *r)
{
    struct slice s = *rest;
    uint64_t head;
    *r = (struct journal_record){0};
    if (!take_unsigned(&s, &head) || (head & 7) >= JOURNAL_MARKS || head >> 3 > UINT32_MAX) return false;
    r->mark = (enum journal_mark)(head & 7);
    r->number = (uint32_t)(head >> 3);
    bool whole = take_rest(&s, r);
    if (whole) *rest = s;
    return whole;
}

void kept_put_op(struct buf *out, const struct frame *f, const struct frame_op *op, bool told)
{
    journal_put_op(out, op->fed, op->kind, op->which, FRAME_NAME(f, op), FRAME_TYPE(f, op));
    if (op->owed) return;
    journal_put_add(out, 0, op->items_n > 0 ? (int64_t)op->lease_seq : op->delta);
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        bool has_number = item->text_n == 0 && (told || op->which == EVENT_GIVEN);
        if (told && item->value == EVENT_REFUSED) continue;
        journal_put_event(out, 0, item->at, has_number ? item->value : 0,
                          FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

static struct frame_op *add_op(struct frame *f, const struct journal_record *of, int64_t which)
{
    struct frame_op *op = frame_add_op(f, of->kind, of->name, of->type, which);
    op->fed = of->number == 1;
    op->named = true;
    op->known = UINT64_MAX;
    return op;
}

/* Numbers that clients were told are an op of their own. first: the first op that this record makes. */
static struct frame_op *op_for(struct frame *f, uint32_t first, const struct journal_record *of,
                               int64_t which)
{
    for (uint32_t i = first; i < f->ops_n; i++)
        if (f->ops[i].which == which) return &f->ops[i];
    return add_op(f, of, which);
}

void kept_take_ops(struct frame *f, struct slice records, uint64_t found)
{
    struct journal_record of = {0}, r;
    uint32_t first = f->ops_n;
    bool ours = false;
    while (journal_next(&records, &r)) {
        bool has_items = of.kind == OP_EVENT && of.at <= EVENT_OWN;
        if (r.mark == JOURNAL_OP) {
            of = r;
            first = f->ops_n;
            struct slice rest = records;
            struct journal_record next;
            if (!journal_next(&rest, &next) || next.mark == JOURNAL_OP) add_op(f, &of, of.at)->owed = true;
        } else if (r.mark == JOURNAL_EVENT) {
            struct frame_op *op = op_for(f, first, &of, r.n > 0 ? EVENT_KEPT : of.at);
            op->ours = ours;
            uint32_t item = frame_add_item(f, op, r.at, r.name);
            f->items[item].value = r.n;
            op->has_numbers |= op_id_is_number(r.name);
        } else if (has_items) {
            ours = r.n > 0 && (uint64_t)r.n <= found;
        } else {
            add_op(f, &of, of.at)->delta = r.n;
        }
    }
    INVARIANT(records.n == 0);
}
