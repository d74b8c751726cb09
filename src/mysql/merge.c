/* mysql/merge.c - the transaction of one chunk:
 *   START TRANSACTION; INSERT ledger row; upserts (or UPDATEs of rows that are there); INSERT rejects; UPDATE the counter's books; COMMIT
 * Each answer of MySQL is judged: go on, the whole transaction again, or end with an outcome. A row that MySQL refuses
 * is found by bisection inside the transaction, whatever MySQL says, without savepoints: InnoDB undoes a failed statement
 * by itself and leaves the transaction open (after a code that is not known for it, tallyd asks), so the halves can be
 * sent at once. (check refuses tables of other engines.) The halves
 * go in order, so rows are still locked in the order of their keys. The counter's books come last: all chunks of a
 * counter want that row, so it is locked only during the COMMIT. */
#include "mysql/merge.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/num.h"
#include "base/rand.h"
#include "base/stats.h"
#include "mysql/plan.h"

#include <stdio.h>
#include <time.h>

#define STATEMENT_MIN 4096    /* the merger's bound is never halved below */
#define STATEMENT_LARGE 16384 /* a link lost right after this much was sent may mean that it was too much */
#define PACKET_MARGIN 64      /* a packet's head, and a little more */
#define HEAD_BYTES 400        /* of an upsert without its rows, with names as they mostly are */
#define ROW_BYTES 32          /* of a row in the upsert, apart from its key */
#define LOOKS 8               /* chunks, after one whose rows could not be updated at once */
/* It is there already when tally_ledger was dropped, and the batch is merged once more. */
#define REJECTS_TAIL " ON DUPLICATE KEY UPDATE seq = tally_rejects.seq"

enum verdict {
    GO_ON,
    TRY_AGAIN, /* ROLLBACK, on a new connection if it was lost, then the whole transaction */
    ENDED,     /* outcome and text are in the chunk */
};

struct shape { /* of a counter */
    struct columns forms;
    uint32_t looks; /* so many more chunks are looked through first */
};

struct witness { /* a row that MySQL took */
    struct buf key;
    int64_t delta;
    uint32_t count; /* in which of the counter's columns */
};

