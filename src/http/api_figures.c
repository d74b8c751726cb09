/* http/api_figures.c - GET /api/stores/{store}/counters/{counter}: stored and live, side by side. Stored is a SELECT,
 * live is CTR.TOTAL. Without MySQL tallyd claims nothing, so all hits since the last answer are pending. live is then
 * the greater of the last live figure and stored + pending: the true figure is at least that. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/num.h"
#include "http/inside.h"
#include "http/range.h"
#include "http/route.h"
#include "series/row.h"
#include "series/zones.h"

#include <stdio.h>
#include <stdlib.h>

#define DAYS_STANDARD 30
#define HOURS_STANDARD 48
#define TOP_STANDARD 10
#define NO_STORE SLICE("-") /* of counters whose key has no <store> */

struct figures {
    struct exchange *x;
    struct worker *w;
    const struct counter *counter;
    struct slice store;
    struct buf key, question;
    bool by_time; /* rows are those of range */
    struct range range;
    struct slice field; /* p NULL: not one field */
    int64_t top;
    bool mysql_up, redis_up;
    bool csv;
    struct rows_answer answer;
};

/* --- what is asked --- */

static bool store_fits(const struct counter *c, struct slice store, struct buf *key)
{
    if (c->key.has_store) return panel_store_key(c, store, key);
    pattern_put(&c->key, slice_of("", 0), key);
    return slice_eq(store, NO_STORE);
}

static bool counter_read(struct figures *f)
{
    char shown[80];
    const struct counters *counters = f->x->http->where->counters;
    struct slice name = exchange_part(f->x, 1);
    f->store = exchange_part(f->x, 0);
    f->counter = counters_find(counters, name);
    if (f->counter != NULL && !counter_is_simple(f->counter))
        f->counter = NULL; /* /api/counters has it not */
    if (f->counter == NULL) {
        exchange_refuse(f->x, 404, "see /api/counters", "no counter \"%s\" is configured",
                        slice_show(name, 70, shown, sizeof shown));
        return false;
    }
    if (store_fits(f->counter, f->store, &f->key)) return true;
    exchange_refuse(f->x, 404, f->counter->key.has_store ? "see /api/stores" : "ask for store -",
                    "\"%s\" is not a store of the counter " SLICE_FMT,
                    slice_show(f->store, 70, shown, sizeof shown), SLICE_ARG(f->counter->name));
    return false;
}

static bool given(const struct figures *f, const char *name, struct slice *value)
{
    *value = slice_of(NULL, 0);
    return target_arg(&f->x->target, name, value);
}

static bool field_read(struct figures *f)
{
    char shown[64];
    if (counter_field_valid(f->counter, f->field)) return true;
    exchange_refuse(f->x, 400, "correct the parameter, or leave it out", "field is \"%s\", expected %s",
                    slice_show(f->field, 50, shown, sizeof shown), field_kind_expected(f->counter->field));
    return false;
}

/* Fields are days and hours of the store's zone. */
static int64_t now_of(const struct figures *f)
{
    int64_t now_s = wall_ms() / 1000;
    return now_s + zones_clock(f->x->http->ports.zones, f->store, now_s).offset_s;
}

static bool range_of(struct figures *f, struct slice from, struct slice to)
{
    char why[160];
    size_t standard = f->counter->field == FIELD_DATE ? DAYS_STANDARD : HOURS_STANDARD;
    f->by_time = true;
    if (range_read(f->counter->field, from, to, now_of(f), standard, &f->range, why, sizeof why)) return true;
    exchange_refuse(f->x, 400, "correct the range, or leave it out", "%s", why);
    return false;
}

static bool question_read(struct figures *f)
{
    struct slice from, to, top;
    bool has_from = given(f, "from", &from), has_to = given(f, "to", &to), topped = given(f, "top", &top);
    bool ranged = has_from || has_to;
    bool timed = f->counter->field == FIELD_DATE || f->counter->field == FIELD_HOUR;
    const char *kind = field_kind_name(f->counter->field);
    if (given(f, "field", &f->field) && (ranged || topped))
        exchange_refuse(f->x, 400, "leave one of them out", "give field without from, to and top");
    else if (f->field.p != NULL)
        return field_read(f);
    else if (ranged && !timed)
        exchange_refuse(f->x, 400, "ask with top or field",
                        "from and to are for date and hour; this counter's field is %s", kind);
    else if (topped && timed)
        exchange_refuse(f->x, 400, "ask with from and to",
                        "top is for integer and text; this counter's field is %s", kind);
    else
        return timed ? range_of(f, from, to)
                     : exchange_number(f->x, "top", 1, RANGE_MAX, TOP_STANDARD, &f->top);
    return false;
}

