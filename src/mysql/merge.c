/* mysql/merge.c - the transaction of one chunk:
 *   START TRANSACTION; INSERT ledger row; upserts (or UPDATEs of rows that are there); INSERT rejects; UPDATE the counter's books; COMMIT
 * Each answer of MySQL is judged: go on, the whole transaction again, or end with an outcome. The counter's books come last: all chunks
 * of a counter want that row, so it is locked only during the COMMIT. */
#include "mysql/merge.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/sm.h"
#include "base/stats.h"

#include <stdio.h>
#include <time.h>

#define STATEMENT_MIN 4096    /* the merger's bound is never halved below */
#define STATEMENT_LARGE 16384 /* a link lost right after this much was sent may mean that it was too much */
#define LOCK_WAIT_OVER 1205
#define PACKET_MARGIN 64 /* a packet's head, and a little more */
/* It is there already when tally_ledger was dropped, and the batch is merged once more. */
#define REJECTS_TAIL " ON DUPLICATE KEY UPDATE seq = tally_rejects.seq"

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

enum verdict merge_ended(struct work *w, enum merge_outcome outcome, const char *text)
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
enum verdict merge_judge(struct work *w, enum code_class class)
{
    switch (class) {
    case CODE_OK:
        return GO_ON;
    case CODE_AGAIN:
        if (w->locks.in_rows && db_code(w->db) == LOCK_WAIT_OVER) return locks_found(w);
        return TRY_AGAIN;
    case CODE_FOREIGN:
        return TRY_AGAIN;
    case CODE_LINK:
        if (w->sql.n >= STATEMENT_LARGE) (void)statement_halve(w->merger);
        return TRY_AGAIN;
    case CODE_SIZE:
        db_close(w->db); /* one of the servers hangs up after 1153 */
        return statement_halve(w->merger) ? TRY_AGAIN : merge_ended(w, MERGE_HELD, db_text(w->db));
    case CODE_WAIT:
    case CODE_AWAY:
        return merge_ended(w, MERGE_DOWN, db_text(w->db));
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
    return merge_ended(w, MERGE_HELD, text);
}

size_t merge_packet_most(const struct work *w)
{
    uint64_t bytes = db_packet_bytes(w->db);
    return bytes > PACKET_MARGIN ? (size_t)bytes - PACKET_MARGIN : 0;
}

size_t merge_statement_most(const struct work *w)
{
    size_t most = merge_packet_most(w) / 4 * 3;
    return most < w->merger->statement_max ? most : w->merger->statement_max;
}

/* A statement that cannot be split. One that is too large for the server is not sent: the refusal would look like a
 * lost link. */
static enum verdict run(struct work *w)
{
    if (w->sql.n <= merge_packet_most(w)) return merge_judge(w, db_exec(w->db, buf_slice(&w->sql)));
    char text[200];
    snprintf(text, sizeof text, "a statement of %zu bytes does not fit max_allowed_packet = %llu; raise it",
             w->sql.n, (unsigned long long)db_packet_bytes(w->db));
    return merge_ended(w, MERGE_HELD, text);
}

enum verdict merge_run_literal(struct work *w, const char *statement)
{
    buf_reset(&w->sql);
    buf_put_slice(&w->sql, slice_str(statement));
    return run(w);
}

/* Of the hashes that are PART_NOW. */
static void plan_now(struct work *w)
{
    if (w->plan.chunk != NULL) plan_close(&w->plan);
    plan_make(&w->plan, w->chunk, w->counter, &w->forms, w->reject_reason, w->locks.state);
    w->plan_is_old = false;
}

void merge_where(struct work *w)
{
    BUF_LIT(&w->sql, " WHERE batch = ");
    sql_id(&w->sql, &w->chunk->batch->id);
    buf_printf(&w->sql, " AND chunk = %u", w->chunk->index);
}

/* While a part of it is left, each bit is inverted: a tallyd that knows of no parts leaves it alone. */
static void work_digest(const struct work *w, bool part, char digest[16])
{
    chunk_digest(w->chunk, (uint8_t *)digest);
    for (int i = 0; part && i < 16; i++)
        digest[i] = (char)~digest[i];
}

static void put_digest(struct work *w, const struct buf *left)
{
    char digest[16];
    work_digest(w, left->n > 0, digest);
    sql_hex(&w->sql, slice_of(digest, sizeof digest));
}

static void put_left(struct work *w, const struct buf *left)
{
    if (left->n > 0)
        sql_hex(&w->sql, buf_slice(left));
    else
        BUF_LIT(&w->sql, "NULL");
}

static void ledger_statement(struct work *w)
{
    const struct chunk *c = w->chunk;
    const struct batch *b = c->batch;
    struct buf key = {0}, left = {0};
    locks_left(w, &left);
    buf_reset(&w->sql);
    BUF_LIT(&w->sql,
            "INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key,"
            " digest, rows_merged, total, waiting, merged_at) VALUES (");
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
    put_digest(w, &left);
    buf_printf(&w->sql, ", %zu, %lld, ", w->plan.rows_n - w->plan.refused_n, (long long)w->plan.total);
    put_left(w, &left);
    BUF_LIT(&w->sql, ", UTC_TIMESTAMP(3))");
    buf_free(&key);
    buf_free(&left);
}

/* (!) When a run discards, each ledger row was touched within that run's life: pruning must not overtake a run that
 * scanned before (sync/run.c). Five minutes are little for ledger.keep, which is an hour at least. */
static enum verdict ledger_refresh(struct work *w)
{
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "UPDATE tally_ledger SET merged_at = UTC_TIMESTAMP(3)");
    merge_where(w);
    BUF_LIT(&w->sql, " AND merged_at < UTC_TIMESTAMP(3) - INTERVAL 5 MINUTE");
    return run(w);
}