struct work {
    struct merger *merger;
    struct db *db;
    struct chunk *chunk;
    const struct counter *counter; /* NULL: every row goes to the rejects */
    const char *reject_reason;
    struct columns forms;
    struct shape *shape; /* the merger's, good for one try */
    struct plan plan;
    uint32_t count;    /* the pass: which of the counter's columns */
    struct counter as; /* the counter with it */
    struct buf sql, rows;
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

void merger_init(struct merger *m, struct db *db, struct witnesses *witnesses)
{
    *m = (struct merger){.db = db, .witnesses = witnesses, .statement_max = MERGE_STATEMENT_MAX};
    map_init(&m->shapes);
}

static void shapes_forget(struct merger *m)
{
    struct slice key;
    void *shape;
    for (size_t at = 0; map_next(&m->shapes, &at, &key, &shape);)
        heap_free(shape);
    map_close(&m->shapes);
    map_init(&m->shapes);
}

void merger_close(struct merger *m)
{
    shapes_forget(m);
    map_close(&m->shapes);
}

static enum verdict ended(struct work *w, enum merge_outcome outcome, const char *text)
{
    w->chunk->outcome = outcome;
    snprintf(w->chunk->text, sizeof w->chunk->text, "%s", text);
    return ENDED;
}

static bool statement_halve(struct merger *m)
{
    if (m->statement_max <= STATEMENT_MIN) return false;
    m->statement_max /= 2;
    return true;
}

/* What the answer to a statement means. Upserts look for refused rows first, the ledger's INSERT for 1062. */
static enum verdict judge(struct work *w, enum code_class class)
{
    switch (class) {
    case CODE_OK:
        return GO_ON;
    case CODE_AGAIN:
    case CODE_FOREIGN:
        return TRY_AGAIN;
    case CODE_LINK:
        if (w->sql.n >= STATEMENT_LARGE) (void)statement_halve(w->merger);
        return TRY_AGAIN;
    case CODE_SIZE:
        db_close(w->db); /* one of the servers hangs up after 1153 */
        return statement_halve(w->merger) ? TRY_AGAIN : ended(w, MERGE_HELD, db_text(w->db));
    case CODE_WAIT:
    case CODE_AWAY:
        return ended(w, MERGE_DOWN, db_text(w->db));
    case CODE_DUPLICATE:
    case CODE_POISON:
    case CODE_OPERATOR:
        break;
    }
    w->merger->shapes_of = 0; /* the table may have been altered */
    char text[300];
    int n = 0; /* of the statement's text, before its columns */
    while ((size_t)n < w->sql.n && n < 60 && w->sql.p[n] != '(')
        n++;
    snprintf(text, sizeof text, "%.*s%s%s", n, w->sql.p, n > 0 ? ": " : "", db_text(w->db));
    return ended(w, MERGE_HELD, text);
}

static size_t packet_most(const struct work *w)
{
    uint64_t bytes = db_packet_bytes(w->db);
    return bytes > PACKET_MARGIN ? (size_t)bytes - PACKET_MARGIN : 0;
}

/* How many bytes to fill a statement of many rows with: well below the packet's limit. */
static size_t statement_most(const struct work *w)
{
    size_t most = packet_most(w) / 4 * 3;
    return most < w->merger->statement_max ? most : w->merger->statement_max;
}

/* A statement that cannot be split. One that is too large for the server is not sent: the refusal would look like a
 * lost link. */
static enum verdict run(struct work *w)
{
    if (w->sql.n <= packet_most(w)) return judge(w, db_exec(w->db, buf_slice(&w->sql)));
    char text[200];
    snprintf(text, sizeof text, "a statement of %zu bytes does not fit max_allowed_packet = %llu; raise it",
             w->sql.n, (unsigned long long)db_packet_bytes(w->db));
    return ended(w, MERGE_HELD, text);
}

static enum verdict run_literal(struct work *w, const char *statement)
{
    buf_reset(&w->sql);
    buf_put_slice(&w->sql, slice_str(statement));
    return run(w);
}

static void ledger_statement(struct work *w)
{
    const struct chunk *c = w->chunk;
    const struct batch *b = c->batch;
    struct buf key = {0};
    uint8_t digest[16];
    buf_reset(&w->sql);
    BUF_LIT(&w->sql,
            "INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key,"
            " digest, rows_merged, total, merged_at) VALUES (");
    sql_id(&w->sql, &c->epoch.realm);
    BUF_LIT(&w->sql, ", ");
    sql_id(&w->sql, &b->id);
    buf_printf(&w->sql, ", %u, %u, ", c->index, c->chunks);
    sql_hex(&w->sql, buf_slice(&b->counter_name));
    buf_printf(&w->sql, ", %llu, ", (unsigned long long)b->gen);
    if (c->rows_n > 0) chunk_row_key(b, &b->rows[c->first], &key);
    sql_hex(&w->sql, buf_slice(&key));
    BUF_LIT(&w->sql, ", ");
    if (c->rows_n > 0) chunk_row_key(b, &b->rows[c->first + c->rows_n - 1], &key);
    sql_hex(&w->sql, buf_slice(&key));
    BUF_LIT(&w->sql, ", ");
    chunk_digest(c, digest);
    sql_hex(&w->sql, slice_of((char *)digest, sizeof digest));
    buf_printf(&w->sql, ", %zu, %lld, UTC_TIMESTAMP(3))", c->rows_n - w->plan.refused_n,
               (long long)w->plan.total);
    buf_free(&key);
}

/* (!) When a run discards, each ledger row was touched within that run's life: pruning must not overtake a run that
 * scanned before (sync/run.c). Five minutes are little for ledger.keep, which is an hour at least. */
static enum verdict ledger_refresh(struct work *w)
{
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "UPDATE tally_ledger SET merged_at = UTC_TIMESTAMP(3) WHERE batch = ");
    sql_id(&w->sql, &w->chunk->batch->id);
    buf_printf(&w->sql, " AND chunk = %u AND merged_at < UTC_TIMESTAMP(3) - INTERVAL 5 MINUTE",
               w->chunk->index);
    return run(w);
}

