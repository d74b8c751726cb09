/* mysql/text.c - see text.h. */
#include "mysql/text.h"

#include "base/slice.h"

void sql_hex(struct buf *b, struct slice bytes)
{
    BUF_LIT(b, "x'");
    char *to = buf_reserve(b, 2 * bytes.n);
    hex_write((const uint8_t *)bytes.p, bytes.n, to);
    b->n += 2 * bytes.n;
    BUF_LIT(b, "'");
}

void sql_name(struct buf *b, struct slice name)
{
    buf_put_char(b, '`');
    buf_put_slice(b, name);
    buf_put_char(b, '`');
}

void sql_id(struct buf *b, const struct batch_id *id)
{
    sql_hex(b, slice_of((const char *)id->bytes, sizeof id->bytes));
}

void sql_ids(struct buf *b, const struct batch_id *ids, size_t n)
{
    BUF_LIT(b, "(");
    if (n == 0) BUF_LIT(b, "NULL");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) BUF_LIT(b, ",");
        sql_id(b, &ids[i]);
    }
    BUF_LIT(b, ")");
}

void sql_ms(struct buf *b, int64_t wall_ms)
{
    /* TIMESTAMPADD rather than FROM_UNIXTIME, which ends in 2038 on older servers. */
    buf_printf(b, "TIMESTAMPADD(MICROSECOND, %lld000, TIMESTAMP'1970-01-01 00:00:00.000')",
               (long long)wall_ms);
}

/* A TIMESTAMP cannot be the key: older servers change it by themselves on every update. Nor can a BINARY, which has
 * NUL bytes at the end that the value it is compared with has not. Texts but those that compare as bytes do fold some values into one
 * row: case, accents, spaces at the end. */
enum column_form column_form_of(struct slice data_type, struct slice collation)
{
    static const char *const integers[] = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"};
    static const char *const folding[] = {"varchar", "char"};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (slice_ieq(data_type, slice_str(integers[i]))) return FORM_INTEGER;
    if (slice_ieq(data_type, SLICE("date"))) return FORM_DATE;
    if (slice_ieq(data_type, SLICE("datetime"))) return FORM_DATETIME;
    if (slice_ieq(data_type, SLICE("varbinary"))) return FORM_BYTES;
    bool exact = slice_ends(collation, SLICE("_nopad_bin")) || slice_ends(collation, SLICE("_0900_bin"));
    if (slice_ieq(data_type, SLICE("varchar")) && exact) return FORM_BYTES;
    for (size_t i = 0; i < sizeof folding / sizeof *folding; i++)
        if (slice_ieq(data_type, slice_str(folding[i]))) return FORM_TEXT;
    return FORM_NONE;
}

static bool form_is_text(enum column_form form)
{
    return form == FORM_BYTES || form == FORM_TEXT;
}

bool column_fits_store(enum column_form form, enum store_kind kind)
{
    return form_is_text(form) || (form == FORM_INTEGER && kind == STORE_INTEGER);
}

bool column_fits(enum column_form form, enum value_kind kind)
{
    switch (form) {
    case FORM_NONE:
        return false;
    case FORM_INTEGER:
        return kind != VALUE_TEXT;
    case FORM_DATE:
        return kind == VALUE_DATE ||
               kind == VALUE_MONTH; /* an hour would lose its hour, and 24 fields be one row */
    case FORM_DATETIME:
        return kind == VALUE_DATE || kind == VALUE_HOUR || kind == VALUE_MONTH;
    case FORM_BYTES:
    case FORM_TEXT:
        return true;
    }
    UNREACHABLE();
}

/* A constant is what the operator wrote; what a column does not take of it, MySQL refuses. */
bool column_fits_more(enum column_form form, const struct key_column *column)
{
    int64_t v;
    if (column->from == FROM_CONSTANT)
        return form != FORM_NONE && (form != FORM_INTEGER || num_parse(column->constant, &v));
    if (column->piece != PIECE_WHOLE) return form == FORM_INTEGER || form_is_text(form);
    return column_fits(form, column->kind);
}

