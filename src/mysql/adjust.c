/* mysql/adjust.c - see books.h. */
#include "mysql/books.h"

#include "base/slice.h"
#include "mysql/schema.h"

#define AGAIN_MOST 5
#define ADJUST_COLUMNS                                                                                       \
    "id, counter, pending_hash, field, delta, set_to, reason, "                                              \
    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', adjusted_at) DIV 1000"
#define ADJUST_COLUMNS_N 8

static void adjustment_take(struct adjustment *a, const struct slice cell[ADJUST_COLUMNS_N])
{
    *a = (struct adjustment){.id = cell[0],
                             .counter = cell[1],
                             .key = cell[2],
                             .field = cell[3],
                             .reason = cell[6],
                             .sets = cell[5].p != NULL};
    (void)num_parse(cell[4], &a->delta);
    if (a->sets) (void)num_parse(cell[5], &a->set_to);
    (void)num_parse(cell[7], &a->adjusted_ms);
}

/* What the row has, locked until the transaction ends; 0 without a row. False in *fits: more than an int64. */
static enum code_class stored_lock(struct db *db, const struct counter *c, struct slice key, int64_t *stored,
                                   bool *fits)
{
    struct buf sql = {0};
    struct slice cell;
    *stored = 0;
    BUF_LIT(&sql, "SELECT ");
    sql_name(&sql, c->column_count);
    BUF_LIT(&sql, " FROM ");
    sql_name(&sql, c->table);
    sql_row_is(&sql, c, key);
    BUF_LIT(&sql, " FOR UPDATE");
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK && db_row(db, &cell, 1) && cell.p != NULL) *fits = num_parse(cell, stored);
    return class;
}

static enum code_class adjustment_insert(struct db *db, const struct adjustment *a)
{
    struct buf sql = {0};
    BUF_LIT(&sql, "INSERT INTO tally_adjustments (id, counter, pending_hash, field, delta, set_to, reason, "
                  "adjusted_at) VALUES (");
    const struct slice texts[] = {a->id, a->counter, a->key, a->field};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sql_hex(&sql, texts[i]);
        buf_put_char(&sql, ',');
    }
    buf_printf(&sql, "%lld,", (long long)a->delta);
    if (a->sets)
        buf_printf(&sql, "%lld,", (long long)a->set_to);
    else
        BUF_LIT(&sql, "NULL,");
    sql_hex(&sql, a->reason);
    BUF_LIT(&sql, ",UTC_TIMESTAMP(3))");
    return db_exec_free(db, &sql);
}

static enum code_class adjust_once(struct db *db, const struct counter *c, const struct columns *forms,
                                   struct adjustment *a, struct slice key, enum adjust_outcome *outcome)
{
    int64_t stored = 0;
    bool fits = true;
    enum code_class class = DB_EXEC(db, "START TRANSACTION");
    if (class == CODE_OK && a->sets) class = stored_lock(db, c, key, &stored, &fits);
    if (a->sets && fits) fits = !__builtin_sub_overflow(a->set_to, stored, &a->delta);
    *outcome = fits ? ADJUST_DONE : ADJUST_FAR;
    if (class == CODE_OK && *outcome == ADJUST_FAR) return DB_EXEC(db, "ROLLBACK");
    if (class == CODE_OK) class = adjustment_insert(db, a);
    bool missing = false;
    if (class == CODE_OK) class = row_add(db, c, forms, key, a->delta, &missing);
    if (missing) *outcome = ADJUST_MISSING;
    if (missing) return DB_EXEC(db, "ROLLBACK");
    return class == CODE_OK ? DB_EXEC(db, "COMMIT") : class;
}

/* A deadlock with a merge is no reason to give up: MySQL rolled it back, so it is tried again. */
static enum code_class adjust_try(struct db *db, const struct counter *c, const struct columns *forms,
                                  struct adjustment *a, struct slice key, enum adjust_outcome *outcome)
{
    enum code_class class = adjust_once(db, c, forms, a, key, outcome);
    for (int tries = 1; class == CODE_AGAIN && tries < AGAIN_MOST; tries++) {
        if (DB_EXEC(db, "ROLLBACK") != CODE_OK) return CODE_LINK;
        class = adjust_once(db, c, forms, a, key, outcome);
    }
    return class;
}

static enum code_class known_read(struct db *db, struct adjustment *a, enum adjust_outcome *outcome)
{
    struct buf sql = {0};
    struct slice cell[ADJUST_COLUMNS_N];
    struct adjustment before = {0};
    BUF_LIT(&sql, "SELECT " ADJUST_COLUMNS " FROM tally_adjustments WHERE id = ");
    sql_hex(&sql, a->id);
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK && db_row(db, cell, ADJUST_COLUMNS_N)) adjustment_take(&before, cell);
    bool same = slice_eq(a->counter, before.counter) && slice_eq(a->key, before.key) &&
                slice_eq(a->field, before.field) && a->sets == before.sets &&
                (a->sets ? a->set_to == before.set_to : a->delta == before.delta);
    *outcome = same ? ADJUST_KNOWN : ADJUST_OTHER;
    if (*outcome == ADJUST_KNOWN) a->delta = before.delta;
    return class;
}

enum err adjust(struct db *db, const struct counter *c, struct adjustment *a, enum adjust_outcome *outcome,
                struct error *e)
{
    struct columns forms;
    struct table_row row;
    struct buf key = {0};
    bool fits;
    if (table_fits(db, c, &forms, &fits) != CODE_OK) return db_error(db, e);
    if (!fits) return error_set(e, ERR_CONFIG, "the table does not fit the counter; run tallyd check");
    INVARIANT(counter_row(c, a->key, a->field, &row) == ROW_FITS);
    sql_key(&key, c, &forms, &row);
    const struct counter one = counter_of_count(c, counter_count_of(c, a->field));
    enum code_class class = adjust_try(db, &one, &forms, a, buf_slice(&key), outcome);
    buf_free(&key);
    enum err code = class == CODE_OK || class == CODE_DUPLICATE ? ERR_NONE : db_error(db, e);
    if (class != CODE_OK && db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    if (class != CODE_DUPLICATE) return code;
    return known_read(db, a, outcome) == CODE_OK ? ERR_NONE : db_error(db, e);
}

enum err adjustments_list(struct db *db, struct slice counter, struct slice key, uint32_t limit,
                          void (*row)(void *arg, const struct adjustment *a), void *arg, struct error *e)
{
    struct buf sql = {0};
    struct slice cell[ADJUST_COLUMNS_N];
    struct adjustment a;
    BUF_LIT(&sql, "SELECT " ADJUST_COLUMNS " FROM tally_adjustments WHERE TRUE");
    if (counter.n > 0) {
        BUF_LIT(&sql, " AND counter = ");
        sql_hex(&sql, counter);
    }
    if (key.n > 0) {
        BUF_LIT(&sql, " AND pending_hash = ");
        sql_hex(&sql, key);
    }
    buf_printf(&sql, " ORDER BY adjusted_at DESC, id LIMIT %u", limit);
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, ADJUST_COLUMNS_N)) {
        adjustment_take(&a, cell);
        row(arg, &a);
    }
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}
