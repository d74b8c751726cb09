/* mysql/panel.c - see panel.h. */
#include "mysql/panel.h"

#include "base/heap.h"
#include "base/json.h"
#include "base/num.h"
#include "mysql/text.h"

#define INTEGER_DIGITS 19

void panel_init(struct panel *p, const struct db_config *config, const struct counters *counters)
{
    *p = (struct panel){.config = *config, .counters = counters};
    p->config.connect_timeout_s = p->config.read_timeout_s = p->config.write_timeout_s = PANEL_LIMIT_S;
    p->config.lock_wait_s = PANEL_LIMIT_S - 1;
    p->config.reads = true;
    p->db = db_create(&p->config);
    p->forms = heap_zalloc((counters->n + 1) * sizeof *p->forms);
    p->formed = heap_zalloc((counters->n + 1) * sizeof *p->formed);
}

void panel_close(struct panel *p)
{
    db_destroy(&p->db);
    heap_free(p->forms);
    heap_free(p->formed);
    *p = (struct panel){0};
}

/* The server, too, ends a statement that takes too long. */
static enum code_class session_open(struct panel *p)
{
    enum code_class class = db_open(p->db);
    if (class != CODE_OK) return class;
    return db_is_mariadb(p->db) ? DB_EXEC(p->db, "SET SESSION max_statement_time = 3")
                                : DB_EXEC(p->db, "SET SESSION max_execution_time = 3000");
}

static enum code_class ask(struct panel *p, const struct buf *sql)
{
    enum code_class class = CODE_LINK;
    if (db_is_open(p->db)) class = db_query(p->db, buf_slice(sql));
    if (class != CODE_LINK) return class;
    class = session_open(p);
    return class == CODE_OK ? db_query(p->db, buf_slice(sql)) : class;
}

/* Frees sql; turns what ask() said into an error. */
static enum err answer(struct panel *p, struct buf *sql, enum code_class class, struct error *e)
{
    buf_free(sql);
    return class == CODE_OK ? ERR_NONE : db_error(p->db, e);
}

static enum err forms_of(struct panel *p, const struct counter *c, const struct columns **out,
                         struct error *e)
{
    size_t i = (size_t)(c - p->counters->all);
    PRE(i < p->counters->n);
    enum code_class class = db_is_open(p->db) ? CODE_OK : session_open(p);
    if (class == CODE_OK && p->opened != db_opened(p->db)) {
        memset(p->formed, 0, p->counters->n * sizeof *p->formed);
        p->opened = db_opened(p->db);
    }
    if (class == CODE_OK && !p->formed[i]) class = columns_read(p->db, c, &p->forms[i]);
    if (class == CODE_LINK && session_open(p) == CODE_OK) class = columns_read(p->db, c, &p->forms[i]);
    if (class != CODE_OK) return db_error(p->db, e);
    p->formed[i] = columns_fit(&p->forms[i], c);
    *out = &p->forms[i];
    if (p->formed[i]) return ERR_NONE;
    return error_set(e, ERR_CONFIG, "the table " SLICE_FMT " does not fit its counter: run tallyd check",
                     SLICE_ARG(c->table));
}

/* SELECT <the field as Redis has it>, <count> FROM <table> WHERE <store>. On an error sql stays empty. */
static enum err select_begin(struct panel *p, const struct panel_rows *r, struct buf *sql,
                             const struct columns **out, struct error *e)
{
    const struct counter *c = r->counter;
    if (forms_of(p, c, out, e) != ERR_NONE) return e->code;
    const struct columns *forms = *out;
    bool time = forms->field == FORM_DATE || forms->field == FORM_DATETIME;
    BUF_LIT(sql, "SELECT ");
    if (time) BUF_LIT(sql, "DATE_FORMAT(");
    sql_name(sql, c->column_field);
    if (time) BUF_LIT(sql, ", '%Y%m%d");
    if (time && c->field == FIELD_HOUR) BUF_LIT(sql, "%H");
    if (time) BUF_LIT(sql, "')");
    BUF_LIT(sql, ", ");
    sql_name(sql, c->column_count);
    BUF_LIT(sql, " FROM ");
    sql_name(sql, c->table);
    BUF_LIT(sql, " WHERE ");
    if (c->key.has_store)
        sql_store_is(sql, c, forms, r->store);
    else
        BUF_LIT(sql, "TRUE");
    sql_constants_are(sql, c, forms);
    return ERR_NONE;
}

