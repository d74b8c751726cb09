/* tests/sim/table.c - see table.h. */
#include "sim/world.h"

#include "base/heap.h"
#include "series/row.h"
#include <stdio.h>

/* A store's hashes differ in the product, a product's in the store; one is the other's store and product exchanged. */
static const unsigned products[SIM_HASHES] = {7, 1, 20, 70},
                      stores[2][SIM_HASHES] = {{1, 20, 3, 100}, {1, 20, 1, 20}};

/* In the order of their bytes, as (length, bytes), all shapes are alike. */
static const struct {
    const char *name, *count, *columns; /* the field's; which of the row's counts; its part of the key */
} fields[][SIM_FIELDS] = {[SHAPE_PLAIN] = {{"5", "hits", " field=5"},
                                           {"42", "hits", " field=42"},
                                           {"-7", "hits", " field=-7"},
                                           {"0", "hits", " field=0"},
                                           {"1000", "hits", " field=1000"},
                                           {"43", "hits", " field=43"},
                                           {"20140920", "hits", " field=20140920"}},
                          [SHAPE_PLACES] = {{"5:2014-09-20", "hits", " item=5 day=20140920"},
                                            {"42:2014-09-20", "hits", " item=42 day=20140920"},
                                            {"17:2014-09-20", "hits", " item=17 day=20140920"},
                                            {"5:2014-09-19", "hits", " item=5 day=20140919"},
                                            {"1000:2014-09-20", "hits", " item=1000 day=20140920"},
                                            {"42:2014-09-21", "hits", " item=42 day=20140921"},
                                            {"1000:2014-09-21", "hits", " item=1000 day=20140921"}},
                          [SHAPE_COUNTS] = {{"view", "views", ""},
                                            {"basket", "baskets", ""},
                                            {"click", "clicks", ""},
                                            {"buy", "sold", ""},
                                            {"compare", "compared", ""},
                                            {"return", "returned", ""},
                                            {"visitors", "visitors", ""}}};

static enum shape shape_of(const struct sim_config *c, int counter)
{
    bool plain = counter == 0 && (c->feeds || c->ops_percent > 0); /* visitors are of days */
    return plain ? SHAPE_PLAIN : (enum shape)(c->seed / 5 % 3);
}

static enum shape shape_at(const struct world *w, int hash)
{
    return shape_of(&w->config, world_counter_of(w, hash));
}

struct slice world_field_name(const struct world *w, int hash, int field)
{
    return slice_str(fields[shape_at(w, hash)][field].name);
}

int world_field_of(const struct world *w, int hash, struct slice field)
{
    for (int f = 0; f < SIM_FIELDS; f++)
        if (slice_eq(world_field_name(w, hash, f), field)) return f;
    UNREACHABLE();
}

/* --- as the configuration says it --- */

static void pattern_make(const char *text, struct pattern *out)
{
    struct error e;
    if (pattern_parse_places(slice_str(text), out, &e) != ERR_NONE) UNREACHABLE();
}

static void column_add(struct world *w, struct counter *c, struct key_column column)
{
    PRE(c->more_n < SIM_COLUMNS);
    w->columns[c - w->counter][c->more_n++] = column;
}

static void fields_shape(struct world *w, struct counter *c, enum shape shape)
{
    const char *why;
    if (shape == SHAPE_PLAIN) c->column_field = SLICE("field");
    if (shape == SHAPE_PLACES) {
        if (!places_parse(SLICE("<item>:<day>"), &w->field_places, &why)) UNREACHABLE();
        w->field_places.at[1].type = (struct value_type){VALUE_DATE, SPELLED_DASHES, 0};
        c->field_places = &w->field_places;
        column_add(w, c, (struct key_column){.name = SLICE("item"), .from = FROM_FIELD});
        column_add(
            w, c, (struct key_column){.name = SLICE("day"), .from = FROM_FIELD, .at = 1, .kind = VALUE_DATE});
    }
    for (int f = SIM_FIELDS - 1; shape == SHAPE_COUNTS && f >= 0; f--)
        w->counts[c->counts_n++] =
            (struct named_count){slice_str(fields[shape][f].name), slice_str(fields[shape][f].count)};
    c->counts = w->counts;
}

