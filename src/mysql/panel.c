/* mysql/panel.c - see panel.h. */
#include "mysql/panel.h"

#include "base/heap.h"
#include "base/json.h"
#include "base/slice.h"
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
static enum code_class panel_session_open(struct panel *p)
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
    class = panel_session_open(p);
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
    enum code_class class = db_is_open(p->db) ? CODE_OK : panel_session_open(p);
    if (class == CODE_OK && p->opened != db_opened(p->db)) {
        memset(p->formed, 0, p->counters->n * sizeof *p->formed);
        p->opened = db_opened(p->db);
    }
    if (class == CODE_OK && !p->formed[i]) class = columns_read(p->db, c, &p->forms[i]);
    if (class == CODE_LINK && panel_session_open(p) == CODE_OK) class = columns_read(p->db, c, &p->forms[i]);
    if (class != CODE_OK) return db_error(p->db, e);
    p->formed[i] = columns_fit(&p->forms[i], c);
    *out = &p->forms[i];
    if (p->formed[i]) return ERR_NONE;
    return error_set(e, ERR_CONFIG, "the table " SLICE_FMT " does not fit its counter: run tallyd check",
                     SLICE_ARG(c->table));
}

/* --- rows --- */

static enum column_form form_of(const struct columns *forms, const struct counted_by *part)
{
    return part->first == COLUMN_FIELD ? forms->field : forms->more[part->first];
}

/* A time as digits, but as it is spelled in a column of texts. */
static void part_select(struct buf *sql, const struct parts *parts, const struct columns *forms,
                        const struct counted_by *part)
{
    const struct key_column *more = parts->counter->more;
    enum column_form form = form_of(forms, part);
    if (part->n > 1) {
        for (uint32_t i = 0; i < part->n; i++) {
            buf_put_slice(sql, i == 0 ? SLICE("CONCAT(LPAD(") : SLICE(", LPAD("));
            sql_name(sql, more[part->first + i].name);
            buf_put_slice(sql, i == 0 ? SLICE(", 4, '0')") : SLICE(", 2, '0')"));
        }
        return BUF_LIT(sql, ")");
    }
    if (form != FORM_DATE && form != FORM_DATETIME) return sql_name(sql, part->column);
    BUF_LIT(sql, "DATE_FORMAT(");
    sql_name(sql, part->column);
    BUF_LIT(sql, ", '%Y%m");
    if (part->type.kind != VALUE_MONTH) BUF_LIT(sql, "%d");
    if (part->type.kind == VALUE_HOUR) BUF_LIT(sql, "%H");
    BUF_LIT(sql, "')");
}

/* A time in a column of texts, which has it as the app spells it. */
static bool part_is_spelled(const struct columns *forms, const struct counted_by *part)
{
    enum column_form form = form_of(forms, part);
    return part->n == 1 && part_is_time(part) && (form == FORM_BYTES || form == FORM_TEXT);
}

static void part_value(struct buf *sql, const struct columns *forms, const struct counted_by *part,
                       struct slice value)
{
    struct buf sent = {0};
    if (part_is_spelled(forms, part)) {
        value_spell(&part->type, value, &sent);
        value = buf_slice(&sent);
    }
    sql_value(sql, part->n > 1 ? FORM_BYTES : form_of(forms, part), value);
    buf_free(&sent);
}

static void part_name(struct buf *sql, const struct parts *parts, const struct columns *forms,
                      const struct counted_by *part)
{
    BUF_LIT(sql, " AND ");
    if (part->n > 1)
        part_select(sql, parts, forms, part);
    else
        sql_name(sql, part->column);
}

static void panel_where_put(struct buf *sql, const struct panel_rows *r, const struct columns *forms)
{
    const struct parts *parts = r->parts;
    BUF_LIT(sql, " WHERE ");
    if (r->counter->key.has_store)
        sql_store_is(sql, r->counter, forms, r->store);
    else
        BUF_LIT(sql, "TRUE");
    sql_constants_are(sql, r->counter, forms);
    for (uint32_t i = 0; i < parts->n; i++)
        if (i != parts->time && r->is[i].p != NULL) {
            part_name(sql, parts, forms, &parts->all[i]);
            BUF_LIT(sql, " = ");
            part_value(sql, forms, &parts->all[i], r->is[i]);
        }
    /* Texts of seconds sort as numbers do, from September 2001 on. */
    if (r->from.p != NULL) {
        const struct counted_by *time = &parts->all[parts->time];
        part_name(sql, r->parts, forms, time);
        BUF_LIT(sql, " BETWEEN ");
        part_value(sql, forms, time, r->from);
        BUF_LIT(sql, " AND ");
        part_value(sql, forms, time, r->to);
    }
}

