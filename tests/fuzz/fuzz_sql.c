/* fuzz_sql.c - chunks into SQL text (mysql/merge.c, plan.c, text.c), and the text read back by a parser of its own that
 * knows nothing of theirs: an unknown word, a byte outside of x'..' that is no identifier of a counter which
 * counters_validate() took, a number of another form, and the run ends. Behind the parser are tables that commit and
 * roll back, and a server that fails as the input says.
 *   Each chunk goes in once or not at all; a row is then either in the counter's table, with its store, field and value as
 *   they were claimed, or among the rejects with the same bytes; ledger and books have their sums. Nothing is ever written
 *   outside of a transaction. */
#include "fuzz.h"

#include "base/log.h"
#include "mysql/merge.h"
#include "mysql/plan.h"

#include <ctype.h>
#include <time.h>

#define CHUNKS_MAX 16
#define ROUNDS 12 /* of each chunk, until MySQL works again */

int __wrap_nanosleep(const struct timespec *wait, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wait, struct timespec *left)
{
    (void)wait, (void)left;
    return 0;
}

/* ---- the tables ---- */

struct upsert {
    struct slice store, field; /* as the counter has them; in texts */
    int64_t delta;
};

struct reject {
    uint32_t seq;
    struct slice hash, field, value;
    bool counted;
};

struct entry { /* a chunk that is in, or that a transaction puts in */
    bool stands;
    struct slice first_key, last_key, digest;
    int64_t rows_merged, total, books_merged, books_rejected;
    struct upsert upserts[BATCH_CHUNK_ROWS];
    struct reject rejects[BATCH_CHUNK_ROWS];
    size_t upserts_n, rejects_n;
};

static const struct epoch epoch = {.realm = {{7, 1}}, .id = {{9, 2}}};

struct db {
    bool open, in_transaction;
    bool epoch_is_over; /* an UPDATE of the books finds no row */
    bool absent;        /* nor did one of a count */
    uint64_t opened;
    enum code_class code;
    enum db_dialect dialect;
    uint64_t packet;
    struct slice faults;
    const struct batch *batch;
    const struct counter *counter; /* NULL: all rows are rejected */
    struct columns forms;
    uint32_t at;      /* chunk of the transaction */
    struct entry now; /* what it did so far */
    struct entry in[CHUNKS_MAX];
    struct buf texts;         /* never moves */
    struct slice cells[3][6]; /* a result */
    size_t cells_n, cells_at;
    char numbers[2][24];
};

/* ---- reading SQL ---- */

struct sql {
    struct slice rest;
    struct db *db;
};

static bool next_is(const struct sql *s, const char *text)
{
    return slice_starts(s->rest, slice_str(text));
}

static bool sql_try(struct sql *s, const char *text)
{
    if (!next_is(s, text)) return false;
    (void)take_bytes(&s->rest, strlen(text));
    return true;
}

static void sql_expect(struct sql *s, const char *text)
{
    bool stands = sql_try(s, text);
    MUST(stands);
}

static struct slice text_room(struct db *db, size_t n)
{
    MUST(db->texts.cap - db->texts.n >= n);
    struct slice room = slice_of(db->texts.p + db->texts.n, n);
    db->texts.n += n;
    return room;
}

/* x'6162' -> ab */
static struct slice bytes_read(struct sql *s)
{
    sql_expect(s, "x'");
    const char *end = memchr(s->rest.p, '\'', s->rest.n);
    MUST(end != NULL);
    struct slice digits = take_bytes(&s->rest, (size_t)(end - s->rest.p)),
                 out = text_room(s->db, digits.n / 2);
    MUST(digits.n % 2 == 0 && hex_read(digits, (uint8_t *)(uintptr_t)out.p, out.n));
    sql_expect(s, "'");
    return out;
}

static struct slice digits_read(struct sql *s)
{
    size_t n = s->rest.n > 0 && s->rest.p[0] == '-' ? 1 : 0;
    while (n < s->rest.n && s->rest.p[n] >= '0' && s->rest.p[n] <= '9')
        n++;
    return take_bytes(&s->rest, n);
}

