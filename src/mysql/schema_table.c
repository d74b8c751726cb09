/* mysql/schema_table.c - a merchant's table: what merging needs of it, and the SQL that corrects it. Each correction
 * works by itself and in the order of the report. */
#include "base/heap.h"
#include "base/num.h"
#include "mysql/finding.h"
#include "mysql/text.h"

#include <stdio.h>

struct column {
    char name[65], type[260], data_type[65], collation[65];
    bool nullable, has_default, auto_increment, generated;
};

struct key_part { /* one column of one unique key */
    char key[65], column[65];
    bool prefix; /* only its first characters: folds longer values */
};

struct table {
    const struct counter *c;
    struct schema_report *r;
    struct column *columns;
    struct key_part *parts; /* by key, then in order */
    size_t columns_n, parts_n;
    const struct column *serial; /* the AUTO_INCREMENT column, NULL: none */
};

static const char *column_type_of_store(const struct counter *c)
{
    return c->store == STORE_INTEGER ? "BIGINT NOT NULL" : "VARBINARY(255) NOT NULL";
}

static const char *column_type_of_field(const struct counter *c)
{
    switch (c->field) {
    case FIELD_DATE:
        return "DATE NOT NULL";
    case FIELD_HOUR:
        return "DATETIME NOT NULL";
    case FIELD_INTEGER:
        return "BIGINT NOT NULL";
    case FIELD_TEXT:
        return "VARBINARY(255) NOT NULL";
    }
    UNREACHABLE();
}

static void key_columns_put(const struct counter *c, struct buf *out)
{
    BUF_LIT(out, "(");
    sql_key_names(out, c, ", ");
    BUF_LIT(out, ")");
}

void schema_table_ddl(const struct counter *c, struct buf *out)
{
    BUF_LIT(out, "CREATE TABLE IF NOT EXISTS ");
    sql_name(out, c->table);
    BUF_LIT(out, " (\n    ");
    if (c->key.has_store) {
        sql_name(out, c->column_store);
        buf_printf(out, " %s,\n    ", column_type_of_store(c));
    }
    sql_name(out, c->column_field);
    buf_printf(out, " %s,\n    ", column_type_of_field(c));
    sql_name(out, c->column_count);
    BUF_LIT(out, " BIGINT NOT NULL DEFAULT 0,\n    PRIMARY KEY ");
    key_columns_put(c, out);
    BUF_LIT(out, "\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
}

static void alter(struct buf *mend, const struct counter *c, const char *what)
{
    BUF_LIT(mend, "ALTER TABLE ");
    sql_name(mend, c->table);
    buf_printf(mend, " %s ", what);
}

/* Ends the correction of a primary key. Writers must wait for it: if MySQL builds the key while they go on, it takes
 * what their ON DUPLICATE KEY UPDATE tries to insert for a duplicate, and gives up with 1062. */
static void alter_end_key(struct buf *mend)
{
    BUF_LIT(mend, ", LOCK=SHARED;");
}

static bool is_named(const char *name, struct slice wanted)
{
    return slice_ieq(slice_str(name), wanted);
}

static void text_set(char *to, size_t size, struct slice from)
{
    snprintf(to, size, SLICE_FMT, SLICE_ARG(from));
}

static bool is_key_column(const struct counter *c, const char *name)
{
    return is_named(name, c->column_field) || (c->key.has_store && is_named(name, c->column_store));
}

static const struct column *column_find(const struct table *t, struct slice name)
{
    for (size_t i = 0; i < t->columns_n; i++)
        if (is_named(t->columns[i].name, name)) return &t->columns[i];
    return NULL;
}

static void column_take(struct table *t, const struct slice cell[7])
{
    t->columns = heap_realloc(t->columns, (t->columns_n + 1) * sizeof *t->columns);
    struct column *col = &t->columns[t->columns_n++];
    text_set(col->name, sizeof col->name, cell[0]);
    text_set(col->data_type, sizeof col->data_type, cell[1]);
    text_set(col->type, sizeof col->type, cell[2]);
    text_set(col->collation, sizeof col->collation, cell[3]);
    col->nullable = slice_ieq(cell[4], SLICE("YES"));
    col->has_default = slice_eq(cell[5], SLICE("1"));
    col->auto_increment = memmem(cell[6].p, cell[6].n, "auto_increment", 14) != NULL;
    col->generated = memmem(cell[6].p, cell[6].n, "VIRTUAL", 7) || memmem(cell[6].p, cell[6].n, "STORED", 6);
}

static enum code_class columns_load(struct db *db, struct table *t)
{
    struct buf sql = {0};
    struct slice cell[7];
    buf_printf(
        &sql,
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE,"
        " COLUMN_DEFAULT IS NOT NULL, EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
        " AND TABLE_NAME = '" SLICE_FMT "' ORDER BY ORDINAL_POSITION",
        SLICE_ARG(t->c->table));
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, 7))
        column_take(t, cell);
    for (size_t i = 0; i < t->columns_n; i++)
        if (t->columns[i].auto_increment) t->serial = &t->columns[i];
    return class;
}