/* The same bytes for the same question. */
static void question_put(struct figures *f)
{
    buf_printf(&f->question, SLICE_FMT " %zu ", SLICE_ARG(f->counter->name), f->store.n);
    buf_put_slice(&f->question, f->store);
    buf_printf(&f->question, " %d %lld %zu %lld ", f->by_time, (long long)f->range.first, f->range.n,
               (long long)f->top);
    if (f->field.p != NULL) buf_put_slice(&f->question, f->field);
}

/* --- the rows, with what is stored --- */

static void rows_zero(struct figures *f)
{
    char field[RANGE_FIELD_BYTES];
    struct rows *rows = &f->answer.rows;
    for (size_t i = 0; f->by_time && i < f->range.n; i++)
        rows_add(rows, slice_of(field, range_field(&f->range, i, field)));
    if (f->field.p != NULL) rows_add(rows, f->field);
}

static void stored_take(void *arg, struct slice field, int64_t count)
{
    struct figures *f = arg;
    size_t i;
    struct row *row = NULL;
    if (f->by_time)
        row = range_index(&f->range, field, &i) ? &f->answer.rows.all[i] : NULL;
    else
        row = rows_find(&f->answer.rows, field);
    if (row == NULL && f->by_time) return;
    if (row == NULL) row = rows_add(&f->answer.rows, field);
    row->stored = (struct figure){true, count};
}

static enum err stored_select(struct figures *f, struct error *e)
{
    struct panel *p = &f->w->panel;
    char first[RANGE_FIELD_BYTES], last[RANGE_FIELD_BYTES];
    const struct panel_rows rows = {f->counter, f->store, stored_take, f};
    if (f->field.p != NULL) return panel_one(p, &rows, f->field, e);
    if (!f->by_time) return panel_top(p, &rows, (uint32_t)f->top, e);
    struct slice from = slice_of(first, range_field(&f->range, 0, first));
    struct slice to = slice_of(last, range_field(&f->range, f->range.n - 1, last));
    return panel_between(p, &rows, from, to, e);
}

/* What is not in the table is 0. */
static void stored_fill(struct figures *f, int64_t until_ms)
{
    f->answer.stored_s = wall_ms() / 1000;
    f->answer.until_s = (struct figure){until_ms > 0, until_ms / 1000};
    for (size_t i = 0; i < f->answer.rows.n; i++)
        f->answer.rows.all[i].stored.known = true;
}

/* complete_until first: what it says is then in the table. False: refused. */
static bool stored_read(struct figures *f)
{
    struct error e;
    int64_t until_ms = 0;
    if (!f->mysql_up) return true;
    enum err code = panel_until(&f->w->panel, f->counter, &until_ms, &e);
    if (code == ERR_NONE) code = stored_select(f, &e);
    if (code == ERR_NONE) stored_fill(f, until_ms);
    f->mysql_up = code != ERR_UNAVAILABLE;
    if (code == ERR_NONE || code == ERR_UNAVAILABLE) return true;
    exchange_refuse(f->x, 503, "run tallyd check, which says what mends it", "MySQL refused: %s", e.text);
    return false;
}

/* --- what is pending; for tops, whose fields MySQL may not know yet, and without MySQL --- */

static int by_pending(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->pending == y->pending ? 0 : x->pending > y->pending ? -1 : 1;
}

static void pending_file(struct rows *out, const redisReply *reply)
{
    int64_t n;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *count = reply->element[i + 1];
        if (count->str == NULL || !num_parse(slice_of(count->str, count->len), &n)) continue;
        rows_add(out, slice_of(field->str, field->len))->pending = n;
    }
    if (out->n > 0) qsort(out->all, out->n, sizeof *out->all, by_pending);
}

/* Adds to the rows: for a top those with the most pending, else only to existing rows. */
static void pending_merge(struct figures *f, const struct rows *pending)
{
    for (size_t i = 0; i < pending->n; i++) {
        struct slice field = rows_field(pending, i);
        bool top = !f->by_time && f->field.p == NULL && i < (size_t)f->top;
        struct row *row = rows_find(&f->answer.rows, field);
        if (row == NULL && !top) continue;
        if (row == NULL) {
            row = rows_add(&f->answer.rows, field);
            row->stored.known = f->mysql_up;
        }
        row->pending = pending->all[i].pending;
    }
}