/* Locks the row, so that pruning cannot come between this read and the refresh. */
static enum verdict ledger_select(struct work *w)
{
    enum verdict v = merge_run_literal(w, "ROLLBACK");
    if (v == GO_ON) v = merge_run_literal(w, "START TRANSACTION");
    if (v != GO_ON) return v;
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "SELECT digest, chunks, rows_merged, waiting FROM tally_ledger");
    merge_where(w);
    BUF_LIT(&w->sql, " FOR UPDATE");
    return merge_judge(w, db_query(w->db, buf_slice(&w->sql)));
}

/* The ledger's row is of some of its hashes: what is to be done is with the others. */
static enum verdict ledger_part(struct work *w, struct slice waiting)
{
    struct buf left = {0};
    locks_read(w, waiting);
    enum verdict v = GO_ON;
    if (!locks_any(w, PART_NOW)) {
        v = ledger_refresh(w);
        if (v == GO_ON) v = merge_run_literal(w, "COMMIT");
        return v == GO_ON ? merge_ended(w, MERGE_DONE, "") : v;
    }
    if (w->plan_is_old) plan_now(w);
    locks_left(w, &left);
    buf_reset(&w->sql);
    BUF_LIT(&w->sql, "UPDATE tally_ledger SET digest = ");
    put_digest(w, &left);
    BUF_LIT(&w->sql, ", waiting = ");
    put_left(w, &left);
    buf_printf(&w->sql, ", rows_merged = rows_merged + %zu, merged_at = UTC_TIMESTAMP(3), ",
               w->plan.rows_n - w->plan.refused_n);
    sql_sum_add(&w->sql, "total", w->plan.total);
    merge_where(w);
    buf_free(&left);
    return run(w);
}

