/* series/batch.c - see batch.h. Sealing sorts small keys (rank of the hash, length and first bytes of the field) and
 * compares whole fields only when these are equal. For a million rows it takes most of a second, so it belongs in a
 * worker thread. */
#include "series/batch.h"

#include "base/heap.h"

#include <endian.h>
#include <stdlib.h>
#include <xxhash.h>

#define BATCH_CAP_FIRST 64

void batch_init(struct batch *b, const struct batch_id *id)
{
    *b = (struct batch){.id = *id};
}

void batch_clear(struct batch *b)
{
    buf_reset(&b->counter_name);
    buf_reset(&b->owner);
    buf_reset(&b->bytes);
    b->format = 0;
    b->counter = NULL;
    b->gen = 0;
    b->lowest_ms = 0;
    b->hashes_n = b->rows_n = 0;
    b->sealed = false;
}

void batch_close(struct batch *b)
{
    buf_free(&b->counter_name);
    buf_free(&b->owner);
    buf_free(&b->bytes);
    heap_free(b->hashes);
    heap_free(b->rows);
    struct batch_id id = b->id;
    batch_init(b, &id);
}

static void *batch_grown(void *items, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return items;
    PRE(*cap < UINT32_MAX / 2);
    *cap = *cap > 0 ? *cap * 2 : BATCH_CAP_FIRST;
    return heap_realloc(items, *cap * size);
}

uint32_t batch_add_hash(struct batch *b, struct slice pending, uint64_t hlen)
{
    PRE(!b->sealed);
    PRE(b->bytes.n <= UINT32_MAX && pending.n <= UINT32_MAX);
    b->hashes = batch_grown(b->hashes, b->hashes_n, &b->hashes_cap, sizeof *b->hashes);
    b->hashes[b->hashes_n] =
        (struct batch_hash){.name_at = (uint32_t)b->bytes.n, .name_n = (uint32_t)pending.n, .hlen = hlen};
    buf_reserve(&b->bytes, pending.n + 1); /* also an empty name has a place in it */
    buf_put_slice(&b->bytes, pending);
    return (uint32_t)b->hashes_n++;
}

void batch_add_row(struct batch *b, uint32_t hash, struct slice field, struct slice value)
{
    PRE(!b->sealed && hash < b->hashes_n);
    PRE(field.n <= UINT32_MAX && value.n <= UINT32_MAX);
    b->rows = batch_grown(b->rows, b->rows_n, &b->rows_cap, sizeof *b->rows);
    b->rows[b->rows_n++] = (struct batch_row){
        .hash = hash, .field_n = (uint32_t)field.n, .value_n = (uint32_t)value.n, .field_at = b->bytes.n};
    buf_put_slice(&b->bytes, field);
    buf_put_slice(&b->bytes, value);
}

struct hash_key {
    struct slice name;
    uint32_t was; /* index in the order of registration */
};

static int hash_key_cmp(const void *a, const void *b)
{
    return slice_cmp(((const struct hash_key *)a)->name, ((const struct hash_key *)b)->name);
}

/* Sorts hashes[]; returns, per index in the order of registration, the rank. The caller frees it. */
static uint32_t *hashes_sort(struct batch *b)
{
    struct hash_key *keys = heap_alloc(b->hashes_n * sizeof *keys);
    struct batch_hash *old = heap_alloc(b->hashes_n * sizeof *old);
    uint32_t *rank = heap_alloc(b->hashes_n * sizeof *rank);
    for (size_t i = 0; i < b->hashes_n; i++) {
        keys[i] = (struct hash_key){batch_hash_name(b, i), (uint32_t)i};
        old[i] = b->hashes[i];
    }
    if (b->hashes_n > 0) qsort(keys, b->hashes_n, sizeof *keys, hash_key_cmp);
    for (size_t i = 0; i < b->hashes_n; i++) {
        INVARIANT(i == 0 ||
                  !slice_eq(keys[i - 1].name, keys[i].name)); /* registered twice, it would count twice */
        b->hashes[i] = old[keys[i].was];
        rank[keys[i].was] = (uint32_t)i;
    }
    heap_free(keys);
    heap_free(old);
    return rank;
}