bool column_fits_set(enum column_form form, const struct set_column *set)
{
    int64_t v;
    if (set->constant.p == NULL) return form == FORM_INTEGER || form == FORM_DATE || form == FORM_DATETIME;
    return form != FORM_NONE && (form != FORM_INTEGER || num_parse(set->constant, &v));
}

bool columns_fit(const struct columns *forms, const struct counter *c)
{
    if (c->column_field.n > 0 && !column_fits(forms->field, counter_field_kind(c))) return false;
    for (uint32_t i = 0; i < c->more_n; i++)
        if (!column_fits_more(forms->more[i], &c->more[i])) return false;
    for (uint32_t i = 0; i < c->sets_n; i++)
        if (!column_fits_set(forms->sets[i], &c->sets[i])) return false;
    return !c->key.has_store || column_fits_store(forms->store, c->store);
}

/* A time of 6, 8 or 10 digits becomes 'YYYY-MM-01', 'YYYY-MM-DD' or 'YYYY-MM-DD HH:00:00'. */
static void time_text_put(struct buf *b, enum column_form form, struct slice digits)
{
    const char *d = digits.p;
    BUF_LIT(b, "'");
    buf_put(b, d, 4);
    BUF_LIT(b, "-");
    buf_put(b, d + 4, 2);
    BUF_LIT(b, "-");
    buf_put(b, digits.n >= 8 ? d + 6 : "01", 2);
    if (form == FORM_DATETIME) {
        BUF_LIT(b, " ");
        buf_put(b, digits.n == 10 ? d + 8 : "00", 2);
        BUF_LIT(b, ":00:00");
    }
    BUF_LIT(b, "'");
}

void sql_value(struct buf *b, enum column_form form, struct slice value)
{
    if (form == FORM_INTEGER) return buf_put_slice(b, value);
    if (form == FORM_TEXT) BUF_LIT(b, "_utf8mb4 "); /* so that it compares as the column does */
    if (form_is_text(form)) return sql_hex(b, value);
    time_text_put(b, form, value);
}

void sql_store_is(struct buf *b, const struct counter *c, const struct columns *forms, struct slice store)
{
    sql_name(b, c->column_store);
    BUF_LIT(b, " = ");
    sql_value(b, forms->store, store);
}

/* The i-th key column; n = 0: it has none such. */
static struct slice key_name(const struct counter *c, size_t i)
{
    return i == 0 ? c->column_store : i == 1 ? c->column_field : c->more[i - 2].name;
}

void sql_key_names(struct buf *b, const struct counter *c, const char *comma)
{
    size_t begin = b->n;
    for (size_t i = 0; i < 2 + c->more_n; i++) {
        if (key_name(c, i).n == 0) continue;
        if (b->n > begin) buf_put_slice(b, slice_str(comma));
        sql_name(b, key_name(c, i));
    }
}

void sql_row_is(struct buf *b, const struct counter *c, struct slice key)
{
    BUF_LIT(b, " WHERE (");
    sql_key_names(b, c, ",");
    BUF_LIT(b, ") = (");
    buf_put_slice(b, key);
    BUF_LIT(b, ")");
}

/* A text column keeps a time as the app spells it, and a constant is kept as it was written. */
static void row_value_put(struct buf *b, enum column_form form, const struct key_column *column,
                          const struct row_value *v)
{
    bool constant = column != NULL && column->from == FROM_CONSTANT;
    if (constant && form != FORM_INTEGER && form != FORM_BYTES) form = FORM_TEXT;
    sql_value(b, form, form_is_text(form) ? v->sent : v->plain);
}

void sql_key(struct buf *b, const struct counter *c, const struct columns *forms, const struct table_row *row)
{
    if (c->key.has_store) row_value_put(b, forms->store, NULL, &row->store), BUF_LIT(b, ",");
    if (c->column_field.n > 0) row_value_put(b, forms->field, NULL, &row->field), BUF_LIT(b, ",");
    for (uint32_t i = 0; i < c->more_n; i++)
        row_value_put(b, forms->more[i], &c->more[i], &row->more[i]), BUF_LIT(b, ",");
    b->n--; /* the last comma */
}

void sql_field_value(struct buf *b, const struct columns *forms, const struct table_row *row)
{
    row_value_put(b, forms->field, NULL, &row->field);
}