static enum code_class parts_load(struct db *db, struct table *t)
{
    struct buf sql = {0};
    struct slice cell[3];
    buf_printf(&sql,
               "SELECT INDEX_NAME, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL FROM "
               "information_schema.STATISTICS"
               " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" SLICE_FMT "' AND NON_UNIQUE = 0"
               " ORDER BY INDEX_NAME, SEQ_IN_INDEX",
               SLICE_ARG(t->c->table));
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, 3)) {
        t->parts = heap_realloc(t->parts, (t->parts_n + 1) * sizeof *t->parts);
        struct key_part *part = &t->parts[t->parts_n++];
        text_set(part->key, sizeof part->key, cell[0]);
        text_set(part->column, sizeof part->column, cell[1]);
        part->prefix = slice_eq(cell[2], SLICE("1"));
    }
    return class;
}

static bool in_key(const struct table *t, const char *key, const char *column)
{
    for (size_t i = 0; i < t->parts_n; i++)
        if (strcmp(t->parts[i].key, key) == 0 && strcmp(t->parts[i].column, column) == 0) return true;
    return false;
}

/* How many columns has the key? *plain: all are key columns of the counter, whole. */
static size_t key_size(const struct table *t, const char *key, bool *plain)
{
    size_t n = 0;
    *plain = true;
    for (size_t i = 0; i < t->parts_n; i++) {
        if (strcmp(t->parts[i].key, key) != 0) continue;
        n++;
        if (!is_key_column(t->c, t->parts[i].column) || t->parts[i].prefix) *plain = false;
    }
    return n;
}

static void count_check(struct table *t)
{
    const struct counter *c = t->c;
    const struct column *col = column_find(t, c->column_count);
    struct buf mend = {0};
    bool right = col != NULL && is_named(col->data_type, SLICE("bigint")) && !col->nullable &&
                 strstr(col->type, "unsigned") == NULL;
    if (right) return;
    if (col != NULL && col->nullable) {
        BUF_LIT(&mend, "UPDATE ");
        sql_name(&mend, c->table);
        BUF_LIT(&mend, " SET ");
        sql_name(&mend, c->column_count);
        BUF_LIT(&mend, " = 0 WHERE ");
        sql_name(&mend, c->column_count);
        BUF_LIT(&mend, " IS NULL;\n");
    }
    alter(&mend, c, col == NULL ? "ADD COLUMN" : "MODIFY COLUMN");
    sql_name(&mend, c->column_count);
    BUF_LIT(&mend, " BIGINT NOT NULL DEFAULT 0;");
    finding_add(
        t->r, SCHEMA_REFUSE, c, &mend,
        "column " SLICE_FMT "." SLICE_FMT
        " is %s%s, but must be a signed BIGINT NOT NULL (UNSIGNED refuses decrements, NULL + 1 is NULL)",
        SLICE_ARG(c->table), SLICE_ARG(c->column_count), col == NULL ? "missing" : col->type,
        col != NULL && col->nullable ? " NULL" : "");
}

