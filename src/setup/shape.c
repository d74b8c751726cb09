/* setup/shape.c - key, field and columns of a counter, from its configuration: what each placeholder stands for, and which column
 * has it. */
#include "base/heap.h"
#include "base/slice.h"
#include "series/row.h"
#include "setup/setup.h"

#define COLUMN_MOST 64

struct shaping { /* of one counter */
    struct setup *s;
    size_t i;
    const struct conf_counter *from;
    struct counter *to;
    struct key_column *more;
    struct buf *problems;
    bool good;
};

static void complain(struct shaping *h, enum conf_option option, const char *format, const char *name)
{
    struct error e;
    error_set(&e, ERR_CONFIG, format, name);
    setup_counter_problem(h->s->conf, h->i, option, &e, h->problems);
    h->good = false;
}

static const char *map_get_text(const struct conf_map *map, struct slice name)
{
    for (size_t i = 0; i < map->n; i++)
        if (slice_eq(slice_str(map->all[i].name), name)) return map->all[i].value;
    return NULL;
}

static void types_set(struct shaping *h, struct places *p)
{
    for (uint32_t i = 0; p != NULL && i < p->n; i++) {
        const char *kind = map_get_text(&h->from->kinds, p->at[i].name);
        p->at[i].type = (struct value_type){.kind = VALUE_INTEGER};
        if (slice_eq(p->at[i].name, SLICE("store")))
            p->at[i].type.kind = h->from->store == CONF_STORE_TEXT ? VALUE_TEXT : VALUE_INTEGER;
        else if (kind != NULL && !value_type_parse(slice_str(kind), &p->at[i].type))
            complain(h, CONF_COUNTER_KINDS,
                     "\"%.60s\" is no kind; expected integer, text, date, hour or month, a time also "
                     "with its spelling, such as date 2024-05-01",
                     kind);
    }
}

static bool pattern_shape(struct shaping *h, const char *text, enum conf_option option, struct pattern *out)
{
    struct error e;
    if (pattern_parse_places(slice_str(text), out, &e) == ERR_NONE) return types_set(h, out->places), true;
    setup_counter_problem(h->s->conf, h->i, option, &e, h->problems);
    return h->good = false;
}

static bool field_parse(struct counter *to, struct slice text)
{
    static const enum field_kind kinds[] = {[VALUE_INTEGER] = FIELD_INTEGER,
                                            [VALUE_TEXT] = FIELD_TEXT,
                                            [VALUE_DATE] = FIELD_DATE,
                                            [VALUE_HOUR] = FIELD_HOUR,
                                            [VALUE_MONTH] = FIELD_MONTH};
    bool count = slice_eq(text, SLICE("count"));
    if (count || slice_eq(text, SLICE("none"))) return to->field = count ? FIELD_COUNT : FIELD_NONE, true;
    if (!value_type_parse(text, &to->spelled)) return false;
    to->field = kinds[to->spelled.kind];
    return true;
}

static void field_shape(struct shaping *h)
{
    struct slice text = slice_str(h->from->field);
    const char *why;
    if (memchr(text.p, '<', text.n) == NULL) {
        if (!field_parse(h->to, text))
            complain(h, CONF_COUNTER_FIELD,
                     "is \"%.60s\", expected date, hour, month, integer, text, count, none, a time with its "
                     "spelling "
                     "such as date 2024-05-01, or a pattern such as <product>:<day>",
                     h->from->field);
        return;
    }
    struct places *p = heap_alloc(sizeof *p);
    h->to->field = FIELD_PLACES;
    h->to->field_places = p;
    if (!places_parse(text, p, &why)) complain(h, CONF_COUNTER_FIELD, "%s", why);
    if (places_find(p, SLICE("store")) != NULL)
        complain(h, CONF_COUNTER_FIELD, "may not hold %s, which is the key's", "<store>");
    types_set(h, p);
}