static void more_is(struct buf *b, const struct counter *c, const struct columns *forms, uint32_t i,
                    const struct row_value *v)
{
    BUF_LIT(b, " AND ");
    sql_name(b, c->more[i].name);
    BUF_LIT(b, " = ");
    row_value_put(b, forms->more[i], &c->more[i], v);
}

void sql_constants_are(struct buf *b, const struct counter *c, const struct columns *forms)
{
    for (uint32_t i = 0; i < c->more_n; i++)
        if (c->more[i].from == FROM_CONSTANT)
            more_is(b, c, forms, i, &(struct row_value){c->more[i].constant, c->more[i].constant});
}

void sql_key_is(struct buf *b, const struct counter *c, const struct columns *forms,
                const struct table_row *row)
{
    BUF_LIT(b, "TRUE");
    if (c->key.has_store) {
        BUF_LIT(b, " AND ");
        sql_store_is(b, c, forms, row->store.sent);
    }
    for (uint32_t i = 0; i < c->more_n; i++)
        if (c->more[i].from == FROM_KEY || c->more[i].from == FROM_CONSTANT)
            more_is(b, c, forms, i, &row->more[i]);
}

void sql_upsert_head(struct buf *b, const struct counter *c)
{
    BUF_LIT(b, "INSERT INTO ");
    sql_name(b, c->table);
    BUF_LIT(b, " (");
    sql_key_names(b, c, ",");
    BUF_LIT(b, ",");
    sql_name(b, c->column_count);
    for (uint32_t i = 0; i < c->sets_n; i++) {
        if (!c->sets[i].at_insert) continue;
        BUF_LIT(b, ",");
        sql_name(b, c->sets[i].name);
    }
    BUF_LIT(b, ") VALUES ");
}

static void set_value(struct buf *b, const struct counter *c, const struct columns *forms, uint32_t i)
{
    static const char *const now[] = {
        [FORM_INTEGER] = "UNIX_TIMESTAMP()", [FORM_DATE] = "CURRENT_DATE()", [FORM_DATETIME] = "NOW()"};
    enum column_form form = forms->sets[i];
    struct slice constant = c->sets[i].constant;
    if (constant.p == NULL) return buf_put_slice(b, slice_str(now[form]));
    sql_value(b, form == FORM_INTEGER || form == FORM_BYTES ? form : FORM_TEXT, constant);
}

/* ", `updated_at` = NOW()" */
static void sets_put(struct buf *b, const struct counter *c, const struct columns *forms)
{
    for (uint32_t i = 0; i < c->sets_n; i++) {
        if (!c->sets[i].at_update) continue;
        BUF_LIT(b, ", ");
        sql_name(b, c->table);
        BUF_LIT(b, ".");
        sql_name(b, c->sets[i].name);
        BUF_LIT(b, " = ");
        set_value(b, c, forms, i);
    }
}

void sql_lookup(struct buf *b, const struct lookup *l)
{
    BUF_LIT(b, "SELECT ");
    sql_name(b, l->key);
    BUF_LIT(b, ", ");
    sql_name(b, l->value);
    BUF_LIT(b, " FROM ");
    sql_name(b, l->table);
}

void sql_upsert_row(struct buf *b, const struct counter *c, const struct columns *forms, struct slice key,
                    int64_t delta, bool first)
{
    if (!first) BUF_LIT(b, ",");
    BUF_LIT(b, "(");
    buf_put_slice(b, key);
    BUF_LIT(b, ",");
    buf_int(b, delta);
    for (uint32_t i = 0; i < c->sets_n; i++) {
        if (!c->sets[i].at_insert) continue;
        BUF_LIT(b, ",");
        set_value(b, c, forms, i);
    }
    BUF_LIT(b, ")");
}

/* `table`.`count`, a NULL as 0. */
static void count_column_put(struct buf *b, const struct counter *c, const struct columns *forms)
{
    if (forms->nullable) BUF_LIT(b, "COALESCE(");
    sql_name(b, c->table);
    BUF_LIT(b, ".");
    sql_name(b, c->column_count);
    if (forms->nullable) BUF_LIT(b, ", 0)");
}