void table_counter(struct world *w, int counter)
{
    static const char *const names[] = {"views", "carts"}, *const tables[] = {"plain", "places", "counts"};
    static const enum field_kind kinds[] = {FIELD_INTEGER, FIELD_PLACES, FIELD_COUNT};
    static const char *const keys[][2] = {{"s<store>:views", "s<store>:views:sync"},
                                          {"s<store>:carts", "s<store>:carts:sync"},
                                          {"s<store>:p<product>:views", "s<store>:p<product>:views:sync"},
                                          {"s<store>:p<product>:carts", "s<store>:p<product>:carts:sync"}};
    struct counter *c = &w->counter[counter];
    enum shape shape = shape_of(&w->config, counter);
    *c = (struct counter){.name = slice_str(names[counter]),
                          .field = kinds[shape],
                          .store = STORE_INTEGER,
                          .hits = w->config.counter_hits,
                          .every_s = w->config.every_s,
                          .table = slice_str(tables[shape]),
                          .column_store = SLICE("store"),
                          .column_count = shape == SHAPE_COUNTS ? SLICE("") : SLICE("hits"),
                          .more = w->columns[counter]};
    const char *const *key = keys[counter + (shape == SHAPE_PLAIN ? 0 : SIM_COUNTERS)];
    pattern_make(key[0], &c->key);
    if (!w->config.unlocked) pattern_make(key[1], &c->lock);
    if (shape != SHAPE_PLAIN)
        column_add(w, c, (struct key_column){.name = SLICE("product"), .from = FROM_KEY, .at = 1});
    fields_shape(w, c, shape);
    column_add(w, c, (struct key_column){.name = SLICE("kind"), .from = FROM_CONSTANT, .constant = c->name});
}

void table_valid(const struct counters *counters)
{
    struct error e;
    size_t which;
    if (counters_validate(counters, &which, &e) != ERR_NONE) UNREACHABLE();
}

void table_counter_close(struct counter *c)
{
    heap_free(c->key.places);
    heap_free(c->lock.places);
}

/* --- its rows --- */

void table_hash(struct world *w, int hash, unsigned nth, unsigned store)
{
    const struct counter *c = &w->counter[world_counter_of(w, hash)];
    enum shape shape = shape_at(w, hash);
    char product[20] = "", column[30] = "";
    if (w->config.lanes == 1) store = stores[shape != SHAPE_PLAIN][nth];
    if (shape != SHAPE_PLAIN) {
        snprintf(product, sizeof product, "p%u:", products[nth]);
        snprintf(column, sizeof column, " product=%u", products[nth]);
    }
    snprintf(w->names[hash], sizeof w->names[hash], "s%u:%s" SLICE_FMT, store, product, SLICE_ARG(c->name));
    for (int f = 0; f < SIM_FIELDS; f++)
        snprintf(w->rows[hash][f], sizeof w->rows[hash][f], SLICE_FMT ".%s store=%u%s%s kind=" SLICE_FMT,
                 SLICE_ARG(c->table), fields[shape][f].count, store, column, fields[shape][f].columns,
                 SLICE_ARG(c->name));
}

static void column_write(struct buf *out, struct slice name, struct row_value value)
{
    buf_printf(out, " " SLICE_FMT "=" SLICE_FMT, SLICE_ARG(name), SLICE_ARG(value.plain));
}

static bool row_write(const struct counter *c, struct slice key, struct slice field, struct buf *out)
{
    struct table_row row;
    if (counter_row(c, key, field, &row) != ROW_FITS) return false;
    const struct counter one = counter_of_count(c, counter_count_of(c, field));
    buf_printf(out, SLICE_FMT "." SLICE_FMT, SLICE_ARG(c->table), SLICE_ARG(one.column_count));
    column_write(out, c->column_store, row.store);
    if (c->column_field.n > 0) column_write(out, c->column_field, row.field);
    for (uint32_t i = 0; i < c->more_n; i++)
        column_write(out, c->more[i].name, row.more[i]);
    return true;
}

bool table_find(const struct world *w, const struct counter *c, struct slice key, struct slice field,
                int *of_hash, int *of_field)
{
    struct buf row = {0};
    bool fits = row_write(c, key, field, &row), found = false;
    if (!world_rule(w, WORLD_CONSTANT)) row.n -= sizeof " kind=views" - 1;
    for (int h = 0; fits && h < SIM_HASHES && !found; h++)
        for (int f = 0; f < SIM_FIELDS && !found; f++) {
            struct slice have = slice_str(w->rows[h][f]);
            found = world_rule(w, WORLD_CONSTANT) ? slice_eq(have, buf_slice(&row))
                                                  : slice_starts(have, buf_slice(&row));
            if (found) *of_hash = h, *of_field = f;
        }
    buf_free(&row);
    return found;
}

uint8_t table_row_fields(const struct world *w, int hash, int field)
{
    return (uint8_t)(shape_at(w, hash) == SHAPE_COUNTS ? (1U << SIM_FIELDS) - 1 : 1U << field);
}