struct row_key {
    uint64_t place; /* rank of the hash, then length of the field */
    uint64_t head;  /* first 8 bytes of the field, big-endian, so that integers compare as the bytes do */
    const char *field;
    uint32_t was; /* index in rows[]: among repeats the last added comes last */
};

static uint64_t field_head(struct slice field)
{
    uint64_t head = 0;
    if (field.n > 0) memcpy(&head, field.p, field.n < sizeof head ? field.n : sizeof head);
    return be64toh(head);
}

/* Order of the fields alone. */
static int row_key_order(const struct row_key *a, const struct row_key *b)
{
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    size_t n = (uint32_t)a->place;
    return n > sizeof a->head
               ? memcmp(a->field + sizeof a->head, b->field + sizeof a->head, n - sizeof a->head)
               : 0;
}

static int row_key_cmp(const void *va, const void *vb)
{
    const struct row_key *a = va, *b = vb;
    int order = row_key_order(a, b);
    return order != 0 ? order : (a->was > b->was) - (a->was < b->was);
}

/* Sorts rows[] by key, keeps the last of repeated ones, and counts each hash's. */
static void rows_settle(struct batch *b, const struct row_key *keys)
{
    struct batch_row *old = b->rows;
    size_t n = 0;
    b->rows = heap_alloc(b->rows_cap * sizeof *b->rows);
    for (size_t i = 0; i < b->rows_n; i++) {
        if (i + 1 < b->rows_n && row_key_order(&keys[i], &keys[i + 1]) == 0) continue;
        b->rows[n] = old[keys[i].was];
        b->rows[n].hash = (uint32_t)(keys[i].place >> 32);
        b->hashes[b->rows[n].hash].seen++;
        n++;
    }
    b->rows_n = n;
    heap_free(old);
}

bool batch_seal(struct batch *b, size_t *short_hash)
{
    PRE(!b->sealed);
    uint32_t *rank = hashes_sort(b);
    struct row_key *keys = heap_alloc(b->rows_n * sizeof *keys);
    for (size_t i = 0; i < b->rows_n; i++) {
        const struct batch_row *r = &b->rows[i];
        struct slice field = batch_field(b, r);
        keys[i] = (struct row_key){(uint64_t)rank[r->hash] << 32 | r->field_n, field_head(field), field.p,
                                   (uint32_t)i};
    }
    if (b->rows_n > 0) qsort(keys, b->rows_n, sizeof *keys, row_key_cmp);
    rows_settle(b, keys);
    heap_free(keys);
    heap_free(rank);
    for (size_t i = 0; i < b->hashes_n; i++) {
        if (b->hashes[i].seen == b->hashes[i].hlen) continue;
        *short_hash = i;
        return false;
    }
    /* Values that are no integers are left out: MySQL gets them as rejects. */
    uint64_t sum = 0;
    for (size_t i = 0; i < b->rows_n; i++) {
        int64_t value;
        if (num_parse(batch_value(b, &b->rows[i]), &value)) sum += (uint64_t)value;
    }
    b->hits = (int64_t)sum;
    b->sealed = true;
    return true;
}

uint32_t batch_chunks(const struct batch *b)
{
    PRE(b->sealed);
    if (b->rows_n == 0) return 1;
    return (uint32_t)((b->rows_n - 1) / BATCH_CHUNK_ROWS + 1);
}

void batch_chunk(const struct batch *b, uint32_t index, struct chunk *out)
{
    uint32_t chunks = batch_chunks(b);
    PRE(index < chunks);
    size_t first = (size_t)index * BATCH_CHUNK_ROWS, left = b->rows_n - first;
    out->batch = b;
    out->index = index;
    out->chunks = chunks;
    out->first = first;
    out->rows_n = left < BATCH_CHUNK_ROWS ? left : BATCH_CHUNK_ROWS;
}

void put_measured(struct buf *out, struct slice s)
{
    uint32_t n = htobe32((uint32_t)s.n);
    buf_put(out, (const char *)&n, sizeof n);
    buf_put_slice(out, s);
}