static int64_t number_read(struct sql *s)
{
    int64_t v;
    bool read = num_parse(digits_read(s), &v);
    MUST(read);
    return v;
}

static void name_expect(struct sql *s, struct slice name)
{
    sql_expect(s, "`");
    struct slice have = take_bytes(&s->rest, name.n);
    MUST(slice_eq(have, name));
    sql_expect(s, "`");
}

/* 20140920 or 20140920170000 -> 20140920[17] */
static struct slice time_number_read(struct sql *s, enum column_form form, enum field_kind kind)
{
    struct slice out = text_room(s->db, 10), text = digits_read(s);
    MUST(text.n == (form == FORM_DATE ? 8 : 14));
    MUST(form == FORM_DATE ||
         memcmp(text.p + (kind == FIELD_HOUR ? 10 : 8), "000000", kind == FIELD_HOUR ? 4 : 6) == 0);
    out.n = form == FORM_DATETIME && kind == FIELD_HOUR ? 10 : 8;
    memcpy((char *)(uintptr_t)out.p, text.p, out.n);
    return out;
}

/* '2014-09-20' or '2014-09-20 17:00:00' -> 20140920[17]. A date in a DATETIME is its midnight. */
static struct slice time_read(struct sql *s, enum column_form form, enum field_kind kind)
{
    if (!next_is(s, "'")) return time_number_read(s, form, kind);
    sql_expect(s, "'");
    struct slice out = text_room(s->db, 10), text = take_bytes(&s->rest, form == FORM_DATE ? 10 : 19);
    char *to = (char *)(uintptr_t)out.p;
    MUST(text.n == (form == FORM_DATE ? 10 : 19) && text.p[4] == '-' && text.p[7] == '-');
    memcpy(to, text.p, 4), memcpy(to + 4, text.p + 5, 2), memcpy(to + 6, text.p + 8, 2);
    out.n = 8;
    if (form == FORM_DATETIME) {
        MUST(text.p[10] == ' ' && memcmp(text.p + 13, ":00:00", 6) == 0);
        memcpy(to + 8, text.p + 11, 2);
        if (kind == FIELD_HOUR) out.n = 10;
        MUST(kind == FIELD_HOUR || memcmp(to + 8, "00", 2) == 0);
    }
    sql_expect(s, "'");
    return out;
}

/* _utf8mb4 x'6162', or 'ab' of bytes that end no literal. */
static struct slice text_read(struct sql *s)
{
    if (sql_try(s, "_utf8mb4 ")) return bytes_read(s);
    sql_expect(s, "'");
    size_t n = 0;
    while (n < s->rest.n && s->rest.p[n] != '\0' &&
           (isalnum((unsigned char)s->rest.p[n]) || strchr(" -.:_", s->rest.p[n]) != NULL))
        n++;
    struct slice out = text_room(s->db, n);
    memcpy((char *)(uintptr_t)out.p, take_bytes(&s->rest, n).p, n);
    sql_expect(s, "'");
    return out;
}

static struct slice value_read(struct sql *s, enum column_form form, enum field_kind kind)
{
    if (form == FORM_TEXT) return text_read(s);
    if (form == FORM_BYTES) return bytes_read(s);
    if (form != FORM_INTEGER) return time_read(s, form, kind);
    struct slice digits = digits_read(s);
    int64_t v;
    MUST(num_parse(digits, &v));
    struct slice out = text_room(s->db, digits.n);
    memcpy((char *)(uintptr_t)out.p, digits.p, digits.n);
    return out;
}

/* ---- statements ---- */

static void end_expect(const struct sql *s)
{
    MUST(s->rest.n == 0);
}

static void id_expect(struct sql *s)
{
    MUST(slice_eq(bytes_read(s), slice_of((const char *)s->db->batch->id.bytes, 16)));
}

static void realm_expect(struct sql *s)
{
    MUST(slice_eq(bytes_read(s), slice_of((const char *)epoch.realm.bytes, 16)));
}

