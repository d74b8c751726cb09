/* http/api_shop.c - /api/counters and /api/stores: what there is to ask for. */
#include "base/clock.h"
#include "base/heap.h"
#include "http/inside.h"
#include "series/names.h"
#include "series/row.h"
#include "series/zones.h"

#include <stdlib.h>

/* --- counters --- */

#define NOTHING slice_of(NULL, 0)

/* NULL, or an empty one: null */
static void pattern_json(struct json *j, const char *key, const struct pattern *p)
{
    struct buf text = {0};
    if (p != NULL && !pattern_empty(p)) pattern_text(p, &text);
    json_slice_or_null(j, key, buf_slice(&text));
    buf_free(&text);
}

/* What its figures can be asked by. */
static void parts_json(struct json *j, const struct counter *c)
{
    struct parts parts;
    parts_init(&parts, c, 0);
    json_slice_or_null(j, "time",
                       parts.time < parts.n ? slice_str(field_kind_name(parts_time_kind(&parts))) : NOTHING);
    json_open(j, "columns", '[');
    for (uint32_t i = 0; i < parts.n; i++)
        if (i != parts.time) json_slice(j, NULL, parts.all[i].column);
    json_close(j, ']');
    json_slice_or_null(j, "label_column", c->labels.table.n > 0 ? parts.all[parts.label].column : NOTHING);
    json_open(j, "counts", '[');
    for (uint32_t i = 0; i < c->counts_n; i++)
        json_slice(j, NULL, c->counts[i].field);
    json_close(j, ']');
}

static void counter_json(struct json *j, const struct counter *c, const struct op_limits *ops)
{
    json_open(j, NULL, '{');
    json_slice(j, "name", c->name);
    pattern_json(j, "key", &c->key);
    json_text(j, "field", field_kind_name(c->field));
    json_slice_or_null(j, "store",
                       !c->key.has_store           ? NOTHING
                       : c->store == STORE_INTEGER ? SLICE("integer")
                                                   : SLICE("text"));
    parts_json(j, c);
    json_slice(j, "table", c->table);
    json_bool(j, "labels", c->labels.table.n > 0);
    json_open(j, "feeds", '{');
    pattern_json(j, "series", &c->feeds[FEED_SERIES]);
    pattern_json(j, "box", &c->feeds[FEED_TIMEBOX]);
    pattern_json(j, "event", &c->feeds[FEED_EVENT]);
    json_close(j, '}');
    pattern_json(j, "uniques", ops->uniq_counter == c ? &ops->uniq_name : NULL);
    json_int(j, "hits", c->hits);
    json_int(j, "every_s", c->every_s);
    json_close(j, '}');
}

void run_counters(struct exchange *x, struct worker *w)
{
    const struct counters *counters = x->http->where->counters;
    bool bound = who_store(&x->who).p != NULL;
    struct json j = exchange_json(x, '[');
    (void)w;
    for (size_t i = 0; i < counters->n; i++)
        if (!bound || counters->all[i].key.has_store) counter_json(&j, &counters->all[i], counters->ops);
    json_close(&j, ']');
}

/* --- stores --- */

struct names { /* heap copies */
    struct slice *all;
    size_t n, cap;
    bool numbers; /* all stores are integers: sorted as such */
};

static void names_add(void *arg, struct slice name)
{
    struct names *s = arg;
    HEAP_GROW(s->all, s->n, s->cap, 64);
    s->all[s->n++] = slice_of(heap_strndup(name.p, name.n), name.n);
}

static int by_bytes(const void *a, const void *b)
{
    return slice_cmp_bytes(*(const struct slice *)a, *(const struct slice *)b);
}

