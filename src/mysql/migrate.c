/* mysql/migrate.c - applies sql/. DDL commits by itself in MySQL, so a file that was cut half way is run again from its
 * start: its statements are safe to repeat, and its version is written after the last one. A table that was dropped is
 * made again by applying all files. */
#include "mysql/schema.h"
#include "mysql/text.h"

#include <stdio.h>

#define LOCK_TRIES 30 /* each waits 2 s inside the server, below any read timeout */
/* At most 64 characters (MySQL); SHA2, since MySQL 9.6 has no MD5 any more. */
#define LOCK_NAME "CONCAT('tallyd_', LEFT(SHA2(DATABASE(), 256), 32))"

uint32_t schema_version_wanted(void)
{
    return sql_files[sql_files_n - 1].version;
}

static enum err lock_take(struct db *db, struct error *e)
{
    struct slice cell;
    for (int i = 0; i < LOCK_TRIES; i++) {
        enum code_class class = DB_QUERY(db, "SELECT GET_LOCK(" LOCK_NAME ", 2)");
        if (class == CODE_FOREIGN || class == CODE_OPERATOR)
            return error_set(e, ERR_CONFIG,
                             "this server refuses GET_LOCK, by which one migrate waits for another: let an "
                             "administrator run what `tallyd migrate --print` prints (%s)",
                             db_text(db));
        if (class != CODE_OK) return db_error(db, e);
        if (db_row(db, &cell, 1) && slice_eq(cell, SLICE("1"))) return ERR_NONE;
    }
    return error_set(e, ERR_UNAVAILABLE,
                     "another tallyd migrate has been running for a minute; try again when it is done");
}

/* The server itself releases the lock of a lost connection. */
static void lock_release(struct db *db)
{
    if (db_is_open(db) && DB_QUERY(db, "SELECT RELEASE_LOCK(" LOCK_NAME ")") != CODE_OK) db_close(db);
}

/* A printed file may be applied by hand twice. */
static void version_statement(struct buf *out, uint32_t version)
{
    buf_printf(out, "INSERT INTO tally_schema (version, applied_at) VALUES (%u, UTC_TIMESTAMP(3))", version);
    BUF_LIT(out, " ON DUPLICATE KEY UPDATE version = version");
}

static enum err file_apply(struct db *db, const struct sql_file *f, struct error *e)
{
    struct slice rest = f->text, statement;
    struct buf sql = {0};
    while (sql_next(&rest, &statement)) {
        if (db_exec(db, statement) == CODE_OK) continue;
        enum err err = db_error(db, e);
        if (e != NULL) error_prefix(e, "sql/%s", f->name);
        return err;
    }
    version_statement(&sql, f->version);
    return db_exec_free(db, &sql) == CODE_OK ? ERR_NONE : db_error(db, e);
}

static enum err files_apply(struct db *db, bool ledger_lost, uint32_t *from, uint32_t *to, struct error *e)
{
    unsigned dropped;
    if (own_tables_dropped(db, &dropped, from) != CODE_OK) return db_error(db, e);
    *to = *from;
    if (*from > schema_version_wanted())
        return error_set(e, ERR_CONFIG,
                         "tallyd's tables have version %u, made by a newer tallyd; this one supports %u: run "
                         "the newer one",
                         *from, schema_version_wanted());
    if ((dropped >> SCHEMA_LEDGER & 1) != 0 && !ledger_lost)
        return error_set(
            e, ERR_CONFIG,
            "%s was dropped, and with it %s. Nothing was made. If a copy has everything that was merged, "
            "restore it. Otherwise stop every tallyd of this Redis and run `tallyd migrate --ledger-lost`; "
            "`tallyd verify` then says how much will be counted twice when they run again",
            schema_own[SCHEMA_LEDGER].name, schema_own[SCHEMA_LEDGER].lost);
    for (size_t i = 0; i < sql_files_n; i++) {
        if (sql_files[i].version <= *from && dropped == 0) continue;
        enum err err = file_apply(db, &sql_files[i], e);
        if (err != ERR_NONE) return err;
        *to = sql_files[i].version;
    }
    return ERR_NONE;
}

enum err schema_migrate(struct db *db, bool ledger_lost, uint32_t *from, uint32_t *to, struct error *e)
{
    uint32_t unasked_from, unasked_to;
    enum err err = lock_take(db, e);
    if (err != ERR_NONE) return err;
    err = files_apply(db, ledger_lost, from != NULL ? from : &unasked_from, to != NULL ? to : &unasked_to, e);
    lock_release(db);
    return err;
}

static enum err table_create(struct db *db, const struct counter *c, uint32_t *created, struct error *e)
{
    char engine[65];
    bool exists;
    struct buf ddl = {0};
    if (table_engine(db, c->table, &exists, engine) != CODE_OK) return db_error(db, e);
    if (exists) return ERR_NONE;
    schema_table_ddl(c, &ddl);
    enum err err = db_exec(db, buf_slice(&ddl)) == CODE_OK ? ERR_NONE : db_error(db, e);
    buf_free(&ddl);
    *created += err == ERR_NONE;
    return err;
}

