/* mysql/rejects.c - see books.h. */
#include "mysql/books.h"

#include "base/heap.h"
#include "base/slice.h"
#include "mysql/schema.h"

#include <stdio.h>

#define REJECT_COLUMNS                                                                                       \
    "batch, chunk, seq, counter, pending_hash, field, delta, reason, "                                       \
    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', rejected_at) DIV 1000, counted, realm"
#define REJECT_COLUMNS_N 11

void reject_id_write(const struct reject_id *id, char out[REJECT_ID_BYTES])
{
    char hex[33];
    batch_id_hex(&id->batch, hex);
    snprintf(out, REJECT_ID_BYTES, "%s-%u-%u", hex, id->chunk, id->seq);
}

static bool u32_read(struct slice digits, uint32_t *out)
{
    uint64_t v;
    if (!num_parse_u64(digits, &v) || v > UINT32_MAX) return false;
    *out = (uint32_t)v;
    return true;
}

bool reject_id_read(struct slice text, struct reject_id *out)
{
    if (text.n <= HEX_ID || text.p[HEX_ID] != '-' || !batch_id_read(slice_of(text.p, HEX_ID), &out->batch))
        return false;
    struct slice rest = slice_of(text.p + HEX_ID + 1, text.n - HEX_ID - 1);
    const char *dash = memchr(rest.p, '-', rest.n);
    if (dash == NULL) return false;
    size_t n = (size_t)(dash - rest.p);
    return u32_read(slice_of(rest.p, n), &out->chunk) &&
           u32_read(slice_of(dash + 1, rest.n - n - 1), &out->seq);
}

static uint32_t cell_u32(struct slice cell)
{
    uint32_t v = 0;
    return u32_read(cell, &v) ? v : 0;
}

static void reject_take(struct reject *r, const struct slice cell[REJECT_COLUMNS_N])
{
    struct batch_id *batch = &r->id.batch;
    *r = (struct reject){.id = {.chunk = cell_u32(cell[1]), .seq = cell_u32(cell[2])},
                         .counter = cell[3],
                         .pending_hash = cell[4],
                         .field = cell[5],
                         .delta = cell[6],
                         .reason = cell[7],
                         .counted = slice_eq(cell[9], SLICE("1"))};
    (void)num_parse(cell[8], &r->rejected_ms);
    memcpy(batch->bytes, cell[0].p, cell[0].n < sizeof batch->bytes ? cell[0].n : sizeof batch->bytes);
    memcpy(r->realm.bytes, cell[10].p,
           cell[10].n < sizeof r->realm.bytes ? cell[10].n : sizeof r->realm.bytes);
}

/* A pattern of LIKE; its escape is |, which is the same in every sql_mode. */
static void like_text(struct buf *like, struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (strchr("%_|", text.p[i]) != NULL) buf_put_char(like, '|');
        buf_put_char(like, text.p[i]);
    }
}

static void like_glob(struct buf *like, struct slice glob)
{
    for (size_t i = 0; i < glob.n; i++) {
        if (glob.p[i] == '*') {
            buf_put_char(like, '%');
            continue;
        }
        if (glob.p[i] == '\\' && i + 1 < glob.n) i++;
        like_text(like, slice_of(glob.p + i, 1));
    }
}

/* All keys of a store; no value but the last holds what follows it, so that no other store's key is like them. */
static void like_store(struct buf *like, const struct counter *c, struct slice store)
{
    const struct places *p = c->key.places;
    struct buf key = {0};
    if (p == NULL && counter_key(c, store, &key)) like_text(like, buf_slice(&key));
    for (uint32_t i = 0; p != NULL && i <= p->n; i++) {
        like_text(like, p->text[i]);
        if (i < p->n && slice_eq(p->at[i].name, SLICE("store")))
            like_text(like, store);
        else if (i < p->n)
            buf_put_char(like, '%');
    }
    buf_free(&key);
}

static void like_put(struct buf *sql, const char *before, struct buf *like)
{
    buf_put_slice(sql, slice_str(before));
    BUF_LIT(sql, " LIKE ");
    sql_hex(sql, buf_slice(like));
    BUF_LIT(sql, " ESCAPE '|'");
    buf_free(like);
}