/* False: the chunk is in, 1062. */
static bool ledger_run(struct sql *s)
{
    struct db *db = s->db;
    struct entry *e = &db->now;
    realm_expect(s);
    sql_expect(s, ", ");
    id_expect(s);
    sql_expect(s, ", ");
    db->at = (uint32_t)number_read(s);
    MUST(db->at < CHUNKS_MAX);
    sql_expect(s, ", ");
    MUST(number_read(s) == batch_chunks(db->batch));
    sql_expect(s, ", ");
    MUST(slice_eq(bytes_read(s), buf_slice(&db->batch->counter_name)));
    sql_expect(s, ", 12, ");
    *e = (struct entry){.first_key = bytes_read(s)};
    sql_expect(s, ", ");
    e->last_key = bytes_read(s);
    sql_expect(s, ", ");
    e->digest = bytes_read(s);
    sql_expect(s, ", ");
    e->rows_merged = number_read(s);
    sql_expect(s, ", ");
    e->total = number_read(s);
    sql_expect(s, ", UTC_TIMESTAMP(3))");
    end_expect(s);
    e->stands = true;
    return !db->in[db->at].stands;
}

/* Values that the table refuses, whatever else is in the statement. */
static bool is_poison(const struct upsert *u)
{
    return (u->delta & 15) == 13;
}

static void upsert_columns(struct sql *s)
{
    const struct counter *c = s->db->counter;
    sql_expect(s, "INSERT INTO ");
    name_expect(s, c->table);
    sql_expect(s, " (");
    if (c->key.has_store) {
        name_expect(s, c->column_store);
        sql_expect(s, ",");
    }
    name_expect(s, c->column_field);
    sql_expect(s, ",");
    name_expect(s, c->column_count);
    sql_expect(s, ") VALUES ");
}

/* `n` = `table`.`n`, as it is in the row */
static void count_expect(struct sql *s)
{
    const struct counter *c = s->db->counter;
    name_expect(s, c->column_count);
    sql_expect(s, s->db->forms.nullable ? " = COALESCE(" : " = ");
    name_expect(s, c->table);
    sql_expect(s, ".");
    name_expect(s, c->column_count);
    if (s->db->forms.nullable) sql_expect(s, ", 0)");
}

static void upsert_tail(struct sql *s)
{
    const struct counter *c = s->db->counter;
    bool alias = s->db->dialect == DB_ROW_ALIAS;
    sql_expect(s, alias ? " AS tallyd_row ON DUPLICATE KEY UPDATE " : " ON DUPLICATE KEY UPDATE ");
    count_expect(s);
    sql_expect(s, alias ? " + tallyd_row." : " + VALUES(");
    name_expect(s, c->column_count);
    if (!alias) sql_expect(s, ")");
    end_expect(s);
}

static void key_read(struct sql *s, struct upsert *u)
{
    const struct db *db = s->db;
    if (db->counter->key.has_store) {
        u->store = value_read(s, db->forms.store, FIELD_TEXT);
        sql_expect(s, ",");
    }
    u->field = value_read(s, db->forms.field, db->counter->field);
}

/* A negative delta of a count with bounds; some rows are not there. */
static enum code_class lower_run(struct sql *s)
{
    struct db *db = s->db;
    const struct counter *c = db->counter;
    struct upsert u = {0};
    MUST(db->forms.bounded);
    name_expect(s, c->table);
    sql_expect(s, " SET ");
    count_expect(s);
    sql_expect(s, " + (");
    u.delta = number_read(s);
    sql_expect(s, ") WHERE (");
    if (c->key.has_store) {
        name_expect(s, c->column_store);
        sql_expect(s, ",");
    }
    name_expect(s, c->column_field);
    sql_expect(s, ") = (");
    key_read(s, &u);
    sql_expect(s, ")");
    end_expect(s);
    MUST(u.delta < 0);
    if (is_poison(&u)) return CODE_POISON;
    db->absent = (u.delta & 7) == 3;
    if (db->absent) return CODE_OK;
    MUST(db->now.upserts_n < BATCH_CHUNK_ROWS);
    db->now.upserts[db->now.upserts_n++] = u;
    return CODE_OK;
}