/* What is asked of each row of the answer. */
struct selection {
    const struct panel_rows *rows;
    const struct columns *forms;
    uint32_t at[PARTS_MAX], n; /* the parts that tell the rows apart */
    bool summed;               /* each is a sum of rows of the table */
};

static void select_put(struct buf *sql, const struct selection *s)
{
    const struct panel_rows *r = s->rows;
    BUF_LIT(sql, "SELECT ");
    for (uint32_t i = 0; i < s->n; i++) {
        part_select(sql, r->parts, s->forms, &r->parts->all[s->at[i]]);
        BUF_LIT(sql, ", ");
    }
    if (s->summed) BUF_LIT(sql, "SUM(");
    sql_name(sql, counter_of_count(r->counter, r->parts->count).column_count);
    if (s->summed) BUF_LIT(sql, ")");
    BUF_LIT(sql, " FROM ");
    sql_name(sql, r->counter->table);
    panel_where_put(sql, r, s->forms);
    for (uint32_t i = 0; s->summed && i < s->n; i++)
        buf_printf(sql, "%s %u", i == 0 ? " GROUP BY" : ",", i + 1);
    if (r->by_time || s->n == 0) return;
    buf_printf(sql, " ORDER BY %u DESC", s->n + 1);
    for (uint32_t i = 0; i < s->n; i++)
        buf_printf(sql, ", %u", i + 1);
    buf_printf(sql, " LIMIT %u", r->top);
}

/* Calls back with a value a part; those that are not selected have what was asked for. A row of the shop's own may have no such time. */
static void row_take(const struct selection *s, const struct slice *cell)
{
    const struct panel_rows *r = s->rows;
    struct slice values[PARTS_MAX] = {0};
    char digits[PARTS_MAX][PLAIN_BYTES];
    int64_t count;
    for (uint32_t i = 0; i < r->parts->n; i++)
        values[i] = r->is[i];
    for (uint32_t i = 0; i < s->n; i++) {
        const struct counted_by *part = &r->parts->all[s->at[i]];
        values[s->at[i]] = cell[i];
        if (cell[i].p == NULL) return;
        struct value_type type = part->type;
        if (!part_is_spelled(s->forms, part)) type.spelling = SPELLED_DIGITS;
        if (part_is_time(part) && !value_plain(&type, cell[i], digits[i], &values[s->at[i]])) return;
    }
    if (cell[s->n].p != NULL && num_parse(cell[s->n], &count)) r->row(r->arg, values, count);
}

enum err panel_rows_read(struct panel *p, const struct panel_rows *r, struct error *e)
{
    struct selection s;
    struct slice cell[PARTS_MAX + 1];
    struct buf sql = {0};
    const struct columns *forms;
    if (forms_of(p, r->counter, &forms, e) != ERR_NONE) return e->code;
    uint32_t held = 0;
    s = (struct selection){.rows = r, .forms = forms};
    for (uint32_t i = 0; i < r->parts->n; i++) {
        bool is_time = i == r->parts->time;
        held += !is_time && r->is[i].p != NULL;
        if (r->by_time ? is_time : !is_time && r->is[i].p == NULL) s.at[s.n++] = i;
    }
    s.summed = s.n + held < r->parts->n;
    select_put(&sql, &s);
    enum code_class class = ask(p, &sql);
    while (class == CODE_OK && db_row(p->db, cell, s.n + 1))
        row_take(&s, cell);
    return answer(p, &sql, class, e);
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
        if (counter_takes_store(c, store) && store_there(p, c, store, known, e) != ERR_NONE) return e->code;
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

enum err panel_labels(struct panel *p, const struct counter *c, const struct slice *fields, size_t n,
                      void (*label)(void *arg, struct slice id, struct slice name), void *arg,
                      struct error *e)
{
    struct buf sql = {0};
    struct slice cell[2];
    PRE(c->labels.table.n > 0);
    /* Strings, also for integers: MySQL converts them to the column's type, so an index serves either. A text that is not
     * UTF-8 has no name; as a literal MySQL would refuse it. */
    sql_lookup(&sql, &c->labels);
    BUF_LIT(&sql, " WHERE ");
    sql_name(&sql, c->labels.key);
    BUF_LIT(&sql, " IN (NULL");
    for (size_t i = 0; i < n; i++) {
        if (!text_is_utf8(fields[i])) continue;
        BUF_LIT(&sql, ", _utf8mb4 ");
        sql_hex(&sql, fields[i]);
    }
    buf_printf(&sql, ") LIMIT %zu", n);
    enum code_class class = ask(p, &sql);
    while (class == CODE_OK && db_row(p->db, cell, 2))
        if (cell[0].p != NULL && cell[1].p != NULL) label(arg, cell[0], cell[1]);
    return answer(p, &sql, class, e);
}