void chunk_digest(const struct chunk *c, uint8_t digest[16])
{
    const struct batch *b = c->batch;
    PRE(b->sealed && c->first + c->rows_n <= b->rows_n);
    struct buf all = {0};
    for (size_t i = c->first; i < c->first + c->rows_n; i++) {
        put_measured(&all, batch_hash_name(b, b->rows[i].hash));
        put_measured(&all, batch_field(b, &b->rows[i]));
        put_measured(&all, batch_value(b, &b->rows[i]));
    }
    XXH128_canonical_t same_everywhere;
    XXH128_canonicalFromHash(&same_everywhere, XXH3_128bits(all.n > 0 ? all.p : "", all.n));
    memcpy(digest, same_everywhere.digest, sizeof same_everywhere.digest);
    buf_free(&all);
}

/* Lengths from 65535 on, which only a hash can have that was not written through the door, are FFFF and BE64.
 */
static void put_ordered(struct buf *out, struct slice s)
{
    uint16_t n = htobe16(s.n < UINT16_MAX ? (uint16_t)s.n : UINT16_MAX);
    buf_put(out, (const char *)&n, sizeof n);
    if (s.n >= UINT16_MAX) {
        uint64_t long_n = htobe64(s.n);
        buf_put(out, (const char *)&long_n, sizeof long_n);
    }
    buf_put(out, s.p, s.n < LEDGER_KEY_BYTES_MAX ? s.n : LEDGER_KEY_BYTES_MAX);
}

void chunk_row_key(const struct batch *b, const struct batch_row *r, struct buf *out)
{
    PRE(b->sealed);
    buf_reset(out);
    put_ordered(out, batch_hash_name(b, r->hash));
    put_ordered(out, batch_field(b, r));
    if (out->n > LEDGER_KEY_BYTES_MAX) out->n = LEDGER_KEY_BYTES_MAX;
}

bool ledger_names_next(struct slice *names, struct slice *name)
{
    uint32_t n;
    if (names->n < sizeof n) return false;
    memcpy(&n, names->p, sizeof n);
    n = be32toh(n);
    if (n > names->n - sizeof n) return false;
    *name = slice_of(names->p + sizeof n, n);
    *names = slice_of(name->p + n, names->n - sizeof n - n);
    return true;
}

bool ledger_names_have(struct slice names, struct slice name)
{
    for (struct slice one; ledger_names_next(&names, &one);)
        if (slice_eq(one, name)) return true;
    return false;
}

bool history_has(const struct history_read *h, const struct claim_gen *claim)
{
    if (claim->gen > h->gen) return false;
    for (uint32_t i = 0; i < h->gens_n; i++)
        if (h->gens[i].gen == claim->gen) return batch_id_same(&h->gens[i].id, &claim->id);
    return true;
}

void books_close(struct books *b)
{
    for (size_t i = 0; i < b->chunks_n; i++) {
        heap_free((void *)b->chunks[i].first_key.p);
        heap_free((void *)b->chunks[i].last_key.p);
        heap_free((void *)b->chunks[i].waiting.p);
    }
    heap_free(b->chunks);
    heap_free(b->counters);
    *b = (struct books){0};
}

static bool chunk_holds(const struct books_chunk *c, struct slice row)
{
    size_t first = row.n < c->first_key.n ? row.n : c->first_key.n;
    size_t last = row.n < c->last_key.n ? row.n : c->last_key.n;
    int after = memcmp(row.p, c->first_key.p, first), before = memcmp(row.p, c->last_key.p, last);
    if (after == 0) after = row.n < c->first_key.n ? -1 : 1;
    if (before == 0) before = row.n > c->last_key.n ? 1 : -1;
    return after > 0 && before < 0;
}

/* Only chunk_row_key can write a row's key, and it needs a batch: this makes one of this row alone. */
bool books_has(const struct books *b, const struct batch_id *id, struct slice key, struct slice field)
{
    struct batch one;
    struct buf row = {0};
    size_t short_hash;
    bool has = false;
    batch_init(&one, id);
    batch_add_row(&one, batch_add_hash(&one, key, 1), field, SLICE("0"));
    INVARIANT(batch_seal(&one, &short_hash));
    chunk_row_key(&one, &one.rows[0], &row);
    for (size_t i = 0; i < b->chunks_n && !has; i++)
        has = memcmp(&b->chunks[i].batch, id, sizeof *id) == 0 &&
              chunk_holds(&b->chunks[i], buf_slice(&row)) && !ledger_names_have(b->chunks[i].waiting, key);
    buf_free(&row);
    batch_close(&one);
    return has;
}