static enum code_class upsert_run(struct sql *s)
{
    struct db *db = s->db;
    struct entry *e = &db->now;
    size_t before = e->upserts_n;
    bool poison = false;
    upsert_columns(s);
    do {
        struct upsert u = {0};
        sql_expect(s, "(");
        key_read(s, &u);
        sql_expect(s, ",");
        u.delta = number_read(s);
        sql_expect(s, ")");
        poison |= is_poison(&u);
        MUST(e->upserts_n < BATCH_CHUNK_ROWS);
        e->upserts[e->upserts_n++] = u;
    } while (sql_try(s, ","));
    upsert_tail(s);
    if (poison) e->upserts_n = before;
    return poison ? CODE_POISON : CODE_OK;
}

static void rejects_run(struct sql *s)
{
    struct db *db = s->db;
    do {
        struct reject r;
        sql_expect(s, "(");
        realm_expect(s);
        sql_expect(s, ",");
        id_expect(s);
        sql_expect(s, ",");
        MUST(number_read(s) == db->at);
        sql_expect(s, ",");
        r.seq = (uint32_t)number_read(s);
        sql_expect(s, ",");
        MUST(slice_eq(bytes_read(s), buf_slice(&db->batch->counter_name)));
        sql_expect(s, ",");
        r.hash = bytes_read(s);
        sql_expect(s, ",");
        r.field = bytes_read(s);
        sql_expect(s, ",");
        r.value = bytes_read(s);
        sql_expect(s, ",");
        r.counted = number_read(s) != 0;
        sql_expect(s, ",");
        MUST(bytes_read(s).n <= 300);
        sql_expect(s, ",UTC_TIMESTAMP(3))");
        MUST(db->now.rejects_n < BATCH_CHUNK_ROWS);
        db->now.rejects[db->now.rejects_n++] = r;
    } while (sql_try(s, ","));
    sql_expect(s, " ON DUPLICATE KEY UPDATE seq = tally_rejects.seq");
    end_expect(s);
}

static void books_run(struct sql *s)
{
    struct entry *e = &s->db->now;
    e->books_merged = number_read(s);
    sql_expect(s, "), rejected = rejected + (");
    e->books_rejected = number_read(s);
    sql_expect(s, "), chunks = chunks + 1 WHERE counter = ");
    MUST(slice_eq(bytes_read(s), buf_slice(&s->db->batch->counter_name)));
    sql_expect(s, " AND realm = ");
    realm_expect(s);
    sql_expect(s, " AND epoch = ");
    MUST(slice_eq(bytes_read(s), slice_of((const char *)epoch.id.bytes, 16)));
    end_expect(s);
    s->db->epoch_is_over = take_byte(&s->db->faults) % 16 == 15;
}

static void where_expect(struct sql *s)
{
    sql_expect(s, " WHERE batch = ");
    id_expect(s);
    sql_expect(s, " AND chunk = ");
    s->db->at = (uint32_t)number_read(s);
}

static void update_run(struct sql *s)
{
    if (sql_try(s, "merged_at = UTC_TIMESTAMP(3)")) {
        where_expect(s);
        sql_expect(s, " AND merged_at < UTC_TIMESTAMP(3) - INTERVAL 5 MINUTE");
    } else {
        sql_expect(s, "rows_merged = ");
        s->db->now.rows_merged = number_read(s);
        where_expect(s);
    }
    end_expect(s);
}

static void commit_run(struct db *db)
{
    MUST(!db->epoch_is_over);
    if (db->now.stands && !db->in[db->at].stands) db->in[db->at] = db->now;
    db->now = (struct entry){0};
    db->in_transaction = false;
}

static void rollback_run(struct db *db)
{
    db->now = (struct entry){0};
    db->in_transaction = db->epoch_is_over = false;
}