/* Locks the row, so that pruning cannot come between this read and the refresh. */
static enum verdict ledger_select(struct work *w)
{
    enum verdict v = run_literal(w, "ROLLBACK");
    if (v == GO_ON) v = run_literal(w, "START TRANSACTION");
    if (v != GO_ON) return v;
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "SELECT digest, chunks, rows_merged FROM tally_ledger WHERE batch = ");
    sql_id(&w->sql, &w->chunk->batch->id);
    buf_printf(&w->sql, " AND chunk = %u FOR UPDATE", w->chunk->index);
    return judge(w, db_query(w->db, buf_slice(&w->sql)));
}

/* 1062: is it the same chunk? */
static enum verdict ledger_compare(struct work *w)
{
    struct slice cell[3];
    uint8_t digest[16];
    int64_t chunks, rows = 0;
    enum verdict v = ledger_select(w);
    if (v != GO_ON) return v;
    if (!db_row(w->db, cell, 3)) return TRY_AGAIN; /* pruned since: not_after_ms looks to that */
    chunk_digest(w->chunk, digest);
    bool same = slice_eq(cell[0], slice_of((char *)digest, sizeof digest)) && num_parse(cell[1], &chunks) &&
                chunks == w->chunk->chunks && num_parse(cell[2], &rows);
    if (same) v = ledger_refresh(w);
    if (v == GO_ON) v = run_literal(w, "COMMIT");
    if (v != GO_ON) return v;
    if (!same)
        return ended(w, MERGE_CONFLICT,
                     "the ledger has this batch and chunk with other rows; see tally_ledger");
    w->chunk->rows_merged = (uint32_t)rows;
    w->chunk->rows_rejected = (uint32_t)(w->chunk->rows_n - (size_t)rows);
    return ended(w, MERGE_ALREADY, "");
}

static enum verdict ledger_insert(struct work *w)
{
    ledger_statement(w);
    if (w->sql.n > packet_most(w)) return run(w);
    enum code_class class = db_exec(w->db, buf_slice(&w->sql));
    if (class == CODE_DUPLICATE) return ledger_compare(w);
    enum verdict v = judge(w, class);
    if (v != GO_ON || db_affected(w->db) == 1) return v;
    return ended(w, MERGE_HELD,
                 "the ledger did not take its row; is tally_ledger a table of tallyd's? Run tallyd check");
}

static enum verdict upsert_too_big(struct work *w, struct plan_item *i)
{
    char text[120];
    i->too_big = true;
    snprintf(text, sizeof text, "the row does not fit max_allowed_packet = %llu",
             (unsigned long long)db_packet_bytes(w->db));
    plan_refuse(&w->plan, i, text);
    return GO_ON;
}

/* (!) A statement was refused. If that ended the transaction, what is sent next would be committed by itself, without a
 * ledger row. */
static enum verdict still_open(struct work *w, enum code_class class)
{
    struct slice cell;
    if (class == CODE_POISON) return GO_ON;
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "SELECT 1 FROM tally_ledger WHERE batch = ");
    sql_id(&w->sql, &w->chunk->batch->id);
    buf_printf(&w->sql, " AND chunk = %u", w->chunk->index);
    enum verdict v = judge(w, db_query(w->db, buf_slice(&w->sql)));
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
static bool is_part(const struct work *w, const struct plan_item *i)
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
        if (!is_part(w, item)) continue;
        sql_rows_add(&w->rows, &w->forms, i, plan_key(&w->plan, item), item->delta, rows++ == 0);
    }
    return rows;
}

/* (!) Rows that are there are locked until the end, so that what is said of a row here holds when it is updated. */
static enum verdict rows_find(struct work *w, size_t first, size_t n)
{
    struct slice cell;
    uint64_t at;
    if (rows_statement(w, first, n) == 0) return GO_ON;
    buf_reset(&w->sql);
    sql_rows_find(&w->sql, &w->as, &w->forms, buf_slice(&w->rows));
    struct plan_item *one = &w->plan.items[first];
    bool fits = w->sql.n <= packet_most(w);
    if (n == 1 && (one->too_big || !fits)) return GO_ON; /* its UPDATE is refused */
    enum code_class class = fits ? db_query(w->db, buf_slice(&w->sql)) : CODE_POISON;
    if (n == 1 && code_refuses(class)) { /* a text that is none in the column's set: not for its UPDATE */
        one->missing = true;
        return row_refused(w, one, class);
    }
    enum verdict v = code_refuses(class) ? still_open(w, class) : judge(w, class);
    if (v == GO_ON && code_refuses(class)) v = rows_find(w, first, n / 2);
    if (v == GO_ON && code_refuses(class)) return rows_find(w, first + n / 2, n - n / 2);
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
        if (!is_part(w, item)) continue;
        sql_upsert_row(&w->sql, &w->as, &w->forms, plan_key(&w->plan, item), item->delta, !any);
        any = true;
    }
    if (any)
        sql_upsert_tail(&w->sql, &w->as, &w->forms, db_dialect(w->db));
    else
        buf_reset(&w->sql);
}

