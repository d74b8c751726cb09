/* mysql/books.c - see books.h. */
#include "mysql/books.h"

#include "base/heap.h"
#include "base/slice.h"
#include "mysql/ledger.h"
#include "mysql/text.h"

#define IDS_A_STATEMENT 1000
#define FIELDS_A_STATEMENT 200

/* The session is READ COMMITTED, so this transaction sets a level of its own. Not READ ONLY: proxies send that to a replica, which may
 * be behind. */
static enum code_class snapshot_begin(struct db *db)
{
    enum code_class class = DB_EXEC(db, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    return class == CODE_OK ? DB_EXEC(db, "START TRANSACTION WITH CONSISTENT SNAPSHOT") : class;
}

/* Keeps the first error: ROLLBACK has a code of its own. */
static enum err snapshot_end(struct db *db, enum code_class class, struct error *e)
{
    enum err err = class == CODE_OK ? ERR_NONE : db_error(db, e);
    if (db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    return err;
}

/* Modulo 2^64: a SUM may have more. NULL: 0. */
static int64_t cell_int(struct slice cell)
{
    uint64_t v = 0;
    bool negative = slice_starts(cell, SLICE("-"));
    for (size_t i = negative; i < cell.n; i++)
        v = v * 10 + (uint64_t)(cell.p[i] - '0');
    return (int64_t)(negative ? -v : v);
}

static enum code_class books_counters_read(struct db *db, const struct batch_id *realm, uint64_t gen,
                                           struct books *out)
{
    struct buf sql = {0};
    struct slice cell[6];
    buf_printf(&sql,
               "SELECT c.counter, c.merged, c.rejected, COALESCE(l.total, 0), "
               "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', c.complete_until) DIV 1000, "
               "(SELECT SUM(delta) FROM tally_adjustments a WHERE a.counter = c.counter)"
               " FROM tally_counters c LEFT JOIN (SELECT counter, SUM(total) AS total FROM tally_ledger"
               " WHERE gen > %llu AND realm = ",
               (unsigned long long)gen);
    sql_realm(&sql, realm);
    BUF_LIT(&sql, " GROUP BY counter) l ON l.counter = c.counter WHERE c.realm = ");
    sql_realm(&sql, realm);
    BUF_LIT(&sql, " ORDER BY c.counter");
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, 6)) {
        out->counters = heap_realloc(out->counters, (out->counters_n + 1) * sizeof *out->counters);
        struct books_counter *c = &out->counters[out->counters_n++];
        *c = (struct books_counter){.merged = cell_int(cell[1]),
                                    .rejected = cell_int(cell[2]),
                                    .newer = cell_int(cell[3]),
                                    .complete_until_ms = cell_int(cell[4]),
                                    .adjusted = cell_int(cell[5])};
        memcpy(c->name, cell[0].p, cell[0].n < sizeof c->name ? cell[0].n : sizeof c->name - 1);
    }
    return class;
}

static struct slice slice_dup(struct slice s)
{
    return slice_of(heap_strndup(s.p, s.n), s.n);
}

static enum code_class chunks_read_some(struct db *db, const struct batch_id *ids, size_t n,
                                        struct books *out)
{
    struct buf sql = {0};
    struct slice cell[7];
    BUF_LIT(&sql, "SELECT batch, chunk, chunks, total, first_key, last_key, waiting FROM tally_ledger WHERE"
                  " batch IN ");
    sql_ids(&sql, ids, n);
    BUF_LIT(&sql, " ORDER BY batch, chunk");
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, 7)) {
        out->chunks = heap_realloc(out->chunks, (out->chunks_n + 1) * sizeof *out->chunks);
        struct books_chunk *c = &out->chunks[out->chunks_n++];
        *c = (struct books_chunk){.chunk = (uint32_t)cell_int(cell[1]),
                                  .chunks = (uint32_t)cell_int(cell[2]),
                                  .total = cell_int(cell[3]),
                                  .first_key = slice_dup(cell[4]),
                                  .last_key = slice_dup(cell[5]),
                                  .waiting = slice_dup(cell[6])};
        memcpy(c->batch.bytes, cell[0].p,
               cell[0].n < sizeof c->batch.bytes ? cell[0].n : sizeof c->batch.bytes);
    }
    return class;
}

static enum code_class chunks_read(struct db *db, const struct batch_id *ids, size_t n, struct books *out)
{
    enum code_class class = CODE_OK;
    for (size_t at = 0; class == CODE_OK && at < n; at += IDS_A_STATEMENT)
        class = chunks_read_some(db, ids + at, n - at < IDS_A_STATEMENT ? n - at : IDS_A_STATEMENT, out);
    return class;
}

static enum code_class realm_known(struct db *db, const struct batch_id *realm, bool *known)
{
    struct buf sql = {0};
    struct slice cell;
    BUF_LIT(&sql, "SELECT 1 FROM tally_realms WHERE realm = ");
    sql_realm(&sql, realm);
    enum code_class class = db_query_free(db, &sql);
    *known = class == CODE_OK && db_row(db, &cell, 1);
    return class;
}

