/* mysql/schema_table.c - a merchant's table: what merging needs of it. The table is the shop's: no correction drops or changes a
 * column or a key of it. Each correction works by itself and in the order of the report. */
#include "base/heap.h"
#include "base/slice.h"
#include "mysql/schema.h"

#include <stdio.h>

static void text_set(char *to, size_t size, struct slice from)
{
    snprintf(to, size, SLICE_FMT, SLICE_ARG(from));
}

static bool has_word(struct slice text, const char *word)
{
    return text.n > 0 && memmem(text.p, text.n, word, strlen(word)) != NULL;
}

static void column_take(struct table *t, const struct slice cell[8])
{
    t->columns = heap_realloc(t->columns, (t->columns_n + 1) * sizeof *t->columns);
    struct column *col = &t->columns[t->columns_n++];
    *col = (struct column){.form = column_form_of(cell[1], cell[3])};
    text_set(col->name, sizeof col->name, cell[0]);
    text_set(col->data_type, sizeof col->data_type, cell[1]);
    text_set(col->type, sizeof col->type, cell[2]);
    text_set(col->collation, sizeof col->collation, cell[3]);
    col->nullable = slice_ieq(cell[4], SLICE("YES"));
    col->has_default = slice_eq(cell[5], SLICE("1"));
    col->random_default = slice_eq(cell[7], SLICE("1"));
    col->auto_increment = has_word(cell[6], "auto_increment");
    col->generated = has_word(cell[6], "VIRTUAL") || has_word(cell[6], "STORED");
    col->on_update = has_word(cell[6], "on update");
}

/* MariaDB says 'NULL' of a default that is NULL. */
static enum code_class columns_load(struct db *db, struct table *t)
{
    struct buf sql = {0};
    struct slice cell[8];
    buf_printf(&sql,
               "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE,"
               " COALESCE(COLUMN_DEFAULT, 'NULL') <> 'NULL', EXTRA, COALESCE(LOWER(COLUMN_DEFAULT) LIKE "
               "'%%uuid%%(%%', 0)"
               " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
               " AND TABLE_NAME = '" SLICE_FMT "' ORDER BY ORDINAL_POSITION",
               SLICE_ARG(t->name));
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, cell, 8))
        column_take(t, cell);
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
               SLICE_ARG(t->name));
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

enum code_class table_load(struct db *db, struct slice name, struct table *out)
{
    *out = (struct table){.name = name};
    enum code_class class = table_engine(db, name, &out->exists, out->engine);
    if (class != CODE_OK || out->engine[0] == '\0') return class;
    class = columns_load(db, out);
    return class == CODE_OK ? parts_load(db, out) : class;
}

void table_close(struct table *t)
{
    for (size_t i = 0; i < t->columns_n; i++)
        buf_free(&t->columns[i].values);
    heap_free(t->columns);
    heap_free(t->parts);
}

const struct column *table_column(const struct table *t, struct slice name)
{
    for (size_t i = 0; i < t->columns_n; i++)
        if (slice_ieq(slice_str(t->columns[i].name), name)) return &t->columns[i];
    return NULL;
}

bool table_name_valid(struct slice name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
    for (size_t i = 0; i < name.n; i++)
        if (memchr(good, name.p[i], sizeof good - 1) == NULL) return false;
    return name.n >= 1 && name.n <= 64;
}

static enum code_class column_sample(struct db *db, const struct table *t, struct column *col)
{
    struct buf sql = {0};
    struct slice cell;
    BUF_LIT(&sql, "SELECT DISTINCT v FROM (SELECT ");
    sql_name(&sql, slice_str(col->name));
    BUF_LIT(&sql, " AS v FROM ");
    sql_name(&sql, t->name);
    BUF_LIT(&sql, " LIMIT 10000) AS first_rows WHERE v IS NOT NULL ORDER BY v LIMIT 8");
    enum code_class class = db_query_free(db, &sql);
    while (class == CODE_OK && db_row(db, &cell, 1)) {
        buf_put_slice(&col->values, cell);
        buf_put_char(&col->values, '\0');
    }
    return class;
}

enum code_class table_sample(struct db *db, struct table *t)
{
    enum code_class class = CODE_OK;
    for (size_t i = 0; class == CODE_OK && i < t->columns_n; i++) {
        struct column *col = &t->columns[i];
        bool wanted = col->form == FORM_TEXT || col->form == FORM_BYTES;
        for (size_t k = 0; k < t->parts_n; k++)
            wanted |= strcmp(t->parts[k].column, col->name) == 0 && !col->auto_increment;
        if (wanted && table_name_valid(slice_str(col->name))) class = column_sample(db, t, col);
    }
    return class;
}

