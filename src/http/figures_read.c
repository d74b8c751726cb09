/* http/figures_read.c - see figures.h. Stored is a SELECT, live is CTR.TOTAL. Without MySQL tallyd claims nothing, so all hits since
 * the last answer are pending: live is then the greater of the last live figure and stored + pending, and the true figure is at
 * least that. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"
#include "http/figures.h"
#include "series/asks.h"

#include <stdlib.h>

/* What CTR.TOTAL is asked for at most; beyond, the live figures are left out. */
#define CELLS_MOST 10000
#define HASHES_MOST 300

/* --- the rows, with what is stored --- */

void figures_values(const struct figures *f, size_t i, struct slice values[PARTS_MAX])
{
    struct slice name = rows_field(&f->answer.rows, i);
    for (uint32_t k = 0; k < f->parts.n; k++) {
        uint16_t n = (uint16_t)name.n;
        values[k] = f->is[k];
        if ((k == f->parts.time) != f->by_time) continue;
        if (!f->by_time && !f->simple) {
            memcpy(&n, name.p, sizeof n);
            name = slice_of(name.p + sizeof n, name.n - sizeof n);
        }
        values[k] = slice_of(name.p, n);
        name = slice_of(name.p + n, name.n - n);
    }
}

static struct row *row_of(struct figures *f, const struct slice *values)
{
    struct buf name = {0};
    /* A row by time is named by its digits, one of a simple counter by its field, and others by their values, each behind its length. */
    for (uint32_t i = 0; i < f->parts.n; i++) {
        uint16_t n = (uint16_t)values[i].n;
        if ((i == f->parts.time) != f->by_time) continue;
        if (!f->by_time && !f->simple) buf_put(&name, (const char *)&n, sizeof n);
        buf_put_slice(&name, values[i]);
    }
    struct row *row = rows_find(&f->answer.rows, buf_slice(&name));
    if (row == NULL) row = rows_add(&f->answer.rows, buf_slice(&name));
    buf_free(&name);
    return row;
}

static void rows_zero(struct figures *f)
{
    char field[RANGE_FIELD_BYTES];
    for (size_t i = 0; f->by_time && i < f->range.n; i++)
        rows_add(&f->answer.rows, slice_of(field, range_field(&f->range, i, field)));
    if (!f->by_time && f->one) row_of(f, f->is);
}

static void stored_take(void *arg, const struct slice *values, int64_t count)
{
    struct figures *f = arg;
    size_t i;
    struct row *row;
    if (!f->by_time)
        row = row_of(f, values);
    else if (range_index(&f->range, values[f->parts.time], &i))
        row = &f->answer.rows.all[i];
    else
        return;
    row->stored = (struct figure){true, count};
}

static enum err figures_stored_select(struct figures *f, struct error *e)
{
    char first[RANGE_FIELD_BYTES], last[RANGE_FIELD_BYTES];
    struct panel_rows rows = {.counter = f->counter,
                              .parts = &f->parts,
                              .store = f->store,
                              .is = f->is,
                              .by_time = f->by_time,
                              .top = (uint32_t)f->top,
                              .row = stored_take,
                              .arg = f};
    if (figures_timed(f)) {
        rows.from = slice_of(first, range_field(&f->range, 0, first));
        rows.to = slice_of(last, range_field(&f->range, f->range.n - 1, last));
    }
    return panel_rows_read(&f->w->panel, &rows, e);
}

