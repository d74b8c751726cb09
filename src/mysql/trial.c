/* mysql/trial.c - see schema.h. A value of each placeholder is an ordinal: an integer itself, the length of a text, the day of a time.
 * One placeholder is taken to a bound, the others stay in the middle; what is refused there is looked for by bisection. */
#include "mysql/schema.h"

#include "mysql/text.h"
#include "series/names.h"

#include <stdio.h>
#include <time.h>

#define VARIABLES_MAX (2 * PLACES_MAX)
#define ER_NO_REFERENCED_ROW 1452 /* other rows have parents, perhaps */

struct variable {
    struct slice name; /* of the placeholder */
    struct value_type type;
    int64_t base, low, high; /* ordinals */
};

struct trial {
    struct db *db;
    const struct counter *c;
    struct schema_report *r;
    struct columns forms;
    struct variable all[VARIABLES_MAX];
    uint32_t key_n, all_n; /* those of the key come first */
    enum code_class class; /* of the last row */
    unsigned code;
    char text[300]; /* what MySQL said to the last one that it refused */
};

static void variable_add(struct trial *t, struct slice name, const struct value_type *type)
{
    int64_t today = (int64_t)time(NULL) / DAY_S;
    struct variable *v = &t->all[t->all_n++];
    switch (type->kind) {
    case VALUE_INTEGER:
        *v = (struct variable){.base = 1, .high = INT64_MAX};
        break;
    case VALUE_TEXT:
        *v = (struct variable){.base = 4, .low = 1, .high = TEXT_BYTES_MAX};
        break;
    case VALUE_DATE:
    case VALUE_HOUR:
    case VALUE_MONTH:
        *v = (struct variable){.base = today, .high = day_number(DAY_LAST)};
        break;
    }
    v->name = name;
    v->type = *type;
}

static void trial_places_add(struct trial *t, const struct places *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        variable_add(t, p->at[i].name, &p->at[i].type);
}

static void variables_find(struct trial *t)
{
    const struct counter *c = t->c;
    struct value_type type = {.kind = c->store == STORE_INTEGER ? VALUE_INTEGER : VALUE_TEXT};
    if (c->key.places != NULL)
        trial_places_add(t, c->key.places);
    else if (c->key.has_store)
        variable_add(t, SLICE("store"), &type);
    t->key_n = t->all_n;
    if (c->field == FIELD_COUNT || c->field == FIELD_NONE) return;
    if (c->field == FIELD_PLACES) {
        trial_places_add(t, c->field_places);
        return;
    }
    type = c->spelled;
    type.kind = counter_field_kind(c);
    variable_add(t, SLICE("field"), &type);
}

static void variable_write(const struct variable *v, int64_t ordinal, struct buf *out)
{
    char digits[PLAIN_BYTES];
    int64_t day = v->type.kind >= VALUE_DATE ? day_of_number(ordinal) : 0;
    int n = 0;
    if (v->type.kind == VALUE_INTEGER) buf_printf(out, "%lld", (long long)ordinal);
    for (int64_t i = 0; v->type.kind == VALUE_TEXT && i < ordinal; i++)
        buf_put_char(out, 'x');
    if (v->type.kind == VALUE_DATE) n = snprintf(digits, sizeof digits, "%08lld", (long long)day);
    if (v->type.kind == VALUE_HOUR) n = snprintf(digits, sizeof digits, "%08lld12", (long long)day);
    if (v->type.kind == VALUE_MONTH) n = snprintf(digits, sizeof digits, "%06lld", (long long)(day / 100));
    if (n > 0) value_spell(&v->type, slice_of(digits, (size_t)n), out);
}

