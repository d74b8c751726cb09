#include "series/books.h"
#include "base/heap.h"

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
