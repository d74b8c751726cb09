/* fuzz_sql.c - chunks into SQL text (mysql/merge.c, merge_rows.c, plan.c, text.c), and the text read back by a parser of its own that
 * knows nothing of theirs: an unknown word, a byte outside of x'..' that is no identifier of a counter which
 * counters_validate() took, a number of another form, and the run ends. Behind the parser are tables that commit and
 * roll back, and a server that fails as the input says.
 *   Each chunk goes in once or not at all, or all of it but the hashes that its ledger row names; a row is then either in the counter's table, where its key columns and its count make the
 *   hash and the field that were claimed, or among the rejects with the same bytes; ledger and books have their sums. Nothing is
 *   ever written outside of a transaction. A counter that makes no rows inserts none, and updates what it has not seen to be there
 *   only behind a savepoint. Where nothing fails, there is one statement for each column of counts, and perhaps one that is taken back. */
#include "fuzz.h"

#include "base/log.h"
#include "mysql/merge.h"

#include <ctype.h>
#include <time.h>

#define CHUNKS_MAX 16
#define ROUNDS 12 /* of each chunk, until MySQL works again */
#define MORE_MAX 4
#define KEYS_MAX (2 + MORE_MAX) /* of the store, of the field, more */
#define SETS_MAX 2
#define COUNTS_MAX 3
#define LOOKS 8 /* chunks, after an UPDATE that was taken back */
#define PACKET_MOST (1 << 20)
#define SERVER_SAYS "as the input wanted it"

int __wrap_nanosleep(const struct timespec *wait, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wait, struct timespec *left)
{
    (void)wait, (void)left;
    return 0;
}

/* ---- the tables ---- */

struct upsert {
    struct slice keys[KEYS_MAX]; /* as the app sends them; in texts */
    uint32_t count;
    int64_t delta;
};

struct reject {
    uint32_t seq;
    struct slice hash, field, value, reason;
    bool counted;
};

struct entry { /* a chunk that is in, or that a transaction puts in */
    bool stands;
    struct slice first_key, last_key, digest, left; /* left: hashes that are not in; p NULL: none */
    int64_t rows_merged, total, books_merged, books_rejected;
    struct upsert upserts[BATCH_CHUNK_ROWS];
    struct reject rejects[BATCH_CHUNK_ROWS];
    size_t upserts_n, rejects_n;
    unsigned writes;
};

static const struct epoch epoch = {.realm = {{7, 1}}, .id = {{9, 2}}};

