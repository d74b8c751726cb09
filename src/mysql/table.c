/* mysql/table.c - see table.h. */
#include "mysql/table.h"

#include "base/heap.h"
#include "mysql/finding.h"

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