void sql_upsert_tail(struct buf *b, const struct counter *c, const struct columns *forms,
                     enum db_dialect dialect)
{
    if (dialect == DB_ROW_ALIAS) BUF_LIT(b, " AS tallyd_row");
    BUF_LIT(b, " ON DUPLICATE KEY UPDATE ");
    sql_name(b, c->column_count);
    BUF_LIT(b, " = ");
    count_column_put(b, c, forms);
    BUF_LIT(b, " + ");
    if (dialect == DB_ROW_ALIAS)
        BUF_LIT(b, "tallyd_row.");
    else
        BUF_LIT(b, "VALUES(");
    sql_name(b, c->column_count);
    if (dialect == DB_VALUES) BUF_LIT(b, ")");
    sets_put(b, c, forms);
}

/* --- rows that are there --- */

static const struct {
    const char *first, *next, *end;
} rows_forms[] = {[ROWS_VALUES] = {" UNION ALL VALUES (", ",(", ")"},
                  [ROWS_VALUES_ROW] = {" UNION ALL VALUES ROW(", ",ROW(", ")"},
                  [ROWS_SELECT] = {" UNION ALL SELECT ", " UNION ALL SELECT ", ""}};

/* A first row of names, which is in no result. */
void sql_rows_begin(struct buf *b, const struct counter *c)
{
    BUF_LIT(b, "SELECT 0 AS s, 0 AS d");
    for (size_t i = 0; i < 2 + c->more_n; i++)
        if (key_name(c, i).n > 0) buf_printf(b, ", NULL AS k%zu", i);
    BUF_LIT(b, " FROM DUAL WHERE FALSE");
}

void sql_rows_add(struct buf *b, const struct columns *forms, size_t number, struct slice key, int64_t delta,
                  bool first)
{
    buf_put_slice(b, slice_str(first ? rows_forms[forms->rows].first : rows_forms[forms->rows].next));
    buf_int(b, (int64_t)number);
    BUF_LIT(b, ",");
    buf_int(b, delta);
    BUF_LIT(b, ",");
    buf_put_slice(b, key);
    buf_put_slice(b, slice_str(rows_forms[forms->rows].end));
}

/* ` d STRAIGHT_JOIN table ON its key is d's`; the rows of d may be of the table itself. */
static void rows_join(struct buf *b, const struct counter *c, const struct columns *forms, bool own)
{
    const char *and = " ON ";
    BUF_LIT(b, " d STRAIGHT_JOIN ");
    sql_name(b, c->table);
    for (size_t i = 0; i < 2 + c->more_n; i++) {
        if (key_name(c, i).n == 0) continue;
        buf_put_slice(b, slice_str(and));
        sql_name(b, c->table);
        BUF_LIT(b, ".");
        sql_name(b, key_name(c, i));
        BUF_LIT(b, " = ");
        const struct column_text *text = &forms->texts[i];
        /* (!) A text compares as its column does. A character that the column's set does not have becomes another in
         * it: then there is no such row. */
        if (text->charset[0] != 0 && !own)
            buf_printf(
                b,
                "CONVERT(d.k%zu USING %s) COLLATE %s AND CONVERT(CONVERT(d.k%zu USING %s) USING utf8mb4) "
                "COLLATE utf8mb4_bin = d.k%zu",
                i, text->charset, text->collation, i, text->charset, i);
        else
            buf_printf(b, "d.k%zu", i);
        and = " AND ";
    }
}

void sql_rows_find(struct buf *b, const struct counter *c, const struct columns *forms, struct slice rows)
{
    BUF_LIT(b, "SELECT d.s FROM (");
    buf_put_slice(b, rows);
    BUF_LIT(b, ")");
    rows_join(b, c, forms, false);
    BUF_LIT(b, " FOR UPDATE");
}

/* SELECT of the keys as the table has them, and the sum of each: a collation may take several of d for one row, which an UPDATE would
 * change once. */