/* complete_until first: what it says is then in the table. False: refused. */
static bool figures_stored_read(struct figures *f)
{
    struct error e;
    int64_t until_ms = 0;
    if (!f->mysql_up) return true;
    enum err code = panel_until(&f->w->panel, f->counter, &until_ms, &e);
    if (code == ERR_NONE) code = figures_stored_select(f, &e);
    /* What is not in the table is 0. */
    if (code == ERR_NONE) {
        f->answer.stored_s = wall_ms() / 1000;
        f->answer.until_s = (struct figure){until_ms > 0, until_ms / 1000};
        for (size_t i = 0; i < f->answer.rows.n; i++)
            f->answer.rows.all[i].stored.known = true;
    }
    f->mysql_up = code != ERR_UNAVAILABLE;
    if (code == ERR_NONE || code == ERR_UNAVAILABLE) return true;
    return exchange_refuse(f->x, 503, "run tallyd check, which says what mends it", "MySQL refused: %s",
                           e.text);
}

/* --- what is pending; for tops, whose fields MySQL may not know yet, and without MySQL --- */

static int by_pending(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->pending == y->pending ? 0 : x->pending > y->pending ? -1 : 1;
}

/* Adds to the rows: for a top those with the most pending, else only to existing rows. */
static void pending_merge(struct figures *f, const struct rows *pending)
{
    for (size_t i = 0; i < pending->n; i++) {
        struct slice field = rows_field(pending, i);
        bool top = !f->by_time && !f->one && i < (size_t)f->top;
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
    if (f->redis_up) {
        int64_t n;
        for (size_t i = 0; i + 1 < reply->elements; i += 2) {
            const redisReply *field = reply->element[i], *count = reply->element[i + 1];
            if (count->str == NULL || !num_parse(slice_of(count->str, count->len), &n)) continue;
            rows_add(&pending, slice_of(field->str, field->len))->pending = n;
        }
        if (pending.n > 0) qsort(pending.all, pending.n, sizeof *pending.all, by_pending);
    }
    pending_merge(f, &pending);
    rows_free(&pending);
    freeReplyObject(reply);
}

/* --- what is live --- */

/* Fields of one pending hash, to be asked for at once, and the row that each is counted in. */
struct totals_asked {
    struct figures *f;
    struct buf key, bytes, next_key, next_field;
    size_t ends[TOTAL_FIELDS_ASKED_MAX], rows[TOTAL_FIELDS_ASKED_MAX];
    size_t n;
    bool failed;
};

static void figures_totals_ask(struct totals_asked *t)
{
    struct slice words[TOTAL_FIELDS_ASKED_MAX + 2] = {SLICE("CTR.TOTAL"), buf_slice(&t->key)};
    if (t->n == 0 || t->failed) return;
    for (size_t i = 0, at = 0; i < t->n; at = t->ends[i++])
        words[i + 2] = slice_of(t->bytes.p + at, t->ends[i] - at);
    struct figures *f = t->f;
    redisReply *reply = door_ask(&f->w->door, words, t->n + 2);
    t->failed = reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != t->n;
    for (size_t i = 0; !t->failed && i < t->n; i++) {
        struct figure *live = &f->answer.rows.all[t->rows[i]].live;
        *live = (struct figure){true, live->value + reply->element[i]->integer};
    }
    if (!t->failed)
        f->answer.live_s = wall_ms() / 1000;
    else if (reply != NULL && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "MySQL") != NULL)
        f->mysql_up = false; /* it may have gone away meanwhile */
    else
        f->redis_up = pulse_beat(&f->x->http->pulse).redis_up;
    freeReplyObject(reply);
    t->n = 0;
    buf_reset(&t->bytes);
}

/* A row that the shop made with a value that no hit can have is all stored. */
static void totals_add(struct totals_asked *t, size_t row, const struct slice *values)
{
    const struct counter *c = t->f->counter;
    if (t->failed) return;
    buf_reset(&t->next_key), buf_reset(&t->next_field);
    parts_key(&t->f->parts, t->f->store, values, &t->next_key);
    parts_field(&t->f->parts, values, &t->next_field);
    if (!pattern_match(&c->key, c->store, buf_slice(&t->next_key), NULL) ||
        !counter_field_valid(c, buf_slice(&t->next_field))) {
        t->f->answer.rows.all[row].live = t->f->answer.rows.all[row].stored;
        return;
    }
    if (t->n == TOTAL_FIELDS_ASKED_MAX || !slice_eq(buf_slice(&t->next_key), buf_slice(&t->key))) {
        figures_totals_ask(t);
        buf_reset(&t->key);
        buf_put_slice(&t->key, buf_slice(&t->next_key));
    }
    buf_put_slice(&t->bytes, buf_slice(&t->next_field));
    t->ends[t->n] = t->bytes.n;
    t->rows[t->n++] = row;
}

