/* mysql/merge_rows.c - a chunk's rows into the counter's table: upserts, or UPDATEs of rows that are there. A row that MySQL refuses
 * is found by bisection inside the transaction, whatever MySQL says, without savepoints: InnoDB undoes a failed statement by itself
 * and leaves the transaction open (after a code that is not known for it, tallyd asks), so the halves can be sent at once. (check
 * refuses tables of other engines.) The halves go in order, so rows are still locked in the order of their keys. */
#include "base/heap.h"
#include "base/slice.h"
#include "mysql/merge.h"

#include <stdio.h>

#define REASON_BYTES_MAX 300 /* tally_rejects.reason */

/* delta NULL: not counted. */
static void item_refuse(struct plan *p, uint32_t seq, const int64_t *delta, const char *reason)
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
    if (!num_parse(batch_value(b, r), &delta))
        return item_refuse(p, seq, NULL, "the value is not an integer");
    p->total = num_add(p->total, delta);
    if (counter == NULL) return item_refuse(p, seq, &delta, reason);
    enum row_fault fault = counter_row(counter, batch_hash_name(b, r->hash), batch_field(b, r), &row);
    if (fault != ROW_FITS) return item_refuse(p, seq, &delta, row_fault_text(fault));
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

/* By MySQL */
static void plan_refuse(struct plan *p, struct plan_item *i, const char *reason)
{
    i->refused = true;
    item_refuse(p, i->seq, &i->delta, reason);
}

/* Its row is not there */
static void plan_miss(struct plan *p, struct plan_item *i, bool drop)
{
    item_refuse(p, i->seq, &i->delta, ROW_MISSING);
    p->refused[p->refused_n - 1].dropped = drop;
    p->refused[p->refused_n - 1].missing = true;
    p->missing_n++;
    i->missing = true;
}

#define UPSERT_BYTES 400 /* of an upsert without its rows, with names as they mostly are */
#define ROW_BYTES 32     /* of a row in the upsert, apart from its key */
#define LOOKS 8          /* chunks, after one whose rows could not be updated at once */

struct witness { /* a row that MySQL took */
    struct buf key;
    int64_t delta;
    uint32_t count; /* in which of the counter's columns */
};

void witnesses_init(struct witnesses *w)
{
    pthread_mutex_init(&w->lock, NULL);
    map_init(&w->of);
}

void witnesses_close(struct witnesses *w)
{
    struct slice counter;
    void *value;
    for (size_t at = 0; map_next(&w->of, &at, &counter, &value);) {
        buf_free(&((struct witness *)value)->key);
        heap_free(value);
    }
    map_close(&w->of);
    pthread_mutex_destroy(&w->lock);
}

/* (!) A statement was refused. If that ended the transaction, what is sent next would be committed by itself, without a
 * ledger row. */
static enum verdict still_open(struct work *w, enum code_class class)
{
    struct slice cell;
    if (class == CODE_POISON) return GO_ON;
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "SELECT 1 FROM tally_ledger");
    merge_where(w);
    enum verdict v = merge_judge(w, db_query(w->db, buf_slice(&w->sql)));
    if (v != GO_ON) return v;
    return db_row(w->db, &cell, 1) ? GO_ON : TRY_AGAIN;
}

/* MySQL refused a statement of this row alone. */
static enum verdict row_refused(struct work *w, struct plan_item *i, enum code_class class)
{
    struct plan *p = &w->plan;
    char text[300];
    bool passes = class == CODE_FOREIGN && !i->foreign; /* perhaps */
    snprintf(text, sizeof text, "%s", db_text(w->db));
    enum verdict v = still_open(w, class);
    if (v != GO_ON) return v;
    p->by_value = p->by_value && class == CODE_POISON;
    p->foreign_n += passes;
    i->foreign = i->foreign || passes;
    if (!passes) plan_refuse(p, i, text);
    return GO_ON;
}

static bool makes_rows(const struct work *w)
{
    return w->counter->missing == MISSING_INSERT;
}

/* Is it to be written in this pass? */
static bool item_is_part(const struct work *w, const struct plan_item *i)
{
    return i->count == w->count && !i->missing;
}

