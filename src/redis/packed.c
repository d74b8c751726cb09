/* redis/packed.c - see packed.h. Of the msgpack format it reads arrays and strings; a claim writes nothing else. */
#include "redis/packed.h"
#include "redis/registry.h"

struct head {
    uint8_t first, last; /* first byte of what holds its size in itself; first == last: its size follows */
    uint8_t bytes;       /* big-endian, after the first byte */
};

static const struct head string_heads[] = {
    {0xa0, 0xbf, 0}, {0xd9, 0xd9, 1}, {0xda, 0xda, 2}, {0xdb, 0xdb, 4}};
static const struct head array_heads[] = {{0x90, 0x9f, 0}, {0xdc, 0xdc, 2}, {0xdd, 0xdd, 4}};

static bool head_read(struct slice *in, const struct head *heads, size_t heads_n, uint32_t *size)
{
    if (in->n == 0) return false;
    uint8_t first = (uint8_t)in->p[0];
    for (size_t i = 0; i < heads_n; i++) {
        const struct head *h = &heads[i];
        if (first < h->first || first > h->last) continue;
        if (in->n < 1 + (size_t)h->bytes) return false;
        *size = h->bytes == 0 ? first - h->first : 0;
        for (uint8_t at = 1; at <= h->bytes; at++)
            *size = *size << 8 | (uint8_t)in->p[at];
        *in = slice_of(in->p + 1 + h->bytes, in->n - 1 - h->bytes);
        return true;
    }
    return false;
}

static bool string_read(struct slice *in, struct slice *out)
{
    uint32_t size;
    if (!head_read(in, string_heads, sizeof string_heads / sizeof *string_heads, &size) || size > in->n)
        return false;
    *out = slice_of(in->p, size);
    *in = slice_of(in->p + size, in->n - size);
    return true;
}

static bool array_read(struct slice *in, uint32_t *n)
{
    return head_read(in, array_heads, sizeof array_heads / sizeof *array_heads, n) && *n % 2 == 0;
}

static bool name_new(struct map *seen, struct slice name)
{
    struct buf field = {0};
    buf_put_char(&field, REGISTRY_HASH);
    buf_put_slice(&field, name);
    bool is_new = map_put(seen, buf_slice(&field), NULL);
    buf_free(&field);
    return is_new;
}

static bool hash_file(struct batch *b, struct slice *in, struct map *seen)
{
    struct slice name, field, value;
    uint32_t n;
    if (!string_read(in, &name) || !name_new(seen, name) || !array_read(in, &n)) return false;
    uint32_t hash = batch_add_hash(b, name, n / 2);
    b->hashes[hash].packed = true;
    for (uint32_t i = 0; i < n; i += 2) {
        if (!string_read(in, &field) || !string_read(in, &value)) return false;
        batch_add_row(b, hash, field, value);
    }
    return true;
}

bool packed_file(struct batch *b, struct slice text, struct map *seen)
{
    uint32_t n;
    if (!array_read(&text, &n)) return false;
    for (uint32_t i = 0; i < n; i += 2)
        if (!hash_file(b, &text, seen)) return false;
    return text.n == 0;
}
