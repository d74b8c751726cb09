/* http/api_figures.c - GET /api/stores/{store}/counters/{counter}: stored and live, side by side. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"
#include "http/figures.h"
#include "series/zones.h"

#include <stdio.h>

#define MONTHS_STANDARD 12
#define DAYS_STANDARD 30
#define HOURS_STANDARD 48
#define TOP_STANDARD 10

static bool parameter_given(const struct figures *f, const char *name, struct slice *value)
{
    *value = slice_of(NULL, 0);
    return target_arg(&f->x->target, name, value);
}

static bool counter_read(struct figures *f)
{
    struct slice name = exchange_part(f->x, 1);
    f->store = exchange_part(f->x, 0);
    f->counter = counters_find(f->x->http->where->counters, name);
    if (f->counter == NULL)
        return exchange_refuse(f->x, 404, "see /api/counters", "no counter \"%s\" is configured",
                               SLICE_SHOW(name, 70));
    bool stores = f->counter->key.has_store;
    f->simple = counter_is_simple(f->counter);
    if (stores ? counter_takes_store(f->counter, f->store) : slice_eq(f->store, NO_STORE)) {
        if (f->simple) pattern_put(&f->counter->key, f->store, &f->key);
        return exchange_sees_store(f->x, f->store);
    }
    return exchange_refuse(f->x, 404, stores ? "see /api/stores" : "ask for store -",
                           "\"%s\" is not a store of the counter " SLICE_FMT, SLICE_SHOW(f->store, 70),
                           SLICE_ARG(f->counter->name));
}

/* Which of the counts that a field names. */
static bool count_read(struct figures *f)
{
    struct slice name;
    uint32_t count = 0;
    if (parameter_given(f, "count", &name) &&
        (f->counter->field != FIELD_COUNT ||
         (count = counter_count_of(f->counter, name)) == f->counter->counts_n))
        return exchange_refuse(f->x, 400, "see /api/counters for its counts",
                               "\"%s\" is no count of this counter", SLICE_SHOW(name, 50));
    parts_init(&f->parts, f->counter, count);
    return true;
}

/* key[<column>]=<value> */
static bool range_part_read(struct figures *f, struct slice name, struct slice value)
{
    struct slice column = name.n > 5 ? slice_of(name.p + 4, name.n - 5) : SLICE("");
    for (uint32_t i = 0; i < f->parts.n; i++) {
        const struct counted_by *part = &f->parts.all[i];
        if (part_is_time(part) || !slice_eq(part->column, column)) continue;
        if (!part_takes(part, value)) break;
        f->is[i] = value;
        return true;
    }
    return exchange_refuse(f->x, 400, "see /api/counters for its columns",
                           "\"%s\" is no key column of this counter, or not with such a value",
                           SLICE_SHOW(name, 70));
}

static bool range_parts_read(struct figures *f)
{
    const struct target *t = &f->x->target;
    for (size_t i = 0; i < t->args_n; i++) {
        struct slice name = target_arg_name(t, i), value;
        if (!slice_starts(name, SLICE("key"))) continue;
        value = slice_of(t->bytes.p + t->values[i].at, t->values[i].n);
        if (!range_part_read(f, name, value)) return false;
    }
    f->one = true;
    for (uint32_t i = 0; i < f->parts.n; i++)
        f->one = f->one && (i == f->parts.time || f->is[i].p != NULL);
    return true;
}

/* --- one field --- */

/* The whole field is the last part. */
static bool field_read(struct figures *f, struct slice field, struct slice *from, struct slice *to)
{
    uint32_t last = f->parts.n - 1;
    if (f->counter->field > FIELD_MONTH)
        return exchange_refuse(f->x, 400, "ask with key[<column>], as /api/counters has them",
                               "this counter's field is %s", field_kind_name(f->counter->field));
    if (!counter_field_valid(f->counter, field)) {
        struct buf expected = {0};
        counter_field_expected(f->counter, &expected);
        exchange_refuse(f->x, 400, "correct the parameter, or leave it out",
                        "field is \"%s\", expected " SLICE_FMT, SLICE_SHOW(field, 50),
                        SLICE_ARG(buf_slice(&expected)));
        buf_free(&expected);
        return false;
    }
    if (last != f->parts.time) return f->is[last] = field, true;
    bool plain = value_plain(&f->parts.all[last].type, field, f->field, from);
    *to = *from;
    return plain;
}