struct table_judging {
    const struct counter *c;
    struct schema_report *r;
    struct table t;
};

static const char *column_type_of(enum value_kind kind)
{
    static const char *const types[] = {[VALUE_INTEGER] = "BIGINT NOT NULL",
                                        [VALUE_TEXT] = "VARBINARY(255) NOT NULL",
                                        [VALUE_DATE] = "DATE NOT NULL",
                                        [VALUE_HOUR] = "DATETIME NOT NULL",
                                        [VALUE_MONTH] = "DATE NOT NULL"};
    return types[kind];
}

static const char *column_type_of_more(const struct key_column *column)
{
    int64_t v;
    bool number = column->from == FROM_CONSTANT && num_parse(column->constant, &v);
    if (number || column->piece != PIECE_WHOLE) return "BIGINT NOT NULL";
    return column->from == FROM_CONSTANT ? "VARBINARY(255) NOT NULL" : column_type_of(column->kind);
}

static const char *column_type_of_set(const struct set_column *set)
{
    int64_t v;
    if (set->constant.p == NULL) return "DATETIME";
    return num_parse(set->constant, &v) ? "BIGINT" : "VARBINARY(255)";
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
        buf_printf(out, " %s,\n    ",
                   c->store == STORE_INTEGER ? "BIGINT NOT NULL" : "VARBINARY(255) NOT NULL");
    }
    if (c->column_field.n > 0) {
        sql_name(out, c->column_field);
        buf_printf(out, " %s,\n    ", column_type_of(counter_field_kind(c)));
    }
    for (uint32_t i = 0; i < c->more_n; i++) {
        sql_name(out, c->more[i].name);
        buf_printf(out, " %s,\n    ", column_type_of_more(&c->more[i]));
    }
    for (uint32_t i = 0; i < counter_counts_n(c); i++) {
        sql_name(out, counter_of_count(c, i).column_count);
        BUF_LIT(out, " BIGINT NOT NULL DEFAULT 0,\n    ");
    }
    for (uint32_t i = 0; i < c->sets_n; i++) {
        sql_name(out, c->sets[i].name);
        buf_printf(out, " %s,\n    ", column_type_of_set(&c->sets[i]));
    }
    BUF_LIT(out, "PRIMARY KEY ");
    key_columns_put(c, out);
    BUF_LIT(out, "\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
}

static void alter(struct buf *mend, const struct counter *c, const char *what)
{
    BUF_LIT(mend, "ALTER TABLE ");
    sql_name(mend, c->table);
    buf_printf(mend, " %s ", what);
}

static bool is_innodb(const struct table *t)
{
    return slice_ieq(slice_str(t->engine), SLICE("InnoDB"));
}

static bool column_is_named(const char *name, struct slice wanted)
{
    return slice_ieq(slice_str(name), wanted);
}

bool table_key_has(const struct counter *c, const char *name)
{
    for (uint32_t i = 0; i < c->more_n; i++)
        if (column_is_named(name, c->more[i].name)) return true;
    return column_is_named(name, c->column_field) ||
           (c->key.has_store && column_is_named(name, c->column_store));
}

static bool is_count(const struct counter *c, const char *name)
{
    for (uint32_t i = 0; i < counter_counts_n(c); i++)
        if (column_is_named(name, counter_of_count(c, i).column_count)) return true;
    return false;
}

/* The columns of that key that a merge needs in it: how many of the counter's are there whole, how many others. */
struct key_shape {
    size_t own, others;
    bool free; /* has a column that no merge writes, and that is another in each new row */
};

/* Never the same in two rows: AUTO_INCREMENT, a UUID, or NULL, which a unique key takes any number of times. */
static bool differs_by_itself(const struct table_judging *j, const char *name)
{
    const struct column *col = table_column(&j->t, slice_str(name));
    if (col == NULL || table_key_has(j->c, name) || is_count(j->c, name)) return false;
    return col->auto_increment || col->random_default ||
           (col->nullable && !col->has_default && !col->generated);
}

static struct key_shape key_shape(const struct table_judging *j, const char *key)
{
    struct key_shape s = {0};
    for (size_t i = 0; i < j->t.parts_n; i++) {
        const struct key_part *part = &j->t.parts[i];
        if (strcmp(part->key, key) != 0) continue;
        bool own = table_key_has(j->c, part->column) && !part->prefix;
        s.own += own;
        s.others += !own;
        s.free |= differs_by_itself(j, part->column);
    }
    return s;
}