struct db {
    bool open, in_transaction;
    bool epoch_is_over;         /* an UPDATE of the books finds no row */
    bool collated;              /* texts have a character set, and fold */
    unsigned looks;             /* so many more chunks must look first */
    unsigned failures, lowered; /* the last, and what follows: of the transaction */
    bool blind;                 /* its next UPDATE is without a look */
    bool asks, takes;           /* a row of before, to be taken back: it is asked for; it was taken */
    bool lock, locks;           /* the last failure was a lock; any was */
    bool values_only;           /* the sender's: rows refused for their values are rejects */
    uint32_t found;             /* set of rows that it saw, and locked */
    uint32_t pass;              /* column of counts that it is at */
    unsigned probes;
    const struct rows_text *rows; /* the form that the server took; NULL: it was not asked */
    uint64_t opened, affected;
    enum code_class code;
    enum db_dialect dialect;
    uint64_t packet;
    struct slice faults;
    const struct batch *batch;
    const struct counter *counter; /* NULL: all rows are rejected */
    struct columns forms;
    uint32_t at;             /* chunk of the transaction */
    struct entry now, saved; /* what it did so far, and until its savepoint */
    struct entry in[CHUNKS_MAX];
    struct buf texts;                                            /* never moves */
    struct slice cells[1 + KEYS_MAX + SETS_MAX + COUNTS_MAX][6]; /* a result */
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

/* '2014-09-20' or '2014-09-20 17:00:00' -> 20140920[17]. A date in a DATETIME is its midnight, a month its first day. */
static struct slice time_read(struct sql *s, enum column_form form, enum value_kind kind)
{
    sql_expect(s, "'");
    struct slice out = text_room(s->db, 10), text = take_bytes(&s->rest, form == FORM_DATE ? 10 : 19);
    char *to = (char *)(uintptr_t)out.p;
    MUST(text.n == (form == FORM_DATE ? 10 : 19) && text.p[4] == '-' && text.p[7] == '-');
    memcpy(to, text.p, 4), memcpy(to + 4, text.p + 5, 2), memcpy(to + 6, text.p + 8, 2);
    out.n = kind == VALUE_MONTH ? 6 : 8;
    MUST(kind != VALUE_MONTH || memcmp(to + 6, "01", 2) == 0);
    if (form == FORM_DATETIME) {
        MUST(text.p[10] == ' ' && memcmp(text.p + 13, ":00:00", 6) == 0);
        memcpy(to + 8, text.p + 11, 2);
        if (kind == VALUE_HOUR) out.n = 10;
        MUST(kind == VALUE_HOUR || memcmp(to + 8, "00", 2) == 0);
    }
    sql_expect(s, "'");
    return out;
}

static struct slice number_text_read(struct sql *s)
{
    struct slice digits = digits_read(s), out = text_room(s->db, digits.n);
    int64_t v;
    MUST(num_parse(digits, &v));
    memcpy((char *)(uintptr_t)out.p, digits.p, digits.n);
    return out;
}

/* A column of texts has a time as it was sent; from any other it is spelled again. */
static struct slice value_read(struct sql *s, enum column_form form, struct value_type type)
{
    if (form == FORM_TEXT) sql_expect(s, "_utf8mb4 ");
    if (form == FORM_BYTES || form == FORM_TEXT) return bytes_read(s);
    struct slice plain = form == FORM_INTEGER ? number_text_read(s) : time_read(s, form, type.kind);
    if (type.kind == VALUE_INTEGER || type.kind == VALUE_TEXT) return plain;
    struct buf spelled = {0};
    value_spell(&type, plain, &spelled);
    struct slice out = text_room(s->db, spelled.n);
    memcpy((char *)(uintptr_t)out.p, spelled.p, spelled.n);
    buf_free(&spelled);
    return out;
}

/* ---- key columns ---- */

static size_t keys_n(const struct counter *c)
{
    return 2 + c->more_n;
}

/* n = 0: it has none such. */
static struct slice key_name(const struct counter *c, size_t i)
{
    return i == 0 ? c->column_store : i == 1 ? c->column_field : c->more[i - 2].name;
}

static enum column_form key_form(const struct db *db, size_t i)
{
    return i == 0 ? db->forms.store : i == 1 ? db->forms.field : db->forms.more[i - 2];
}

static struct value_type key_type(const struct counter *c, size_t i)
{
    if (i == 0) return (struct value_type){VALUE_TEXT, SPELLED_DIGITS, 0};
    if (i == 1) return c->spelled;
    const struct key_column *column = &c->more[i - 2];
    if (column->from == FROM_CONSTANT) return (struct value_type){VALUE_TEXT, SPELLED_DIGITS, 0};
    return (column->from == FROM_KEY ? c->key.places : c->field_places)->at[column->at].type;
}

/* What the operator wrote, in a column of any form. */
static void constant_expect(struct sql *s, enum column_form form, struct slice constant)
{
    if (form == FORM_INTEGER) {
        MUST(slice_eq(digits_read(s), constant));
        return;
    }
    if (form != FORM_BYTES) sql_expect(s, "_utf8mb4 ");
    MUST(slice_eq(bytes_read(s), constant));
}

static void key_read(struct sql *s, struct upsert *u)
{
    const struct counter *c = s->db->counter;
    bool any = false;
    for (size_t i = 0; i < keys_n(c); i++) {
        if (key_name(c, i).n == 0) continue;
        if (any) sql_expect(s, ",");
        any = true;
        if (i >= 2 && c->more[i - 2].from == FROM_CONSTANT)
            constant_expect(s, key_form(s->db, i), c->more[i - 2].constant);
        else
            u->keys[i] = value_read(s, key_form(s->db, i), key_type(c, i));
    }
}

static void key_names_expect(struct sql *s)
{
    const struct counter *c = s->db->counter;
    bool any = false;
    for (size_t i = 0; i < keys_n(c); i++) {
        if (key_name(c, i).n == 0) continue;
        if (any) sql_expect(s, ",");
        any = true;
        name_expect(s, key_name(c, i));
    }
}

static void places_make(const struct counter *c, const struct places *p, enum column_from from,
                        const struct upsert *u, struct buf *out)
{
    struct slice values[PLACES_MAX] = {u->keys[0]};
    for (uint32_t i = 0; i < c->more_n; i++)
        if (c->more[i].from == from) values[c->more[i].at] = u->keys[2 + i];
    places_put(p, values, out);
}

/* The name of the hash, and the field, of which these columns are. */
static void row_make(const struct counter *c, const struct upsert *u, struct buf *name, struct buf *field)
{
    if (c->key.places == NULL)
        pattern_put(&c->key, u->keys[0], name);
    else
        places_make(c, c->key.places, FROM_KEY, u, name);
    if (c->field == FIELD_PLACES)
        places_make(c, c->field_places, FROM_FIELD, u, field);
    else if (c->field == FIELD_COUNT)
        buf_put_slice(field, c->counts[u->count].field);
    else
        buf_put_slice(field, c->field == FIELD_NONE ? SLICE("count") : u->keys[1]);
}

/* Of a counter that makes no rows: is it in the table? All counts of a row are there, or none, and all texts that fold into it. */
static bool is_there(const struct counter *c, struct slice name, struct slice field)
{
    unsigned sum = 0;
    for (size_t i = 0; i < name.n; i++)
        sum += (unsigned)tolower((unsigned char)name.p[i]);
    for (size_t i = 0; i < field.n && c->field != FIELD_COUNT; i++)
        sum += (unsigned)tolower((unsigned char)field.p[i]);
    return sum % 4 != 0;
}

static bool row_is_there(const struct counter *c, const struct upsert *u)
{
    struct buf name = {0}, field = {0};
    row_make(c, u, &name, &field);
    bool there = is_there(c, buf_slice(&name), buf_slice(&field));
    buf_free(&name);
    buf_free(&field);
    return there;
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

static struct slice left_read(struct sql *s)
{
    return sql_try(s, "NULL") ? slice_of(NULL, 0) : bytes_read(s);
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
    sql_expect(s, ", ");
    e->left = left_read(s);
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

/* A text that its column's character set does not have: the look for its row fails. */
static bool is_unfit(const struct upsert *u)
{
    return (u->delta & 15) == 11;
}

/* All rows of one column of counts come before those of the next. */
static uint32_t count_read(struct sql *s)
{
    const struct counter *c = s->db->counter;
    uint32_t i = 0;
    if (c->field == FIELD_COUNT)
        while (i + 1 < c->counts_n &&
               !slice_starts(slice_of(s->rest.p + 1, s->rest.n - 1), c->counts[i].column))
            i++;
    name_expect(s, c->field == FIELD_COUNT ? c->counts[i].column : c->column_count);
    MUST(i >= s->db->pass || s->db->asks);
    return s->db->pass = i;
}

static struct slice count_name(const struct db *db)
{
    return db->counter->field == FIELD_COUNT ? db->counter->counts[db->pass].column
                                             : db->counter->column_count;
}

/* `table`.`n`, as it is in the row */
static void count_expect(struct sql *s)
{
    if (s->db->forms.nullable) sql_expect(s, "COALESCE(");
    name_expect(s, s->db->counter->table);
    sql_expect(s, ".");
    name_expect(s, count_name(s->db));
    if (s->db->forms.nullable) sql_expect(s, ", 0)");
}

static void set_expect(struct sql *s, uint32_t i)
{
    static const char *const now[] = {
        [FORM_INTEGER] = "UNIX_TIMESTAMP()", [FORM_DATE] = "CURRENT_DATE()", [FORM_DATETIME] = "NOW()"};
    enum column_form form = s->db->forms.sets[i];
    struct slice constant = s->db->counter->sets[i].constant;
    if (constant.p == NULL)
        sql_expect(s, now[form]);
    else
        constant_expect(s, form, constant);
}

static void updates_expect(struct sql *s)
{
    const struct counter *c = s->db->counter;
    for (uint32_t i = 0; i < c->sets_n; i++) {
        if (!c->sets[i].at_update) continue;
        sql_expect(s, ", ");
        name_expect(s, c->table);
        sql_expect(s, ".");
        name_expect(s, c->sets[i].name);
        sql_expect(s, " = ");
        set_expect(s, i);
    }
}

static void upsert_columns(struct sql *s)
{
    const struct counter *c = s->db->counter;
    MUST(c->missing == MISSING_INSERT);
    sql_expect(s, "INSERT INTO ");
    name_expect(s, c->table);
    sql_expect(s, " (");
    key_names_expect(s);
    sql_expect(s, ",");
    (void)count_read(s);
    for (uint32_t i = 0; i < c->sets_n; i++) {
        if (!c->sets[i].at_insert) continue;
        sql_expect(s, ",");
        name_expect(s, c->sets[i].name);
    }
    sql_expect(s, ") VALUES ");
}

static void upsert_tail(struct sql *s)
{
    bool alias = s->db->dialect == DB_ROW_ALIAS;
    sql_expect(s, alias ? " AS tallyd_row ON DUPLICATE KEY UPDATE " : " ON DUPLICATE KEY UPDATE ");
    name_expect(s, count_name(s->db));
    sql_expect(s, " = ");
    count_expect(s);
    sql_expect(s, alias ? " + tallyd_row." : " + VALUES(");
    name_expect(s, count_name(s->db));
    if (!alias) sql_expect(s, ")");
    updates_expect(s);
    end_expect(s);
}

static void upsert_add(struct db *db, const struct upsert *u)
{
    MUST(db->now.upserts_n < BATCH_CHUNK_ROWS);
    db->now.upserts[db->now.upserts_n++] = *u;
}

/* A negative delta of a count with bounds; some rows are not there. */
static enum code_class lower_run(struct sql *s)
{
    struct db *db = s->db;
    const struct counter *c = db->counter;
    struct upsert u = {0};
    MUST(db->asks ? c->missing != MISSING_INSERT
                  : (db->forms.bounded || db->failures > 0) && c->missing == MISSING_INSERT);
    name_expect(s, c->table);
    sql_expect(s, " SET ");
    u.count = count_read(s);
    sql_expect(s, " = ");
    count_expect(s);
    sql_expect(s, " + (");
    u.delta = number_read(s);
    sql_expect(s, ")");
    updates_expect(s);
    sql_expect(s, " WHERE (");
    key_names_expect(s);
    sql_expect(s, ") = (");
    key_read(s, &u);
    sql_expect(s, ")");
    end_expect(s);
    MUST(u.delta < 0 || db->asks);
    db->lowered++;
    if (is_poison(&u)) return CODE_POISON;
    db->affected = (u.delta & 7) != 3;
    if (db->affected > 0) upsert_add(db, &u);
    db->takes |= db->asks && db->affected > 0;
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
        struct upsert u = {.count = db->pass};
        sql_expect(s, "(");
        key_read(s, &u);
        sql_expect(s, ",");
        u.delta = number_read(s);
        for (uint32_t i = 0; i < db->counter->sets_n; i++) {
            if (!db->counter->sets[i].at_insert) continue;
            sql_expect(s, ",");
            set_expect(s, i);
        }
        sql_expect(s, ")");
        poison |= is_poison(&u);
        upsert_add(db, &u);
    } while (sql_try(s, ","));
    upsert_tail(s);
    db->now.writes++;
    if (poison) e->upserts_n = before;
    db->takes |= db->asks && !poison;
    return poison ? CODE_POISON : CODE_OK;
}

/* ---- rows that are there ---- */

static void column_expect(struct sql *s, const char *format, size_t i)
{
    char text[200];
    snprintf(text, sizeof text, format, i, i, i);
    sql_expect(s, text);
}

static const struct rows_text {
    const char *first, *next, *end;
} rows_texts[] = {{" UNION ALL VALUES (", ",(", ")"},
                  {" UNION ALL VALUES ROW(", ",ROW(", ")"},
                  {" UNION ALL SELECT ", " UNION ALL SELECT ", ""}};

/* Of forms that the server refuses the last needs no question. */
static enum code_class probe_run(struct sql *s, bool takes)
{
    struct db *db = s->db;
    const struct rows_text *form = &rows_texts[db->probes];
    MUST(db->counter->missing != MISSING_INSERT && db->rows == NULL && db->probes < 2);
    sql_expect(s, form->first);
    sql_expect(s, "1");
    sql_expect(s, form->end);
    end_expect(s);
    db->cells_n = 0;
    db->rows = takes ? form : db->probes++ == 1 ? form + 1 : NULL;
    return db->code = takes ? CODE_OK : CODE_OPERATOR;
}

/* A table of rows, with their numbers. */
static size_t rows_read(struct sql *s, struct upsert *rows, int64_t *numbers)
{
    const struct counter *c = s->db->counter;
    const struct rows_text *form = s->db->rows;
    size_t n = 0;
    MUST(form != NULL);
    sql_expect(s, "SELECT 0 AS s, 0 AS d");
    for (size_t i = 0; i < keys_n(c); i++)
        if (key_name(c, i).n > 0) column_expect(s, ", NULL AS k%zu", i);
    sql_expect(s, " FROM DUAL WHERE FALSE");
    sql_expect(s, form->first);
    do {
        MUST(n < BATCH_CHUNK_ROWS);
        numbers[n] = number_read(s);
        MUST(numbers[n] >= 0 && numbers[n] < BATCH_CHUNK_ROWS);
        rows[n] = (struct upsert){0};
        sql_expect(s, ",");
        rows[n].delta = number_read(s);
        sql_expect(s, ",");
        key_read(s, &rows[n++]);
        sql_expect(s, form->end);
    } while (sql_try(s, form->next));
    return n;
}

static bool is_collated(const struct db *db, size_t i)
{
    return db->collated && key_form(db, i) == FORM_TEXT && key_name(db->counter, i).n > 0;
}

static void join_expect(struct sql *s, bool own)
{
    const struct counter *c = s->db->counter;
    const char *and = " ON ";
    sql_expect(s, ") d STRAIGHT_JOIN ");
    name_expect(s, c->table);
    for (size_t i = 0; i < keys_n(c); i++) {
        if (key_name(c, i).n == 0) continue;
        sql_expect(s, and);
        name_expect(s, c->table);
        sql_expect(s, ".");
        name_expect(s, key_name(c, i));
        column_expect(
            s,
            is_collated(s->db, i) && !own
                ? " = CONVERT(d.k%zu USING utf8mb4) COLLATE utf8mb4_general_ci AND CONVERT(CONVERT(d.k%zu "
                  "USING utf8mb4) USING utf8mb4) COLLATE utf8mb4_bin = d.k%zu"
                : " = d.k%zu",
            i);
        and = " AND ";
    }
}

static enum code_class find_run(struct sql *s)
{
    struct db *db = s->db;
    struct upsert rows[BATCH_CHUNK_ROWS];
    int64_t numbers[BATCH_CHUNK_ROWS];
    bool unfit = false;
    MUST(db->in_transaction && db->counter->missing != MISSING_INSERT);
    size_t n = rows_read(s, rows, numbers);
    join_expect(s, false);
    sql_expect(s, " FOR UPDATE");
    end_expect(s);
    db->cells_n = 0;
    db->blind = false;
    for (size_t i = 0; i < n; i++) {
        unfit |= is_unfit(&rows[i]);
        if (!row_is_there(db->counter, &rows[i])) continue;
        db->found |= 1U << numbers[i];
        struct slice cell = text_room(db, 21);
        db->cells[db->cells_n++][0] = slice_of(cell.p, num_write(numbers[i], (char *)(uintptr_t)cell.p));
    }
    return unfit ? CODE_POISON : CODE_OK;
}

/* The keys as the table has them, each with its sum. */
static size_t sums_read(struct sql *s, struct upsert *rows, int64_t *numbers)
{
    const struct counter *c = s->db->counter;
    size_t keys = 0;
    sql_expect(s, "SELECT ");
    for (size_t i = 0; i < keys_n(c); i++) {
        if (key_name(c, i).n == 0) continue;
        if (keys++ > 0) sql_expect(s, ", ");
        name_expect(s, c->table);
        sql_expect(s, ".");
        name_expect(s, key_name(c, i));
        column_expect(s, " AS k%zu", i);
    }
    sql_expect(s, ", CAST(SUM(d.d) AS SIGNED) AS d FROM (");
    size_t n = rows_read(s, rows, numbers);
    join_expect(s, false);
    sql_expect(s, " GROUP BY 1");
    for (size_t i = 2; i <= keys; i++)
        column_expect(s, ", %zu", i);
    return n;
}

static bool is_one_row(const struct db *db, const struct upsert *a, const struct upsert *b)
{
    for (size_t i = 0; i < keys_n(db->counter); i++)
        if (!(is_collated(db, i) ? slice_ieq : slice_eq)(a->keys[i], b->keys[i])) return false;
    return true;
}

/* A row of the table is changed once, unless what folds into it was summed. */
static enum code_class rows_change(struct db *db, struct upsert *rows, const int64_t *numbers, size_t n,
                                   bool summed)
{
    size_t before = db->now.upserts_n;
    bool poison = false;
    db->affected = 0;
    for (size_t i = 0, same; i < n; i++) {
        bool there = row_is_there(db->counter, &rows[i]);
        MUST(db->blind || ((db->found >> numbers[i] & 1) != 0 && !is_unfit(&rows[i])));
        poison |= is_unfit(&rows[i]) || (there && is_poison(&rows[i]));
        for (same = summed ? i : 0; same < i && !is_one_row(db, &rows[same], &rows[i]);)
            same++;
        if (!there || same < i) continue;
        rows[i].count = db->pass;
        db->affected += rows[i].delta != 0;
        upsert_add(db, &rows[i]);
    }
    db->blind = false;
    if (poison) db->now.upserts_n = before;
    return poison ? CODE_POISON : CODE_OK;
}

static enum code_class update_rows_run(struct sql *s)
{
    struct db *db = s->db;
    struct upsert rows[BATCH_CHUNK_ROWS];
    int64_t numbers[BATCH_CHUNK_ROWS];
    bool summed = false;
    MUST(db->counter->missing != MISSING_INSERT);
    for (size_t i = 0; !db->blind && i < keys_n(db->counter); i++)
        summed |= is_collated(db, i);
    size_t n = (summed ? sums_read : rows_read)(s, rows, numbers);
    join_expect(s, summed);
    sql_expect(s, " SET ");
    name_expect(s, db->counter->table);
    sql_expect(s, ".");
    (void)count_read(s);
    sql_expect(s, " = ");
    count_expect(s);
    sql_expect(s, " + d.d");
    updates_expect(s);
    end_expect(s);
    db->now.writes++;
    return rows_change(db, rows, numbers, n, summed);
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
        r.reason = bytes_read(s);
        MUST(r.reason.n <= 300);
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
    e->books_merged = num_add(e->books_merged, number_read(s));
    sql_expect(
        s,
        "), 18446744073709551616) - 9223372036854775808, rejected = MOD(rejected + 27670116110564327424 + (");
    e->books_rejected = num_add(e->books_rejected, number_read(s));
    sql_expect(s, "), 18446744073709551616) - 9223372036854775808, chunks = chunks + 1 WHERE counter = ");
    MUST(slice_eq(bytes_read(s), buf_slice(&s->db->batch->counter_name)));
    sql_expect(s, " AND realm = ");
    realm_expect(s);
    sql_expect(s, " AND epoch = ");
    MUST(slice_eq(bytes_read(s), slice_of((const char *)epoch.id.bytes, 16)));
    end_expect(s);
    s->db->epoch_is_over = take_byte(&s->db->faults) % 16 == 15;
    s->db->affected = !s->db->epoch_is_over;
}

static void where_expect(struct sql *s)
{
    sql_expect(s, " WHERE batch = ");
    id_expect(s);
    sql_expect(s, " AND chunk = ");
    s->db->at = (uint32_t)number_read(s);
}

/* The rest of a chunk, or some of it. */
static void part_run(struct sql *s)
{
    struct entry e = {.digest = bytes_read(s)}, *in, *now = &s->db->now;
    sql_expect(s, ", waiting = ");
    e.left = left_read(s);
    sql_expect(s, ", rows_merged = rows_merged + ");
    e.rows_merged = number_read(s);
    sql_expect(s, ", merged_at = UTC_TIMESTAMP(3), total = MOD(total + 27670116110564327424 + (");
    e.total = number_read(s);
    sql_expect(s, "), 18446744073709551616) - 9223372036854775808");
    where_expect(s);
    in = &s->db->in[s->db->at];
    MUST(in->stands && in->left.n > 0 && !now->stands);
    *now = *in;
    now->digest = e.digest, now->left = e.left;
    now->rows_merged += e.rows_merged, now->total = num_add(now->total, e.total);
}

static void update_run(struct sql *s)
{
    if (sql_try(s, "digest = ")) {
        part_run(s);
    } else if (sql_try(s, "merged_at = UTC_TIMESTAMP(3)")) {
        where_expect(s);
        sql_expect(s, " AND merged_at < UTC_TIMESTAMP(3) - INTERVAL 5 MINUTE");
    } else {
        sql_expect(s, "rows_merged = rows_merged - ");
        s->db->now.rows_merged -= number_read(s);
        where_expect(s);
    }
    end_expect(s);
}

/* Nothing failed, and all fits one packet. */
static void statements_stand(const struct db *db)
{
    unsigned counts = 0, seen = 0;
    for (size_t i = 0; i < db->now.upserts_n; i++)
        seen |= 1U << db->now.upserts[i].count;
    for (; seen != 0; seen &= seen - 1)
        counts++;
    MUST(db->now.writes == counts);
}

/* MySQL has taken a row in this transaction, if it refused several. */
static void refusals_stand(const struct db *db)
{
    const struct entry *in = &db->in[db->at];
    size_t refused = 0, missing = 0;
    for (size_t i = in->stands ? in->rejects_n : 0; i < db->now.rejects_n; i++) {
        refused += slice_eq(db->now.rejects[i].reason, SLICE(SERVER_SAYS));
        missing += slice_eq(db->now.rejects[i].reason, SLICE(ROW_MISSING));
    }
    bool drops = db->counter != NULL && db->counter->missing == MISSING_DROP; /* what it misses is not seen */
    bool takes = db->now.upserts_n > (in->stands ? in->upserts_n : 0);
    MUST(refused < 2 || takes || missing > 0 || db->takes || db->values_only || drops);
}

static void commit_run(struct db *db)
{
    MUST(!db->epoch_is_over && !db->asks);
    refusals_stand(db);
    if (db->failures + db->lowered == 0 && db->packet == PACKET_MOST) statements_stand(db);
    if (db->looks > 0) db->looks--;
    if (db->now.stands && (!db->in[db->at].stands || db->in[db->at].left.n > 0)) db->in[db->at] = db->now;
    db->now = (struct entry){0};
    db->in_transaction = db->saved.stands = false;
}

static void rollback_run(struct db *db)
{
    db->now = (struct entry){0};
    db->in_transaction = db->epoch_is_over = db->saved.stands = db->asks = false;
}

static void savepoint_run(struct db *db)
{
    MUST(db->now.stands && db->looks == 0);
    db->saved = db->now;
    db->blind = true;
}

static void savepoint_rollback_run(struct db *db)
{
    MUST(db->saved.stands);
    db->now = db->saved;
    db->looks = LOOKS;
}

/* A row that was taken before. */
static void witness_run(struct db *db)
{
    MUST(db->now.stands && db->counter != NULL);
    db->saved = db->now;
    db->asks = true;
}

static void witness_rollback_run(struct db *db)
{
    MUST(db->saved.stands && db->asks);
    db->now = db->saved;
    db->asks = false;
}

static void transaction_start_run(struct db *db)
{
    MUST(!db->in_transaction); /* it would commit what is open */
    db->in_transaction = true;
    db->lowered = db->found = db->pass = db->blind = db->takes = 0;
}

static bool transaction_run(struct sql *s)
{
    static const struct {
        const char *text;
        void (*run)(struct db *db);
    } all[] = {{"START TRANSACTION", transaction_start_run},
               {"COMMIT", commit_run},
               {"ROLLBACK TO tallyd", savepoint_rollback_run},
               {"ROLLBACK TO witness", witness_rollback_run},
               {"ROLLBACK", rollback_run},
               {"SAVEPOINT tallyd", savepoint_run},
               {"SAVEPOINT witness", witness_run}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!sql_try(s, all[i].text)) continue;
        end_expect(s);
        all[i].run(s->db);
        return true;
    }
    return false;
}

static enum code_class statement_run(struct sql *s)
{
    s->db->affected = 1;
    if (transaction_run(s)) return CODE_OK;
    if (sql_try(s, "SET SESSION innodb_lock_wait_timeout = ")) {
        MUST(!s->db->in_transaction && (sql_try(s, "1") || sql_try(s, "3")));
        end_expect(s);
        return CODE_OK;
    }
    MUST(s->db->in_transaction);
    if (sql_try(s, "INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key,"
                   " digest, rows_merged, total, waiting, merged_at) VALUES ("))
        return ledger_run(s) ? CODE_OK : CODE_DUPLICATE;
    if (sql_try(s, "UPDATE tally_counters SET merged = MOD(merged + 27670116110564327424 + ("))
        books_run(s);
    else if (sql_try(s, "INSERT INTO tally_rejects (realm, batch, chunk, seq, counter, pending_hash, field,"
                        " delta, counted, reason, rejected_at) VALUES "))
        rejects_run(s);
    else if (sql_try(s, "UPDATE tally_ledger SET "))
        update_run(s);
    else
        return sql_try(s, "UPDATE (")  ? update_rows_run(s)
               : sql_try(s, "UPDATE ") ? lower_run(s)
                                       : upsert_run(s);
    return CODE_OK;
}

/* ---- mysql/db.h, with a server that fails as the input says ---- */

enum fault {
    FAULT_NONE,
    FAULT_AGAIN,
    FAULT_LINK,
    FAULT_WAIT,
    FAULT_SIZE,
    FAULT_OPERATOR,
    FAULT_AWAY,
    FAULT_FOREIGN,
    FAULT_LOCK
};

static enum code_class failed(struct db *db, enum code_class code)
{
    db->code = code;
    db->lock = false;
    db->failures++;
    if (code == CODE_LINK || code == CODE_WAIT || code == CODE_AWAY) {
        rollback_run(db);
        db->open = false;
    }
    return code;
}

/* innodb_rollback_on_timeout ends the transaction. */
static enum code_class lock_waited(struct db *db, bool ends)
{
    if (ends) rollback_run(db);
    (void)failed(db, CODE_AGAIN);
    db->lock = db->locks = true;
    return CODE_AGAIN;
}

/* Fails before the statement runs, or, a lost link, after it. */
static bool fails(struct db *db, struct sql *s, enum code_class *code)
{
    uint8_t fault = take_byte(&db->faults);
    switch (fault % 16) {
    case FAULT_LOCK:
        *code = lock_waited(db, fault >= 192);
        return true;
    case FAULT_AGAIN: /* 1213 ends the transaction, others leave it open */
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
    case FAULT_OPERATOR: /* an unknown one may have ended the transaction */
        if (fault >= 128) rollback_run(db);
        *code = failed(db, CODE_OPERATOR);
        return true;
    case FAULT_FOREIGN:
        if (fault >= 128) rollback_run(db);
        *code = failed(db, CODE_FOREIGN);
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

static void column_answer(struct db *db, struct slice name, const char *type, bool null)
{
    struct slice none = SLICE(""), *cell = db->cells[db->cells_n++];
    bool collated = db->collated && strcmp(type, "varchar") == 0;
    cell[0] = name, cell[1] = cell[4] = slice_str(type), cell[3] = null ? SLICE("YES") : SLICE("NO");
    cell[2] = collated ? SLICE("utf8mb4_general_ci") : none;
    cell[5] = collated ? SLICE("utf8mb4") : none;
}

static void columns_answer(struct db *db)
{
    static const char *const types[] = {"text", "bigint", "date", "datetime", "varbinary", "varchar"};
    const struct counter *c = db->counter;
    const char *count = db->forms.bounded ? "int" : "bigint";
    db->cells_n = db->probes = db->looks = 0;
    db->rows = NULL;
    if (c->field != FIELD_COUNT) column_answer(db, c->column_count, count, db->forms.nullable);
    for (uint32_t i = 0; i < c->counts_n; i++)
        column_answer(db, c->counts[i].column, count, db->forms.nullable);
    for (size_t i = 0; i < keys_n(c); i++)
        if (key_name(c, i).n > 0) column_answer(db, key_name(c, i), types[key_form(db, i)], false);
    for (uint32_t i = 0; i < c->sets_n; i++)
        column_answer(db, c->sets[i].name, types[db->forms.sets[i]], false);
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
    db->cells[0][3] = e->left;
}

enum code_class db_query(struct db *db, struct slice text)
{
    struct sql s = {text, db};
    enum code_class code;
    MUST(db->open);
    db->cells_at = 0;
    uint8_t fault = take_byte(&db->faults);
    if (fault % 16 == FAULT_LINK) return failed(db, CODE_LINK);
    if (fault % 16 == FAULT_LOCK && db->in_transaction) return lock_waited(db, fault >= 192);
    if (sql_try(&s, "SELECT 0 FROM DUAL WHERE FALSE")) return probe_run(&s, fault < 128);
    if (sql_try(&s, "SELECT 1 FROM tally_ledger")) { /* still in the transaction? */
        where_expect(&s);
        end_expect(&s);
        db->cells_n = db->now.stands;
        db->cells[0][0] = SLICE("1");
    } else if (sql_try(&s, "SELECT digest, chunks, rows_merged, waiting FROM tally_ledger")) {
        MUST(db->in_transaction);
        ledger_answer(db, &s);
    } else if (sql_try(&s, "SELECT d.s FROM (")) {
        code = find_run(&s);
        return code == CODE_OK ? CODE_OK : failed(db, code);
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
    return CODE_OK;
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
    return db->affected;
}
unsigned db_code(const struct db *db)
{
    static const unsigned codes[] = {0, 1213, 2013, 1040, 1290, 1062, 1264, 1153, 1146, 9501};
    return db->lock ? 1205 : codes[db->code];
}
const char *db_text(const struct db *db)
{
    (void)db;
    return SERVER_SAYS;
}
uint64_t db_packet_bytes(const struct db *db)
{
    return db->packet;
}
const struct db_config *db_config(const struct db *db)
{
    static const struct db_config config = {.lock_wait_s = 3};
    (void)db;
    return &config;
}
struct blocker *blocker_start(const struct db *waiting)
{
    (void)waiting;
    return NULL;
}
void blocker_stop(struct blocker *b, char text[BLOCKER_BYTES])
{
    (void)b, (void)text;
}
enum db_dialect db_dialect(const struct db *db)
{
    return db->dialect;
}

/* ---- what must be in the tables ---- */

static bool is_of(const struct counter *c, const struct upsert *u, struct slice name, struct slice field)
{
    struct buf of_name = {0}, of_field = {0};
    row_make(c, u, &of_name, &of_field);
    bool same = slice_eq(buf_slice(&of_name), name) && slice_eq(buf_slice(&of_field), field);
    buf_free(&of_name);
    buf_free(&of_field);
    return same;
}

/* In the counter's table, or, where it is not there, in the books alone. */
static bool upsert_stands(const struct db *db, const struct entry *e, struct slice name, struct slice field,
                          int64_t delta)
{
    const struct counter *c = db->counter;
    MUST(c != NULL);
    for (size_t i = 0; i < e->upserts_n; i++) {
        if (!is_of(c, &e->upserts[i], name, field)) continue;
        MUST(delta == e->upserts[i].delta && !is_poison(&e->upserts[i]));
        return true;
    }
    MUST(c->missing == MISSING_DROP && !is_there(c, name, field));
    return false;
}

/* False: it was dropped. */
static bool row_stands(const struct db *db, const struct entry *e, const struct chunk *c, uint32_t seq,
                       size_t *reject)
{
    const struct batch *b = db->batch;
    const struct batch_row *row = &b->rows[c->first + seq];
    struct slice name = batch_hash_name(b, row->hash), field = batch_field(b, row),
                 value = batch_value(b, row);
    int64_t delta;
    if (*reject < e->rejects_n && e->rejects[*reject].seq == seq) {
        const struct reject *r = &e->rejects[(*reject)++];
        bool missing = slice_eq(r->reason, SLICE(ROW_MISSING));
        MUST(slice_eq(r->hash, name) && slice_eq(r->field, field));
        MUST(!missing || (db->counter->missing == MISSING_REJECT && !is_there(db->counter, name, field)));
        MUST(slice_eq(r->value, value) && (!r->counted || num_parse(value, &delta)));
        return true;
    }
    MUST(num_parse(value, &delta));
    return upsert_stands(db, e, name, field, delta);
}

static int reject_order(const void *a, const void *b)
{
    const struct reject *left = a, *right = b;
    return (left->seq > right->seq) - (left->seq < right->seq);
}

static void entry_stands(const struct db *db, struct entry *e, const struct chunk *c)
{
    size_t reject = 0, dropped = 0, left = 0;
    int64_t merged = 0, rejected = 0, delta;
    uint8_t digest[16];
    chunk_digest(c, digest);
    for (size_t i = 0; e->left.n > 0 && i < sizeof digest; i++)
        digest[i] = (uint8_t)~digest[i];
    MUST(slice_eq(e->digest, slice_of((char *)digest, 16)));
    if (e->rejects_n > 0) qsort(e->rejects, e->rejects_n, sizeof e->rejects[0], reject_order);
    for (uint32_t seq = 0; seq < c->rows_n; seq++) {
        struct slice name = batch_hash_name(db->batch, db->batch->rows[c->first + seq].hash);
        if (ledger_names_have(e->left, name)) {
            left++;
            continue;
        }
        if (row_stands(db, e, c, seq, &reject)) continue;
        dropped++;
        if (num_parse(batch_value(db->batch, &db->batch->rows[c->first + seq]), &delta))
            rejected = num_add(rejected, delta);
    }
    MUST(e->upserts_n + e->rejects_n + dropped + left == c->rows_n && (size_t)e->rows_merged == e->upserts_n);
    for (size_t i = 0; i < e->upserts_n; i++)
        merged = num_add(merged, e->upserts[i].delta);
    for (size_t i = 0; i < e->rejects_n; i++)
        if (e->rejects[i].counted && num_parse(e->rejects[i].value, &delta))
            rejected = num_add(rejected, delta);
    MUST(e->books_merged == merged && e->books_rejected == rejected && e->total == num_add(merged, rejected));
}

static void chunk_merge(struct db *db, struct merger *m, uint32_t index, const char *reason)
{
    struct chunk c = {0};
    batch_chunk(db->batch, index, &c);
    c.not_after_ms = UINT64_MAX;
    c.epoch = epoch;
    c.outcome = MERGE_DOWN;
    c.values_only = db->values_only = take_byte(&db->faults) % 4 == 3;
    struct entry *e = &db->in[index];
    for (int i = 0;
         i < ROUNDS && (c.outcome == MERGE_DOWN || c.outcome == MERGE_STALE || c.outcome == MERGE_LOCKED);
         i++) {
        if (db->counter == NULL)
            merge_reject(m, &c, reason);
        else
            merge_chunk(m, &c);
        MUST(!db->in_transaction);
        MUST((c.left.n > 0) == (c.outcome == MERGE_LOCKED));
        MUST(c.left.n == 0 || !e->stands || slice_eq(e->left, buf_slice(&c.left)));
        buf_free(&c.left);
    }
    MUST(c.outcome != MERGE_CONFLICT && c.outcome != MERGE_TOO_OLD);
    if (c.outcome == MERGE_DONE || c.outcome == MERGE_ALREADY) {
        MUST(e->stands && e->left.n == 0);
        MUST(db->locks || (c.rows_merged == e->upserts_n && c.rows_merged + c.rows_rejected == c.rows_n));
    }
    if (e->stands) entry_stands(db, e, &c);
}

/* ---- a batch from the input ---- */

/* As the app spells it. */
static void time_put(struct buf *out, const struct value_type *type, uint8_t how)
{
    char digits[24];
    int n = 0;
    if (type->kind == VALUE_INTEGER || type->kind == VALUE_TEXT) return buf_printf(out, "%d", (int)how - 100);
    if (type->kind == VALUE_DATE) n = snprintf(digits, 24, "2014%02u%02u", how % 12 + 1, how / 12 + 1);
    if (type->kind == VALUE_HOUR) n = snprintf(digits, 24, "201409%02u%02u", how % 30 + 1, how / 10);
    if (type->kind == VALUE_MONTH) n = snprintf(digits, 24, "2014%02u", how % 12 + 1);
    value_spell(type, slice_of(digits, (size_t)n), out);
}

static void field_take(struct slice *in, const struct counter *c, struct buf *out)
{
    uint8_t how = take_byte(in);
    buf_reset(out);
    if (how >= 240)
        buf_put_slice(out, take_text(in));
    else if (c->field == FIELD_COUNT)
        buf_put_slice(out, how < 230 ? c->counts[how % c->counts_n].field : SLICE("none"));
    else if (c->field == FIELD_NONE)
        buf_put_slice(out, how < 200 ? SLICE("count") : SLICE("counts"));
    else if (c->field == FIELD_PLACES)
        buf_printf(out, "%u:", how % 30), time_put(out, &c->field_places->at[1].type, how);
    else
        time_put(out, &c->spelled, how);
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

static struct slice place_take(struct slice *in, uint8_t how, char text[24])
{
    return how >= 120 ? take_text(in) : slice_of(text, (size_t)snprintf(text, 24, "%u", how));
}

static void name_put(struct buf *name, const struct counter *c, uint8_t how, struct slice *in)
{
    char texts[2][24];
    struct slice values[PLACES_MAX] = {place_take(in, how, texts[0])};
    if (c->key.places == NULL) return pattern_put(&c->key, values[0], name);
    if (c->key.places->n > 1) values[1] = place_take(in, take_byte(in), texts[1]);
    places_put(c->key.places, values, name);
}

static void hash_take(struct batch *b, const struct counter *c, struct slice *in)
{
    struct buf name = {0}, field = {0};
    uint8_t how = take_byte(in);
    if (how >= 240)
        buf_put_slice(&name, take_text(in));
    else
        name_put(&name, c, how, in);
    unsigned rows = take_byte(in) % 12;
    if (!has_hash(b, buf_slice(&name))) {
        uint32_t hash = batch_add_hash(b, buf_slice(&name), 0);
        for (unsigned i = 0; i < rows && b->rows_n < CHUNKS_MAX * BATCH_CHUNK_ROWS; i++) {
            char value_text[24];
            field_take(in, c, &field);
            struct slice value = value_take(in, value_text);
            b->hashes[hash].hlen += !has_row(b, hash, buf_slice(&field));
            batch_add_row(b, hash, buf_slice(&field), value);
        }
    }
    buf_free(&name);
    buf_free(&field);
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

/* What a counter borrows. */
static struct {
    struct places field;
    struct key_column more[MORE_MAX];
    struct set_column sets[SETS_MAX];
    struct named_count counts[COUNTS_MAX];
    uint8_t wishes[MORE_MAX + SETS_MAX]; /* for the forms of more and of sets */
} parts;

static struct value_type type_take(struct slice *in)
{
    static const char *const types[] = {"integer",      "text",
                                        "date",         "date 2024-05-01",
                                        "date seconds", "hour 2024-05-01T13",
                                        "hour",         "date milliseconds",
                                        "month 2024-05"};
    struct value_type type;
    bool good = value_type_parse(slice_str(types[take_byte(in) % (sizeof types / sizeof *types)]), &type);
    MUST(good);
    return type;
}

static void more_take(struct counter *c, struct slice *in, struct key_column column)
{
    parts.wishes[c->more_n] = take_byte(in);
    parts.more[c->more_n++] = column;
}

static void field_shape_take(struct counter *c, unsigned how, struct slice *in)
{
    static const enum field_kind kinds[] = {FIELD_INTEGER, FIELD_TEXT, FIELD_DATE, FIELD_HOUR, FIELD_MONTH};
    const char *why;
    if (how > 0) c->column_field = SLICE("");
    if (how == 0 && c->column_field.n == 0) c->column_field = SLICE("field"); /* the configuration has one */
    if (how == 0) {
        c->spelled = type_take(in);
        c->field = kinds[c->spelled.kind];
    } else if (how == 1) {
        c->field = FIELD_PLACES;
        MUST(places_parse(SLICE("<item>:<day>"), &parts.field, &why));
        parts.field.at[1].type = type_take(in);
        for (uint32_t i = 0; i < 2; i++)
            more_take(c, in,
                      (struct key_column){.name = i == 0 ? SLICE("item") : SLICE("day"),
                                          .from = FROM_FIELD,
                                          .at = i,
                                          .kind = parts.field.at[i].type.kind});
    } else if (how == 2) {
        c->field = FIELD_COUNT;
        parts.counts[0] = (struct named_count){SLICE("view"), SLICE("views")};
        parts.counts[1] = (struct named_count){SLICE("buy"), name_take(in, "sold")};
        parts.counts[2] = (struct named_count){take_text(in), SLICE("other")};
        c->counts_n = COUNTS_MAX;
        c->column_count = SLICE("");
    } else {
        c->field = FIELD_NONE;
    }
}

static void set_take(struct counter *c, struct slice *in)
{
    uint8_t how = take_byte(in);
    parts.wishes[MORE_MAX + c->sets_n] = how;
    parts.sets[c->sets_n] = (struct set_column){.name = c->sets_n == 0 ? SLICE("at") : name_take(in, "by"),
                                                .at_insert = how % 3 != 1,
                                                .at_update = how % 3 != 0};
    if (how >= 128) parts.sets[c->sets_n].constant = take_text(in);
    c->sets_n++;
}

static void product_take(struct counter *c, bool store, struct slice *in)
{
    static const char *const patterns[][2] = {{"p<product>:v", "l<product>:v"},
                                              {"s<store>:p<product>:v", "l<store>:p<product>:v"}};
    struct error e;
    bool good = pattern_parse_places(slice_str(patterns[store][0]), &c->key, &e) == ERR_NONE &&
                pattern_parse_places(slice_str(patterns[store][1]), &c->lock, &e) == ERR_NONE;
    MUST(good);
    struct place *at = c->key.places->at;
    at[store].type = type_take(in);
    if (store && c->store == STORE_TEXT) at[0].type.kind = VALUE_TEXT;
    memcpy(c->lock.places->at, at, sizeof c->lock.places->at);
    more_take(c, in,
              (struct key_column){
                  .name = SLICE("product"), .from = FROM_KEY, .at = store, .kind = at[store].type.kind});
}

/* Placeholders, counts, constants, columns beside the count, and what becomes of rows that are missing. */
static void shape_take(struct counter *c, bool store, struct slice *in)
{
    uint8_t how = take_byte(in);
    bool product = (how / 12 & 1) != 0, constant = (how / 24 & 1) != 0;
    c->missing = (enum missing)(how % 3);
    c->more = parts.more, c->sets = parts.sets, c->counts = parts.counts, c->field_places = &parts.field;
    field_shape_take(c, how / 3 & 3, in);
    if (product) product_take(c, store, in);
    if (constant) {
        struct key_column column = {.name = name_take(in, "kind"), .from = FROM_CONSTANT};
        column.constant = take_text(in);
        more_take(c, in, column);
    }
    for (unsigned n = how / 48 % (SETS_MAX + 1); n > 0; n--)
        set_take(c, in);
}

static bool counter_take(struct counter *c, uint8_t shape, struct slice *in)
{
    static const enum value_kind kinds[] = {VALUE_DATE, VALUE_HOUR, VALUE_INTEGER, VALUE_TEXT};
    struct error e;
    size_t which;
    *c = (struct counter){.name = SLICE("views"), .hits = 1, .every_s = 1};
    struct slice key = shape & 2 ? SLICE("s<store>:v") : SLICE("all"),
                 lock = shape & 2 ? SLICE("l<store>:v") : SLICE("l");
    MUST(pattern_parse(key, &c->key, &e) == ERR_NONE && pattern_parse(lock, &c->lock, &e) == ERR_NONE);
    c->store = shape & 4 ? STORE_TEXT : STORE_INTEGER;
    c->field = (enum field_kind)(shape >> 4 & 3);
    c->spelled.kind = kinds[c->field];
    c->table = name_take(in, "product_views");
    c->column_store = c->key.has_store ? name_take(in, "store") : SLICE("");
    c->column_field = name_take(in, "field");
    c->column_count = name_take(in, "n");
    if (shape & 64) shape_take(c, (shape & 2) != 0, in);
    struct counters set = {.all = c, .n = 1};
    return counters_validate(&set, &which, &e) == ERR_NONE;
}

static struct columns forms_of(const struct counter *c, uint8_t wish)
{
    struct columns forms = {.store = wish & 1 && c->store == STORE_INTEGER ? FORM_INTEGER
                                     : wish & 4                            ? FORM_TEXT
                                                                           : FORM_BYTES,
                            .field = (enum column_form)(FORM_INTEGER + wish / 32 % 5),
                            .nullable = (wish & 8) != 0,
                            .bounded = (wish & 16) != 0};
    if (!column_fits(forms.field, c->spelled.kind)) forms.field = FORM_BYTES;
    for (uint32_t i = 0; i < c->more_n; i++) {
        forms.more[i] = (enum column_form)(FORM_INTEGER + parts.wishes[i] % 5);
        if (!column_fits_more(forms.more[i], &c->more[i])) forms.more[i] = FORM_TEXT;
    }
    for (uint32_t i = 0; i < c->sets_n; i++) {
        forms.sets[i] = (enum column_form)(FORM_INTEGER + parts.wishes[MORE_MAX + i] / 3 % 5);
        if (!column_fits_set(forms.sets[i], &c->sets[i]))
            forms.sets[i] = c->sets[i].constant.p == NULL ? FORM_DATETIME : FORM_BYTES;
    }
    return forms;
}

static void counter_close(struct counter *c)
{
    heap_free(c->key.places);
    heap_free(c->lock.places);
}

static void merge_all(struct db *db, const char *reason)
{
    struct merger m;
    struct witnesses witnesses;
    witnesses_init(&witnesses);
    merger_init(&m, db, &witnesses);
    uint32_t chunks = batch_chunks(db->batch);
    MUST(chunks <= CHUNKS_MAX);
    for (uint32_t i = 0; i < chunks; i++)
        chunk_merge(db, &m, i, reason);
    merger_close(&m);
    witnesses_close(&witnesses);
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
    bool valid = counter_take(&counter, shape, &in);
    if (!valid) counter_close(&counter);
    if (!valid) return 0;
    batch_take(&b, &counter, &in);
    b.counter = shape & 8 ? NULL : &counter;
    db = (struct db){.dialect = shape & 1 ? DB_ROW_ALIAS : DB_VALUES,
                     .packet = packet == 0 ? PACKET_MOST : 700 + (uint64_t)packet * 40,
                     .faults = in,
                     .collated = (shape & 128) != 0,
                     .batch = &b,
                     .counter = b.counter,
                     .forms = forms_of(&counter, wish),
                     .texts = texts};
    buf_reset(&db.texts);
    buf_reserve(&db.texts, 4 << 20);
    merge_all(&db, "a reason's 'text'; with \\ and \n");
    batch_close(&b);
    counter_close(&counter);
    log_set_level(LOG_INFO);
    return 0;
}
