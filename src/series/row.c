/* series/row.c - see row.h. */
#include "series/row.h"

static struct row_value value_of(const struct value_type *type, struct slice sent, char digits[PLAIN_BYTES])
{
    struct row_value v = {.sent = sent};
    bool fits = value_plain(type, sent, digits, &v.plain);
    INVARIANT(fits); /* it matched */
    return v;
}

static struct row_value piece_value(const struct key_column *column, struct row_value v)
{
    static const struct {
        size_t at, n;
    } of[PIECES] = {
        [PIECE_YEAR] = {0, 4}, [PIECE_MONTH] = {4, 2}, [PIECE_DAY] = {6, 2}, [PIECE_HOUR] = {8, 2}};
    enum row_piece piece = column->piece;
    if (piece == PIECE_WHOLE) return v;
    PRE(of[piece].at + of[piece].n <= v.plain.n);
    v.plain = v.sent = slice_of(v.plain.p + of[piece].at, of[piece].n);
    return v;
}

bool counter_row_of_key(const struct counter *c, struct slice key, struct table_row *out)
{
    struct slice values[PLACES_MAX];
    out->store.sent = SLICE("");
    if (!pattern_match(&c->key, c->store, key, &out->store.sent)) return false;
    out->store.plain = out->store.sent;
    if (c->key.places != NULL) (void)places_match(c->key.places, key, values);
    for (uint32_t i = 0; i < c->more_n; i++) {
        const struct key_column *column = &c->more[i];
        if (column->from == FROM_CONSTANT)
            out->more[i] = (struct row_value){column->constant, column->constant};
        if (column->from != FROM_KEY) continue;
        const struct place *place = &c->key.places->at[column->at];
        out->more[i] = piece_value(column, value_of(&place->type, values[column->at], out->digits[i]));
    }
    return true;
}

static bool row_of_field(const struct counter *c, struct slice field, struct table_row *out)
{
    struct slice values[PLACES_MAX];
    if (!counter_field_valid(c, field)) return false;
    out->field = (struct row_value){field, field};
    if (c->spelled.spelling != SPELLED_DIGITS)
        out->field = value_of(&c->spelled, field, out->digits[MORE_COLUMNS_MAX]);
    if (c->field_places != NULL) (void)places_match(c->field_places, field, values);
    for (uint32_t i = 0; i < c->more_n; i++) {
        const struct key_column *column = &c->more[i];
        if (column->from == FROM_WHOLE_FIELD) out->more[i] = piece_value(column, out->field);
        if (column->from != FROM_FIELD) continue;
        const struct place *place = &c->field_places->at[column->at];
        out->more[i] = piece_value(column, value_of(&place->type, values[column->at], out->digits[i]));
    }
    return true;
}

enum row_fault counter_row(const struct counter *c, struct slice key, struct slice field,
                           struct table_row *out)
{
    if (!counter_row_of_key(c, key, out)) return ROW_KEY;
    return row_of_field(c, field, out) ? ROW_FITS : ROW_FIELD;
}

const char *row_fault_text(enum row_fault fault)
{
    PRE(fault != ROW_FITS);
    return fault == ROW_KEY ? "the hash's name does not match the counter's key"
                            : "the field is not of the counter's kind";
}

enum value_kind counter_field_kind(const struct counter *c)
{
    switch (c->field) {
    case FIELD_DATE:
        return VALUE_DATE;
    case FIELD_HOUR:
        return VALUE_HOUR;
    case FIELD_MONTH:
        return VALUE_MONTH;
    case FIELD_INTEGER:
        return VALUE_INTEGER;
    case FIELD_TEXT:
        return VALUE_TEXT;
    case FIELD_PLACES:
    case FIELD_COUNT:
    case FIELD_NONE:
        break;
    }
    UNREACHABLE();
}

bool counter_is_simple(const struct counter *c)
{
    for (uint32_t i = 0; i < c->more_n; i++)
        if (c->more[i].from != FROM_CONSTANT) return false;
    return c->key.places == NULL && c->column_field.n > 0 && c->spelled.spelling == SPELLED_DIGITS &&
           c->field <= FIELD_TEXT;
}

