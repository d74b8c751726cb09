/* mysql/views.c - see views.h. Views run with the rights of their creator, so a reader needs none on the tables. */
#include "mysql/views.h"

#include "mysql/sql.h"
#include "mysql/text.h"

#include <stdio.h>

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

static void stored_grant(const struct counter *c, struct buf *out)
{
    buf_printf(out, "GRANT SELECT ON `" STORED SLICE_FMT "` TO tally_reader;\n", SLICE_ARG(c->name));
}

static void each_counter(const struct counters *cs, void (*write)(const struct counter *, struct buf *),
                         struct buf *out)
{
    for (size_t i = 0; i < cs->n; i++)
        if (has_view(&cs->all[i])) write(&cs->all[i], out);
}

void views_print(const struct counters *cs, struct buf *out)
{
    buf_put_slice(out, sql_views);
    BUF_LIT(out, "\n-- a view for each counter\n");
    each_counter(cs, stored_view, out);
    BUF_LIT(out, "\n-- who may read them, and nothing else\n"
                 "CREATE ROLE IF NOT EXISTS tally_reader;\n"
                 "GRANT SELECT ON tally_progress TO tally_reader;\n"
                 "GRANT SELECT ON tally_rejects_waiting TO tally_reader;\n");
    each_counter(cs, stored_grant, out);
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