/* --- times --- */

/* Fields are days and hours of the store's zone. */
static bool figures_range(struct figures *f, struct slice from, struct slice to)
{
    static const size_t standards[] = {
        [FIELD_DATE] = DAYS_STANDARD, [FIELD_HOUR] = HOURS_STANDARD, [FIELD_MONTH] = MONTHS_STANDARD};
    char why[160];
    int64_t now_s = wall_ms() / 1000,
            offset_s = zones_clock(f->x->http->ports.zones, f->store, now_s).offset_s;
    enum field_kind kind = parts_time_kind(&f->parts);
    if (range_read(kind, from, to, now_s + offset_s, standards[kind], &f->range, why, sizeof why))
        return true;
    return exchange_refuse(f->x, 400, "correct the range, or leave it out", "%s", why);
}

/* --- all of it --- */

static bool redis_ask_read(struct figures *f)
{
    struct slice from, to, top, field;
    bool has_from = parameter_given(f, "from", &from), has_to = parameter_given(f, "to", &to),
         topped = parameter_given(f, "top", &top);
    bool ranged = has_from || has_to, timed = figures_timed(f);
    const char *fault = NULL; /* what cannot be asked of this counter */
    if (ranged && !timed)
        fault = "from and to are for date and hour";
    else if (topped && timed && f->parts.n == 1)
        fault = "top is for integer and text";
    if (parameter_given(f, "field", &field) && (ranged || topped))
        return exchange_refuse(f->x, 400, "leave one of them out", "give field without from, to and top");
    if (fault != NULL)
        return exchange_refuse(f->x, 400, ranged ? "ask with top or field" : "ask with from and to",
                               "%s; this counter's field is %s", fault, field_kind_name(f->counter->field));
    if (field.p != NULL && !field_read(f, field, &from, &to)) return false;
    f->by_time = timed && !topped;
    return range_parts_read(f) && (!timed || figures_range(f, from, to)) &&
           exchange_number(f->x, "top", 1, RANGE_MAX, TOP_STANDARD, &f->top);
}

/* False: refused. */
static bool figures_question(struct figures *f)
{
    if (!counter_read(f) || !exchange_wants_csv(f->x, &f->csv) || !count_read(f) || !redis_ask_read(f))
        return false;
    struct buf *q = &f->question;
    buf_printf(q, SLICE_FMT " %zu ", SLICE_ARG(f->counter->name), f->store.n);
    buf_put_slice(q, f->store);
    buf_printf(q, " %d %u %lld %zu %lld", f->by_time, f->parts.count, (long long)f->range.first, f->range.n,
               (long long)f->top);
    for (uint32_t i = 0; i < f->parts.n; i++) {
        buf_printf(q, " %zu ", f->is[i].p == NULL ? SIZE_MAX : f->is[i].n);
        if (f->is[i].p != NULL) buf_put_slice(q, f->is[i]);
    }
    return true;
}

/* Does column i stand in a row's name? */
static bool row_is_named(const struct figures *f, uint32_t i)
{
    return (i == f->parts.time) == f->by_time;
}

static struct labels names_of(const struct figures *f)
{
    struct slice values[PARTS_MAX];
    size_t n = f->answer.rows.n;
    if (f->counter->labels.table.n == 0 || f->by_time) return (struct labels){0};
    struct slice *ids = heap_alloc((n + 1) * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        figures_values(f, i, values);
        ids[i] = values[f->parts.label];
    }
    struct labels names =
        labels_read(&f->x->http->label_cache, f->mysql_up ? &f->w->panel : NULL, f->counter, ids, n);
    heap_free(ids);
    return names;
}

/* --- JSON --- */

static void time_put(struct json *j, const char *key, int64_t at_s)
{
    figure_json(j, key, (struct figure){at_s > 0, at_s});
}

/* "field", or "key" with each column by its name. */
static void row_name_put(struct json *j, const struct figures *f, size_t i)
{
    char column[65];
    struct slice values[PARTS_MAX];
    if (f->by_time || f->simple) return json_slice(j, "field", rows_field(&f->answer.rows, i));
    figures_values(f, i, values);
    json_open(j, "key", '{');
    for (uint32_t k = 0; k < f->parts.n; k++) {
        if (!row_is_named(f, k)) continue;
        slice_show(f->parts.all[k].column, sizeof column - 1, column, sizeof column);
        json_slice(j, column, values[k]);
    }
    json_close(j, '}');
}