static enum code_class statement_run(struct sql *s)
{
    struct db *db = s->db;
    db->absent = false;
    if (sql_try(s, "START TRANSACTION")) {
        MUST(!db->in_transaction); /* it would commit what is open */
        db->in_transaction = true;
    } else if (sql_try(s, "COMMIT")) {
        commit_run(db);
    } else if (sql_try(s, "ROLLBACK")) {
        rollback_run(db);
    } else {
        MUST(db->in_transaction);
        if (sql_try(
                s, "INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key,"
                   " digest, rows_merged, total, merged_at) VALUES ("))
            return ledger_run(s) ? CODE_OK : CODE_DUPLICATE;
        if (sql_try(s, "UPDATE tally_counters SET merged = merged + ("))
            books_run(s);
        else if (sql_try(s,
                         "INSERT INTO tally_rejects (realm, batch, chunk, seq, counter, pending_hash, field,"
                         " delta, counted, reason, rejected_at) VALUES "))
            rejects_run(s);
        else if (sql_try(s, "UPDATE tally_ledger SET "))
            update_run(s);
        else
            return sql_try(s, "UPDATE ") ? lower_run(s) : upsert_run(s);
    }
    end_expect(s);
    return CODE_OK;
}

/* ---- mysql/db.h, with a server that fails as the input says ---- */

enum fault { FAULT_NONE, FAULT_AGAIN, FAULT_LINK, FAULT_WAIT, FAULT_SIZE, FAULT_OPERATOR, FAULT_AWAY };

static enum code_class failed(struct db *db, enum code_class code)
{
    db->code = code;
    if (code == CODE_LINK || code == CODE_WAIT || code == CODE_AWAY) {
        rollback_run(db);
        db->open = false;
    }
    return code;
}

/* Fails before the statement runs, or, a lost link, after it. */
static bool fails(struct db *db, struct sql *s, enum code_class *code)
{
    uint8_t fault = take_byte(&db->faults);
    switch (fault % 16) {
    case FAULT_AGAIN: /* 1213 ends the transaction, 1205 leaves it open */
        if (fault >= 128) rollback_run(db);
        *code = failed(db, CODE_AGAIN);
        return true;
    case FAULT_LINK:
        if (fault >= 128) (void)statement_run(s);
        *code = failed(db, CODE_LINK);
        return true;
    case FAULT_WAIT:
        *code = failed(db, CODE_WAIT);
        return true;
    case FAULT_SIZE:
        *code = failed(db, CODE_SIZE);
        return true;
    case FAULT_OPERATOR:
        *code = failed(db, CODE_OPERATOR);
        return true;
    case FAULT_AWAY:
        *code = failed(db, CODE_AWAY);
        return true;
    default:
        return false;
    }
}

enum code_class db_exec(struct db *db, struct slice text)
{
    struct sql s = {text, db};
    enum code_class code;
    MUST(db->open);
    MUST(memchr(text.p, '\0', text.n) == NULL && memchr(text.p, ';', text.n) == NULL);
    if (fails(db, &s, &code)) return code;
    if (text.n > db->packet) return failed(db, CODE_SIZE);
    code = statement_run(&s);
    return code == CODE_OK ? CODE_OK : failed(db, code);
}

static void cell_number(struct db *db, size_t which, int64_t v, struct slice *cell)
{
    *cell = slice_of(db->numbers[which], num_write(v, db->numbers[which]));
}

static void columns_answer(struct db *db)
{
    static const char *const types[] = {"text", "bigint", "date", "datetime", "varbinary", "varchar"};
    const struct slice none = SLICE("");
    const struct counter *c = db->counter;
    const char *count = db->forms.bounded ? "int" : "bigint";
    const struct slice cells[3][6] = {
        {c->column_count, slice_str(count), SLICE(""), db->forms.nullable ? SLICE("YES") : SLICE("NO"),
         slice_str(count), none},
        {c->column_field, slice_str(types[db->forms.field]), none, SLICE("NO"), none, none},
        {c->column_store, slice_str(types[db->forms.store]), none, SLICE("NO"), none, none}};
    memcpy(db->cells, cells, sizeof cells);
    db->cells_n = c->key.has_store ? 3 : 2;
}

static void ledger_answer(struct db *db, struct sql *s)
{
    where_expect(s);
    sql_expect(s, " FOR UPDATE");
    end_expect(s);
    const struct entry *e = &db->in[db->at];
    db->cells_n = e->stands;
    db->cells[0][0] = e->digest;
    cell_number(db, 0, batch_chunks(db->batch), &db->cells[0][1]);
    cell_number(db, 1, e->rows_merged, &db->cells[0][2]);
}