static enum err rows_read(struct panel *p, const struct panel_rows *r, struct buf *sql, struct error *e)
{
    struct slice cell[2];
    int64_t count;
    enum code_class class = ask(p, sql);
    while (class == CODE_OK && db_row(p->db, cell, 2))
        if (cell[0].p != NULL && cell[1].p != NULL && num_parse(cell[1], &count))
            r->row(r->arg, cell[0], count);
    return answer(p, sql, class, e);
}

enum err panel_between(struct panel *p, const struct panel_rows *r, struct slice from, struct slice to,
                       struct error *e)
{
    const struct columns *forms;
    struct buf sql = {0};
    if (select_begin(p, r, &sql, &forms, e) != ERR_NONE) return e->code;
    BUF_LIT(&sql, " AND ");
    sql_name(&sql, r->counter->column_field);
    BUF_LIT(&sql, " BETWEEN ");
    sql_value(&sql, forms->field, from);
    BUF_LIT(&sql, " AND ");
    sql_value(&sql, forms->field, to);
    return rows_read(p, r, &sql, e);
}

enum err panel_one(struct panel *p, const struct panel_rows *r, struct slice field, struct error *e)
{
    const struct columns *forms;
    struct buf sql = {0};
    if (select_begin(p, r, &sql, &forms, e) != ERR_NONE) return e->code;
    BUF_LIT(&sql, " AND ");
    sql_name(&sql, r->counter->column_field);
    BUF_LIT(&sql, " = ");
    sql_value(&sql, forms->field, field);
    return rows_read(p, r, &sql, e);
}

enum err panel_top(struct panel *p, const struct panel_rows *r, uint32_t n, struct error *e)
{
    const struct columns *forms;
    struct buf sql = {0};
    if (select_begin(p, r, &sql, &forms, e) != ERR_NONE) return e->code;
    BUF_LIT(&sql, " ORDER BY ");
    sql_name(&sql, r->counter->column_count);
    BUF_LIT(&sql, " DESC, ");
    sql_name(&sql, r->counter->column_field);
    buf_printf(&sql, " LIMIT %u", n);
    return rows_read(p, r, &sql, e);
}

enum err panel_until(struct panel *p, const struct counter *c, int64_t *until_ms, struct error *e)
{
    struct slice cell;
    struct buf sql = {0};
    *until_ms = 0;
    BUF_LIT(&sql, "SELECT IF(COUNT(*) = COUNT(complete_until),"
                  " TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(complete_until)) DIV 1000, NULL)"
                  " FROM tally_counters WHERE counter = ");
    sql_hex(&sql, c->name);
    enum code_class class = ask(p, &sql);
    while (class == CODE_OK && db_row(p->db, &cell, 1))
        if (cell.p == NULL || !num_parse(cell, until_ms)) *until_ms = 0;
    return answer(p, &sql, class, e);
}

/* --- stores --- */

bool panel_store_key(const struct counter *c, struct slice store, struct buf *key)
{
    return store.n > 0 && store.n <= TEXT_BYTES_MAX && counter_key(c, store, key);
}

static enum err store_there(struct panel *p, const struct counter *c, struct slice store, bool *there,
                            struct error *e)
{
    const struct columns *forms;
    struct buf sql = {0};
    struct slice cell;
    if (forms_of(p, c, &forms, e) != ERR_NONE) return e->code;
    BUF_LIT(&sql, "SELECT 1 FROM ");
    sql_name(&sql, c->table);
    BUF_LIT(&sql, " WHERE ");
    sql_store_is(&sql, c, forms, store);
    sql_constants_are(&sql, c, forms);
    BUF_LIT(&sql, " LIMIT 1");
    enum code_class class = ask(p, &sql);
    while (class == CODE_OK && db_row(p->db, &cell, 1))
        *there = true;
    return answer(p, &sql, class, e);
}

enum err panel_store_known(struct panel *p, struct slice store, bool *known, struct error *e)
{
    *known = false;
    for (size_t i = 0; i < p->counters->n && !*known; i++) {
        const struct counter *c = &p->counters->all[i];
        struct buf key = {0};
        bool could = panel_store_key(c, store, &key);
        buf_free(&key);
        if (could && store_there(p, c, store, known, e) != ERR_NONE) return e->code;
    }
    return ERR_NONE;
}