static void pending_read(struct figures *f)
{
    struct slice words[] = {SLICE("CTR.PENDING"), buf_slice(&f->key)};
    redisReply *reply = door_ask(&f->w->door, words, 2);
    f->redis_up = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    struct rows pending = {0};
    if (f->redis_up) pending_file(&pending, reply);
    pending_merge(f, &pending);
    rows_free(&pending);
    freeReplyObject(reply);
}

/* --- what is live --- */

/* Exact, in one moment for all rows. MySQL may have gone away meanwhile. */
static void totals_read(struct figures *f)
{
    size_t n = f->answer.rows.n;
    if (n == 0) return;
    struct slice *words = heap_alloc((n + 2) * sizeof *words);
    words[0] = SLICE("CTR.TOTAL");
    words[1] = buf_slice(&f->key);
    for (size_t i = 0; i < n; i++)
        words[i + 2] = rows_field(&f->answer.rows, i);
    redisReply *reply = door_ask(&f->w->door, words, n + 2);
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements && i < n; i++)
            f->answer.rows.all[i].live = (struct figure){true, reply->element[i]->integer};
        f->answer.live_s = wall_ms() / 1000;
    } else if (reply != NULL && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "MySQL") != NULL) {
        f->mysql_up = false;
    } else {
        f->redis_up = pulse_beat(&f->x->http->pulse).redis_up;
    }
    freeReplyObject(reply);
    heap_free(words);
}

static void live_from_pending(struct figures *f)
{
    pending_read(f);
    if (!f->redis_up) return;
    f->answer.live_s = wall_ms() / 1000;
    for (size_t i = 0; i < f->answer.rows.n; i++) {
        struct row *row = &f->answer.rows.all[i];
        int64_t sum = row->pending + (row->stored.known ? row->stored.value : 0);
        if (row->live.known && row->live.value >= sum) continue;
        if (row->live.known || row->stored.known || row->pending != 0) row->live = (struct figure){true, sum};
    }
}

static int64_t weight(const struct row *r)
{
    return r->live.known ? r->live.value : r->stored.known ? r->stored.value : INT64_MIN;
}

static int by_weight(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (weight(x) != weight(y)) return weight(x) > weight(y) ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at; /* else as they came */
}

static void top_cut(struct figures *f)
{
    struct rows *rows = &f->answer.rows;
    if (f->by_time || f->field.p != NULL || rows->n == 0) return;
    qsort(rows->all, rows->n, sizeof *rows->all, by_weight);
    if (rows->n > (size_t)f->top) rows->n = (size_t)f->top;
}

/* --- is there such a store at all? --- */

static bool anything_counted(const struct figures *f)
{
    for (size_t i = 0; i < f->answer.rows.n; i++) {
        const struct row *r = &f->answer.rows.all[i];
        if (r->stored.value != 0 || r->live.value != 0 || r->pending != 0) return true;
    }
    return false;
}

/* Has the store hits in Redis, in any counter, that no claim has taken? */
static bool anything_pending(struct figures *f)
{
    const struct counters *counters = f->x->http->where->counters;
    bool any = false;
    for (size_t i = 0; i < counters->n && !any; i++) {
        struct buf key = {0};
        struct slice words[2] = {SLICE("CTR.PENDING")};
        if (panel_store_key(&counters->all[i], f->store, &key)) {
            words[1] = buf_slice(&key);
            redisReply *reply = door_ask(&f->w->door, words, 2);
            any = reply == NULL || reply->type == REDIS_REPLY_ERROR ||
                  reply->elements > 0; /* not known: ignore it */
            freeReplyObject(reply);
        }
        buf_free(&key);
    }
    return any;
}

static bool store_is_known(struct figures *f)
{
    struct error e;
    bool known = true;
    if (!f->counter->key.has_store || !f->mysql_up || anything_counted(f)) return true;
    if (panel_store_known(&f->w->panel, f->store, &known, &e) != ERR_NONE || known) return true;
    return anything_pending(f);
}

/* --- the answer --- */

static void time_put(struct json *j, const char *key, int64_t at_s)
{
    figure_json(j, key, (struct figure){at_s > 0, at_s});
}