static enum verdict upsert(struct work *w, size_t first, size_t n)
{
    struct plan_item *one = &w->plan.items[first];
    upsert_statement(w, first, n);
    bool fits = w->sql.n <= packet_most(w);
    if (w->sql.n == 0) return GO_ON; /* none of them is of this pass, or there */
    if (n == 1 && (one->too_big || !fits)) return upsert_too_big(w, one);
    enum code_class class = fits ? db_exec(w->db, buf_slice(&w->sql)) : CODE_POISON;
    if (n == 1 && code_refuses(class)) return row_refused(w, one, class);
    if (n == 1 && class == CODE_SIZE) { /* refused in the next try, on a new connection */
        one->too_big = true;
        db_close(w->db);
        return TRY_AGAIN;
    }
    if (!code_refuses(class)) return judge(w, class);
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
    enum verdict v = rows > 0 ? run_literal(w, "SAVEPOINT tallyd") : GO_ON;
    if (v != GO_ON || rows == 0) return v;
    buf_reset(&w->sql);
    sql_rows_update(&w->sql, &w->as, &w->forms, buf_slice(&w->rows), false);
    if (w->sql.n > packet_most(w)) return GO_ON;
    enum code_class class = db_exec(w->db, buf_slice(&w->sql));
    *updated = class == CODE_OK && db_affected(w->db) == rows;
    if (*updated) return GO_ON;
    w->shape->looks = LOOKS;
    if (code_refuses(class)) return still_open(w, class);
    return class == CODE_OK ? run_literal(w, "ROLLBACK TO tallyd") : judge(w, class);
}

/* Of a counter that makes no rows. */
static enum verdict update(struct work *w, size_t first, size_t n)
{
    enum verdict v = GO_ON;
    bool updated = false;
    if (n > 1 && w->shape->looks == 0) v = update_all(w, first, n, &updated);
    if (v == GO_ON && !updated) v = rows_find(w, first, n);
    return v == GO_ON && !updated ? upsert(w, first, n) : v;
}

static bool is_lowered(const struct work *w, const struct plan_item *i)
{
    return makes_rows(w) && i->count == w->count && w->forms.bounded && i->delta < 0 && !i->too_big;
}

/* (!) A count with bounds may take the sum though it does not take the negative delta, which an upsert would insert. */
static enum verdict lower(struct work *w, struct plan_item *i)
{
    bool missing;
    enum code_class class = row_add(w->db, &w->as, &w->forms, plan_key(&w->plan, i), i->delta, &missing);
    return code_refuses(class) ? row_refused(w, i, class) : judge(w, class);
}

/* How many rows from first on fill one statement? At least one. */
static size_t upsert_rows(const struct work *w, size_t first)
{
    const struct plan *p = &w->plan;
    size_t n = 0, most = statement_most(w);
    for (size_t bytes = HEAD_BYTES; first + n < p->items_n; n++) {
        if (n > 0 && is_lowered(w, &p->items[first + n])) break;
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
        v = lowered         ? lower(w, &w->plan.items[first])
            : makes_rows(w) ? upsert(w, first, n)
                            : update(w, first, n);
    }
    return v;
}

static enum verdict upsert_all(struct work *w)
{
    enum verdict v = GO_ON;
    for (w->count = 0; v == GO_ON && w->count < counter_counts_n(w->counter); w->count++) {
        w->as = counter_of_count(w->counter, w->count);
        v = upsert_pass(w);
    }
    return v;
}

static void witness_put(struct witnesses *all, struct slice counter, const struct plan *p,
                        const struct plan_item *i)
{
    pthread_mutex_lock(&all->lock);
    struct witness *one = map_get(&all->of, counter);
    if (one == NULL) map_put(&all->of, counter, one = heap_zalloc(sizeof *one));
    buf_reset(&one->key);
    buf_put_slice(&one->key, plan_key(p, i));
    one->delta = i->delta;
    one->count = i->count;
    pthread_mutex_unlock(&all->lock);
}

