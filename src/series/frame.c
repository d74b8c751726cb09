/* series/frame.c - arrays that grow by doubling and that frame_reset keeps, so that a warm frame allocates nothing. */
#include "series/frame.h"

#include "base/heap.h"
#include "base/outlet.h"
#include "base/slice.h"
#include "series/names.h"

#include <xxhash.h>

#define FRAME_CAP_FIRST 64

void frame_reset(struct frame *f)
{
    f->hashes_n = f->cells_n = f->tokens_n = f->shares_n = f->ops_n = f->items_n = f->appends_n = 0;
    buf_reset(&f->bytes);
    buf_reset(&f->records);
    buf_reset(&f->errors);
    buf_reset(&f->again);
}

void frame_free(struct frame *f)
{
    heap_free(f->hashes);
    heap_free(f->cells);
    heap_free(f->tokens);
    heap_free(f->shares);
    heap_free(f->ops);
    heap_free(f->items);
    heap_free(f->appends);
    buf_free(&f->bytes);
    buf_free(&f->records);
    buf_free(&f->errors);
    buf_free(&f->again);
    *f = (struct frame){0};
}

static void *frame_doubled(void *items, uint32_t *cap, size_t size)
{
    PRE(*cap < UINT32_MAX / 2);
    *cap = *cap > 0 ? *cap * 2 : FRAME_CAP_FIRST;
    return heap_realloc(items, *cap * size);
}

/* Room for one more item in an array of n; returns the array, perhaps moved. */
static inline void *frame_grown(void *items, uint32_t n, uint32_t *cap, size_t size)
{
    return n < *cap ? items : frame_doubled(items, cap, size);
}

struct frame_hash *frame_add_hash(struct frame *f, void *entry, struct slice key)
{
    f->hashes = frame_grown(f->hashes, f->hashes_n, &f->hashes_cap, sizeof *f->hashes);
    struct frame_hash *h = &f->hashes[f->hashes_n++];
    *h = (struct frame_hash){.entry = entry, .key = key};
    return h;
}

struct frame_cell *frame_add_raw(struct frame *f, uint32_t hash, struct slice raw, struct slice field,
                                 int64_t delta)
{
    PRE(hash < f->hashes_n && f->bytes.n + raw.n <= UINT32_MAX);
    f->cells = frame_grown(f->cells, f->cells_n, &f->cells_cap, sizeof *f->cells);
    struct frame_cell *c = &f->cells[f->cells_n++];
    uint32_t at = (uint32_t)f->bytes.n;
    *c = (struct frame_cell){.hash = hash,
                             .raw_at = at,
                             .raw_n = (uint32_t)raw.n,
                             .field_at = at + (uint32_t)(field.p - raw.p),
                             .field_n = (uint32_t)field.n,
                             .hits = 1,
                             .delta = delta};
    f->hashes[hash].cells++;
    buf_put_slice(&f->bytes, raw);
    return c;
}

/* A delta is at most DELTA_MAX and a frame's cells are bounded, so a sum beyond int64 is a bug of ours. */
void frame_add_share(struct frame *f, const struct counter *c, int64_t delta)
{
    uint32_t i = 0;
    while (i < f->shares_n && f->shares[i].counter != c)
        i++;
    if (i == f->shares_n) {
        f->shares = frame_grown(f->shares, f->shares_n, &f->shares_cap, sizeof *f->shares);
        f->shares[f->shares_n++] = (struct frame_share){.counter = c};
    }
    struct frame_share *s = &f->shares[i];
    int64_t sum;
    bool overflow = __builtin_add_overflow(s->delta, delta, &sum);
    INVARIANT(!overflow);
    s->delta = sum;
}

static uint32_t frame_text_put(struct frame *f, struct slice text)
{
    PRE(f->bytes.n + text.n <= UINT32_MAX);
    uint32_t at = (uint32_t)f->bytes.n;
    buf_put_slice(&f->bytes, text);
    return at;
}