enum err books_read(struct db *db, const struct batch_id *realm, uint64_t gen, const struct batch_id *ids,
                    size_t n, struct books *out, struct error *e)
{
    enum code_class class = snapshot_begin(db);
    if (class == CODE_OK) class = books_counters_read(db, realm, gen, out);
    if (class == CODE_OK) class = chunks_read(db, ids, n, out);
    if (class == CODE_OK) class = ledger_highest(db, realm, &out->highest);
    if (class == CODE_OK) class = realm_known(db, realm, &out->known);
    return snapshot_end(db, class, e);
}

/* One SELECT a field, numbered to identify them, many in one statement. */
static void stored_select(const struct books_totals *t, const struct columns *forms, size_t a, size_t f,
                          struct buf *sql)
{
    const struct counter one =
                             counter_of_count(t->counter, counter_count_of(t->counter, t->all[a].fields[f])),
                         *c = &one;
    struct table_row row;
    INVARIANT(counter_row(c, t->all[a].key, t->all[a].fields[f], &row) == ROW_FITS);
    buf_printf(sql, "%sSELECT %zu, %zu, ", sql->n > 0 ? " UNION ALL " : "", a, f);
    sql_name(sql, c->column_count);
    BUF_LIT(sql, " FROM ");
    sql_name(sql, c->table);
    BUF_LIT(sql, " WHERE (");
    sql_key_names(sql, c, ",");
    BUF_LIT(sql, ") = (");
    sql_key(sql, c, forms, &row);
    BUF_LIT(sql, ")");
}

/* Are a hash's rows found by one column, whatever their fields? */
static bool fields_have_a_column(const struct counter *c)
{
    for (uint32_t i = 0; i < c->more_n; i++)
        if (c->more[i].from != FROM_KEY && c->more[i].from != FROM_CONSTANT) return false;
    return c->column_field.n > 0;
}

/* One SELECT of the sum of all fields. */
static void stored_sum(const struct books_totals *t, const struct columns *forms, size_t a, struct buf *sql)
{
    const struct counter *c = t->counter;
    struct table_row row;
    buf_printf(sql, "%sSELECT %zu, 0, SUM(", sql->n > 0 ? " UNION ALL " : "", a);
    sql_name(sql, c->column_count);
    BUF_LIT(sql, ") FROM ");
    sql_name(sql, c->table);
    BUF_LIT(sql, " WHERE ");
    for (size_t f = 0; f < t->all[a].fields_n; f++) {
        INVARIANT(counter_row(c, t->all[a].key, t->all[a].fields[f], &row) == ROW_FITS);
        if (f == 0) {
            sql_key_is(sql, c, forms, &row);
            BUF_LIT(sql, " AND ");
            sql_name(sql, c->column_field);
        }
        buf_put_slice(sql, f == 0 ? SLICE(" IN (") : SLICE(","));
        sql_field_value(sql, forms, &row);
    }
    BUF_LIT(sql, ")");
}

/* A text that the column cannot hold is an error for all of a statement. Alone it is in no row. */
static enum code_class stored_ask(struct db *db, struct books_totals *t, struct buf *sql, bool alone)
{
    struct slice cell[3];
    if (sql->n == 0) return CODE_OK;
    enum code_class class = db_query(db, buf_slice(sql));
    if (alone && class == CODE_POISON) return buf_reset(sql), CODE_OK;
    while (class == CODE_OK && db_row(db, cell, 3)) {
        struct books_total *one = &t->all[cell_int(cell[0])];
        one->over |= cell[2].p != NULL && !num_parse(cell[2], &one->stored[cell_int(cell[1])]);
    }
    buf_reset(sql);
    return class;
}

static enum code_class stored_read(struct db *db, struct books_totals *t, const struct columns *forms,
                                   size_t at_once)
{
    enum code_class class = CODE_OK;
    struct buf sql = {0};
    size_t asked = 0;
    for (size_t a = 0; class == CODE_OK && a < t->n; a++) {
        if (t->all[a].sums && at_once > 1 && fields_have_a_column(t->counter)) {
            stored_sum(t, forms, a, &sql);
            continue;
        }
        for (size_t f = 0; class == CODE_OK && f < t->all[a].fields_n; f++) {
            stored_select(t, forms, a, f, &sql);
            if (++asked % at_once == 0) class = stored_ask(db, t, &sql, at_once == 1);
        }
    }
    if (class == CODE_OK) class = stored_ask(db, t, &sql, at_once == 1);
    buf_free(&sql);
    return class;
}

/* The realm's highest gen after `gen` that was merged of this counter; 0: none. */
static enum code_class newest_read(struct db *db, const struct batch_id *realm, const struct counter *c,
                                   int64_t gen, int64_t *highest)
{
    struct buf sql = {0};
    struct slice cell;
    buf_printf(&sql, "SELECT MAX(gen) FROM tally_ledger WHERE gen > %lld AND counter = ", (long long)gen);
    sql_hex(&sql, c->name);
    BUF_LIT(&sql, " AND realm = ");
    sql_realm(&sql, realm);
    enum code_class class = db_query_free(db, &sql);
    *highest = class == CODE_OK && db_row(db, &cell, 1) ? cell_int(cell) : 0;
    return class;
}