static bool more_add(struct shaping *h, struct key_column column)
{
    if (h->to->more_n == MORE_COLUMNS_MAX) {
        complain(h, CONF_COUNTER_COLUMN_MORE, "has more than 10 columns%s", "");
        return false;
    }
    h->more[h->to->more_n++] = column;
    return true;
}

/* "period", or the parts of a time as "year,month,day". */
static void column_add(struct shaping *h, struct key_column column, const char *text)
{
    static const size_t parts_of[] = {[VALUE_MONTH] = 2, [VALUE_DATE] = 3, [VALUE_HOUR] = 4};
    size_t parts = 1;
    for (const char *c = text; *c != '\0'; c++)
        parts += *c == ',';
    bool time = column.kind != VALUE_INTEGER && column.kind != VALUE_TEXT;
    if (parts > 1 && (!time || parts != parts_of[column.kind])) {
        complain(h, CONF_COUNTER_COLUMN_MORE,
                 "\"%.100s\" are several columns, as only a time may have: a date [year, month, day], "
                 "an hour one more, a month one less",
                 text);
        return;
    }
    for (size_t i = 0; i < parts; i++) {
        size_t n = strcspn(text, ",");
        column.name = slice_of(text, n);
        column.piece = parts == 1 ? PIECE_WHOLE : (enum row_piece)(PIECE_YEAR + i);
        if (!more_add(h, column)) return;
        text += n + 1;
    }
}

static void places_shape(struct shaping *h, const struct places *p, enum column_from from)
{
    for (uint32_t i = 0; p != NULL && i < p->n; i++) {
        struct slice name = p->at[i].name;
        char shown[COLUMN_MOST + 4];
        if (slice_eq(name, SLICE("store"))) continue;
        const char *column = map_get_text(&h->from->columns, name);
        if (from == FROM_FIELD && h->to->key.places != NULL && places_find(h->to->key.places, name) != NULL)
            complain(h, CONF_COUNTER_FIELD, "has the placeholder <%s> of the key",
                     slice_show(name, COLUMN_MOST, shown, sizeof shown));
        else if (column == NULL)
            complain(h, from == FROM_KEY ? CONF_COUNTER_KEY : CONF_COUNTER_FIELD,
                     "has the placeholder <%s>, and columns has no column for it",
                     slice_show(name, COLUMN_MOST, shown, sizeof shown));
        else
            column_add(h, (struct key_column){.from = from, .at = i, .kind = p->at[i].type.kind}, column);
    }
}

static void whole_field_shape(struct shaping *h)
{
    const char *parts = map_get_text(&h->from->columns, SLICE("field"));
    const char *one = h->from->column_field;
    if (one != NULL) h->to->column_field = slice_str(one);
    bool whole = h->to->field != FIELD_PLACES && h->to->field != FIELD_COUNT && h->to->field != FIELD_NONE;
    if (!whole && (one != NULL || parts != NULL))
        complain(h, CONF_COUNTER_COLUMN_FIELD, "has no use with field: %s", h->from->field);
    else if (whole && parts != NULL)
        column_add(h, (struct key_column){.from = FROM_WHOLE_FIELD, .kind = counter_field_kind(h->to)},
                   parts);
}

static bool is_place(const struct counter *c, struct slice name)
{
    return (c->key.places != NULL && places_find(c->key.places, name) != NULL) ||
           (c->field_places != NULL && places_find(c->field_places, name) != NULL);
}

/* A name of columns or kinds that is no placeholder's. */
static void names_check(struct shaping *h, const struct conf_map *map, enum conf_option option)
{
    for (size_t i = 0; i < map->n; i++) {
        struct slice name = slice_str(map->all[i].name);
        bool field = slice_eq(name, SLICE("field")) && option == CONF_COUNTER_COLUMN_MORE;
        if (slice_eq(name, SLICE("store")))
            complain(h, option, "has %s, whose kind is the option store", "store");
        else if (!field && !is_place(h->to, name))
            complain(h, option,
                     "has \"%.64s\", which is no placeholder of the key or the field (there: <name>)",
                     map->all[i].name);
    }
}

