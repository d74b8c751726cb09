/* mysql/text.c - see text.h. */
#include "mysql/text.h"

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

/* A TIMESTAMP cannot be the key: older servers change it by themselves on every update. BINARY(n) pads with NUL bytes,
 * and _bin collations except the two below pad with spaces, so that two Redis fields would become one row. */
enum column_form column_form_of(struct slice data_type, struct slice collation)
{
    static const char *const integers[] = {"tinyint", "smallint", "mediumint", "int", "bigint"};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (slice_ieq(data_type, slice_str(integers[i]))) return FORM_INTEGER;
    if (slice_ieq(data_type, SLICE("date"))) return FORM_DATE;
    if (slice_ieq(data_type, SLICE("datetime"))) return FORM_DATETIME;
    if (slice_ieq(data_type, SLICE("varbinary"))) return FORM_BYTES;
    if (!slice_ieq(data_type, SLICE("varchar"))) return FORM_NONE;
    bool exact = slice_ends(collation, SLICE("_nopad_bin")) || slice_ends(collation, SLICE("_0900_bin"));
    return exact ? FORM_BYTES : FORM_NONE;
}

bool column_fits_store(enum column_form form, enum store_kind kind)
{
    return form == FORM_BYTES || (form == FORM_INTEGER && kind == STORE_INTEGER);
}

bool column_fits_field(enum column_form form, enum field_kind kind)
{
    switch (form) {
    case FORM_NONE:
        return false;
    case FORM_INTEGER:
        return kind != FIELD_TEXT;
    case FORM_DATE:
        return kind == FIELD_DATE; /* an hour would lose its hour, and 24 fields be one row */
    case FORM_DATETIME:
        return kind == FIELD_DATE || kind == FIELD_HOUR;
    case FORM_BYTES:
        return true;
    }
    UNREACHABLE();
}

bool columns_fit(const struct columns *forms, const struct counter *c)
{
    return column_fits_field(forms->field, c->field) &&
           (!c->key.has_store || column_fits_store(forms->store, c->store));
}

/* A time, YYYYMMDD or YYYYMMDDHH, becomes 'YYYY-MM-DD' or 'YYYY-MM-DD HH:00:00'. */
void sql_value(struct buf *b, enum column_form form, struct slice value)
{
    const char *d = value.p;
    if (form == FORM_INTEGER) return buf_put_slice(b, value);
    if (form == FORM_BYTES) return sql_hex(b, value);
    buf_printf(b, "'%.4s-%.2s-%.2s", d, d + 4, d + 6);
    if (form == FORM_DATETIME) buf_printf(b, " %.2s:00:00", value.n == 10 ? d + 8 : "00");
    BUF_LIT(b, "'");
}

void sql_store_is(struct buf *b, const struct counter *c, const struct columns *forms, struct slice store)
{
    sql_name(b, c->column_store);
    BUF_LIT(b, " = ");
    sql_value(b, forms->store, store);
}

void sql_key_names(struct buf *b, const struct counter *c, const char *comma)
{
    if (c->key.has_store) {
        sql_name(b, c->column_store);
        buf_put_slice(b, slice_str(comma));
    }
    sql_name(b, c->column_field);
}

void sql_key(struct buf *b, const struct counter *c, const struct columns *forms, struct slice store,
             struct slice field)
{
    PRE(field_valid(c->field, field));
    if (c->key.has_store) {
        sql_value(b, forms->store, store);
        BUF_LIT(b, ",");
    }
    sql_value(b, forms->field, field);
}

void sql_upsert_head(struct buf *b, const struct counter *c)
{
    BUF_LIT(b, "INSERT INTO ");
    sql_name(b, c->table);
    BUF_LIT(b, " (");
    sql_key_names(b, c, ",");
    BUF_LIT(b, ",");
    sql_name(b, c->column_count);
    BUF_LIT(b, ") VALUES ");
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

void sql_upsert_row(struct buf *b, struct slice key, int64_t delta, bool first)
{
    if (!first) BUF_LIT(b, ",");
    BUF_LIT(b, "(");
    buf_put_slice(b, key);
    BUF_LIT(b, ",");
    buf_int(b, delta);
    BUF_LIT(b, ")");
}

/* `table`.`count`, a NULL as 0. */
static void count_put(struct buf *b, const struct counter *c, const struct columns *forms)
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
    count_put(b, c, forms);
    BUF_LIT(b, " + ");
    if (dialect == DB_ROW_ALIAS)
        BUF_LIT(b, "tallyd_row.");
    else
        BUF_LIT(b, "VALUES(");
    sql_name(b, c->column_count);
    if (dialect == DB_VALUES) BUF_LIT(b, ")");
}

void sql_update_row(struct buf *b, const struct counter *c, const struct columns *forms, struct slice key,
                    int64_t delta)
{
    BUF_LIT(b, "UPDATE ");
    sql_name(b, c->table);
    BUF_LIT(b, " SET ");
    sql_name(b, c->column_count);
    BUF_LIT(b, " = ");
    count_put(b, c, forms);
    buf_printf(b, " + (%lld) WHERE (", (long long)delta);
    sql_key_names(b, c, ",");
    BUF_LIT(b, ") = (");
    buf_put_slice(b, key);
    BUF_LIT(b, ")");
}

enum code_class row_add(struct db *db, const struct counter *c, const struct columns *forms, struct slice key,
                        int64_t delta)
{
    struct buf sql = {0};
    if (forms->bounded) {
        sql_update_row(&sql, c, forms, key, delta);
        enum code_class class = db_exec_free(db, &sql);
        if (class != CODE_OK || db_affected(db) > 0) return class;
    }
    sql_upsert_head(&sql, c);
    sql_upsert_row(&sql, key, delta, true);
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

void sql_counter_add(struct buf *b, struct slice counter, const struct batch_id *realm, int64_t merged,
                     int64_t rejected)
{
    buf_printf(b,
               "UPDATE tally_counters SET merged = merged + (%lld), rejected = rejected + (%lld),"
               " chunks = chunks + 1 WHERE counter = ",
               (long long)merged, (long long)rejected);
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

static void column_read(const struct counter *c, const struct slice cell[5], struct columns *out)
{
    enum column_form form = column_form_of(cell[1], cell[2]);
    if (c->key.has_store && slice_ieq(cell[0], c->column_store)) out->store = form;
    if (slice_ieq(cell[0], c->column_field)) out->field = form;
    if (!slice_ieq(cell[0], c->column_count)) return;
    out->nullable = slice_ieq(cell[3], SLICE("YES"));
    out->bounded =
        !slice_ieq(cell[1], SLICE("bigint")) || memmem(cell[4].p, cell[4].n, "unsigned", 8) != NULL;
}

enum code_class columns_read(struct db *db, const struct counter *c, struct columns *out)
{
    struct buf sql = {0};
    *out = (struct columns){FORM_NONE, FORM_NONE, false, false};
    buf_printf(&sql,
               "SELECT COLUMN_NAME, DATA_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE, COLUMN_TYPE"
               " FROM information_schema.COLUMNS"
               " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" SLICE_FMT "'",
               SLICE_ARG(c->table));
    enum code_class class = db_query_free(db, &sql);
    for (struct slice cell[5]; class == CODE_OK && db_row(db, cell, 5);)
        column_read(c, cell, out);
    return class;
}