static int by_number(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* A table that cannot be read in time, as a large one whose keys do not begin with the store, has no names here, unless none can. */
static enum err shop_names_read(struct exchange *x, struct worker *w, struct slice prefix, uint32_t n,
                                struct names *out, struct error *e)
{
    const struct counters *counters = x->http->where->counters;
    enum err code = ERR_NONE;
    bool any = false;
    out->numbers = true;
    for (size_t i = 0; i < counters->n; i++) {
        const struct counter *c = &counters->all[i];
        if (!c->key.has_store) continue;
        out->numbers = out->numbers && c->store == STORE_INTEGER;
        code = panel_stores(&w->panel, c, prefix, n, names_add, out, e);
        if (code == ERR_UNAVAILABLE) return code;
        any = any || code == ERR_NONE;
    }
    /* Sorted, each once; drops what is over. */
    size_t kept = 0;
    if (out->n > 0) qsort(out->all, out->n, sizeof *out->all, out->numbers ? by_number : by_bytes);
    for (size_t i = 0; i < out->n; i++) {
        if (kept > 0 && slice_eq(out->all[kept - 1], out->all[i]))
            heap_free((void *)out->all[i].p);
        else
            out->all[kept++] = out->all[i];
    }
    out->n = kept;
    if (any) e->code = ERR_NONE;
    return any ? ERR_NONE : code;
}

/* Of n stores; all NULL: nobody knows their names. */
static struct labels names_of_stores(struct exchange *x, struct worker *w, const struct slice *stores,
                                     size_t n, bool up)
{
    struct http *h = x->http;
    if (h->stores.labels.table.n == 0) return (struct labels){0};
    return labels_read(&h->label_cache, up ? &w->panel : NULL, &h->stores, stores, n);
}

static void name_of_store_put(struct json *j, const char *key, const struct labels *names, size_t i)
{
    json_slice_or_null(j, key, names->all != NULL ? names->all[i] : NOTHING);
}

static void stores_put(struct exchange *x, struct worker *w, const struct names *s, size_t limit, bool up)
{
    size_t n = s->n < limit ? s->n : limit;
    struct labels names = names_of_stores(x, w, s->all, n, up);
    struct json j = exchange_json(x, '{');
    json_open(&j, "stores", '[');
    for (size_t i = 0; i < n; i++)
        json_slice(&j, NULL, s->all[i]);
    json_close(&j, ']');
    json_open(&j, "names", '[');
    for (size_t i = 0; i < n; i++)
        name_of_store_put(&j, NULL, &names, i);
    json_close(&j, ']');
    labels_free(&names);
    json_bool(&j, "more", s->n > limit);
    figure_json(&j, "as_of", (struct figure){up, wall_ms() / 1000});
    json_text(&j, "mysql", up ? "up" : "down");
    json_text(&j, "word", x->http->where->conf->store_word);
    json_close(&j, '}');
}

void run_stores(struct exchange *x, struct worker *w)
{
    int64_t limit;
    struct error e = {0};
    struct names names = {0};
    struct slice prefix = slice_of("", 0), bound = who_store(&x->who);
    bool up = pulse_beat(&x->http->pulse).mysql_up;
    target_arg(&x->target, "prefix", &prefix);
    if (!exchange_number(x, "limit", 1, 1000, 100, &limit)) return;
    if (bound.p != NULL) {
        if (slice_starts(bound, prefix)) names_add(&names, bound);
    } else if (up && shop_names_read(x, w, prefix, (uint32_t)limit + 1, &names, &e) == ERR_UNAVAILABLE) {
        up = false;
    }
    if (e.code == ERR_NONE || !up)
        stores_put(x, w, &names, (size_t)limit, up);
    else
        exchange_refuse(x, 503, "run tallyd check, which says what mends it", "MySQL refused: %s", e.text);
    for (size_t i = 0; i < names.n; i++)
        heap_free((void *)names.all[i].p);
    heap_free(names.all);
}

/* Its name; its zone, and its day there: as CTR.HIT has them. */
void run_store(struct exchange *x, struct worker *w)
{
    struct zones *zones = x->http->ports.zones;
    struct slice store = exchange_part(x, 0);
    int64_t now_s = wall_ms() / 1000;
    if (!exchange_sees_store(x, store)) return;
    struct labels names = names_of_stores(x, w, &store, 1, pulse_beat(&x->http->pulse).mysql_up);
    struct zone_clock clock = zones_clock(zones, store, now_s);
    struct json j = exchange_json(x, '{');
    json_slice(&j, "store", store);
    name_of_store_put(&j, "name", &names, 0);
    json_text(&j, "word", x->http->where->conf->store_word);
    labels_free(&names);
    json_slice_or_null(&j, "zone", zones->named ? slice_str(clock.name) : NOTHING);
    json_int(&j, "today", day_of_s(now_s + clock.offset_s));
    json_int(&j, "since", clock.day_s);
    json_close(&j, '}');
}
