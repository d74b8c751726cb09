/* http/api_figures.c - GET /api/stores/{store}/counters/{counter}: stored and live, side by side. */
#include "base/heap.h"
#include "base/slice.h"
#include "http/figures.h"
#include "http/route.h"

#include <stdio.h>

/* Does column i stand in a row's name? */
static bool is_named(const struct figures *f, uint32_t i)
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
static void name_put(struct json *j, const struct figures *f, size_t i)
{
    char column[65];
    struct slice values[PARTS_MAX];
    if (f->by_time || f->simple) return json_slice(j, "field", rows_field(&f->answer.rows, i));
    figures_values(f, i, values);
    json_open(j, "key", '{');
    for (uint32_t k = 0; k < f->parts.n; k++) {
        if (!is_named(f, k)) continue;
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
        name_put(j, f, i);
        if (names->all != NULL && names->all[i].p != NULL)
            json_slice(j, "label", names->all[i]);
        else if (names->all != NULL)
            json_null(j, "label");
        figure_json(j, "stored", f->answer.rows.all[i].stored);
        figure_json(j, "live", f->answer.rows.all[i].live);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void figures_put(struct figures *f)
{
    struct labels names = names_of(f);
    struct json j = exchange_json(f->x);
    json_open(&j, NULL, '{');
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
        if (is_named(f, i))
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
            if (is_named(f, k)) value_put_csv(&c, &f->parts.all[k], values[k]);
        if (names.all != NULL) csv_text(&c, names.all[i].p == NULL ? SLICE("") : names.all[i]);
        csv_figure(&c, f->answer.rows.all[i].live);
        csv_figure(&c, f->answer.rows.all[i].stored);
        csv_end(&c);
    }
    labels_free(&names);
}

static void figures_answer(struct figures *f)
{
    char shown[80];
    if (!figures_read(f)) return;
    if (figures_store_known(f))
        (f->csv ? figures_put_csv : figures_put)(f);
    else
        exchange_refuse(f->x, 404, "see /api/stores", "no store \"%s\" has been counted",
                        slice_show(f->store, 70, shown, sizeof shown));
}

void run_figures(struct exchange *x, struct worker *w)
{
    struct beat beat = pulse_beat(&x->http->pulse);
    struct figures f = {.x = x, .w = w, .mysql_up = beat.mysql_up, .redis_up = beat.redis_up};
    if (figures_question(&f)) figures_answer(&f);
    answer_free(&f.answer);
    buf_free(&f.key);
    buf_free(&f.question);
}