/* The same on every machine and in every version: another tallyd compares it hours later. */
static void payload_write(struct slice key, struct slice field, int64_t delta, char out[TOKEN_PAYLOAD])
{
    char digits[24];
    XXH64_canonical_t same_everywhere;
    XXH64_hash_t of_field = XXH3_64bits_withSeed(field.p, field.n, XXH3_64bits(key.p, key.n));
    size_t n = num_write(delta, digits);
    XXH64_canonicalFromHash(&same_everywhere, XXH3_64bits_withSeed(digits, n, of_field));
    hex_write(same_everywhere.digest, sizeof same_everywhere.digest, out);
}

struct frame_token *frame_add_token(struct frame *f, uint32_t hash, struct slice store, struct slice id,
                                    struct slice field, int64_t delta, struct slice user)
{
    PRE(hash < f->hashes_n && field.n > 0);
    f->tokens = frame_grown(f->tokens, f->tokens_n, &f->tokens_cap, sizeof *f->tokens);
    struct frame_token *t = &f->tokens[f->tokens_n++];
    *t = (struct frame_token){.hash = hash, .name_at = (uint32_t)f->bytes.n, .delta = delta};
    name_token(&f->bytes, store, id);
    t->name_n = (uint32_t)f->bytes.n - t->name_at;
    t->field_at = frame_text_put(f, field);
    t->field_n = (uint32_t)field.n;
    t->user_at = frame_text_put(f, user);
    t->user_n = (uint32_t)user.n;
    payload_write(f->hashes[hash].key, field, delta, t->payload);
    return t;
}

void frame_token_today(const struct frame *f, struct frame_token *t)
{
    payload_write(f->hashes[t->hash].key, SLICE("today"), t->delta, t->payload); /* is no time's field */
}

bool frame_token_read(struct frame_token *t, struct slice stands)
{
    bool is_ours = stands.n > TOKEN_PAYLOAD + 1 && memcmp(stands.p, t->payload, TOKEN_PAYLOAD) == 0 &&
                   stands.p[TOKEN_PAYLOAD] == ':';
    return is_ours &&
           num_parse(slice_of(stands.p + TOKEN_PAYLOAD + 1, stands.n - TOKEN_PAYLOAD - 1), &t->value);
}

void frame_fail_token(struct frame *f, struct frame_token *t, struct slice line)
{
    t->error_at = (uint32_t)f->errors.n;
    t->error_n = (uint32_t)line.n;
    buf_put_slice(&f->errors, line);
}

struct frame_op *frame_add_op(struct frame *f, enum op_kind kind, struct slice name, struct slice type,
                              int64_t which)
{
    f->ops = frame_grown(f->ops, f->ops_n, &f->ops_cap, sizeof *f->ops);
    struct frame_op *op = &f->ops[f->ops_n++];
    *op = (struct frame_op){.kind = kind, .which = which, .first_item = OP_END, .last_item = OP_END};
    op->name_at = frame_text_put(f, name);
    op->name_n = (uint32_t)name.n;
    op->type_at = frame_text_put(f, type);
    op->type_n = (uint32_t)type.n;
    return op;
}

uint32_t frame_add_item(struct frame *f, struct frame_op *op, int64_t at, struct slice text)
{
    f->items = frame_grown(f->items, f->items_n, &f->items_cap, sizeof *f->items);
    uint32_t i = f->items_n++;
    f->items[i] = (struct op_item){
        .next = OP_END, .text_at = frame_text_put(f, text), .text_n = (uint32_t)text.n, .at = at};
    if (op->items_n++ == 0)
        op->first_item = i;
    else
        f->items[op->last_item].next = i;
    op->last_item = i;
    return i;
}

void frame_fail_op(struct frame *f, struct frame_op *op, struct slice line)
{
    op->error_at = (uint32_t)f->errors.n;
    op->error_n = (uint32_t)line.n;
    buf_put_slice(&f->errors, line);
}

struct frame_append *frame_add_append(struct frame *f, struct slice name, struct slice records)
{
    PRE(f->records.n + records.n <= UINT32_MAX);
    f->appends = frame_grown(f->appends, f->appends_n, &f->appends_cap, sizeof *f->appends);
    struct frame_append *a = &f->appends[f->appends_n++];
    *a = (struct frame_append){.bytes_at = (uint32_t)f->records.n, .bytes_n = (uint32_t)records.n};
    buf_put_slice(&f->records, records);
    a->name_at = frame_text_put(f, name);
    a->name_n = (uint32_t)name.n;
    return a;
}