/* The rows that are there, or not known to be missing, as a table. How many? */
static size_t rows_statement(struct work *w, size_t first, size_t n)
{
    size_t rows = 0;
    buf_reset(&w->rows);
    sql_rows_begin(&w->rows, &w->as);
    for (size_t i = first; i < first + n; i++) {
        const struct plan_item *item = &w->plan.items[i];
        if (!item_is_part(w, item)) continue;
        sql_rows_add(&w->rows, &w->forms, i, plan_key(&w->plan, item), item->delta, rows++ == 0);
    }
    return rows;
}

/* (!) Rows that are there are locked until the end, so that what is said of a row here holds when it is updated. */
static enum verdict work_rows_find(struct work *w, size_t first, size_t n)
{
    struct slice cell;
    uint64_t at;
    if (rows_statement(w, first, n) == 0) return GO_ON;
    buf_reset(&w->sql);
    sql_rows_find(&w->sql, &w->as, &w->forms, buf_slice(&w->rows));
    struct plan_item *one = &w->plan.items[first];
    bool fits = w->sql.n <= merge_packet_most(w);
    if (n == 1 && (one->too_big || !fits)) return GO_ON; /* its UPDATE is refused */
    enum code_class class = fits ? db_query(w->db, buf_slice(&w->sql)) : CODE_POISON;
    if (n == 1 && code_refuses(class)) { /* a text that is none in the column's set: not for its UPDATE */
        one->missing = true;
        return row_refused(w, one, class);
    }
    enum verdict v = code_refuses(class) ? still_open(w, class) : merge_judge(w, class);
    if (v == GO_ON && code_refuses(class)) v = work_rows_find(w, first, n / 2);
    if (v == GO_ON && code_refuses(class)) return work_rows_find(w, first + n / 2, n - n / 2);
    if (v != GO_ON) return v;
    for (size_t i = first; i < first + n; i++)
        if (w->plan.items[i].count == w->count) w->plan.items[i].missing = true;
    while (db_row(w->db, &cell, 1))
        if (num_parse_u64(cell, &at) && at >= first && at < first + n) w->plan.items[at].missing = false;
    for (size_t i = first; i < first + n; i++)
        if (w->plan.items[i].count == w->count && w->plan.items[i].missing) /* not what another pass missed */
            plan_miss(&w->plan, &w->plan.items[i], w->counter->missing == MISSING_DROP);
    return GO_ON;
}

static void upsert_statement(struct work *w, size_t first, size_t n)
{
    buf_reset(&w->sql);
    if (!makes_rows(w)) {
        if (rows_statement(w, first, n) > 0)
            sql_rows_update(&w->sql, &w->as, &w->forms, buf_slice(&w->rows), true);
        return;
    }
    bool any = false;
    sql_upsert_head(&w->sql, &w->as);
    for (size_t i = first; i < first + n; i++) {
        const struct plan_item *item = &w->plan.items[i];
        if (!item_is_part(w, item)) continue;
        sql_upsert_row(&w->sql, &w->as, &w->forms, plan_key(&w->plan, item), item->delta, !any);
        any = true;
    }
    if (any)
        sql_upsert_tail(&w->sql, &w->as, &w->forms, db_dialect(w->db));
    else
        buf_reset(&w->sql);
}

/* (!) A count with bounds, a CHECK or a trigger may take the sum though it does not take the negative delta, which an upsert would
 * insert. */
static enum verdict item_lower(struct work *w, struct plan_item *i)
{
    bool missing;
    enum code_class class = row_add(w->db, &w->as, &w->forms, plan_key(&w->plan, i), i->delta, &missing);
    return code_refuses(class) ? row_refused(w, i, class) : merge_judge(w, class);
}