static void part_add(struct parts *p, enum column_from from, uint32_t at, const struct place *place)
{
    PRE(p->n < PARTS_MAX);
    const struct counter *c = p->counter;
    struct counted_by *part = &p->all[p->n++];
    *part = (struct counted_by){place->name, c->column_field, place->type, from, at, COLUMN_FIELD, 1};
    for (uint32_t i = c->more_n; i-- > 0;) {
        if (c->more[i].from != from || (from != FROM_WHOLE_FIELD && c->more[i].at != at)) continue;
        part->n = part->first == COLUMN_FIELD ? 1 : part->n + 1;
        part->first = i;
        part->column = c->more[i].name;
    }
}

static void parts_places_add(struct parts *p, enum column_from from, const struct places *places)
{
    for (uint32_t i = 0; places != NULL && i < places->n; i++)
        if (!slice_eq(places->at[i].name, SLICE("store"))) part_add(p, from, i, &places->at[i]);
}

static uint32_t label_of(const struct parts *p)
{
    uint32_t found = p->n;
    for (uint32_t i = 0; i < p->n; i++) {
        bool named = p->counter->labels_of.n > 0;
        if (part_is_time(&p->all[i]) || (named && !slice_eq(p->all[i].name, p->counter->labels_of))) continue;
        if (found < p->n) return p->n;
        found = i;
    }
    return found;
}

void parts_init(struct parts *p, const struct counter *c, uint32_t count)
{
    *p = (struct parts){.counter = c, .count = count};
    parts_places_add(p, FROM_KEY, c->key.places);
    parts_places_add(p, FROM_FIELD, c->field_places);
    if (c->field <= FIELD_MONTH) {
        struct place whole = {SLICE("field"), c->spelled};
        whole.type.kind = counter_field_kind(c);
        part_add(p, FROM_WHOLE_FIELD, 0, &whole);
    }
    while (p->time < p->n && !part_is_time(&p->all[p->time]))
        p->time++;
    p->label = label_of(p);
}

enum field_kind parts_time_kind(const struct parts *p)
{
    static const enum field_kind kinds[] = {
        [VALUE_DATE] = FIELD_DATE, [VALUE_HOUR] = FIELD_HOUR, [VALUE_MONTH] = FIELD_MONTH};
    PRE(p->time < p->n);
    return kinds[p->all[p->time].type.kind];
}

bool part_takes(const struct counted_by *part, struct slice value)
{
    int64_t v;
    char digits[PLAIN_BYTES];
    struct slice plain;
    PRE(!part_is_time(part));
    return part->from == FROM_WHOLE_FIELD && part->type.kind == VALUE_INTEGER
               ? num_parse(value, &v)
               : value_plain(&part->type, value, digits, &plain);
}

/* Their text with the values as the app spells them. */
static void places_spell(const struct parts *p, enum column_from from, const struct places *places,
                         struct slice store, const struct slice *values, struct buf *out)
{
    struct slice sent[PLACES_MAX];
    struct buf spelled[PLACES_MAX] = {0};
    for (uint32_t i = 0; i < places->n; i++)
        sent[i] = store;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct counted_by *part = &p->all[i];
        if (part->from != from) continue;
        sent[part->at] = values[i];
        if (!part_is_time(part)) continue;
        value_spell(&part->type, values[i], &spelled[part->at]);
        sent[part->at] = buf_slice(&spelled[part->at]);
    }
    places_put(places, sent, out);
    for (uint32_t i = 0; i < places->n; i++)
        buf_free(&spelled[i]);
}

void parts_key(const struct parts *p, struct slice store, const struct slice *values, struct buf *out)
{
    const struct counter *c = p->counter;
    if (c->key.places == NULL)
        pattern_put(&c->key, store, out);
    else
        places_spell(p, FROM_KEY, c->key.places, store, values, out);
}

void parts_field(const struct parts *p, const struct slice *values, struct buf *out)
{
    const struct counter *c = p->counter;
    if (c->field == FIELD_NONE)
        buf_put_slice(out, FIELD_ONLY);
    else if (c->field == FIELD_COUNT)
        buf_put_slice(out, c->counts[p->count].field);
    else if (c->field == FIELD_PLACES)
        places_spell(p, FROM_FIELD, c->field_places, SLICE(""), values, out);
    else if (part_is_time(&p->all[p->n - 1]))
        value_spell(&p->all[p->n - 1].type, values[p->n - 1], out);
    else
        buf_put_slice(out, values[p->n - 1]);
}