/* A column that the configuration names, and what it must hold. */
struct need {
    const char *path; /* below the counter */
    struct slice column;
    const char *kind_text;
    bool (*fits)(const struct need *n, enum column_form form);
    enum value_kind kind;
    enum store_kind store;
    const struct key_column *more;
    const struct set_column *set;
};

static bool count_fits(const struct need *n, enum column_form form)
{
    (void)n;
    return form == FORM_INTEGER;
}

static bool store_fits(const struct need *n, enum column_form form)
{
    return column_fits_store(form, n->store);
}

static bool form_fits(const struct need *n, enum column_form form)
{
    return column_fits(form, n->kind);
}

static bool more_fits(const struct need *n, enum column_form form)
{
    return column_fits_more(form, n->more);
}

static bool set_fits(const struct need *n, enum column_form form)
{
    return column_fits_set(form, n->set);
}

static bool is_in_key(const struct table_judging *j, const char *name)
{
    if (table_key_has(j->c, name)) return true;
    for (size_t i = 0; i < j->t.parts_n; i++)
        if (strcmp(j->t.parts[i].column, name) == 0) return true;
    return false;
}

/* MySQL takes no value for a generated column: it may find rows, where none is made. */
static bool does(const struct table_judging *j, const struct need *n, const struct column *col)
{
    bool written = n->fits == count_fits || n->set != NULL || j->c->missing == MISSING_INSERT;
    /* A TIMESTAMP is no key, but may be set. */
    bool set_time = n->set != NULL && slice_ieq(slice_str(col->data_type), SLICE("timestamp"));
    return n->fits(n, set_time ? FORM_DATETIME : col->form) && !(col->generated && written);
}

static void column_check(struct table_judging *j, const struct need *n)
{
    const struct column *col = table_column(&j->t, n->column);
    struct buf others = {0}, mend = {0}; /* names of the columns that would do */
    bool count = n->fits == count_fits;
    if (col != NULL && does(j, n, col)) return;
    for (size_t i = 0; i < j->t.columns_n; i++) {
        const char *name = j->t.columns[i].name;
        bool taken =
            (count || n->set != NULL) && (is_in_key(j, name) || (n->set != NULL && is_count(j->c, name)));
        if (does(j, n, &j->t.columns[i]) && !taken)
            buf_printf(&others, "%s%s", others.n > 0 ? ", " : "", name);
    }
    if (col == NULL && n->set != NULL) {
        alter(&mend, j->c, "ADD COLUMN");
        sql_name(&mend, n->column);
        buf_printf(&mend, " %s;", column_type_of_set(n->set));
    }
    if (others.n == 0)
        buf_put_slice(&others,
                      count ? SLICE("none, so it is no counter table: its rows have no integer to add to")
                            : SLICE("none"));
    finding_add(j->r, SCHEMA_REFUSE, j->c, mend.n > 0 ? &mend : NULL,
                "column " SLICE_FMT "." SLICE_FMT " is %s%s %s%s. Columns that do for %s: " SLICE_FMT,
                SLICE_ARG(j->c->table), SLICE_ARG(n->column), col == NULL ? "missing: it is for" : col->type,
                col == NULL ? "" : ", which does not hold", n->kind_text,
                col == NULL || !col->generated
                    ? ""
                    : " that tallyd writes: it is generated (MySQL error 3105, in MariaDB 1906: \"The value "
                      "specified for generated column\" ...). Make it a plain column, or name one",
                n->path, SLICE_ARG(buf_slice(&others)));
    buf_free(&others);
}

static void fold_check(struct table_judging *j, struct slice name)
{
    const struct column *col = table_column(&j->t, name);
    if (col == NULL || col->form != FORM_TEXT) return;
    finding_add(j->r, SCHEMA_WARN, j->c, NULL,
                "column " SLICE_FMT "." SLICE_FMT
                " is %s %s, which takes some texts for one row (as Shoes and shoes, "
                "by its collation): their hits are counted in that row, and CTR.TOTAL says its count",
                SLICE_ARG(j->c->table), SLICE_ARG(name), col->type, col->collation);
}