/* Integers that begin with these digits: 12 -> 12, 120..129, 1200..1299, ...; ranges, so that an index serves them. */
static void integers_put(struct buf *sql, struct slice column, struct slice digits)
{
    uint64_t low, high, span = 1;
    if (!num_parse_u64(digits, &low)) {
        BUF_LIT(sql, "FALSE");
        return;
    }
    for (size_t more = 0; digits.n + more <= INTEGER_DIGITS; more++, span *= 10) {
        if (more > 0 && (low == 0 || __builtin_mul_overflow(low, 10, &low))) break;
        high = low + span - 1;
        if (low > INT64_MAX) break;
        if (more > 0) BUF_LIT(sql, " OR ");
        sql_name(sql, column);
        buf_printf(sql, " BETWEEN %llu AND %llu", (unsigned long long)low,
                   (unsigned long long)(high > INT64_MAX ? INT64_MAX : high));
    }
}

/* Bytes that begin with these: from them on, below the next bytes of that length. */
static void bytes_put(struct buf *sql, struct slice column, struct slice prefix)
{
    struct buf next = {0};
    buf_put_slice(&next, prefix);
    while (next.n > 0 && (uint8_t)next.p[next.n - 1] == 0xff)
        next.n--;
    if (next.n > 0) next.p[next.n - 1]++;
    sql_name(sql, column);
    BUF_LIT(sql, " >= ");
    sql_hex(sql, prefix);
    if (next.n > 0) {
        BUF_LIT(sql, " AND ");
        sql_name(sql, column);
        BUF_LIT(sql, " < ");
        sql_hex(sql, buf_slice(&next));
    }
    buf_free(&next);
}

enum err panel_stores(struct panel *p, const struct counter *c, struct slice prefix, uint32_t n,
                      void (*store)(void *arg, struct slice name), void *arg, struct error *e)
{
    const struct columns *forms;
    struct buf sql = {0};
    struct slice cell;
    PRE(c->key.has_store);
    if (forms_of(p, c, &forms, e) != ERR_NONE) return e->code;
    BUF_LIT(&sql, "SELECT DISTINCT ");
    sql_name(&sql, c->column_store);
    BUF_LIT(&sql, " FROM ");
    sql_name(&sql, c->table);
    BUF_LIT(&sql, " WHERE (");
    if (prefix.n > 0)
        (forms->store == FORM_INTEGER ? integers_put : bytes_put)(&sql, c->column_store, prefix);
    else
        BUF_LIT(&sql, "TRUE");
    BUF_LIT(&sql, ")");
    sql_constants_are(&sql, c, forms);
    BUF_LIT(&sql, " ORDER BY ");
    sql_name(&sql, c->column_store);
    buf_printf(&sql, " LIMIT %u", n);
    enum code_class class = ask(p, &sql);
    while (class == CODE_OK && db_row(p->db, &cell, 1))
        if (cell.p != NULL) store(arg, cell);
    return answer(p, &sql, class, e);
}

/* --- names of items --- */

/* Strings, also for integers: MySQL converts them to the column's type, so an index serves either. A text that is not
 * UTF-8 has no name; as a literal MySQL would refuse it. */
static void labels_put(struct buf *sql, const struct counter *c, const struct slice *fields, size_t n)
{
    sql_lookup(sql, &c->labels);
    BUF_LIT(sql, " WHERE ");
    sql_name(sql, c->labels.key);
    BUF_LIT(sql, " IN (NULL");
    for (size_t i = 0; i < n; i++) {
        if (!text_is_utf8(fields[i])) continue;
        BUF_LIT(sql, ", _utf8mb4 ");
        sql_hex(sql, fields[i]);
    }
    buf_printf(sql, ") LIMIT %zu", n);
}

enum err panel_labels(struct panel *p, const struct counter *c, const struct slice *fields, size_t n,
                      void (*label)(void *arg, struct slice id, struct slice name), void *arg,
                      struct error *e)
{
    struct buf sql = {0};
    struct slice cell[2];
    PRE(c->labels.table.n > 0);
    labels_put(&sql, c, fields, n);
    enum code_class class = ask(p, &sql);
    while (class == CODE_OK && db_row(p->db, cell, 2))
        if (cell[0].p != NULL && cell[1].p != NULL) label(arg, cell[0], cell[1]);
    return answer(p, &sql, class, e);
}