/* Exact; for fields of one hash in one moment. Only where it is known which fields of which hashes a row is, and they are few. */
static void totals_read(struct figures *f)
{
    char digits[RANGE_FIELD_BYTES];
    struct slice values[PARTS_MAX];
    bool sums_times = !f->by_time && figures_timed(f);
    size_t times = sums_times ? f->range.n : 1, rows = f->answer.rows.n, cells = rows * times;
    size_t hashes = parts_time_in_key(&f->parts) ? cells : f->by_time ? 1 : rows;
    if (f->counter->key.places == NULL) hashes = 1;
    if (rows == 0 || (f->by_time && !f->one) || cells > CELLS_MOST || hashes > HASHES_MOST) return;
    struct totals_asked *t = heap_zalloc(sizeof *t);
    t->f = f;
    for (size_t i = 0; i < rows; i++) {
        figures_values(f, i, values);
        for (size_t k = 0; k < times; k++) {
            if (sums_times) values[f->parts.time] = slice_of(digits, range_field(&f->range, k, digits));
            totals_add(t, i, values);
        }
    }
    figures_totals_ask(t);
    for (size_t i = 0; t->failed && i < rows; i++)
        f->answer.rows.all[i].live = (struct figure){0};
    buf_free(&t->key), buf_free(&t->bytes), buf_free(&t->next_key), buf_free(&t->next_field);
    heap_free(t);
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

/* Without MySQL: its last answer to this question, or the rows that are known without it. */
bool figures_read(struct figures *f)
{
    struct answer_cache *cache = &f->x->http->answer_cache;
    rows_zero(f);
    if (!figures_stored_read(f)) return false;
    if (f->mysql_up && f->simple && !f->by_time && !f->one) pending_read(f);
    if (f->mysql_up && f->redis_up) totals_read(f);
    if (!f->mysql_up) {
        answer_free(&f->answer);
        if (!answer_cache_get(cache, buf_slice(&f->question), &f->answer)) rows_zero(f);
        if (f->simple) live_from_pending(f);
    } else if (f->redis_up) {
        answer_cache_put(cache, buf_slice(&f->question), &f->answer);
    }
    struct rows *rows = &f->answer.rows;
    if (!f->by_time && !f->one && rows->n != 0) {
        qsort(rows->all, rows->n, sizeof *rows->all, by_weight);
        if (rows->n > (size_t)f->top) rows->n = (size_t)f->top;
    }
    return true;
}

/* --- is there such a store at all? --- */

/* Has the store hits in Redis, in any counter, that no claim has taken? */
static bool anything_pending(struct figures *f)
{
    const struct counters *counters = f->x->http->where->counters;
    bool any = false;
    for (size_t i = 0; i < counters->n && !any; i++) {
        struct buf key = {0};
        struct slice words[2] = {SLICE("CTR.PENDING")};
        if (counter_key(&counters->all[i], f->store, &key)) {
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

bool figures_store_known(struct figures *f)
{
    struct error e;
    bool known = true;
    if (!f->counter->key.has_store || !f->mysql_up) return true;
    for (size_t i = 0; i < f->answer.rows.n; i++) {
        const struct row *r = &f->answer.rows.all[i];
        if (r->stored.value != 0 || r->live.value != 0 || r->pending != 0) return true;
    }
    if (panel_store_known(&f->w->panel, f->store, &known, &e) != ERR_NONE || known) return true;
    return anything_pending(f);
}
