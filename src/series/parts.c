/* series/parts.c - see parts.h. */
#include "series/parts.h"

#include "base/slice.h"

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

static void places_add(struct parts *p, enum column_from from, const struct places *places)
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
    places_add(p, FROM_KEY, c->key.places);
    places_add(p, FROM_FIELD, c->field_places);
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