enum code_class db_query(struct db *db, struct slice text)
{
    struct sql s = {text, db};
    enum code_class code;
    MUST(db->open);
    db->cells_at = 0;
    if (take_byte(&db->faults) % 16 == FAULT_LINK) return failed(db, CODE_LINK);
    if (sql_try(&s, "SELECT digest, chunks, rows_merged FROM tally_ledger")) {
        MUST(db->in_transaction);
        ledger_answer(db, &s);
    } else {
        sql_expect(&s,
                   "SELECT COLUMN_NAME, DATA_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE, COLUMN_TYPE,"
                   " COALESCE(CHARACTER_SET_NAME, '') FROM information_schema.COLUMNS"
                   " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '");
        MUST(slice_eq(take_bytes(&s.rest, db->counter->table.n), db->counter->table));
        sql_expect(&s, "'");
        end_expect(&s);
        columns_answer(db);
    }
    code = CODE_OK;
    return code;
}

bool db_row(struct db *db, struct slice *cells, unsigned cells_n)
{
    MUST(cells_n <= 6);
    if (db->cells_at == db->cells_n) return false;
    memcpy(cells, db->cells[db->cells_at++], cells_n * sizeof *cells);
    return true;
}

enum code_class db_open(struct db *db)
{
    if (take_byte(&db->faults) % 16 == FAULT_WAIT) return failed(db, CODE_WAIT);
    rollback_run(db);
    db->open = true;
    db->opened++;
    return CODE_OK;
}
bool db_moved(const struct db *db)
{
    (void)db;
    return false;
}
bool db_is_open(const struct db *db)
{
    return db->open;
}
void db_close(struct db *db)
{
    rollback_run(db);
    db->open = false;
}
uint64_t db_opened(const struct db *db)
{
    return db->opened;
}
uint64_t db_affected(const struct db *db)
{
    return !db->epoch_is_over && !db->absent;
}
unsigned db_code(const struct db *db)
{
    static const unsigned codes[] = {0, 1213, 2013, 1040, 1290, 1062, 1264, 1153, 1146};
    return codes[db->code];
}
const char *db_text(const struct db *db)
{
    (void)db;
    return "as the input wanted it";
}
uint64_t db_packet_bytes(const struct db *db)
{
    return db->packet;
}
enum db_dialect db_dialect(const struct db *db)
{
    return db->dialect;
}

/* ---- what must be in the tables ---- */

static void row_stands(const struct db *db, const struct entry *e, const struct chunk *c, uint32_t seq,
                       size_t *upsert, size_t *reject)
{
    const struct batch *b = db->batch;
    const struct batch_row *row = &b->rows[c->first + seq];
    struct slice store = {0}, value = batch_value(b, row);
    int64_t delta;
    if (*reject < e->rejects_n && e->rejects[*reject].seq == seq) {
        const struct reject *r = &e->rejects[(*reject)++];
        MUST(slice_eq(r->hash, batch_hash_name(b, row->hash)) && slice_eq(r->field, batch_field(b, row)));
        MUST(slice_eq(r->value, value) && (!r->counted || num_parse(value, &delta)));
        return;
    }
    MUST(*upsert < e->upserts_n && db->counter != NULL);
    const struct upsert *u = &e->upserts[(*upsert)++];
    MUST(pattern_match(&db->counter->key, db->counter->store, batch_hash_name(b, row->hash), &store));
    MUST(!db->counter->key.has_store || slice_eq(u->store, store));
    MUST(slice_eq(u->field, batch_field(b, row)));
    MUST(num_parse(value, &delta) && delta == u->delta && !is_poison(u));
}

static int reject_order(const void *a, const void *b)
{
    const struct reject *left = a, *right = b;
    return (left->seq > right->seq) - (left->seq < right->seq);
}