/* The columns of field: count. */
static void counts_shape(struct shaping *h)
{
    const struct conf_map *map = &h->from->column_counts;
    struct named_count *counts = heap_zalloc((map->n + 1) * sizeof *counts);
    bool wanted = h->to->field == FIELD_COUNT;
    h->to->counts = counts;
    if (wanted != (map->n > 0))
        complain(h, CONF_COUNTER_COLUMN_COUNTS,
                 wanted ? "is missing, expected the column of each %s"
                        : "has no use: it is for field: count, whose %ss are columns",
                 "field");
    if (wanted && h->from->column_count != NULL)
        complain(h, CONF_COUNTER_COLUMN_COUNT, "has no use: columns.counts has the columns%s", "");
    for (size_t i = 0; i < map->n; i++)
        counts[h->to->counts_n++] =
            (struct named_count){slice_str(map->all[i].name), slice_str(map->all[i].value)};
}

static bool set_parse(struct slice text, struct set_column *out)
{
    int64_t number;
    bool quoted = text.n >= 3 && text.p[0] == '\'' && text.p[text.n - 1] == '\'';
    out->at_insert = !slice_eq(text, SLICE("now at update"));
    out->at_update = slice_eq(text, SLICE("now")) || !out->at_insert;
    if (out->at_update || slice_eq(text, SLICE("now at insert"))) return true;
    out->constant = quoted ? slice_of(text.p + 1, text.n - 2) : text;
    return quoted || num_parse(text, &number);
}

static void sets_shape(struct shaping *h)
{
    const struct conf_map *map = &h->from->set;
    struct set_column *sets = heap_zalloc(SET_COLUMNS_MAX * sizeof *sets);
    h->to->sets = sets;
    if (map->n > SET_COLUMNS_MAX) complain(h, CONF_COUNTER_SET, "has more than 8 columns%s", "");
    for (size_t i = 0; i < map->n && i < SET_COLUMNS_MAX; i++) {
        sets[i].name = slice_str(map->all[i].name);
        if (!set_parse(slice_str(map->all[i].value), &sets[i]))
            complain(
                h, CONF_COUNTER_SET,
                "has \"%.60s\", expected now, now at insert, now at update, a number, or a text in quotes "
                "of its own: \"'web'\"",
                map->all[i].value);
        h->to->sets_n++;
    }
}

bool setup_shape(struct setup *s, size_t i, struct buf *problems)
{
    struct shaping h = {s, i, &s->conf->counters[i], &s->counters.all[i], NULL, problems, true};
    h.to->more = h.more = heap_zalloc(MORE_COLUMNS_MAX * sizeof *h.more);
    bool key = pattern_shape(&h, h.from->key, CONF_COUNTER_KEY, &h.to->key);
    if (key && strcmp(h.from->lock, "none") != 0) /* a bad key makes a bad lock */
        (void)pattern_shape(&h, h.from->lock, CONF_COUNTER_LOCK, &h.to->lock);
    field_shape(&h);
    if (!h.good) return false;
    whole_field_shape(&h);
    places_shape(&h, h.to->key.places, FROM_KEY);
    places_shape(&h, h.to->field_places, FROM_FIELD);
    for (size_t k = 0; k < h.from->constants.n; k++) {
        const struct conf_pair *pair = &h.from->constants.all[k];
        (void)more_add(&h, (struct key_column){.name = slice_str(pair->name),
                                               .from = FROM_CONSTANT,
                                               .constant = slice_str(pair->value)});
    }
    sets_shape(&h);
    counts_shape(&h);
    names_check(&h, &h.from->columns, CONF_COUNTER_COLUMN_MORE);
    names_check(&h, &h.from->kinds, CONF_COUNTER_KINDS);
    return h.good;
}