static void witness_note(struct work *w)
{
    const struct plan *p = &w->plan;
    size_t i = p->items_n;
    while (i > 0 && (p->items[i - 1].refused || p->items[i - 1].missing))
        i--;
    if (i > 0) witness_put(w->merger->witnesses, w->counter->name, p, &p->items[i - 1]);
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
    enum verdict v = run_literal(w, "SAVEPOINT witness");
    if (v != GO_ON) return v;
    enum code_class class = db_exec(w->db, buf_slice(&w->rows));
    *takes = class == CODE_OK && db_affected(w->db) > 0;
    v = code_refuses(class) ? still_open(w, class) : judge(w, class);
    return v == GO_ON ? run_literal(w, "ROLLBACK TO witness") : v;
}

static enum verdict refused_whole(struct work *w, size_t rows)
{
    const struct plan *p = &w->plan;
    const struct refusal *last = &p->refused[p->refused_n - 1];
    char text[300];
    snprintf(text, sizeof text, "MySQL takes none of %zu rows for " SLICE_FMT ", the last for: %.*s", rows,
             SLICE_ARG(w->counter->table), (int)last->reason_n, p->reasons.p + last->reason_at);
    w->chunk->by_value = p->by_value;
    return ended(w, MERGE_REFUSED, text);
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
    return v != GO_ON || takes ? v : refused_whole(w, refused);
}

static void reject_row(struct work *w, const struct refusal *r)
{
    const struct batch *b = w->chunk->batch;
    const struct batch_row *row = &b->rows[w->chunk->first + r->seq];
    struct buf *sql = &w->sql;
    BUF_LIT(sql, "(");
    sql_id(sql, &w->chunk->epoch.realm);
    BUF_LIT(sql, ",");
    sql_id(sql, &b->id);
    buf_printf(sql, ",%u,%u,", w->chunk->index, r->seq);
    sql_hex(sql, buf_slice(&b->counter_name));
    BUF_LIT(sql, ",");
    sql_hex(sql, batch_hash_name(b, row->hash));
    BUF_LIT(sql, ",");
    sql_hex(sql, batch_field(b, row));
    BUF_LIT(sql, ",");
    sql_hex(sql, batch_value(b, row));
    buf_printf(sql, ",%d,", r->counted);
    sql_hex(sql, slice_of(w->plan.reasons.p + r->reason_at, r->reason_n));
    BUF_LIT(sql, ",UTC_TIMESTAMP(3))");
}

static enum verdict rejects_insert(struct work *w)
{
    const struct plan *p = &w->plan;
    enum verdict v = GO_ON;
    for (size_t i = 0; v == GO_ON && i < p->refused_n;) {
        if (p->refused[i].dropped) {
            i++;
            continue;
        }
        buf_reset(&w->sql);
        BUF_LIT(&w->sql, "INSERT INTO tally_rejects (realm, batch, chunk, seq, counter, pending_hash, field,"
                         " delta, counted, reason, rejected_at) VALUES ");
        size_t kept = w->sql.n;
        do {
            if (w->sql.n > kept) BUF_LIT(&w->sql, ",");
            size_t before = w->sql.n;
            reject_row(w, &p->refused[i]);
            bool full = w->sql.n + sizeof REJECTS_TAIL > statement_most(w);
            if (full && before > kept) { /* this row begins the next statement */
                w->sql.n = before - 1;
                break;
            }
        } while (++i < p->refused_n && !p->refused[i].dropped);
        BUF_LIT(&w->sql, REJECTS_TAIL);
        v = run(w);
    }
    return v;
}

/* The ledger row was inserted before MySQL refused rows. */
static enum verdict ledger_correct(struct work *w)
{
    const struct plan *p = &w->plan;
    if (p->refused_n == p->refused_first) return GO_ON;
    buf_reset(&w->sql);
    buf_printf(&w->sql,
               "UPDATE tally_ledger SET rows_merged = %zu WHERE batch = ", w->chunk->rows_n - p->refused_n);
    sql_id(&w->sql, &w->chunk->batch->id);
    buf_printf(&w->sql, " AND chunk = %u", w->chunk->index);
    return run(w);
}