/* names: of a counter that has labels; all NULL: it has none. */
static void rows_put(struct json *j, const struct rows *rows, const struct labels *names)
{
    json_open(j, "rows", '[');
    for (size_t i = 0; i < rows->n; i++) {
        json_open(j, NULL, '{');
        json_slice(j, "field", rows_field(rows, i));
        if (names->all != NULL && names->all[i].p != NULL)
            json_slice(j, "label", names->all[i]);
        else if (names->all != NULL)
            json_null(j, "label");
        figure_json(j, "stored", rows->all[i].stored);
        figure_json(j, "live", rows->all[i].live);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static struct labels names_of(const struct figures *f)
{
    if (f->counter->labels.table.n == 0) return (struct labels){0};
    return labels_read(&f->x->http->label_cache, f->mysql_up ? &f->w->panel : NULL, f->counter,
                       &f->answer.rows);
}

/* A day as 2014-09-20, an hour as 2014-09-20 13:00, as spreadsheets read them. */
static void field_put(struct csv *c, const struct figures *f, struct slice field)
{
    char text[24];
    const char *d = field.p;
    if (f->counter->field == FIELD_DATE)
        snprintf(text, sizeof text, "%.4s-%.2s-%.2s", d, d + 4, d + 6);
    else if (f->counter->field == FIELD_HOUR)
        snprintf(text, sizeof text, "%.4s-%.2s-%.2s %.2s:00", d, d + 4, d + 6, d + 8);
    int64_t item;
    if (f->counter->field == FIELD_DATE || f->counter->field == FIELD_HOUR)
        csv_text(c, slice_str(text));
    else if (f->counter->field == FIELD_INTEGER && num_parse(field, &item))
        csv_int(c, item);
    else
        csv_text(c, field);
}

static void heading_put(struct csv *c, const struct figures *f, bool named)
{
    static const char *const first[] = {"day", "hour", "item", "item"};
    csv_text(c, slice_str(first[f->counter->field]));
    if (named) csv_text(c, SLICE("name"));
    csv_text(c, SLICE("live"));
    csv_text(c, SLICE("stored"));
    csv_end(c);
}

static void figures_put_csv(struct figures *f)
{
    struct labels names = names_of(f);
    struct csv c = exchange_csv(f->x, f->store, f->counter->name);
    heading_put(&c, f, names.all != NULL);
    for (size_t i = 0; i < f->answer.rows.n; i++) {
        field_put(&c, f, rows_field(&f->answer.rows, i));
        if (names.all != NULL) csv_text(&c, names.all[i].p == NULL ? SLICE("") : names.all[i]);
        csv_figure(&c, f->answer.rows.all[i].live);
        csv_figure(&c, f->answer.rows.all[i].stored);
        csv_end(&c);
    }
    labels_free(&names);
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
    rows_put(&j, &f->answer.rows, &names);
    json_close(&j, '}');
    labels_free(&names);
}

/* Without MySQL: its last answer to this question, or the rows that are known without it. */
static bool figures_read(struct figures *f)
{
    struct answer_cache *cache = &f->x->http->answer_cache;
    rows_zero(f);
    if (!stored_read(f)) return false;
    if (f->mysql_up && !f->by_time && f->field.p == NULL) pending_read(f);
    if (f->mysql_up && f->redis_up) totals_read(f);
    if (!f->mysql_up) {
        answer_free(&f->answer);
        if (!answer_cache_get(cache, buf_slice(&f->question), &f->answer)) rows_zero(f);
        live_from_pending(f);
    } else if (f->redis_up) {
        answer_cache_put(cache, buf_slice(&f->question), &f->answer);
    }
    top_cut(f);
    return true;
}

static void figures_answer(struct figures *f)
{
    char shown[80];
    if (!figures_read(f)) return;
    if (store_is_known(f))
        (f->csv ? figures_put_csv : figures_put)(f);
    else
        exchange_refuse(f->x, 404, "see /api/stores", "no store \"%s\" has been counted",
                        slice_show(f->store, 70, shown, sizeof shown));
}

void run_figures(struct exchange *x, struct worker *w)
{
    struct beat beat = pulse_beat(&x->http->pulse);
    struct figures f = {.x = x, .w = w, .mysql_up = beat.mysql_up, .redis_up = beat.redis_up};
    if (counter_read(&f) && exchange_sees_store(x, f.store) && exchange_wants_csv(x, &f.csv) &&
        question_read(&f)) {
        question_put(&f);
        figures_answer(&f);
    }
    answer_free(&f.answer);
    buf_free(&f.key);
    buf_free(&f.question);
}