static void columns_check(struct table_judging *j)
{
    static const char *const kinds[] = {[VALUE_INTEGER] = "an integer",
                                        [VALUE_TEXT] = "a text of 1 to 255 bytes",
                                        [VALUE_DATE] = "a date",
                                        [VALUE_HOUR] = "an hour",
                                        [VALUE_MONTH] = "a month"};
    const struct counter *c = j->c;
    for (uint32_t i = 0; i < counter_counts_n(c); i++)
        column_check(j, &(struct need){"columns.count", counter_of_count(c, i).column_count, "a count",
                                       .fits = count_fits});
    if (c->key.has_store) {
        column_check(j, &(struct need){"columns.store", c->column_store,
                                       c->store == STORE_INTEGER ? "an integer store id" : "a text store id",
                                       .fits = store_fits, .store = c->store});
        if (c->store == STORE_TEXT) fold_check(j, c->column_store);
    }
    if (c->column_field.n > 0) {
        enum value_kind kind = counter_field_kind(c);
        column_check(j, &(struct need){"columns.field", c->column_field, field_kind_expected(c->field),
                                       .fits = form_fits, .kind = kind});
        if (kind == VALUE_TEXT) fold_check(j, c->column_field);
    }
    for (uint32_t i = 0; i < c->more_n; i++) {
        const struct key_column *m = &c->more[i];
        bool constant = m->from == FROM_CONSTANT;
        column_check(j, &(struct need){constant ? "constants" : "it in columns", m->name,
                                       constant ? "that constant" : kinds[m->kind], .fits = more_fits,
                                       .more = m});
        if (!constant && m->kind == VALUE_TEXT) fold_check(j, m->name);
    }
    for (uint32_t i = 0; i < c->sets_n; i++)
        column_check(j, &(struct need){"set", c->sets[i].name,
                                       c->sets[i].constant.p == NULL ? "a time" : "that constant",
                                       .fits = set_fits, .set = &c->sets[i]});
}

/* A row is found by one unique key, which is that of the counter. Any other must not find another row first. One is proposed only for
 * columns that can be in it; then true. */
static bool keys_check(struct table_judging *j, bool columns_good)
{
    size_t wanted = (j->c->key.has_store ? 1 : 0) + (j->c->column_field.n > 0 ? 1 : 0) + j->c->more_n;
    struct buf mend = {0}, columns = {0}, twice = {0};
    bool found = false;
    key_columns_put(j->c, &columns);
    for (size_t i = 0; i < j->t.parts_n; i++) {
        if (i > 0 && strcmp(j->t.parts[i].key, j->t.parts[i - 1].key) == 0) continue;
        struct key_shape s = key_shape(j, j->t.parts[i].key);
        found |= s.own == wanted && s.others == 0;
        if (s.own == wanted || s.free || j->c->missing != MISSING_INSERT) continue;
        finding_add(j->r, SCHEMA_REFUSE, j->c, NULL,
                    "the unique key %s of " SLICE_FMT " does not hold all of " SLICE_FMT
                    ": a merge could count into another row",
                    j->t.parts[i].key, SLICE_ARG(j->c->table), SLICE_ARG(buf_slice(&columns)));
    }
    if (!found) {
        if (columns_good) {
            /* In one ALTER, since each copies the table. */
            alter(&mend, j->c, is_innodb(&j->t) ? "ADD UNIQUE KEY" : "ENGINE=InnoDB, ADD UNIQUE KEY");
            buf_put_slice(&mend, buf_slice(&columns));
            /* Ends the correction of a primary key. Writers must wait for it: if MySQL builds the key while they go on, it takes
             * what their ON DUPLICATE KEY UPDATE tries to insert for a duplicate, and gives up with 1062. */
            BUF_LIT(&mend, ", LOCK=SHARED;");
            buf_printf(&twice, " (SELECT " SLICE_FMT ", COUNT(*) FROM ", (int)columns.n - 2, columns.p + 1);
            sql_name(&twice, j->c->table);
            buf_printf(&twice,
                       " GROUP BY " SLICE_FMT " HAVING COUNT(*) > 1; lists those that have: make each one "
                       "row with their sum, as sql/README.md shows)",
                       (int)columns.n - 2, columns.p + 1);
        }
        finding_add(j->r, SCHEMA_REFUSE, j->c, columns_good ? &mend : NULL,
                    "no unique key of " SLICE_FMT " is exactly " SLICE_FMT
                    "; one can be added where no two rows have the same" SLICE_FMT
                    ", and then none can be made any more",
                    SLICE_ARG(j->c->table), SLICE_ARG(buf_slice(&columns)), SLICE_ARG(buf_slice(&twice)));
    }
    buf_free(&columns);
    buf_free(&twice);
    return !found && columns_good;
}

static bool is_set_at_insert(const struct counter *c, const char *name)
{
    for (uint32_t i = 0; i < c->sets_n; i++)
        if (c->sets[i].at_insert && column_is_named(name, c->sets[i].name)) return true;
    return false;
}

