/* mysql/ledger.c - see ledger.h. */
#include "mysql/ledger.h"

#include "base/slice.h"
#include "mysql/merge.h"
#include "mysql/text.h"

#include <stdio.h>

#define IDS_A_STATEMENT 1000

enum err ledger_gen_highest(struct db *db, const struct batch_id *realm, uint64_t *gen, struct error *e)
{
    struct claim_gen highest;
    enum code_class class = ledger_highest(db, realm, &highest);
    *gen = highest.gen;
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

enum err ledger_known(struct db *db, const struct batch_id *ids, size_t n, bool *known, struct error *e)
{
    if (n > 0) memset(known, 0, n * sizeof *known);
    for (size_t at = 0; at < n; at += IDS_A_STATEMENT) {
        size_t some = n - at < IDS_A_STATEMENT ? n - at : IDS_A_STATEMENT;
        struct buf sql = {0};
        struct slice cell;
        BUF_LIT(&sql, "SELECT DISTINCT batch FROM tally_ledger WHERE batch IN ");
        sql_ids(&sql, ids + at, some);
        if (db_query_free(db, &sql) != CODE_OK) return db_error(db, e);
        while (db_row(db, &cell, 1))
            for (size_t i = at; i < at + some; i++)
                known[i] |= slice_eq(cell, slice_of((const char *)ids[i].bytes, sizeof ids[i].bytes));
    }
    return ERR_NONE;
}

/* Only the server's clock decides when a row is written and when it is old. */
enum err ledger_cutoff(struct db *db, uint64_t keep_s, char out[LEDGER_CUTOFF_BYTES], struct error *e)
{
    struct buf sql = {0};
    struct slice cell;
    buf_printf(&sql, "SELECT UTC_TIMESTAMP(3) - INTERVAL %llu SECOND", (unsigned long long)keep_s);
    enum code_class class = db_query_free(db, &sql);
    if (class != CODE_OK) return db_error(db, e);
    if (!db_row(db, &cell, 1) || cell.p == NULL || cell.n + 3 > LEDGER_CUTOFF_BYTES)
        return error_set(e, ERR_USAGE, "the ledger cannot be kept for %llu seconds",
                         (unsigned long long)keep_s);
    snprintf(out, LEDGER_CUTOFF_BYTES, "'" SLICE_FMT "'", SLICE_ARG(cell));
    return ERR_NONE;
}

/* Written before the first row is deleted: a process that looks for an old batch in the ledger must see that its rows
 * may be gone. */
static enum code_class pruned_until_set(struct db *db, const struct batch_id *realm, const char *cutoff)
{
    struct buf sql = {0};
    buf_printf(
        &sql,
        "UPDATE tally_counters SET pruned_until = %s WHERE COALESCE(pruned_until < %s, 1) AND counter IN"
        " (SELECT counter FROM tally_ledger WHERE merged_at < %s AND realm = ",
        cutoff, cutoff, cutoff);
    sql_id(&sql, realm);
    BUF_LIT(&sql, ") AND realm = ");
    sql_id(&sql, realm);
    return db_exec_free(db, &sql);
}

enum err ledger_prune(struct db *db, struct ledger_prune *p, struct error *e)
{
    struct buf sql = {0};
    uint64_t gen;
    PRE(p->step > 0 && p->steps_max > 0 && p->cutoff[0] != '\0');
    p->pruned = 0;
    p->more = false;
    enum err err = ledger_gen_highest(db, &p->epoch.realm, &gen, e);
    if (err == ERR_NONE && pruned_until_set(db, &p->epoch.realm, p->cutoff) != CODE_OK) err = db_error(db, e);
    buf_printf(&sql, "DELETE FROM tally_ledger WHERE merged_at < %s AND gen < %llu AND realm = ", p->cutoff,
               (unsigned long long)gen);
    sql_id(&sql, &p->epoch.realm);
    /* (!) Only the primary knows which batches exist. */
    BUF_LIT(&sql,
            " AND EXISTS (SELECT 1 FROM tally_realms r WHERE r.realm = tally_ledger.realm AND r.epoch = ");
    sql_id(&sql, &p->epoch.id);
    BUF_LIT(&sql, ") AND batch NOT IN ");
    static const struct batch_id nobody = {{0}}; /* NOT IN (NULL) is never true */
    sql_ids(&sql, p->standing_n > 0 ? p->standing : &nobody, p->standing_n > 0 ? p->standing_n : 1);
    buf_printf(&sql, " ORDER BY merged_at LIMIT %u", p->step);
    p->more = err == ERR_NONE;
    for (uint32_t step = 0; p->more && step < p->steps_max; step++) {
        if (db_exec(db, buf_slice(&sql)) != CODE_OK) err = db_error(db, e);
        p->more = err == ERR_NONE && db_affected(db) == p->step;
        p->pruned += err == ERR_NONE ? db_affected(db) : 0;
    }
    buf_free(&sql);
    return err;
}

enum err ledger_complete_until(struct db *db, const struct epoch *epoch, struct slice counter,
                               int64_t wall_ms, struct error *e)
{
    struct buf sql = {0};
    BUF_LIT(&sql, "UPDATE tally_counters SET complete_until = GREATEST(COALESCE(complete_until, ");
    sql_ms(&sql, wall_ms);
    BUF_LIT(&sql, "), ");
    sql_ms(&sql, wall_ms);
    BUF_LIT(&sql, ") WHERE counter = ");
    sql_hex(&sql, counter);
    BUF_LIT(&sql, " AND realm = ");
    sql_id(&sql, &epoch->realm);
    BUF_LIT(&sql, " AND epoch = ");
    sql_id(&sql, &epoch->id);
    enum code_class class = db_exec_free(db, &sql);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

enum err ledger_reject_batch(struct db *db, const struct batch *b, const struct epoch *epoch,
                             const char *reason, uint64_t *rows, struct error *e)
{
    struct merger m;
    struct chunk c = {.not_after_ms = UINT64_MAX, .epoch = *epoch};
    char id[33];
    PRE(b->sealed);
    *rows = 0;
    enum err err = realm_counter_make(db, epoch, buf_slice(&b->counter_name), e);
    if (err != ERR_NONE) return err;
    merger_init(&m, db, NULL);
    for (uint32_t i = 0; i < batch_chunks(b); i++) {
        batch_chunk(b, i, &c);
        merge_reject(&m, &c, reason);
        if (c.outcome == MERGE_DONE) *rows += c.rows_rejected;
        if (c.outcome != MERGE_DONE && c.outcome != MERGE_ALREADY) break;
    }
    merger_close(&m);
    if (c.outcome == MERGE_DONE || c.outcome == MERGE_ALREADY) return ERR_NONE;
    batch_id_hex(&b->id, id);
    return error_set(e, c.outcome == MERGE_DOWN ? ERR_UNAVAILABLE : ERR_FAILED, "batch %s, chunk %u: %s", id,
                     c.index, c.text);
}