static void key_column_check(struct table *t, struct slice name, const char *type,
                             bool (*fits)(const struct table *, enum column_form), const char *kind)
{
    const struct column *col = column_find(t, name);
    struct buf mend = {0};
    if (col != NULL && fits(t, column_form_of(slice_str(col->data_type), slice_str(col->collation)))) return;
    alter(&mend, t->c, col != NULL ? "MODIFY COLUMN" : "ADD COLUMN");
    sql_name(&mend, name);
    buf_printf(&mend, " %s;", type);
    if (col == NULL)
        finding_add(t->r, SCHEMA_REFUSE, t->c, &mend, "column " SLICE_FMT "." SLICE_FMT " is missing",
                    SLICE_ARG(t->c->table), SLICE_ARG(name));
    else if (fits(t, FORM_BYTES) &&
             (is_named(col->data_type, SLICE("varchar")) || is_named(col->data_type, SLICE("char")) ||
              is_named(col->data_type, SLICE("binary"))))
        finding_add(t->r, SCHEMA_REFUSE, t->c, &mend,
                    "column " SLICE_FMT "." SLICE_FMT
                    " is %s %s, which takes different fields for one row (case, accents or trailing spaces); "
                    "it must compare bytes",
                    SLICE_ARG(t->c->table), SLICE_ARG(name), col->type, col->collation);
    else
        finding_add(t->r, SCHEMA_REFUSE, t->c, &mend,
                    "column " SLICE_FMT "." SLICE_FMT " is %s, which does not hold %s",
                    SLICE_ARG(t->c->table), SLICE_ARG(name), col->type, kind);
}

static bool store_fits(const struct table *t, enum column_form form)
{
    return column_fits_store(form, t->c->store);
}
static bool field_fits(const struct table *t, enum column_form form)
{
    return column_fits_field(form, t->c->field);
}

/* Before the primary key is checked: an AUTO_INCREMENT column is mostly the primary key itself. */
static void serial_check(struct table *t)
{
    struct buf mend = {0};
    if (t->serial == NULL) return;
    alter(&mend, t->c, "");
    if (is_key_column(t->c, t->serial->name)) {
        BUF_LIT(&mend, "MODIFY COLUMN ");
        sql_name(&mend, slice_str(t->serial->name));
        buf_printf(&mend, " %s NOT NULL;", t->serial->type);
    } else {
        if (in_key(t, "PRIMARY", t->serial->name)) BUF_LIT(&mend, "DROP PRIMARY KEY, ");
        BUF_LIT(&mend, "DROP COLUMN ");
        sql_name(&mend, slice_str(t->serial->name));
        if (in_key(t, "PRIMARY", t->serial->name)) {
            BUF_LIT(&mend, ", ADD PRIMARY KEY ");
            key_columns_put(t->c, &mend);
        }
        alter_end_key(&mend);
    }
    finding_add(t->r, SCHEMA_REFUSE, t->c, &mend,
                "column " SLICE_FMT
                ".%s is AUTO_INCREMENT: every merge would use up an id for each row, and writers deadlock",
                SLICE_ARG(t->c->table), t->serial->name);
}

/* serial_check already corrects one that is, or has, an AUTO_INCREMENT column of no counter's. */
static void primary_check(struct table *t)
{
    bool plain;
    struct buf mend = {0}, wanted = {0};
    size_t n = key_size(t, "PRIMARY", &plain);
    bool mended =
        t->serial != NULL && !is_key_column(t->c, t->serial->name) && in_key(t, "PRIMARY", t->serial->name);
    if (mended || (plain && n == (t->c->key.has_store ? 2 : 1))) return;
    key_columns_put(t->c, &wanted);
    alter(&mend, t->c, n > 0 ? "DROP PRIMARY KEY, ADD PRIMARY KEY" : "ADD PRIMARY KEY");
    buf_put_slice(&mend, buf_slice(&wanted));
    alter_end_key(&mend);
    finding_add(t->r, SCHEMA_REFUSE, t->c, &mend,
                "the primary key of " SLICE_FMT " is not exactly " SLICE_FMT, SLICE_ARG(t->c->table),
                SLICE_ARG(buf_slice(&wanted)));
    buf_free(&wanted);
}