static void rows_sum(struct buf *b, const struct counter *c, const struct columns *forms, struct slice rows)
{
    struct buf names = {0};
    for (size_t i = 0; i < 2 + c->more_n; i++) {
        if (key_name(c, i).n == 0) continue;
        buf_put_slice(&names, slice_str(names.n > 0 ? ", " : ""));
        sql_name(&names, c->table);
        BUF_LIT(&names, ".");
        sql_name(&names, key_name(c, i));
        buf_printf(&names, " AS k%zu", i);
    }
    BUF_LIT(b, "SELECT ");
    buf_put_slice(b, buf_slice(&names));
    BUF_LIT(b, ", CAST(SUM(d.d) AS SIGNED) AS d FROM (");
    buf_put_slice(b, rows);
    BUF_LIT(b, ")");
    rows_join(b, c, forms, false);
    BUF_LIT(b, " GROUP BY 1");
    for (size_t i = 1, n = (c->column_store.n > 0) + (c->column_field.n > 0) + c->more_n; i < n; i++)
        buf_printf(b, ", %zu", i + 1);
    buf_free(&names);
}

void sql_rows_update(struct buf *b, const struct counter *c, const struct columns *forms, struct slice rows,
                     bool sum)
{
    bool folds = false;
    for (size_t i = 0; sum && i < 2 + c->more_n; i++)
        folds |= forms->texts[i].charset[0] != 0;
    BUF_LIT(b, "UPDATE (");
    if (folds)
        rows_sum(b, c, forms, rows);
    else
        buf_put_slice(b, rows);
    BUF_LIT(b, ")");
    rows_join(b, c, forms, folds);
    BUF_LIT(b, " SET ");
    sql_name(b, c->table);
    BUF_LIT(b, ".");
    sql_name(b, c->column_count);
    BUF_LIT(b, " = ");
    count_column_put(b, c, forms);
    BUF_LIT(b, " + d.d");
    sets_put(b, c, forms);
}

void sql_update_row(struct buf *b, const struct counter *c, const struct columns *forms, struct slice key,
                    int64_t delta)
{
    BUF_LIT(b, "UPDATE ");
    sql_name(b, c->table);
    BUF_LIT(b, " SET ");
    sql_name(b, c->column_count);
    BUF_LIT(b, " = ");
    count_column_put(b, c, forms);
    buf_printf(b, " + (%lld)", (long long)delta);
    sets_put(b, c, forms);
    sql_row_is(b, c, key);
}

/* Locked, so that it stays. */
static enum code_class row_look(struct db *db, const struct counter *c, struct slice key, bool *missing)
{
    struct buf sql = {0};
    struct slice cell;
    BUF_LIT(&sql, "SELECT 1 FROM ");
    sql_name(&sql, c->table);
    sql_row_is(&sql, c, key);
    BUF_LIT(&sql, " FOR UPDATE");
    enum code_class class = db_query_free(db, &sql);
    *missing = class == CODE_OK && !db_row(db, &cell, 1);
    return class;
}

enum code_class row_add(struct db *db, const struct counter *c, const struct columns *forms, struct slice key,
                        int64_t delta, bool *missing)
{
    struct buf sql = {0};
    bool only = c->missing != MISSING_INSERT;
    *missing = false;
    enum code_class class = only ? row_look(db, c, key, missing) : CODE_OK;
    if (class != CODE_OK || *missing) return class;
    if (only || forms->bounded || delta < 0) {
        sql_update_row(&sql, c, forms, key, delta);
        class = db_exec_free(db, &sql);
        if (class != CODE_OK || only || db_affected(db) > 0) return class;
    }
    sql_upsert_head(&sql, c);
    sql_upsert_row(&sql, c, forms, key, delta, true);
    sql_upsert_tail(&sql, c, forms, db_dialect(db));
    return db_exec_free(db, &sql);
}

void sql_counter_make(struct buf *b, struct slice counter, const struct batch_id *realm)
{
    BUF_LIT(b, "INSERT IGNORE INTO tally_counters (counter, realm, epoch) SELECT ");
    sql_hex(b, counter);
    BUF_LIT(b, ", realm, epoch FROM tally_realms WHERE realm = ");
    sql_id(b, realm);
}