/* names: of a counter that has labels; all NULL: it has none. */
static void rows_put(struct json *j, const struct figures *f, const struct labels *names)
{
    json_open(j, "rows", '[');
    for (size_t i = 0; i < f->answer.rows.n; i++) {
        json_open(j, NULL, '{');
        row_name_put(j, f, i);
        if (names->all != NULL) json_slice_or_null(j, "label", names->all[i]);
        figure_json(j, "stored", f->answer.rows.all[i].stored);
        figure_json(j, "live", f->answer.rows.all[i].live);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void figures_put(struct figures *f)
{
    struct labels names = names_of(f);
    struct json j = exchange_json(f->x, '{');
    json_slice(&j, "counter", f->counter->name);
    json_slice(&j, "store", f->store);
    json_text(&j, "field", field_kind_name(f->counter->field));
    json_text(&j, "mysql", f->mysql_up ? "up" : "down");
    json_text(&j, "redis", f->redis_up ? "up" : "down");
    figure_json(&j, "complete_until", f->answer.until_s);
    time_put(&j, "stored_as_of", f->answer.stored_s);
    time_put(&j, "live_as_of", f->answer.live_s);
    rows_put(&j, f, &names);
    json_close(&j, '}');
    labels_free(&names);
}

/* --- CSV --- */

/* A day as 2014-09-20, an hour as 2014-09-20 13:00, a month as 2014-09, as spreadsheets read them. */
static void value_put_csv(struct csv *c, const struct counted_by *part, struct slice value)
{
    char text[24];
    const char *d = value.p;
    int64_t item;
    if (part->type.kind == VALUE_INTEGER && num_parse(value, &item)) return csv_int(c, item);
    if (part->type.kind == VALUE_DATE)
        snprintf(text, sizeof text, "%.4s-%.2s-%.2s", d, d + 4, d + 6);
    else if (part->type.kind == VALUE_HOUR)
        snprintf(text, sizeof text, "%.4s-%.2s-%.2s %.2s:00", d, d + 4, d + 6, d + 8);
    else if (part->type.kind == VALUE_MONTH)
        snprintf(text, sizeof text, "%.4s-%.2s", d, d + 4);
    csv_text(c, part_is_time(part) ? slice_str(text) : value);
}

static void heading_put(struct csv *c, const struct figures *f, bool named)
{
    static const char *const times[] = {[FIELD_DATE] = "day", [FIELD_HOUR] = "hour", [FIELD_MONTH] = "month"};
    for (uint32_t i = 0; i < f->parts.n; i++)
        if (row_is_named(f, i))
            csv_text(c, f->by_time  ? slice_str(times[f->range.kind])
                        : f->simple ? SLICE("item")
                                    : f->parts.all[i].column);
    if (named) csv_text(c, SLICE("name"));
    csv_text(c, SLICE("live"));
    csv_text(c, SLICE("stored"));
    csv_end(c);
}

static void figures_put_csv(struct figures *f)
{
    struct slice values[PARTS_MAX];
    struct labels names = names_of(f);
    struct csv c = exchange_csv(f->x, f->store, f->counter->name);
    heading_put(&c, f, names.all != NULL);
    for (size_t i = 0; i < f->answer.rows.n; i++) {
        figures_values(f, i, values);
        for (uint32_t k = 0; k < f->parts.n; k++)
            if (row_is_named(f, k)) value_put_csv(&c, &f->parts.all[k], values[k]);
        if (names.all != NULL) csv_text(&c, names.all[i].p == NULL ? SLICE("") : names.all[i]);
        csv_figure(&c, f->answer.rows.all[i].live);
        csv_figure(&c, f->answer.rows.all[i].stored);
        csv_end(&c);
    }
    labels_free(&names);
}

void run_figures(struct exchange *x, struct worker *w)
{
    struct beat beat = pulse_beat(&x->http->pulse);
    struct figures f = {.x = x, .w = w, .mysql_up = beat.mysql_up, .redis_up = beat.redis_up};
    if (figures_question(&f) && figures_read(&f)) {
        if (figures_store_known(&f))
            (f.csv ? figures_put_csv : figures_put)(&f);
        else
            exchange_refuse(x, 404, "see /api/stores", "no store \"%s\" has been counted",
                            SLICE_SHOW(f.store, 70));
    }
    answer_free(&f.answer);
    buf_free(&f.key);
    buf_free(&f.question);
}