/* A second unique key may pick another row for the update than the primary key would, and brings deadlocks. */
static void unique_check(struct table *t, const char *key)
{
    bool plain, gone;
    struct buf mend = {0};
    size_t n = key_size(t, key, &plain);
    gone = n == 1 && t->serial != NULL && in_key(t, key, t->serial->name) &&
           !is_key_column(t->c, t->serial->name);
    if (strcmp(key, "PRIMARY") == 0 || gone) return; /* gone with its AUTO_INCREMENT column */
    alter(&mend, t->c, "DROP INDEX");
    sql_name(&mend, slice_str(key));
    BUF_LIT(&mend, ";");
    finding_add(t->r, SCHEMA_REFUSE, t->c, &mend,
                "table " SLICE_FMT " has a second unique key, %s; only the primary key may be unique",
                SLICE_ARG(t->c->table), key);
}

/* A column that the merge does not name must be nullable, have a default, or be generated. */
static void others_check(struct table *t)
{
    for (size_t i = 0; i < t->columns_n; i++) {
        const struct column *col = &t->columns[i];
        struct buf mend = {0};
        if (is_key_column(t->c, col->name) || is_named(col->name, t->c->column_count)) continue;
        if (col->nullable || col->has_default || col->auto_increment || col->generated) continue;
        alter(&mend, t->c, "MODIFY COLUMN");
        sql_name(&mend, slice_str(col->name));
        buf_printf(&mend, " %s%s%s NULL;", col->type, col->collation[0] != 0 ? " COLLATE " : "",
                   col->collation);
        finding_add(t->r, SCHEMA_REFUSE, t->c, &mend,
                    "column " SLICE_FMT
                    ".%s is NOT NULL without a default: no row can be inserted without it",
                    SLICE_ARG(t->c->table), col->name);
    }
}

static void table_judge(struct table *t, const char *engine)
{
    const struct counter *c = t->c;
    struct buf mend = {0};
    if (!slice_ieq(slice_str(engine), SLICE("InnoDB"))) {
        alter(&mend, c, "ENGINE=InnoDB;");
        finding_add(t->r, SCHEMA_REFUSE, c, &mend,
                    "table " SLICE_FMT " has engine %s, which has no transactions", SLICE_ARG(c->table),
                    engine);
    }
    count_check(t);
    if (c->key.has_store)
        key_column_check(t, c->column_store, column_type_of_store(c), store_fits,
                         c->store == STORE_INTEGER ? "an integer store id" : "a text store id");
    key_column_check(t, c->column_field, column_type_of_field(c), field_fits, field_kind_expected(c->field));
    serial_check(t);
    primary_check(t);
    for (size_t i = 0; i < t->parts_n; i++)
        if (i == 0 || strcmp(t->parts[i].key, t->parts[i - 1].key) != 0) unique_check(t, t->parts[i].key);
    others_check(t);
}

enum code_class table_check(struct db *db, const struct counter *c, struct schema_report *r)
{
    struct table t = {.c = c, .r = r};
    struct buf ddl = {0};
    char engine[65];
    bool exists;
    enum code_class class = table_engine(db, c->table, &exists, engine);
    if (class != CODE_OK) return class;
    if (!exists) {
        schema_table_ddl(c, &ddl);
        BUF_LIT(&ddl, ";");
        finding_add(r, SCHEMA_REFUSE, c, &ddl, "table " SLICE_FMT " is missing", SLICE_ARG(c->table));
        return CODE_OK;
    }
    if (engine[0] == 0) {
        finding_add(r, SCHEMA_REFUSE, c, NULL, SLICE_FMT " is a view: name the table itself",
                    SLICE_ARG(c->table));
        return CODE_OK;
    }
    class = columns_load(db, &t);
    if (class == CODE_OK) class = parts_load(db, &t);
    if (class == CODE_OK) table_judge(&t, engine);
    heap_free(t.columns);
    heap_free(t.parts);
    return class;
}

enum code_class table_fits(struct db *db, const struct counter *c, struct columns *forms, bool *fits)
{
    struct schema_report r = {0};
    enum code_class class = columns_read(db, c, forms);
    if (class == CODE_OK) class = table_check(db, c, &r);
    *fits = !schema_refused(&r, c) && columns_fit(forms, c);
    schema_report_close(&r);
    return class;
}