/* A column that the merge does not name must be nullable, have a default, or be generated. */
static void others_check(struct table_judging *j)
{
    for (size_t i = 0; i < j->t.columns_n; i++) {
        const struct column *col = &j->t.columns[i];
        bool own = table_key_has(j->c, col->name);
        if (own && col->auto_increment && j->c->missing == MISSING_INSERT)
            finding_add(j->r, SCHEMA_WARN, j->c, NULL,
                        "column " SLICE_FMT ".%s is AUTO_INCREMENT: a hit on an id that is not there makes a "
                        "row. With `missing: reject` it does not",
                        SLICE_ARG(j->c->table), col->name);
        if (own || is_count(j->c, col->name) || j->c->missing != MISSING_INSERT) continue;
        if (is_set_at_insert(j->c, col->name)) continue;
        if (col->nullable || col->has_default || col->auto_increment || col->generated) continue;
        finding_add(j->r, SCHEMA_REFUSE, j->c, NULL,
                    "column " SLICE_FMT ".%s is NOT NULL without a default: tallyd can make no row without "
                    "it. Write it with `set`, or make no rows "
                    "with `missing: reject`",
                    SLICE_ARG(j->c->table), col->name);
    }
}

/* What the type holds at most; 0: more than a merge ever adds. */
static uint64_t most_of(const struct column *col)
{
    static const struct {
        const char *type;
        unsigned bits;
    } types[] = {{"tinyint", 8}, {"smallint", 16}, {"mediumint", 24}, {"int", 32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (column_is_named(col->data_type, slice_str(types[i].type)))
            return (UINT64_C(1) << (types[i].bits - (strstr(col->type, "unsigned") == NULL))) - 1;
    return 0;
}

static enum code_class column_room(struct db *db, struct table_judging *j, struct slice name)
{
    struct buf sql = {0};
    struct slice cell;
    int64_t highest = 0;
    const struct column *col = table_column(&j->t, name);
    uint64_t most = col != NULL ? most_of(col) : 0;
    if (most == 0) return CODE_OK;
    BUF_LIT(&sql, "SELECT MAX(");
    sql_name(&sql, name);
    BUF_LIT(&sql, ") FROM ");
    sql_name(&sql, j->c->table);
    enum code_class class = db_query_free(db, &sql);
    if (class != CODE_OK) return class;
    if (db_row(db, &cell, 1) && cell.p != NULL) (void)num_parse(cell, &highest);
    finding_add(j->r, SCHEMA_WARN, j->c, NULL,
                "column " SLICE_FMT "." SLICE_FMT
                " is %s: the highest count is %lld, and a row's hits beyond %llu would become rejects",
                SLICE_ARG(j->c->table), SLICE_ARG(name), col->type, (long long)highest,
                (unsigned long long)most);
    return CODE_OK;
}

enum code_class table_room(struct db *db, const struct counter *c, struct schema_report *r)
{
    struct table_judging j = {.c = c, .r = r};
    enum code_class class = table_load(db, c->table, &j.t);
    for (uint32_t i = 0; class == CODE_OK && i < counter_counts_n(c); i++)
        class = column_room(db, &j, counter_of_count(c, i).column_count);
    table_close(&j.t);
    return class;
}

static void table_judge(struct table_judging *j)
{
    struct buf mend = {0};
    size_t refusals = schema_refusals(j->r);
    columns_check(j);
    bool altered = keys_check(j, refusals == schema_refusals(j->r));
    if (!is_innodb(&j->t)) {
        if (!altered) alter(&mend, j->c, "ENGINE=InnoDB;");
        finding_add(j->r, SCHEMA_REFUSE, j->c, altered ? NULL : &mend,
                    "table " SLICE_FMT
                    " has engine %s, which has no transactions; with InnoDB its rows and statements stay "
                    "as they are%s",
                    SLICE_ARG(j->c->table), j->t.engine, altered ? ". The ALTER above mends that, too" : "");
    }
    others_check(j);
}

enum code_class table_check(struct db *db, const struct counter *c, struct schema_report *r)
{
    struct table_judging j = {.c = c, .r = r};
    struct buf ddl = {0};
    enum code_class class = table_load(db, c->table, &j.t);
    if (class == CODE_OK && !j.t.exists) {
        schema_table_ddl(c, &ddl);
        BUF_LIT(&ddl, ";");
        finding_add(r, SCHEMA_REFUSE, c, &ddl, "table " SLICE_FMT " is missing", SLICE_ARG(c->table));
    } else if (class == CODE_OK && j.t.engine[0] == '\0') {
        finding_add(r, SCHEMA_REFUSE, c, NULL, SLICE_FMT " is a view: name the table itself",
                    SLICE_ARG(c->table));
    } else if (class == CODE_OK) {
        table_judge(&j);
    }
    table_close(&j.t);
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