/* Modulo 2^64, back into 64 signed bits. In DECIMAL, which holds all of it: 3 * 2^63 makes it positive for MOD. */
void sql_sum_add(struct buf *b, const char *column, int64_t n)
{
    buf_printf(b, "%s = MOD(%s + 27670116110564327424 + (%lld), 18446744073709551616) - 9223372036854775808",
               column, column, (long long)n);
}

void sql_counter_add(struct buf *b, struct slice counter, const struct batch_id *realm, int64_t merged,
                     int64_t rejected)
{
    BUF_LIT(b, "UPDATE tally_counters SET ");
    sql_sum_add(b, "merged", merged);
    BUF_LIT(b, ", ");
    sql_sum_add(b, "rejected", rejected);
    BUF_LIT(b, ", chunks = chunks + 1 WHERE counter = ");
    sql_hex(b, counter);
    BUF_LIT(b, " AND realm = ");
    sql_id(b, realm);
}

void sql_realm(struct buf *b, const struct batch_id *realm)
{
    if (batch_id_is_zero(realm))
        BUF_LIT(b, "(SELECT MIN(realm) FROM tally_realms WHERE history = '' OR (SELECT COUNT(*) FROM "
                   "tally_realms) = 1)");
    else
        sql_id(b, realm);
}

static void column_text_read(const struct slice cell[6], enum column_form form, struct column_text *out)
{
    if (!form_is_text(form) || cell[2].n == 0) return;
    if (form == FORM_BYTES && !slice_starts(cell[5], SLICE("utf8")))
        return; /* it has the bytes as they came */
    slice_show(cell[5], sizeof out->charset - 1, out->charset, sizeof out->charset);
    slice_show(cell[2], sizeof out->collation - 1, out->collation, sizeof out->collation);
}

static void column_read(const struct counter *c, const struct slice cell[6], struct columns *out)
{
    enum column_form form = column_form_of(cell[1], cell[2]);
    for (size_t i = 0; i < 2 + c->more_n; i++) {
        if (key_name(c, i).n == 0 || !slice_ieq(cell[0], key_name(c, i))) continue;
        *(i == 0 ? &out->store : i == 1 ? &out->field : &out->more[i - 2]) = form;
        column_text_read(cell, form, &out->texts[i]);
    }
    for (uint32_t i = 0; i < c->sets_n; i++)
        if (slice_ieq(cell[0], c->sets[i].name))
            out->sets[i] = slice_ieq(cell[1], SLICE("timestamp")) ? FORM_DATETIME : form;
    for (uint32_t i = 0; i < counter_counts_n(c); i++) {
        if (!slice_ieq(cell[0], counter_of_count(c, i).column_count)) continue;
        out->nullable |= slice_ieq(cell[3], SLICE("YES"));
        out->bounded |=
            !slice_ieq(cell[1], SLICE("bigint")) || memmem(cell[4].p, cell[4].n, "unsigned", 8) != NULL;
    }
}

/* Each form is asked for, as forks and proxies may report any version. */
static enum code_class rows_form_read(struct db *db, struct columns *out)
{
    for (out->rows = ROWS_VALUES; out->rows < ROWS_SELECT; out->rows++) {
        struct buf sql = {0};
        buf_printf(&sql, "SELECT 0 FROM DUAL WHERE FALSE%s1%s", rows_forms[out->rows].first,
                   rows_forms[out->rows].end);
        enum code_class class = db_query_free(db, &sql);
        if (class != CODE_OPERATOR) return class;
    }
    return CODE_OK;
}

enum code_class columns_read(struct db *db, const struct counter *c, struct columns *out)
{
    struct buf sql = {0};
    *out = (struct columns){.store = FORM_NONE};
    buf_printf(&sql,
               "SELECT COLUMN_NAME, DATA_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE, COLUMN_TYPE,"
               " COALESCE(CHARACTER_SET_NAME, '')"
               " FROM information_schema.COLUMNS"
               " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" SLICE_FMT "'",
               SLICE_ARG(c->table));
    enum code_class class = db_query_free(db, &sql);
    for (struct slice cell[6]; class == CODE_OK && db_row(db, cell, 6);)
        column_read(c, cell, out);
    return class != CODE_OK || c->missing == MISSING_INSERT ? class : rows_form_read(db, out);
}