static void entry_stands(const struct db *db, struct entry *e, const struct chunk *c)
{
    size_t upsert = 0, reject = 0;
    int64_t merged = 0, rejected = 0, delta;
    uint8_t digest[16];
    chunk_digest(c, digest);
    MUST(slice_eq(e->digest, slice_of((char *)digest, 16)));
    MUST(e->upserts_n + e->rejects_n == c->rows_n && (size_t)e->rows_merged == e->upserts_n);
    if (e->rejects_n > 0) qsort(e->rejects, e->rejects_n, sizeof e->rejects[0], reject_order);
    for (uint32_t seq = 0; seq < c->rows_n; seq++)
        row_stands(db, e, c, seq, &upsert, &reject);
    for (size_t i = 0; i < e->upserts_n; i++)
        merged += e->upserts[i].delta;
    for (size_t i = 0; i < e->rejects_n; i++)
        if (e->rejects[i].counted && num_parse(e->rejects[i].value, &delta)) rejected += delta;
    MUST(e->books_merged == merged && e->books_rejected == rejected && e->total == merged + rejected);
}

static void chunk_merge(struct db *db, struct merger *m, uint32_t index, const char *reason)
{
    struct chunk c = {0};
    batch_chunk(db->batch, index, &c);
    c.not_after_ms = UINT64_MAX;
    c.epoch = epoch;
    c.outcome = MERGE_DOWN;
    for (int i = 0; i < ROUNDS && (c.outcome == MERGE_DOWN || c.outcome == MERGE_STALE); i++) {
        if (db->counter == NULL)
            merge_reject(m, &c, reason);
        else
            merge_chunk(m, &c);
        MUST(!db->in_transaction);
    }
    struct entry *e = &db->in[index];
    MUST(c.outcome != MERGE_CONFLICT && c.outcome != MERGE_TOO_OLD);
    if (c.outcome == MERGE_DONE || c.outcome == MERGE_ALREADY) {
        MUST(e->stands && c.rows_merged == e->upserts_n && c.rows_rejected == e->rejects_n);
    }
    if (e->stands) entry_stands(db, e, &c);
}

/* ---- a batch from the input ---- */

static struct slice field_take(struct slice *in, enum field_kind kind, char out[24])
{
    uint8_t how = take_byte(in);
    if (how >= 240) return take_text(in);
    int n = 0;
    switch (kind) {
    case FIELD_DATE:
        n = snprintf(out, 24, "2014%02u%02u", how % 12 + 1, how / 12 + 1);
        break;
    case FIELD_HOUR:
        n = snprintf(out, 24, "201409%02u%02u", how % 30 + 1, how / 10);
        break;
    case FIELD_MONTH:
        n = snprintf(out, 24, "2014%02u", how % 12 + 1);
        break;
    case FIELD_INTEGER:
    case FIELD_TEXT:
    case FIELD_PLACES:
    case FIELD_COUNT:
    case FIELD_NONE:
        n = snprintf(out, 24, "%d", (int)how - 100);
        break;
    }
    return slice_of(out, (size_t)n);
}

static struct slice value_take(struct slice *in, char out[24])
{
    uint8_t how = take_byte(in);
    if (how >= 240) return take_text(in);
    return slice_of(out, (size_t)snprintf(out, 24, "%d", (int)how - 50));
}

static bool has_hash(const struct batch *b, struct slice name)
{
    for (size_t i = 0; i < b->hashes_n; i++)
        if (slice_eq(batch_hash_name(b, i), name)) return true;
    return false;
}

static bool has_row(const struct batch *b, uint32_t hash, struct slice field)
{
    for (size_t i = 0; i < b->rows_n; i++)
        if (b->rows[i].hash == hash && slice_eq(batch_field(b, &b->rows[i]), field)) return true;
    return false;
}

static void hash_take(struct batch *b, const struct counter *c, struct slice *in)
{
    struct buf name = {0};
    char text[24];
    uint8_t how = take_byte(in);
    if (how >= 240)
        buf_put_slice(&name, take_text(in));
    else
        pattern_put(&c->key,
                    how >= 120 ? take_text(in) : slice_of(text, (size_t)snprintf(text, 24, "%u", how)),
                    &name);
    unsigned rows = take_byte(in) % 12;
    if (!has_hash(b, buf_slice(&name))) {
        uint32_t hash = batch_add_hash(b, buf_slice(&name), 0);
        for (unsigned i = 0; i < rows && b->rows_n < CHUNKS_MAX * BATCH_CHUNK_ROWS; i++) {
            char field_text[24], value_text[24];
            struct slice field = field_take(in, c->field, field_text), value = value_take(in, value_text);
            b->hashes[hash].hlen += !has_row(b, hash, field);
            batch_add_row(b, hash, field, value);
        }
    }
    buf_free(&name);
}