/* 1062: is it the same chunk? */
static enum verdict ledger_compare(struct work *w)
{
    struct slice cell[4];
    char digest[16];
    int64_t chunks, rows = 0;
    enum verdict v = ledger_select(w);
    if (v != GO_ON) return v;
    if (!db_row(w->db, cell, 4)) { /* pruned since (not_after_ms looks to that), or lost */
        locks_forget(w);
        return TRY_AGAIN;
    }
    work_digest(w, cell[3].p != NULL, digest);
    bool same = slice_eq(cell[0], slice_of(digest, sizeof digest)) && num_parse(cell[1], &chunks) &&
                chunks == w->chunk->chunks && num_parse(cell[2], &rows);
    if (same && cell[3].p != NULL) return ledger_part(w, cell[3]);
    if (same) v = ledger_refresh(w);
    if (v == GO_ON) v = merge_run_literal(w, "COMMIT");
    if (v != GO_ON) return v;
    if (!same)
        return merge_ended(w, MERGE_CONFLICT,
                           "the ledger has this batch and chunk with other rows; see tally_ledger");
    w->chunk->rows_merged = (uint32_t)rows;
    w->chunk->rows_rejected = (uint32_t)(w->chunk->rows_n - (size_t)rows);
    return merge_ended(w, MERGE_ALREADY, "");
}

static enum verdict ledger_insert(struct work *w)
{
    if (w->locks.of_ledger) return ledger_compare(w);
    ledger_statement(w);
    if (w->sql.n > merge_packet_most(w)) return run(w);
    enum code_class class = db_exec(w->db, buf_slice(&w->sql));
    if (class == CODE_DUPLICATE) return ledger_compare(w);
    enum verdict v = merge_judge(w, class);
    if (v != GO_ON || db_affected(w->db) == 1) return v;
    return merge_ended(
        w, MERGE_HELD,
        "the ledger did not take its row; is tally_ledger a table of tallyd's? Run tallyd check");
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
            bool full = w->sql.n + sizeof REJECTS_TAIL > merge_statement_most(w);
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
    buf_printf(&w->sql, "UPDATE tally_ledger SET rows_merged = rows_merged - %zu",
               p->refused_n - p->refused_first);
    merge_where(w);
    return run(w);
}

/* (!) A tallyd that finds another primary takes the next epoch, and writes it into this row: without it the chunk is
 * not ours. */
static enum verdict books_add(struct work *w)
{
    const struct epoch *epoch = &w->chunk->epoch;
    buf_reset(&w->sql);
    sql_counter_add(&w->sql, buf_slice(&w->chunk->batch->counter_name), &epoch->realm,
                    num_less(w->plan.total, w->plan.rejected), w->plan.rejected);
    BUF_LIT(&w->sql, " AND epoch = ");
    sql_id(&w->sql, &epoch->id);
    enum verdict v = run(w);
    if (v != GO_ON || db_affected(w->db) == 1) return v;
    return merge_ended(w, MERGE_STALE, "the epoch is over: another tallyd has found another primary");
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
    enum verdict v = merge_run_literal(w, "COMMIT");
    if (v != GO_ON) return v;
    CRASH(merge_after_commit);
    if (w->chunk->rejected_n == 0) w->chunk->text[0] = 0;
    w->chunk->rows_rejected += (uint32_t)w->plan.refused_n;
    w->chunk->rows_merged += (uint32_t)(w->plan.rows_n - w->plan.refused_n);
    rejects_tell(w);
    if (w->counter != NULL) rows_merged(w);
    w->chunk->outcome = MERGE_DONE;
    return ENDED;
}

static enum verdict transaction(struct work *w)
{
    plan_again(&w->plan);
    enum verdict v = locks_wait_short(w);
    if (v == GO_ON) v = merge_run_literal(w, "START TRANSACTION");
    if (v == GO_ON) v = ledger_insert(w);
    if (v == GO_ON) CRASH(merge_after_ledger);
    if (v == GO_ON && w->counter != NULL) v = rows_merge(w);
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
        enum verdict v = merge_judge(w, columns_read(m->db, w->counter, out));
        if (v != GO_ON) return v;
        if (!columns_fit(out, w->counter)) {
            m->shapes_of = 0; /* read again next time: it may be corrected by then */
            return merge_ended(w, MERGE_HELD,
                               "the table or its key columns do not fit the counter; run tallyd check");
        }
        w->shape = heap_alloc(sizeof *w->shape);
        *w->shape = (struct shape){.forms = *out};
        map_put(&m->shapes, w->counter->name, w->shape);
    }
    *out = w->shape->forms;
    return GO_ON;
}

/* When a connection cannot be opened, the chunk ends for now: the pool learns when MySQL is back. So does one to
 * another server, whose ledger the gate has not seen. */