static enum verdict upsert(struct work *w, size_t first, size_t n)
{
    struct plan_item *one = &w->plan.items[first];
    upsert_statement(w, first, n);
    bool fits = w->sql.n <= merge_packet_most(w);
    if (w->sql.n == 0) return GO_ON; /* none of them is of this pass, or there */
    if (n == 1 && (one->too_big || !fits)) {
        char text[120];
        one->too_big = true;
        snprintf(text, sizeof text, "the row does not fit max_allowed_packet = %llu",
                 (unsigned long long)db_packet_bytes(w->db));
        plan_refuse(&w->plan, one, text);
        return GO_ON;
    }
    enum code_class class = fits ? db_exec(w->db, buf_slice(&w->sql)) : CODE_POISON;
    if (n == 1 && code_refuses(class)) {
        if (!makes_rows(w) || one->delta >= 0) return row_refused(w, one, class);
        enum verdict v = still_open(w, class);
        return v == GO_ON ? item_lower(w, one) : v;
    }
    if (n == 1 && class == CODE_SIZE) { /* refused in the next try, on a new connection */
        one->too_big = true;
        db_close(w->db);
        return TRY_AGAIN;
    }
    if (!code_refuses(class)) return merge_judge(w, class);
    enum verdict v = still_open(w, class);
    if (v == GO_ON) v = upsert(w, first, n / 2);
    return v == GO_ON ? upsert(w, first + n / 2, n - n / 2) : v;
}

/* (!) One UPDATE that changes as many rows as it was given has found each and added to it once, since their key is unique. One that
 * changes fewer is taken back: a row is missing, two of them are one for the collation, or a delta is 0. */
static enum verdict update_all(struct work *w, size_t first, size_t n, bool *updated)
{
    size_t rows = rows_statement(w, first, n);
    *updated = rows == 0;
    enum verdict v = rows > 0 ? merge_run_literal(w, "SAVEPOINT tallyd") : GO_ON;
    if (v != GO_ON || rows == 0) return v;
    buf_reset(&w->sql);
    sql_rows_update(&w->sql, &w->as, &w->forms, buf_slice(&w->rows), false);
    if (w->sql.n > merge_packet_most(w)) return GO_ON;
    enum code_class class = db_exec(w->db, buf_slice(&w->sql));
    *updated = class == CODE_OK && db_affected(w->db) == rows;
    if (*updated) return GO_ON;
    w->shape->looks = LOOKS;
    if (code_refuses(class)) return still_open(w, class);
    return class == CODE_OK ? merge_run_literal(w, "ROLLBACK TO tallyd") : merge_judge(w, class);
}

/* Of a counter that makes no rows. */
static enum verdict update(struct work *w, size_t first, size_t n)
{
    enum verdict v = GO_ON;
    bool updated = false;
    if (n > 1 && w->shape->looks == 0) v = update_all(w, first, n, &updated);
    if (v == GO_ON && !updated) v = work_rows_find(w, first, n);
    return v == GO_ON && !updated ? upsert(w, first, n) : v;
}

static bool is_lowered(const struct work *w, const struct plan_item *i)
{
    return makes_rows(w) && i->count == w->count && w->forms.bounded && i->delta < 0 && !i->too_big;
}

static uint32_t item_hash(const struct work *w, size_t item)
{
    return w->chunk->batch->rows[w->chunk->first + w->plan.items[item].seq].hash;
}

/* How many rows from first on fill one statement? At least one. */
static size_t upsert_rows(const struct work *w, size_t first)
{
    const struct plan *p = &w->plan;
    size_t n = 0, most = merge_statement_most(w);
    for (size_t bytes = UPSERT_BYTES; first + n < p->items_n; n++) {
        if (n > 0 && is_lowered(w, &p->items[first + n])) break;
        if (w->locks.by_hash && item_hash(w, first + n) != item_hash(w, first)) break;
        bytes += p->items[first + n].key_n + ROW_BYTES;
        if (n > 0 && bytes > most) break;
    }
    return n;
}

static enum verdict upsert_pass(struct work *w)
{
    enum verdict v = GO_ON;
    for (size_t first = 0, n; v == GO_ON && first < w->plan.items_n; first += n) {
        bool lowered = is_lowered(w, &w->plan.items[first]);
        n = lowered ? 1 : upsert_rows(w, first);
        w->locks.at = item_hash(w, first);
        v = lowered         ? item_lower(w, &w->plan.items[first])
            : makes_rows(w) ? upsert(w, first, n)
                            : update(w, first, n);
    }
    return v;
}

