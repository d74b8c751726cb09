/* mysql/plan.c - see plan.h. */
#include "mysql/plan.h"

#include "base/heap.h"
#include "base/slice.h"

#define REASON_BYTES_MAX 300 /* tally_rejects.reason */

/* delta NULL: not counted. */
static void refuse(struct plan *p, uint32_t seq, const int64_t *delta, const char *reason)
{
    char shown[REASON_BYTES_MAX];
    slice_show(slice_str(reason), sizeof shown - 4, shown, sizeof shown);
    PRE(p->refused_n < p->chunk->rows_n);
    p->refused[p->refused_n++] = (struct refusal){.seq = seq,
                                                  .counted = delta != NULL,
                                                  .delta = delta != NULL ? *delta : 0,
                                                  .reason_at = (uint32_t)p->reasons.n,
                                                  .reason_n = (uint32_t)strlen(shown)};
    buf_put_slice(&p->reasons, slice_str(shown));
    p->rejected = num_add(p->rejected, delta != NULL ? *delta : 0);
}

static void plan_row(struct plan *p, uint32_t seq, const struct counter *counter, const struct columns *forms,
                     const char *reason)
{
    const struct batch *b = p->chunk->batch;
    const struct batch_row *r = &b->rows[p->chunk->first + seq];
    struct table_row row;
    int64_t delta = 0;
    p->rows_n++;
    if (!num_parse(batch_value(b, r), &delta)) return refuse(p, seq, NULL, "the value is not an integer");
    p->total = num_add(p->total, delta);
    if (counter == NULL) return refuse(p, seq, &delta, reason);
    enum row_fault fault = counter_row(counter, batch_hash_name(b, r->hash), batch_field(b, r), &row);
    if (fault != ROW_FITS) return refuse(p, seq, &delta, row_fault_text(fault));
    struct plan_item *i = &p->items[p->items_n++];
    *i = (struct plan_item){.key_at = (uint32_t)p->keys.n,
                            .seq = seq,
                            .count = counter_count_of(counter, batch_field(b, r)),
                            .delta = delta};
    sql_key(&p->keys, counter, forms, &row);
    i->key_n = (uint32_t)(p->keys.n - i->key_at);
}

void plan_make(struct plan *p, const struct chunk *c, const struct counter *counter,
               const struct columns *forms, const char *reason, const uint8_t *left_out)
{
    PRE(c->batch->sealed && c->first + c->rows_n <= c->batch->rows_n);
    *p = (struct plan){.chunk = c};
    p->items = heap_zalloc((c->rows_n + 1) * sizeof *p->items);
    p->refused = heap_zalloc((c->rows_n + 1) * sizeof *p->refused);
    for (size_t i = 0; i < c->rows_n; i++)
        if (left_out == NULL || left_out[c->batch->rows[c->first + i].hash] == 0)
            plan_row(p, (uint32_t)i, counter, forms, reason);
    p->refused_first = p->refused_n;
    p->reasons_first = p->reasons.n;
    p->rejected_first = p->rejected;
    plan_again(p);
    POST(p->items_n + p->refused_n == p->rows_n);
}

void plan_close(struct plan *p)
{
    heap_free(p->items);
    heap_free(p->refused);
    buf_free(&p->keys);
    buf_free(&p->reasons);
}

void plan_again(struct plan *p)
{
    p->refused_n = p->refused_first;
    p->missing_n = p->foreign_n = 0;
    p->by_value = true;
    for (size_t i = 0; i < p->items_n; i++)
        p->items[i].missing = p->items[i].refused = false;
    p->reasons.n = p->reasons_first;
    p->rejected = p->rejected_first;
}

void plan_refuse(struct plan *p, struct plan_item *i, const char *reason)
{
    i->refused = true;
    refuse(p, i->seq, &i->delta, reason);
}

void plan_miss(struct plan *p, struct plan_item *i, bool drop)
{
    refuse(p, i->seq, &i->delta, ROW_MISSING);
    p->refused[p->refused_n - 1].dropped = drop;
    p->refused[p->refused_n - 1].missing = true;
    p->missing_n++;
    i->missing = true;
}