static void batch_take(struct batch *b, const struct counter *c, struct slice *in)
{
    size_t which;
    struct batch_id id = {{1, 2, 3}};
    batch_init(b, &id);
    b->format = BATCH_FORMAT;
    b->gen = 12;
    buf_put_slice(&b->counter_name, c->name);
    for (unsigned n = take_byte(in) % 12; n > 0; n--)
        hash_take(b, c, in);
    bool sealed = batch_seal(b, &which);
    MUST(sealed);
}

static struct slice name_take(struct slice *in, const char *standard)
{
    uint8_t how = take_byte(in);
    return how < 200 ? slice_str(standard) : take_text(in);
}

static bool counter_take(struct counter *c, uint8_t shape, struct slice *in)
{
    struct error e;
    size_t which;
    *c = (struct counter){.name = SLICE("views"), .hits = 1, .every_s = 1};
    struct slice key = shape & 2 ? SLICE("s<store>:v") : SLICE("all"),
                 lock = shape & 2 ? SLICE("l<store>:v") : SLICE("l");
    MUST(pattern_parse(key, &c->key, &e) == ERR_NONE && pattern_parse(lock, &c->lock, &e) == ERR_NONE);
    c->store = shape & 4 ? STORE_TEXT : STORE_INTEGER;
    c->field = (enum field_kind)(shape >> 4 & 3);
    c->table = name_take(in, "product_views");
    c->column_store = c->key.has_store ? name_take(in, "store") : SLICE("");
    c->column_field = name_take(in, "field");
    c->column_count = name_take(in, "n");
    struct counters set = {.all = c, .n = 1};
    return counters_validate(&set, &which, &e) == ERR_NONE;
}

static struct columns forms_of(const struct counter *c, uint8_t wish)
{
    struct columns forms = {.store = wish & 1 && c->store == STORE_INTEGER ? FORM_INTEGER : FORM_BYTES,
                            .field = (enum column_form)(FORM_INTEGER + wish / 32 % 5),
                            .nullable = (wish & 8) != 0,
                            .bounded = (wish & 16) != 0};
    if (!column_fits(forms.field, counter_field_kind(c))) forms.field = FORM_BYTES;
    return forms;
}

static void merge_all(struct db *db, const char *reason)
{
    struct merger m;
    merger_init(&m, db);
    uint32_t chunks = batch_chunks(db->batch);
    MUST(chunks <= CHUNKS_MAX);
    for (uint32_t i = 0; i < chunks; i++)
        chunk_merge(db, &m, i, reason);
    merger_close(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct db db;
    struct slice in = slice_of((const char *)data, size);
    struct counter counter;
    struct batch b;
    uint8_t shape = take_byte(&in), wish = take_byte(&in), packet = take_byte(&in);
    struct buf texts = db.texts;
    log_set_level(LOG_ERROR); /* chunk_retry, again and again */
    if (!counter_take(&counter, shape, &in)) return 0;
    batch_take(&b, &counter, &in);
    b.counter = shape & 8 ? NULL : &counter;
    db = (struct db){.dialect = shape & 1 ? DB_ROW_ALIAS : DB_VALUES,
                     .packet = packet == 0 ? 1 << 20 : 700 + (uint64_t)packet * 40,
                     .faults = in,
                     .batch = &b,
                     .counter = b.counter,
                     .forms = forms_of(&counter, wish),
                     .texts = texts};
    buf_reset(&db.texts);
    buf_reserve(&db.texts, 4 << 20);
    merge_all(&db, "a reason's 'text'; with \\ and \n");
    batch_close(&b);
    log_set_level(LOG_INFO);
    return 0;
}