/* With one of the values at another ordinal. False: the counter itself does not take it. */
static bool statement_write(const struct trial *t, const struct variable *moved, int64_t ordinal,
                            struct buf *sql)
{
    struct buf texts[VARIABLES_MAX] = {0}, key = {0}, field = {0}, columns = {0};
    struct slice values[VARIABLES_MAX + 1] = {0};
    struct table_row row;
    for (uint32_t i = 0; i < t->all_n; i++) {
        const struct variable *v = &t->all[i];
        variable_write(v, v == moved ? ordinal : v->base, &texts[i]);
        values[i] = buf_slice(&texts[i]);
    }
    if (t->c->key.places != NULL)
        places_put(t->c->key.places, values, &key);
    else
        pattern_put(&t->c->key, t->key_n > 0 ? values[0] : SLICE(""), &key);
    if (t->c->field == FIELD_PLACES)
        places_put(t->c->field_places, values + t->key_n, &field);
    else
        buf_put_slice(&field, t->c->field == FIELD_COUNT  ? t->c->counts[0].field
                              : t->c->field == FIELD_NONE ? FIELD_ONLY
                                                          : values[t->key_n]);
    bool fits = counter_row(t->c, buf_slice(&key), buf_slice(&field), &row) == ROW_FITS;
    if (fits) {
        const struct counter one = counter_of_count(t->c, counter_count_of(t->c, buf_slice(&field)));
        sql_key(&columns, t->c, &t->forms, &row);
        sql_upsert_head(sql, &one);
        sql_upsert_row(sql, &one, &t->forms, buf_slice(&columns), 1, true);
        sql_upsert_tail(sql, &one, &t->forms, db_dialect(t->db));
    }
    for (uint32_t i = 0; i < t->all_n; i++)
        buf_free(&texts[i]);
    buf_free(&key);
    buf_free(&field);
    buf_free(&columns);
    return fits;
}

static enum code_class row_try(struct trial *t, struct slice sql)
{
    enum code_class class = DB_EXEC(t->db, "SAVEPOINT trial");
    if (class == CODE_OK) class = db_exec(t->db, sql);
    t->code = db_code(t->db);
    if (class != CODE_OK) snprintf(t->text, sizeof t->text, "%s", db_text(t->db));
    if (class != CODE_OK && !code_refuses(class)) return class;
    return DB_EXEC(t->db, "ROLLBACK TO trial") == CODE_OK ? class : CODE_AGAIN; /* the transaction ended */
}

/* What the counter itself refuses is as if it were taken. */
static bool takes(struct trial *t, const struct variable *moved, int64_t ordinal)
{
    struct buf sql = {0};
    t->class = statement_write(t, moved, ordinal, &sql) ? row_try(t, buf_slice(&sql)) : CODE_OK;
    buf_free(&sql);
    return t->class == CODE_OK;
}

/* The last ordinal on the way from one that is taken to one that is not; t->text is what is said beyond it. */
static int64_t bound_find(struct trial *t, const struct variable *v, int64_t taken, int64_t refused)
{
    while (refused - taken > 1 || taken - refused > 1) {
        int64_t middle = taken + (refused - taken) / 2;
        if (takes(t, v, middle))
            taken = middle;
        else if (code_refuses(t->class))
            refused = middle;
        else
            break;
    }
    (void)takes(t, v, refused);
    return taken;
}

static void bound_tell(struct trial *t, const struct variable *v, int64_t refused)
{
    static const char *const beyond[][2] = {
        [VALUE_INTEGER] = {"below", "above"},
        [VALUE_TEXT] = {"shorter than (in bytes)", "longer than (in bytes)"},
        [VALUE_DATE] = {"before", "after"},
        [VALUE_HOUR] = {"before", "after"},
        [VALUE_MONTH] = {"before", "after"}};
    struct buf shown = {0};
    int64_t bound = bound_find(t, v, v->base, refused);
    if (v->type.kind == VALUE_TEXT)
        buf_printf(&shown, "%lld", (long long)bound);
    else
        variable_write(v, bound, &shown);
    if (code_refuses(t->class))
        finding_add(t->r, SCHEMA_WARN, t->c, NULL,
                    "tried in " SLICE_FMT ": hits with <" SLICE_FMT "> %s " SLICE_FMT
                    " would become rejects: %s",
                    SLICE_ARG(t->c->table), SLICE_ARG(v->name), beyond[v->type.kind][refused > v->base],
                    SLICE_ARG(buf_slice(&shown)), t->text);
    buf_free(&shown);
}

static bool bounds_try(struct trial *t, bool base)
{
    bool any = base;
    for (uint32_t i = 0; i < t->all_n; i++) {
        struct variable *v = &t->all[i];
        /* Of a text the longest that the counter takes beside the others. */
        struct buf sql = {0};
        while (v->type.kind == VALUE_TEXT && v->high > v->base && !statement_write(t, v, v->high, &sql))
            v->high--;
        buf_free(&sql);
        for (int side = 0; side < 2; side++) {
            int64_t ordinal = side == 0 ? v->low : v->high;
            bool taken = takes(t, v, ordinal);
            any |= taken;
            if (!taken && !code_refuses(t->class)) return any;
            if (!taken && base) bound_tell(t, v, ordinal);
        }
    }
    return any;
}

