/* mysql/lookup.c - see lookup.h. */
#include "mysql/lookup.h"

#include "mysql/finding.h"
#include "mysql/text.h"

#define DENIED_TABLE 1142
#define DENIED_COLUMN 1143

/* GRANT SELECT ON `shop`.`products` TO 'tally'@'localhost'; the account may have an '@' in its name. */
static enum code_class grant_put(struct db *db, const struct lookup *l, struct buf *out)
{
    struct slice cell[2];
    enum code_class class = DB_QUERY(
        db, "SELECT DATABASE(), CONCAT(QUOTE(SUBSTRING(CURRENT_USER(), 1, CHAR_LENGTH(CURRENT_USER()) - 1 -"
            " CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))), '@',"
            " QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))");
    if (class != CODE_OK || !db_row(db, cell, 2)) return class;
    BUF_LIT(out, "GRANT SELECT ON ");
    sql_name(out, cell[0]);
    BUF_LIT(out, ".");
    sql_name(out, l->table);
    buf_printf(out, " TO " SLICE_FMT ";", SLICE_ARG(cell[1]));
    return class;
}

enum err lookup_check(struct db *db, const struct lookup *l, const struct counter *counter,
                      const char *option, struct schema_report *report, struct error *e)
{
    struct buf sql = {0}, mend = {0};
    sql_lookup(&sql, l);
    BUF_LIT(&sql, " LIMIT 0");
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK) return ERR_NONE;
    if (db_error(db, e) == ERR_UNAVAILABLE) return e->code;
    bool denied = db_code(db) == DENIED_TABLE || db_code(db) == DENIED_COLUMN;
    if (denied && grant_put(db, l, &mend) != CODE_OK) return db_error(db, e);
    finding_add(report, SCHEMA_WARN, counter, denied ? &mend : NULL, "%s cannot be read: %s", option,
                e->text);
    buf_free(&mend);
    return ERR_NONE;
}