static enum code_class epoch_check(struct db *db, struct books_totals *t)
{
    struct buf sql = {0};
    struct slice cell;
    BUF_LIT(&sql, "SELECT 1 FROM tally_realms WHERE realm = ");
    sql_id(&sql, &t->epoch.realm);
    BUF_LIT(&sql, " AND epoch = ");
    sql_id(&sql, &t->epoch.id);
    enum code_class class = db_query_free(db, &sql);
    t->stale = class == CODE_OK && !db_row(db, &cell, 1);
    return class;
}

static enum code_class newer_read(struct db *db, struct books_totals *t)
{
    int64_t highest, least = INT64_MAX;
    for (size_t i = 0; i < t->n; i++)
        if (t->all[i].gen < least) least = t->all[i].gen;
    enum code_class class = newest_read(db, &t->epoch.realm, t->counter, least, &highest);
    for (size_t i = 0; i < t->n; i++)
        t->all[i].newer = highest > t->all[i].gen;
    return class;
}

static bool totals_ask_right(const struct books_totals *t, const struct columns *forms)
{
    const struct counter *c = t->counter;
    for (size_t i = 0; i < t->n; i++) {
        if (!pattern_match(&c->key, c->store, t->all[i].key, NULL)) return false;
        for (size_t k = 0; k < t->all[i].fields_n; k++)
            if (!counter_field_valid(c, t->all[i].fields[k])) return false;
    }
    return columns_fit(forms, c);
}

enum err books_totals_read(struct db *db, struct books_totals *t, struct error *e)
{
    struct columns forms;
    for (size_t i = 0; i < t->n; i++)
        t->all[i].stored = heap_zalloc((t->all[i].fields_n + 1) * sizeof *t->all[i].stored);
    enum code_class class = columns_read(db, t->counter, &forms);
    if (class != CODE_OK) return db_error(db, e);
    if (!totals_ask_right(t, &forms))
        return error_set(e, ERR_CONFIG,
                         "key, field or table " SLICE_FMT " do not fit the counter; run tallyd check",
                         SLICE_ARG(t->counter->table));
    class = snapshot_begin(db);
    if (class == CODE_OK) class = stored_read(db, t, &forms, FIELDS_A_STATEMENT);
    if (class == CODE_POISON) class = stored_read(db, t, &forms, 1);
    if (class == CODE_OK) class = newer_read(db, t);
    if (class == CODE_OK) class = epoch_check(db, t);
    if (class == CODE_OK && t->ids_n > 0) class = chunks_read(db, t->ids, t->ids_n, &t->books);
    return snapshot_end(db, class, e);
}

/* --- one store --- */

static enum code_class sum_query(struct db *db, struct books_store *s, const struct columns *forms,
                                 const struct table_row *row)
{
    struct buf sql = {0};
    struct slice cell[2];
    BUF_LIT(&sql, "SELECT COUNT(*), CAST(0");
    for (uint32_t i = 0; i < counter_counts_n(s->counter); i++) {
        BUF_LIT(&sql, " + COALESCE(SUM(");
        sql_name(&sql, counter_of_count(s->counter, i).column_count);
        BUF_LIT(&sql, "), 0)");
    }
    BUF_LIT(&sql, " AS CHAR) FROM ");
    sql_name(&sql, s->counter->table);
    BUF_LIT(&sql, " WHERE ");
    sql_key_is(&sql, s->counter, forms, row);
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK && db_row(db, cell, 2)) {
        s->rows = cell_int(cell[0]);
        slice_show(cell[1], sizeof s->stored - 1, s->stored, sizeof s->stored);
    }
    return class;
}

static enum code_class rejects_query(struct db *db, struct books_store *s)
{
    struct buf sql = {0};
    struct slice cell;
    BUF_LIT(&sql, "SELECT COUNT(*) FROM tally_rejects WHERE replayed_at IS NULL AND pending_hash = ");
    sql_hex(&sql, s->key);
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK && db_row(db, &cell, 1)) s->rejects = cell_int(cell);
    return class;
}

enum err books_store_read(struct db *db, struct books_store *s, struct error *e)
{
    const struct counter *c = s->counter;
    struct columns forms;
    struct table_row row;
    int64_t highest = 0;
    PRE(counter_row_of_key(c, s->key, &row));
    enum code_class class = columns_read(db, c, &forms);
    if (class != CODE_OK) return db_error(db, e);
    if (!columns_fit(&forms, c))
        return error_set(e, ERR_CONFIG, "table " SLICE_FMT " does not fit the counter; run tallyd check",
                         SLICE_ARG(c->table));
    class = snapshot_begin(db);
    if (class == CODE_OK) class = sum_query(db, s, &forms, &row);
    if (class == CODE_OK) class = rejects_query(db, s);
    if (class == CODE_OK) class = newest_read(db, &s->realm, c, s->gen, &highest);
    if (class == CODE_OK && s->ids_n > 0) class = chunks_read(db, s->ids, s->ids_n, &s->books);
    s->newer = highest > s->gen;
    return snapshot_end(db, class, e);
}