/* A key of one placeholder is found whatever its counter was called; a pattern only among its counter's. */
static void store_put(struct buf *sql, const struct rejects_which *w)
{
    BUF_LIT(sql, " AND (FALSE");
    for (size_t i = 0; i < w->counters->n; i++) {
        const struct counter *c = &w->counters->all[i];
        struct buf like = {0};
        if (!counter_takes_store(c, w->store)) continue;
        BUF_LIT(sql, " OR (TRUE");
        if (c->key.places != NULL) {
            BUF_LIT(sql, " AND counter = ");
            sql_hex(sql, c->name);
        }
        like_store(&like, c, w->store);
        like_put(sql, " AND pending_hash", &like);
        BUF_LIT(sql, ")");
    }
    BUF_LIT(sql, ")");
}

static void which_put(struct buf *sql, const struct rejects_which *w)
{
    BUF_LIT(sql, " WHERE replayed_at IS NULL");
    if (w->id != NULL) {
        BUF_LIT(sql, " AND batch = ");
        sql_id(sql, &w->id->batch);
        buf_printf(sql, " AND chunk = %u AND seq = %u", w->id->chunk, w->id->seq);
    }
    if (w->counter.n > 0) {
        BUF_LIT(sql, " AND counter = ");
        sql_hex(sql, w->counter);
    }
    struct buf key = {0}, field = {0};
    if (w->key.p != NULL) like_glob(&key, w->key), like_put(sql, " AND pending_hash", &key);
    if (w->field.p != NULL) like_glob(&field, w->field), like_put(sql, " AND field", &field);
    if (w->store.p != NULL) store_put(sql, w);
}

enum err rejects_list(struct db *db, const struct rejects_which *which, uint32_t limit,
                      void (*row)(void *arg, const struct reject *r), void *arg, struct error *e)
{
    struct buf sql = {0};
    struct slice cell[REJECT_COLUMNS_N];
    struct reject r;
    BUF_LIT(&sql, "SELECT " REJECT_COLUMNS " FROM tally_rejects");
    which_put(&sql, which);
    buf_printf(&sql, " ORDER BY rejected_at, batch, chunk, seq LIMIT %u", limit);
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, REJECT_COLUMNS_N)) {
        reject_take(&r, cell);
        row(arg, &r);
    }
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

enum err rejects_count(struct db *db, const struct rejects_which *which, uint64_t *waiting, struct error *e)
{
    struct buf sql = {0};
    struct slice cell;
    *waiting = 0;
    BUF_LIT(&sql, "SELECT COUNT(*) FROM tally_rejects");
    which_put(&sql, which);
    enum code_class class = db_query_free(db, &sql);
    if (class != CODE_OK) return db_error(db, e);
    if (db_row(db, &cell, 1)) (void)num_parse_u64(cell, waiting);
    return ERR_NONE;
}