static void rows_try(struct trial *t)
{
    bool base = takes(t, NULL, 0);
    unsigned code = t->code;
    char said[sizeof t->text];
    memcpy(said, t->text, sizeof said);
    if (!base && !code_refuses(t->class)) return;
    bool any = bounds_try(t, base);
    if (base || (t->class != CODE_OK && !code_refuses(t->class))) return;
    bool none = !any && code != ER_NO_REFERENCED_ROW;
    finding_add(t->r, none ? SCHEMA_REFUSE : SCHEMA_WARN, t->c, NULL,
                none ? "MySQL takes no row for " SLICE_FMT " that was tried: %s"
                     : "a row that was tried for " SLICE_FMT " would become a reject: %s",
                SLICE_ARG(t->c->table), said);
}

/* Does a trigger of the table write one without transactions, or call what may? */
static enum code_class triggers_ask(struct db *db, const struct counter *c, bool *harm)
{
    struct buf sql = {0};
    struct slice cell;
    buf_printf(&sql,
               "SELECT COUNT(*) FROM information_schema.TRIGGERS t WHERE t.EVENT_OBJECT_SCHEMA = DATABASE()"
               " AND t.EVENT_OBJECT_TABLE = '" SLICE_FMT "' AND (UPPER(t.ACTION_STATEMENT) LIKE '%%CALL%%'"
               " OR EXISTS (SELECT 1 FROM information_schema.TABLES x WHERE x.TABLE_SCHEMA = DATABASE()"
               " AND x.ENGINE <> 'InnoDB' AND LOCATE(x.TABLE_NAME, t.ACTION_STATEMENT) > 0))",
               SLICE_ARG(c->table));
    enum code_class class = db_query_free(db, &sql);
    *harm = class == CODE_OK && db_row(db, &cell, 1) && !slice_eq(cell, SLICE("0"));
    return class;
}

/* True: a trial leaves nothing behind. An AUTO_INCREMENT that is given a value goes on after it, also when the row is taken back. */
static bool is_harmless(const struct trial *t, const struct table *table, bool even_so)
{
    for (size_t i = 0; i < table->columns_n; i++) {
        const struct column *col = &table->columns[i];
        bool key = table_key_has(t->c, col->name);
        if (!col->auto_increment || (even_so && !key)) continue;
        finding_add(t->r, SCHEMA_WARN, t->c, NULL,
                    key ? "no row was tried: column " SLICE_FMT
                          ".%s is AUTO_INCREMENT, and would go on after the ids that were tried"
                        : "no row was tried: each uses up an id of the AUTO_INCREMENT column " SLICE_FMT
                          ".%s; `tallyd check --try` tries some hundreds",
                    SLICE_ARG(t->c->table), col->name);
        return false;
    }
    return true;
}

static enum code_class trial_begin(struct trial *t, bool even_so, bool *go)
{
    struct table table;
    bool harm;
    *go = false;
    enum code_class class = table_load(t->db, t->c->table, &table);
    bool harmless = class == CODE_OK && is_harmless(t, &table, even_so);
    table_close(&table);
    if (class == CODE_OK && harmless) class = columns_read(t->db, t->c, &t->forms);
    if (class != CODE_OK || !harmless || !columns_fit(&t->forms, t->c)) return class;
    class = triggers_ask(t->db, t->c, &harm);
    if (harm)
        finding_add(t->r, SCHEMA_WARN, t->c, NULL,
                    "no row was tried: a trigger of " SLICE_FMT
                    " calls a procedure, or writes a table without transactions",
                    SLICE_ARG(t->c->table));
    if (class != CODE_OK || harm) return class;
    *go = true;
    return DB_EXEC(t->db, "START TRANSACTION");
}

enum err trial_check(struct db *db, const struct counter *c, bool even_so, struct schema_report *report,
                     struct error *e)
{
    struct trial t = {.db = db, .c = c, .r = report};
    bool go;
    if (c->missing != MISSING_INSERT || schema_refused(report, c)) return ERR_NONE;
    variables_find(&t);
    enum code_class class = trial_begin(&t, even_so, &go);
    if (class != CODE_OK) return db_error(db, e);
    if (!go) return ERR_NONE;
    rows_try(&t);
    if (t.class != CODE_OK && !code_refuses(t.class))
        finding_add(report, SCHEMA_WARN, c, NULL, "not all rows could be tried in " SLICE_FMT ": %s",
                    SLICE_ARG(c->table), t.text);
    if (db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    return db_is_open(db) || db_open(db) == CODE_OK ? ERR_NONE : db_error(db, e);
}

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