/* (!) A tallyd that finds another primary takes the next epoch, and writes it into this row: without it the chunk is
 * not ours. */
static enum verdict books_add(struct work *w)
{
    const struct epoch *epoch = &w->chunk->epoch;
    buf_reset(&w->sql);
    sql_counter_add(&w->sql, buf_slice(&w->chunk->batch->counter_name), &epoch->realm,
                    w->plan.total - w->plan.rejected, w->plan.rejected);
    BUF_LIT(&w->sql, " AND epoch = ");
    sql_id(&w->sql, &epoch->id);
    enum verdict v = run(w);
    if (v != GO_ON || db_affected(w->db) == 1) return v;
    return ended(w, MERGE_STALE, "the epoch is over: another tallyd has found another primary");
}

static void rejected_add(struct chunk *c, uint32_t hash, uint32_t rows)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < c->rejected_n; i++)
        if (c->rejected[i].rows < c->rejected[least].rows) least = i;
    if (c->rejected_n < CHUNK_REJECTED_MAX)
        least = c->rejected_n++;
    else if (c->rejected[least].rows >= rows)
        return;
    c->rejected[least].hash = hash;
    c->rejected[least].rows = rows;
}

/* Of which hashes are its rejects, and why? */
static void rejects_tell(struct work *w)
{
    const struct plan *p = &w->plan;
    struct chunk *c = w->chunk;
    c->text[0] = 0;
    c->rejected_n = 0;
    if (w->counter == NULL || p->refused_n == p->missing_n) return;
    uint32_t *rows = heap_zalloc(c->batch->hashes_n * sizeof *rows);
    for (size_t i = 0; i < p->refused_n; i++) {
        const struct refusal *r = &p->refused[i];
        if (r->missing) continue;
        rows[c->batch->rows[c->first + r->seq].hash]++;
        if (c->text[0] == 0)
            snprintf(c->text, sizeof c->text, "%.*s", (int)r->reason_n, p->reasons.p + r->reason_at);
    }
    for (size_t i = 0; i < c->batch->hashes_n; i++)
        if (rows[i] > 0) rejected_add(c, (uint32_t)i, rows[i]);
    heap_free(rows);
}

static enum verdict commit(struct work *w)
{
    CRASH(merge_before_commit);
    enum verdict v = run_literal(w, "COMMIT");
    if (v != GO_ON) return v;
    CRASH(merge_after_commit);
    if (w->counter != NULL && w->shape->looks > 0)
        w->shape->looks = w->plan.missing_n > 0 ? LOOKS : w->shape->looks - 1;
    w->chunk->rows_rejected = (uint32_t)w->plan.refused_n;
    w->chunk->rows_merged = (uint32_t)(w->chunk->rows_n - w->plan.refused_n);
    rejects_tell(w);
    if (w->counter != NULL) witness_note(w);
    w->chunk->outcome = MERGE_DONE;
    return ENDED;
}

static enum verdict transaction(struct work *w)
{
    plan_again(&w->plan);
    enum verdict v = run_literal(w, "START TRANSACTION");
    if (v == GO_ON) v = ledger_insert(w);
    if (v == GO_ON) CRASH(merge_after_ledger);
    if (v == GO_ON && w->counter != NULL) v = upsert_all(w);
    if (v == GO_ON && w->counter != NULL) v = refusals_judge(w);
    if (v == GO_ON) v = rejects_insert(w);
    if (v == GO_ON) v = ledger_correct(w);
    if (v == GO_ON) v = books_add(w);
    if (v == GO_ON) v = commit(w);
    POST(v != GO_ON);
    return v;
}

/* The forms of the counter's columns, asked once a connection. */
static enum verdict forms_read(struct work *w)
{
    struct merger *m = w->merger;
    struct columns *out = &w->forms;
    if (m->shapes_of != db_opened(m->db)) shapes_forget(m);
    m->shapes_of = db_opened(m->db);
    w->shape = map_get(&m->shapes, w->counter->name);
    if (w->shape == NULL) {
        enum verdict v = judge(w, columns_read(m->db, w->counter, out));
        if (v != GO_ON) return v;
        if (!columns_fit(out, w->counter)) {
            m->shapes_of = 0; /* read again next time: it may be corrected by then */
            return ended(w, MERGE_HELD,
                         "the table or its key columns do not fit the counter; run tallyd check");
        }
        w->shape = heap_alloc(sizeof *w->shape);
        *w->shape = (struct shape){.forms = *out};
        map_put(&m->shapes, w->counter->name, w->shape);
    }
    *out = w->shape->forms;
    return GO_ON;
}