enum err rejects_standing(struct db *db, void (*each)(void *arg, struct slice counter, uint64_t rows),
                          void *arg, struct error *e)
{
    struct slice cell[2];
    uint64_t rows;
    enum code_class class = DB_QUERY(
        db, "SELECT counter, COUNT(*) FROM tally_rejects WHERE replayed_at IS NULL GROUP BY counter");
    while (class == CODE_OK && db_row(db, cell, 2))
        if (num_parse_u64(cell[1], &rows)) each(arg, cell[0], rows);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

/* What the counter says against it; NULL: nothing. */
static const char *reject_why(const struct counter *c, const struct reject *r, struct table_row *row,
                              int64_t *delta)
{
    if (c == NULL) return "its counter is not configured";
    if (!num_parse(r->delta, delta)) return "the value is not an integer";
    enum row_fault fault = counter_row(c, r->pending_hash, r->field, row);
    return fault == ROW_FITS ? NULL : row_fault_text(fault);
}

/* *why: this reject cannot be replayed now; NULL: it can, and key is that of its row. */
static enum code_class replay_key(struct db *db, const struct counter *c, const struct reject *r,
                                  struct columns *forms, struct buf *key, int64_t *delta, const char **why)
{
    struct table_row row;
    bool fits;
    *why = reject_why(c, r, &row, delta);
    if (*why != NULL) return CODE_OK;
    enum code_class class = table_fits(db, c, forms, &fits);
    if (class != CODE_OK) return class;
    if (fits)
        sql_key(key, c, forms, &row);
    else
        *why = "the table does not fit the counter; run tallyd check";
    return CODE_OK;
}

/* The mark comes first, as the ledger row does in a merge: without it there is nothing to add. */
static enum code_class mark(struct db *db, const struct reject *r, bool *ours)
{
    struct buf sql = {0};
    BUF_LIT(&sql, "UPDATE tally_rejects SET replayed_at = UTC_TIMESTAMP(3)");
    which_put(&sql, &(struct rejects_which){.id = &r->id});
    enum code_class class = db_exec(db, buf_slice(&sql));
    *ours = class == CODE_OK && db_affected(db) == 1;
    buf_free(&sql);
    return class;
}

static enum code_class replay_transaction(struct db *db, const struct counter *c, const struct columns *forms,
                                          const struct reject *r, struct slice key, int64_t delta, bool *ours,
                                          bool *missing)
{
    struct buf sql = {0};
    enum code_class class = DB_EXEC(db, "START TRANSACTION");
    if (class == CODE_OK) class = mark(db, r, ours);
    if (class == CODE_OK && !*ours) return DB_EXEC(db, "ROLLBACK");
    if (class != CODE_OK) return class;
    const struct counter one = counter_of_count(c, counter_count_of(c, r->field));
    class = row_add(db, &one, forms, key, delta, missing);
    if (class != CODE_OK || *missing) return class;
    sql_counter_make(&sql, c->name, &r->realm);
    class = db_exec_free(db, &sql);
    if (class != CODE_OK) return class;
    sql_counter_add(&sql, c->name, &r->realm, delta, r->counted ? num_less(0, delta) : 0);
    class = db_exec_free(db, &sql);
    return class == CODE_OK ? DB_EXEC(db, "COMMIT") : class;
}

#define AGAIN_MOST 5

/* A deadlock with a merge is no reason to stop: MySQL rolled it back, so it is tried again. */
static enum code_class replay_try(struct db *db, const struct counter *c, const struct columns *forms,
                                  const struct reject *r, struct slice key, int64_t delta, bool *ours,
                                  bool *missing)
{
    enum code_class class = replay_transaction(db, c, forms, r, key, delta, ours, missing);
    for (int tries = 1; class == CODE_AGAIN && tries < AGAIN_MOST; tries++) {
        if (DB_EXEC(db, "ROLLBACK") != CODE_OK) return CODE_LINK;
        class = replay_transaction(db, c, forms, r, key, delta, ours, missing);
    }
    return class;
}

static enum code_class reason_set(struct db *db, const struct reject *r, const char *reason)
{
    struct buf sql = {0};
    char shown[300];
    slice_show(slice_str(reason), sizeof shown - 4, shown, sizeof shown);
    BUF_LIT(&sql, "UPDATE tally_rejects SET reason = ");
    sql_hex(&sql, slice_str(shown));
    which_put(&sql, &(struct rejects_which){.id = &r->id});
    return db_exec_free(db, &sql);
}

/* A value that its own row refuses remains, with the new reason; any other error ends the run. */
static enum err replay_one(struct db *db, const struct reject *r, struct rejects_replay *run, struct error *e)
{
    struct buf key = {0};
    int64_t delta = 0;
    bool ours = false, missing = false;
    const struct counter *c = counters_find(run->counters, r->counter);
    const char *why;
    struct columns forms;
    enum code_class class = replay_key(db, c, r, &forms, &key, &delta, &why);
    enum err err = ERR_NONE;
    char text[300] = "";
    if (why == NULL && class == CODE_OK)
        class = replay_try(db, c, &forms, r, buf_slice(&key), delta, &ours, &missing);
    if (missing) why = ROW_MISSING;
    buf_free(&key);
    if (why == NULL && class == CODE_OK) return run->replayed += ours, ERR_NONE;
    if (why == NULL && !code_refuses(class)) err = db_error(db, e);
    snprintf(text, sizeof text, "%s", why != NULL ? why : db_text(db));
    if (db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    if (err != ERR_NONE) return err;
    run->refused++;
    if (run->refuse != NULL) run->refuse(run->arg, &r->id, text);
    return reason_set(db, r, text) == CODE_OK ? ERR_NONE : db_error(db, e);
}

/* --- many at once --- */

#define PAGE 200

struct page { /* waiting rejects, in the order of the primary key */
    struct reject rows[PAGE];
    size_t n;
    struct buf bytes; /* of their texts: what is done with them needs the connection */
};

/* Those after last. */
static enum code_class page_read(struct db *db, const struct rejects_which *which,
                                 const struct reject_id *last, struct page *p)
{
    struct buf sql = {0};
    struct slice cell[REJECT_COLUMNS_N];
    size_t lengths[PAGE][REJECT_COLUMNS_N];
    BUF_LIT(&sql, "SELECT " REJECT_COLUMNS " FROM tally_rejects");
    which_put(&sql, which);
    BUF_LIT(&sql, " AND (batch > ");
    sql_id(&sql, &last->batch);
    BUF_LIT(&sql, " OR (batch = ");
    sql_id(&sql, &last->batch);
    buf_printf(&sql, " AND (chunk > %u OR (chunk = %u AND seq > %u)))) ORDER BY batch, chunk, seq LIMIT %d",
               last->chunk, last->chunk, last->seq, PAGE);
    enum code_class class = db_query_free(db, &sql);
    p->n = 0;
    buf_reset(&p->bytes);
    for (; class == CODE_OK && p->n < PAGE && db_row(db, cell, REJECT_COLUMNS_N); p->n++)
        for (size_t i = 0; i < REJECT_COLUMNS_N; i++) {
            buf_put_slice(&p->bytes, cell[i]);
            lengths[p->n][i] = cell[i].n;
        }
    for (size_t row = 0, at = 0; row < p->n; row++) {
        for (size_t i = 0; i < REJECT_COLUMNS_N; at += cell[i++].n)
            cell[i] = slice_of(p->bytes.p + at, lengths[row][i]);
        reject_take(&p->rows[row], cell);
    }
    return class;
}

enum err rejects_each(struct db *db, const struct rejects_which *which,
                      void (*row)(void *arg, const struct reject *r), void *arg, struct error *e)
{
    struct page p = {0};
    struct reject_id last = {0}; /* before every id; seq 0 of chunk 0 of the zero id is never drawn */
    enum code_class class;
    do {
        class = page_read(db, which, &last, &p);
        for (size_t i = 0; class == CODE_OK && i < p.n; i++)
            row(arg, &p.rows[i]);
        if (p.n > 0) last = p.rows[p.n - 1].id;
    } while (class == CODE_OK && p.n == PAGE);
    buf_free(&p.bytes);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

struct replay_group { /* rejects of one counter and one realm, in one transaction */
    const struct counter *c;
    const struct reject *rows;
    size_t n;
    int64_t deltas[PAGE], sum, counted;
    uint32_t counts[PAGE];
    struct buf keys[PAGE];
    struct columns forms;
};

/* False: they are replayed one by one, for a row that the counter does not take, or a counter that makes none. */
static bool group_ready(struct db *db, struct replay_group *g)
{
    bool ready = false;
    if (g->c == NULL || g->c->missing != MISSING_INSERT) return false;
    if (table_fits(db, g->c, &g->forms, &ready) != CODE_OK) return false;
    for (size_t i = 0; ready && i < g->n; i++) {
        const struct reject *r = &g->rows[i];
        struct table_row row;
        ready = reject_why(g->c, r, &row, &g->deltas[i]) == NULL &&
                !__builtin_add_overflow(g->sum, g->deltas[i], &g->sum) &&
                !__builtin_add_overflow(g->counted, r->counted ? g->deltas[i] : 0, &g->counted);
        if (!ready) break;
        g->counts[i] = counter_count_of(g->c, r->field);
        sql_key(&g->keys[i], g->c, &g->forms, &row);
    }
    return ready && g->counted != INT64_MIN;
}

static enum code_class group_upsert(struct db *db, const struct replay_group *g, uint32_t count)
{
    const struct counter one = counter_of_count(g->c, count);
    struct buf sql = {0};
    bool first = true;
    sql_upsert_head(&sql, &one);
    for (size_t i = 0; i < g->n; i++) {
        if (g->counts[i] != count) continue;
        sql_upsert_row(&sql, &one, &g->forms, buf_slice(&g->keys[i]), g->deltas[i], first);
        first = false;
    }
    sql_upsert_tail(&sql, &one, &g->forms, db_dialect(db));
    if (first) buf_free(&sql);
    return first ? CODE_OK : db_exec_free(db, &sql);
}

/* *all: each of them was marked by this transaction. */
static enum code_class group_transaction(struct db *db, const struct replay_group *g, bool *all)
{
    struct buf sql = {0};
    *all = false;
    enum code_class class = DB_EXEC(db, "START TRANSACTION");
    if (class != CODE_OK) return class;
    BUF_LIT(&sql, "UPDATE tally_rejects SET replayed_at = UTC_TIMESTAMP(3) WHERE replayed_at IS NULL AND"
                  " (batch, chunk, seq) IN (");
    for (size_t i = 0; i < g->n; i++) {
        buf_put_slice(&sql, i == 0 ? SLICE("(") : SLICE(",("));
        sql_id(&sql, &g->rows[i].id.batch);
        buf_printf(&sql, ",%u,%u)", g->rows[i].id.chunk, g->rows[i].id.seq);
    }
    BUF_LIT(&sql, ")");
    class = db_exec_free(db, &sql);
    *all = class == CODE_OK && db_affected(db) == g->n;
    if (!*all) return class;
    for (uint32_t count = 0; class == CODE_OK && count < counter_counts_n(g->c); count++)
        class = group_upsert(db, g, count);
    if (class != CODE_OK) return class;
    sql_counter_make(&sql, g->c->name, &g->rows[0].realm);
    class = db_exec_free(db, &sql);
    if (class != CODE_OK) return class;
    sql_counter_add(&sql, g->c->name, &g->rows[0].realm, g->sum, num_less(0, g->counted));
    class = db_exec_free(db, &sql);
    return class == CODE_OK ? DB_EXEC(db, "COMMIT") : class;
}

/* True: all of them are in. A COMMIT without an answer leaves the link down, so what follows ends with an error. */
static bool group_replay(struct db *db, struct replay_group *g)
{
    bool all = false;
    bool done = group_ready(db, g) && group_transaction(db, g, &all) == CODE_OK && all;
    for (size_t i = 0; i < g->n; i++)
        buf_free(&g->keys[i]);
    if (!done && db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    return done;
}

static enum err page_replay(struct db *db, const struct page *p, struct rejects_replay *run, struct error *e)
{
    enum err err = ERR_NONE;
    for (size_t at = 0, n; err == ERR_NONE && at < p->n; at += n) {
        const struct reject *first = &p->rows[at];
        n = 1;
        while (at + n < p->n && slice_eq(first[n].counter, first->counter) &&
               batch_id_same(&first[n].realm, &first->realm))
            n++;
        struct replay_group g = {.c = counters_find(run->counters, first->counter), .rows = first, .n = n};
        bool done = n > 1 && group_replay(db, &g);
        if (done) run->replayed += n;
        for (size_t i = 0; err == ERR_NONE && !done && i < n; i++)
            err = replay_one(db, &first[i], run, e);
        if (run->progress != NULL) run->progress(run->arg, run->replayed + run->refused);
    }
    return err;
}

enum err rejects_replay(struct db *db, const struct rejects_which *which, struct rejects_replay *run,
                        struct error *e)
{
    struct page p = {0};
    struct reject_id last = {0};
    enum err err = ERR_NONE;
    run->replayed = run->refused = 0;
    do {
        if (page_read(db, which, &last, &p) != CODE_OK) err = db_error(db, e);
        if (err == ERR_NONE && p.n > 0) err = page_replay(db, &p, run, e);
        if (p.n > 0) last = p.rows[p.n - 1].id;
    } while (err == ERR_NONE && p.n == PAGE);
    buf_free(&p.bytes);
    return err;
}

enum err rejects_reasons(struct db *db, const struct rejects_which *which, uint32_t limit,
                         void (*each)(void *arg, const struct reject_reason *r), void *arg, struct error *e)
{
    struct buf sql = {0};
    struct slice cell[6];
    BUF_LIT(&sql,
            "SELECT counter, reason, COUNT(*), CAST(SUM(IF(counted, CAST(delta AS SIGNED), 0)) AS SIGNED),"
            " MIN(pending_hash), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(rejected_at)) DIV 1000"
            " FROM tally_rejects");
    which_put(&sql, which);
    buf_printf(&sql, " GROUP BY counter, reason ORDER BY 3 DESC, 1, 2 LIMIT %u", limit);
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, 6)) {
        struct reject_reason r = {.counter = cell[0], .reason = cell[1], .key = cell[4]};
        (void)num_parse_u64(cell[2], &r.rows);
        (void)num_parse(cell[3], &r.delta);
        (void)num_parse(cell[5], &r.newest_ms);
        each(arg, &r);
    }
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

#define DROPPED_AT_ONCE 1000 /* rows a statement, so that none holds locks for long */

enum err rejects_drop(struct db *db, const struct rejects_which *which, uint64_t *dropped, struct error *e)
{
    struct buf sql = {0};
    enum code_class class;
    uint64_t gone = 0;
    *dropped = 0;
    BUF_LIT(&sql, "DELETE FROM tally_rejects");
    which_put(&sql, which);
    buf_printf(&sql, " LIMIT %d", DROPPED_AT_ONCE);
    do {
        class = db_exec(db, buf_slice(&sql));
        if (class == CODE_OK) *dropped += gone = db_affected(db);
    } while (class == CODE_OK && gone == DROPPED_AT_ONCE);
    buf_free(&sql);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}