static bool connected(struct work *w)
{
    if (db_is_open(w->db)) return true;
    if (db_open(w->db) == CODE_OK && !db_moved(w->db)) return true;
    (void)merge_ended(w, MERGE_DOWN, db_is_open(w->db) ? "MySQL moved to another server" : db_text(w->db));
    return false;
}

static enum verdict try_once(struct work *w)
{
    if (age_ms() > w->chunk->not_after_ms)
        return merge_ended(w, MERGE_TOO_OLD, "too old: the ledger may be pruned by now");
    w->sql.n = 0;
    if (!connected(w)) return ENDED;
    enum verdict v = w->counter != NULL ? forms_read(w) : GO_ON;
    if (v == GO_ON && (w->plan.chunk == NULL || w->plan_is_old)) plan_now(w);
    if (v == GO_ON) v = transaction(w);
    if (v == ENDED && (w->chunk->outcome == MERGE_DONE || w->chunk->outcome == MERGE_ALREADY)) return v;
    if (v != ENDED) {
        STAT_ADD(chunks_retried, 1);
        enum code_class class = code_class(db_code(w->db));
        if (class == CODE_AGAIN) STAT_ADD(chunks_retried_deadlock, 1);
        if (class == CODE_LINK) STAT_ADD(chunks_retried_link, 1);
        if (class == CODE_SIZE) STAT_ADD(chunks_retried_size, 1);
    }
    char why[300]; /* ROLLBACK has an answer of its own */
    snprintf(why, sizeof why, "%s", db_text(w->db));
    /* After 1205 or 1264 the transaction is still open, and would be committed by the next one. */
    if (db_is_open(w->db) && DB_EXEC(w->db, "ROLLBACK") != CODE_OK) db_close(w->db);
    if (v == TRY_AGAIN) snprintf(w->chunk->text, sizeof w->chunk->text, "%s", why);
    return v;
}

/* One transaction, until it is through, or the chunk ends. */
static void part_run(struct work *w)
{
    struct chunk *c = w->chunk;
    char id[33];
    batch_id_hex(&c->batch->id, id);
    enum verdict v;
    for (unsigned tries = 0; (v = try_once(w)) != ENDED;) {
        if (v == NEXT_PART) continue;
        log_event(LOG_INFO, "chunk_retry", "batch=%s chunk=%u why=%s", id, c->index, LOGQ(c->text));
        c->outcome = MERGE_DOWN;
        if (++tries == MERGE_TRIES_MAX) return;
        uint64_t ms = rand_backoff_ms(tries - 1, 10, 500);
        nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
    }
}

static void work_run(struct work *w)
{
    struct chunk *c = w->chunk;
    c->rows_merged = c->rows_rejected = c->rejected_n = 0;
    c->text[0] = c->locked_by[0] = 0;
    locks_init(w);
    do {
        part_run(w);
    } while ((c->outcome == MERGE_DONE || c->outcome == MERGE_LOCKED) && locks_next(w));
    if (c->outcome == MERGE_DONE || c->outcome == MERGE_LOCKED) locks_left(w, &c->left);
    if (c->left.n > 0) locks_tell(w);
    if (c->outcome == MERGE_DONE && w->merger->statement_max < MERGE_STATEMENT_MAX)
        w->merger->statement_max *= 2;
    locks_close(w);
    if (w->plan.chunk != NULL) plan_close(&w->plan);
    buf_free(&w->sql);
    buf_free(&w->rows);
}

void merge_chunk(struct merger *m, struct chunk *c)
{
    struct work w = {.merger = m, .db = m->db, .chunk = c, .counter = c->batch->counter};
    if (c->index > 0) CRASH(merge_between_chunks);
    if (w.counter == NULL)
        (void)merge_ended(&w, MERGE_HELD,
                          "its counter is not configured; see `tallyd recover --reject-unknown`");
    else
        work_run(&w);
}

void merge_reject(struct merger *m, struct chunk *c, const char *reason)
{
    struct work w = {.merger = m, .db = m->db, .chunk = c, .reject_reason = reason};
    work_run(&w);
}