/* False: MySQL has taken none yet. */
static bool witness_statement(struct work *w)
{
    struct witnesses *all = w->merger->witnesses;
    pthread_mutex_lock(&all->lock);
    const struct witness *one = map_get(&all->of, w->counter->name);
    buf_reset(&w->rows);
    if (one != NULL) {
        const struct counter as = counter_of_count(w->counter, one->count);
        struct slice key = buf_slice(&one->key);
        if (makes_rows(w)) {
            sql_upsert_head(&w->rows, &as);
            sql_upsert_row(&w->rows, &as, &w->forms, key, one->delta, true);
            sql_upsert_tail(&w->rows, &as, &w->forms, db_dialect(w->db));
        } else {
            sql_update_row(&w->rows, &as, &w->forms, key, one->delta);
        }
    }
    pthread_mutex_unlock(&all->lock);
    return one != NULL;
}

/* Does MySQL take the row that it took last? It is taken back. */
static enum verdict witness_ask(struct work *w, bool *takes)
{
    *takes = false;
    if (!witness_statement(w)) return GO_ON;
    enum verdict v = merge_run_literal(w, "SAVEPOINT witness");
    if (v != GO_ON) return v;
    enum code_class class = db_exec(w->db, buf_slice(&w->rows));
    *takes = class == CODE_OK && db_affected(w->db) > 0;
    v = code_refuses(class) ? still_open(w, class) : merge_judge(w, class);
    return v == GO_ON ? merge_run_literal(w, "ROLLBACK TO witness") : v;
}

/* (!) A table of which MySQL takes no row of this chunk may take none at all, and then no row is to blame. So rows are rejects only
 * if it takes another one in this transaction, during which nobody alters the table. */
static enum verdict refusals_judge(struct work *w)
{
    const struct plan *p = &w->plan;
    size_t refused = p->refused_n - p->refused_first - p->missing_n;
    bool takes = false;
    if (p->foreign_n > 0) return TRY_AGAIN;
    if (refused == 0) return GO_ON;
    if (refused < p->items_n || (p->by_value && (refused == 1 || w->chunk->values_only))) return GO_ON;
    enum verdict v = witness_ask(w, &takes);
    w->merger->shapes_of = 0; /* the table may have been altered */
    if (v != GO_ON || takes) return v;
    const struct refusal *last = &p->refused[p->refused_n - 1];
    char text[300];
    snprintf(text, sizeof text, "MySQL takes none of %zu rows for " SLICE_FMT ", the last for: %.*s", refused,
             SLICE_ARG(w->counter->table), (int)last->reason_n, p->reasons.p + last->reason_at);
    w->chunk->by_value = p->by_value;
    return merge_ended(w, MERGE_REFUSED, text);
}

enum verdict rows_merge(struct work *w)
{
    w->locks.in_rows = true;
    enum verdict v = GO_ON;
    for (w->count = 0; v == GO_ON && w->count < counter_counts_n(w->counter); w->count++) {
        w->as = counter_of_count(w->counter, w->count);
        v = upsert_pass(w);
    }
    w->locks.in_rows = false;
    return v == GO_ON ? refusals_judge(w) : v;
}

void rows_merged(struct work *w)
{
    if (w->shape->looks > 0) w->shape->looks = w->plan.missing_n > 0 ? LOOKS : w->shape->looks - 1;
    const struct plan *p = &w->plan;
    size_t i = p->items_n;
    while (i > 0 && (p->items[i - 1].refused || p->items[i - 1].missing))
        i--;
    if (i == 0) return;
    const struct plan_item *last = &p->items[i - 1];
    struct witnesses *all = w->merger->witnesses;
    pthread_mutex_lock(&all->lock);
    struct witness *one = map_get(&all->of, w->counter->name);
    if (one == NULL) map_put(&all->of, w->counter->name, one = heap_zalloc(sizeof *one));
    buf_reset(&one->key);
    buf_put_slice(&one->key, plan_key(p, last));
    one->delta = last->delta;
    one->count = last->count;
    pthread_mutex_unlock(&all->lock);
}