static enum verdict plan_once(struct work *w)
{
    enum verdict v = w->counter != NULL ? forms_read(w) : GO_ON;
    if (v != GO_ON || w->plan.chunk != NULL) return v;
    plan_make(&w->plan, w->chunk, w->counter, &w->forms, w->reject_reason);
    return GO_ON;
}

static void retry_count(const struct db *db)
{
    STAT_ADD(chunks_retried, 1);
    enum code_class class = code_class(db_code(db));
    if (class == CODE_AGAIN) STAT_ADD(chunks_retried_deadlock, 1);
    if (class == CODE_LINK) STAT_ADD(chunks_retried_link, 1);
    if (class == CODE_SIZE) STAT_ADD(chunks_retried_size, 1);
}

/* When a connection cannot be opened, the chunk ends for now: the pool learns when MySQL is back. So does one to
 * another server, whose ledger the gate has not seen. */
static bool connected(struct work *w)
{
    if (db_is_open(w->db)) return true;
    if (db_open(w->db) == CODE_OK && !db_moved(w->db)) return true;
    (void)ended(w, MERGE_DOWN, db_is_open(w->db) ? "MySQL moved to another server" : db_text(w->db));
    return false;
}

static enum verdict try_once(struct work *w)
{
    if (age_ms() > w->chunk->not_after_ms)
        return ended(w, MERGE_TOO_OLD, "too old: the ledger may be pruned by now");
    w->sql.n = 0;
    if (!connected(w)) return ENDED;
    enum verdict v = plan_once(w);
    if (v == GO_ON) v = transaction(w);
    if (v == ENDED && (w->chunk->outcome == MERGE_DONE || w->chunk->outcome == MERGE_ALREADY)) return v;
    if (v == TRY_AGAIN) retry_count(w->db);
    char why[300]; /* ROLLBACK has an answer of its own */
    snprintf(why, sizeof why, "%s", db_text(w->db));
    /* After 1205 or 1264 the transaction is still open, and would be committed by the next one. */
    if (db_is_open(w->db) && DB_EXEC(w->db, "ROLLBACK") != CODE_OK) db_close(w->db);
    if (v == TRY_AGAIN) snprintf(w->chunk->text, sizeof w->chunk->text, "%s", why);
    return v;
}

static void work_run(struct work *w)
{
    struct chunk *c = w->chunk;
    char id[33];
    batch_id_hex(&c->batch->id, id);
    c->rows_merged = c->rows_rejected = 0;
    c->text[0] = 0;
    for (unsigned tries = 0; try_once(w) == TRY_AGAIN; tries++) {
        log_event(LOG_INFO, "chunk_retry", "batch=%s chunk=%u why=%s", id, c->index, LOGQ(c->text));
        c->outcome = MERGE_DOWN;
        if (tries + 1 == MERGE_TRIES_MAX) break;
        uint64_t ms = rand_backoff_ms(tries, 10, 500);
        nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
    }
    if (c->outcome == MERGE_DONE && w->merger->statement_max < MERGE_STATEMENT_MAX)
        w->merger->statement_max *= 2;
    if (w->plan.chunk != NULL) plan_close(&w->plan);
    buf_free(&w->sql);
    buf_free(&w->rows);
}

void merge_chunk(struct merger *m, struct chunk *c)
{
    struct work w = {.merger = m, .db = m->db, .chunk = c, .counter = c->batch->counter};
    if (c->index > 0) CRASH(merge_between_chunks);
    if (w.counter == NULL)
        (void)ended(&w, MERGE_HELD, "its counter is not configured; see `tallyd recover --reject-unknown`");
    else
        work_run(&w);
}

void merge_reject(struct merger *m, struct chunk *c, const char *reason)
{
    struct work w = {.merger = m, .db = m->db, .chunk = c, .reject_reason = reason};
    work_run(&w);
}