enum err schema_migrate_tables(struct db *db, const struct counters *cs, uint32_t *created, struct error *e)
{
    enum err err = lock_take(db, e);
    if (err != ERR_NONE) return err;
    *created = 0;
    for (size_t i = 0; err == ERR_NONE && i < cs->n; i++)
        err = table_create(db, &cs->all[i], created, e);
    lock_release(db);
    return err;
}

void schema_print(struct buf *out)
{
    for (size_t i = 0; i < sql_files_n; i++) {
        buf_printf(out, "%s-- sql/%s\n", i > 0 ? "\n" : "", sql_files[i].name);
        buf_put_slice(out, sql_files[i].text);
        BUF_LIT(out, "\n-- that this file was applied\n");
        version_statement(out, sql_files[i].version);
        BUF_LIT(out, ";\n");
    }
}

void schema_print_tables(const struct counters *cs, struct buf *out)
{
    for (size_t i = 0; i < cs->n; i++) {
        if (i > 0) BUF_LIT(out, "\n");
        schema_table_ddl(&cs->all[i], out);
        BUF_LIT(out, ";\n");
    }
}

/* Views run with the rights of their creator, so a reader needs none on the tables. */

#define STORED "tally_stored_"
#define MYSQL_NAME_MAX 64
#define VIEW_HEAD "CREATE OR REPLACE VIEW "

static bool has_view(const struct counter *c)
{
    return sizeof STORED - 1 + c->name.n <= MYSQL_NAME_MAX;
}

/* The merchant's own columns under their own names, so that a panel changes the table's name and nothing else. */
static void stored_view(const struct counter *c, struct buf *out)
{
    buf_printf(out, VIEW_HEAD "`" STORED SLICE_FMT "` AS\nSELECT ", SLICE_ARG(c->name));
    sql_key_names(out, c, ", ");
    for (uint32_t i = 0; i < counter_counts_n(c); i++) {
        BUF_LIT(out, ", ");
        sql_name(out, counter_of_count(c, i).column_count);
    }
    BUF_LIT(out, ",\n       (SELECT IF(COUNT(*) = COUNT(complete_until), MIN(complete_until), NULL)"
                 " FROM tally_counters WHERE counter = ");
    sql_hex(out, c->name);
    BUF_LIT(out, ") AS complete_until\nFROM ");
    sql_name(out, c->table);
    BUF_LIT(out, ";\n");
}

void views_print(const struct counters *cs, struct buf *out)
{
    buf_put_slice(out, sql_views);
    BUF_LIT(out, "\n-- a view for each counter\n");
    for (size_t i = 0; i < cs->n; i++)
        if (has_view(&cs->all[i])) stored_view(&cs->all[i], out);
    BUF_LIT(out, "\n-- who may read them, and nothing else\n"
                 "CREATE ROLE IF NOT EXISTS tally_reader;\n"
                 "GRANT SELECT ON tally_progress TO tally_reader;\n"
                 "GRANT SELECT ON tally_rejects_waiting TO tally_reader;\n");
    for (size_t i = 0; i < cs->n; i++)
        if (has_view(&cs->all[i]))
            buf_printf(out, "GRANT SELECT ON `" STORED SLICE_FMT "` TO tally_reader;\n",
                       SLICE_ARG(cs->all[i].name));
}

/* Views come before the role, whose statements end with the first that is refused. */
static enum err apply_all(struct db *db, struct slice rest, struct views_made *made, struct error *e)
{
    struct slice statement;
    while (made->role && sql_next(&rest, &statement)) {
        bool good = db_exec(db, statement) == CODE_OK, is_view = slice_starts(statement, SLICE(VIEW_HEAD));
        made->views += good && is_view;
        if (good) continue;
        if (is_view || !db_is_open(db)) {
            db_error(db, e);
            return error_prefix(e,
                                "views need the merchants' tables and the rights CREATE VIEW and DROP; or an "
                                "administrator pastes what `tallyd migrate --print --views` prints");
        }
        made->role = false;
        snprintf(made->role_text, sizeof made->role_text, "%s", db_text(db));
    }
    return ERR_NONE;
}

enum err views_apply(struct db *db, const struct counters *cs, struct views_made *made, struct error *e)
{
    struct buf text = {0};
    *made = (struct views_made){.role = true};
    for (size_t i = 0; i < cs->n; i++)
        made->nameless += !has_view(&cs->all[i]);
    views_print(cs, &text);
    enum err code = apply_all(db, buf_slice(&text), made, e);
    buf_free(&text);
    return code;
}

/* A statement begins at the first line that is neither empty nor a comment, and ends with the line that ends in ';'. */
bool sql_next(struct slice *rest, struct slice *statement)
{
    const char *begin = NULL;
    while (rest->n > 0) {
        /* A line without its newline. */
        const char *end = memchr(rest->p, '\n', rest->n);
        size_t n = end == NULL ? rest->n : (size_t)(end - rest->p);
        struct slice line = slice_of(rest->p, n);
        size_t used = n + (end != NULL);
        *rest = slice_of(rest->p + used, rest->n - used);
        bool nothing = line.n == 0 || slice_starts(line, SLICE("--"));
        if (begin == NULL && nothing) continue;
        if (begin == NULL) begin = line.p;
        if (line.n == 0 || line.p[line.n - 1] != ';') continue;
        *statement = slice_of(begin, (size_t)(line.p - begin) + line.n - 1);
        return true;
    }
    return false;
}
