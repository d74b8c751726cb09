#include "mysql/rejects.h"

#include "base/heap.h"
#include "base/num.h"
#include "mysql/text.h"

#define COLUMNS "batch, chunk, seq, counter, pending_hash, field, delta, reason, rejected_at, counted"

static uint32_t cell_u32(struct slice cell)
{
    uint64_t v = 0;
    return num_parse_u64(cell, &v) ? (uint32_t)v : 0;
}

static void reject_take(struct reject *r, const struct slice cell[10])
{
    *r = (struct reject){.chunk = cell_u32(cell[1]),
                         .seq = cell_u32(cell[2]),
                         .counter = cell[3],
                         .pending_hash = cell[4],
                         .field = cell[5],
                         .delta = cell[6],
                         .reason = cell[7],
                         .rejected_at = cell[8],
                         .counted = slice_eq(cell[9], SLICE("1"))};
    memcpy(r->batch.bytes, cell[0].p, cell[0].n < sizeof r->batch.bytes ? cell[0].n : sizeof r->batch.bytes);
}

enum err rejects_list(struct db *db, uint32_t limit, void (*row)(void *arg, const struct reject *r),
                      void *arg, struct error *e)
{
    struct buf sql = {0};
    struct slice cell[10];
    struct reject r;
    buf_printf(&sql,
               "SELECT " COLUMNS
               " FROM tally_rejects WHERE replayed_at IS NULL ORDER BY rejected_at, batch, chunk, seq"
               " LIMIT %u",
               limit);
    enum code_class class = db_query(db, buf_slice(&sql));
    buf_free(&sql);
    while (class == CODE_OK && db_row(db, cell, 10)) {
        reject_take(&r, cell);
        row(arg, &r);
    }
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

enum err rejects_count(struct db *db, uint64_t *waiting, struct error *e)
{
    struct slice cell;
    *waiting = 0;
    if (DB_QUERY(db, "SELECT COUNT(*) FROM tally_rejects WHERE replayed_at IS NULL") != CODE_OK)
        return db_error(db, e);
    if (db_row(db, &cell, 1)) (void)num_parse_u64(cell, waiting);
    return ERR_NONE;
}

enum err rejects_standing(struct db *db, void (*each)(void *arg, struct slice counter, uint64_t rows), void *arg,
                          struct error *e)
{
    struct slice cell[2];
    uint64_t rows;
    enum code_class class =
        DB_QUERY(db, "SELECT counter, COUNT(*) FROM tally_rejects WHERE replayed_at IS NULL GROUP BY counter");
    while (class == CODE_OK && db_row(db, cell, 2))
        if (num_parse_u64(cell[1], &rows)) each(arg, cell[0], rows);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

static void which(struct buf *sql, const struct reject *r)
{
    BUF_LIT(sql, " WHERE batch = ");
    sql_id(sql, &r->batch);
    buf_printf(sql, " AND chunk = %u AND seq = %u AND replayed_at IS NULL", r->chunk, r->seq);
}

/* Why this reject cannot be replayed as things stand, NULL: it can. */
static const char *replay_key(struct db *db, const struct counter *c, const struct reject *r, struct buf *key,
                              int64_t *delta)
{
    struct columns forms;
    struct slice store = {0};
    if (c == NULL) return "its counter is not configured";
    if (!num_parse(r->delta, delta)) return "the value is not an integer";
    if (!pattern_match(&c->key, c->store, r->pending_hash, &store))
        return "the hash's name does not match the counter's key";
    if (!field_valid(c->field, r->field)) return "the field is not of the counter's kind";
    if (columns_read(db, c, &forms) != CODE_OK) return db_text(db);
    if (!column_fits_field(forms.field, c->field) ||
        (c->key.has_store && !column_fits_store(forms.store, c->store)))
        return "the table does not fit the counter; run tallyd check";
    sql_key(key, c, &forms, store, r->field);
    return NULL;
}

static enum code_class upsert_one(struct db *db, const struct counter *c, struct slice key, int64_t delta)
{
    struct buf sql = {0};
    sql_upsert_head(&sql, c);
    sql_upsert_row(&sql, key, delta, true);
    sql_upsert_tail(&sql, c, db_dialect(db));
    enum code_class class = db_exec(db, buf_slice(&sql));
    buf_free(&sql);
    return class;
}

static enum code_class books_move(struct db *db, struct slice counter, int64_t delta, bool counted)
{
    struct buf sql = {0};
    sql_counter_add(&sql, counter, delta, counted ? -delta : 0);
    enum code_class class = db_exec(db, buf_slice(&sql));
    buf_free(&sql);
    return class;
}

/* The mark comes first, as the ledger row does in a merge: who does not get it has nothing to add. */
static enum code_class mark(struct db *db, const struct reject *r, bool *ours)
{
    struct buf sql = {0};
    BUF_LIT(&sql, "UPDATE tally_rejects SET replayed_at = UTC_TIMESTAMP(3)");
    which(&sql, r);
    enum code_class class = db_exec(db, buf_slice(&sql));
    *ours = class == CODE_OK && db_affected(db) == 1;
    buf_free(&sql);
    return class;
}

static enum code_class replay_transaction(struct db *db, const struct counter *c, const struct reject *r,
                                          struct slice key, int64_t delta, bool *ours)
{
    enum code_class class = DB_EXEC(db, "START TRANSACTION");
    if (class == CODE_OK) class = mark(db, r, ours);
    if (class == CODE_OK && !*ours) return DB_EXEC(db, "ROLLBACK");
    if (class == CODE_OK) class = upsert_one(db, c, key, delta);
    if (class == CODE_OK) class = books_move(db, c->name, delta, r->counted);
    return class == CODE_OK ? DB_EXEC(db, "COMMIT") : class;
}

static enum code_class reason_set(struct db *db, const struct reject *r, const char *reason)
{
    struct buf sql = {0};
    char shown[300];
    slice_show(slice_str(reason), sizeof shown - 4, shown, sizeof shown);
    BUF_LIT(&sql, "UPDATE tally_rejects SET reason = ");
    sql_hex(&sql, slice_str(shown));
    which(&sql, r);
    enum code_class class = db_exec(db, buf_slice(&sql));
    buf_free(&sql);
    return class;
}

/* A value that its own row refuses stays, with the reason of today; any other error ends the run. */
static enum err replay_one(struct db *db, const struct reject *r, struct rejects_replay *run, struct error *e)
{
    struct buf key = {0};
    int64_t delta = 0;
    bool ours = false;
    const struct counter *c = counters_find(run->counters, r->counter);
    const char *why = replay_key(db, c, r, &key, &delta);
    enum code_class class = CODE_OK;
    enum err err = ERR_NONE;
    char text[300] = "";
    if (why == NULL) class = replay_transaction(db, c, r, buf_slice(&key), delta, &ours);
    buf_free(&key);
    if (why == NULL && class == CODE_OK) return run->replayed += ours, ERR_NONE;
    if (why == NULL && class != CODE_POISON) err = db_error(db, e);
    strncpy(text, why != NULL ? why : db_text(db), sizeof text - 1);
    if (db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    if (err != ERR_NONE) return err;
    run->refused++;
    return reason_set(db, r, text) == CODE_OK ? ERR_NONE : db_error(db, e);
}

static void keep(struct buf *bytes, const struct slice *cell, unsigned n)
{
    buf_reset(bytes);
    for (unsigned i = 0; i < n; i++)
        buf_put_slice(bytes, cell[i]);
}

/* The waiting reject behind r, in the order of the primary key; its bytes go to keeper, since replaying it
 * needs the connection. */
static enum code_class next(struct db *db, struct reject *r, struct buf *keeper, bool *found)
{
    struct buf sql = {0};
    struct slice cell[10];
    BUF_LIT(&sql, "SELECT " COLUMNS " FROM tally_rejects WHERE replayed_at IS NULL AND (batch > ");
    sql_id(&sql, &r->batch);
    BUF_LIT(&sql, " OR (batch = ");
    sql_id(&sql, &r->batch);
    buf_printf(&sql, " AND (chunk > %u OR (chunk = %u AND seq > %u)))) ORDER BY batch, chunk, seq LIMIT 1",
               r->chunk, r->chunk, r->seq);
    enum code_class class = db_query(db, buf_slice(&sql));
    buf_free(&sql);
    *found = class == CODE_OK && db_row(db, cell, 10);
    if (!*found) return class;
    keep(keeper, cell, 10);
    for (size_t i = 0, at = 0; i < 10; at += cell[i++].n)
        cell[i].p = keeper->p + at;
    reject_take(r, cell);
    return CODE_OK;
}

enum err rejects_replay(struct db *db, struct rejects_replay *run, struct error *e)
{
    struct reject r = {0}; /* before every id; seq 0 of chunk 0 of the zero id is never drawn */
    struct buf keeper = {0};
    enum err err = ERR_NONE;
    run->replayed = run->refused = 0;
    for (bool found = true; err == ERR_NONE;) {
        if (next(db, &r, &keeper, &found) != CODE_OK) err = db_error(db, e);
        if (err != ERR_NONE || !found) break;
        err = replay_one(db, &r, run, e);
    }
    buf_free(&keeper);
    return err;
}
