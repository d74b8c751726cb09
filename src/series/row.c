/* series/row.c - see row.h. */
#include "series/row.h"

static struct slice piece_of(struct slice digits, enum row_piece piece)
{
    static const struct {
        size_t at, n;
    } of[PIECES] = {
        [PIECE_YEAR] = {0, 4}, [PIECE_MONTH] = {4, 2}, [PIECE_DAY] = {6, 2}, [PIECE_HOUR] = {8, 2}};
    if (piece == PIECE_WHOLE) return digits;
    PRE(of[piece].at + of[piece].n <= digits.n);
    return slice_of(digits.p + of[piece].at, of[piece].n);
}

static struct row_value value_of(const struct value_type *type, struct slice sent, char digits[PLAIN_BYTES])
{
    struct row_value v = {.sent = sent};
    bool fits = value_plain(type, sent, digits, &v.plain);
    INVARIANT(fits); /* it matched */
    return v;
}

static struct row_value piece_value(const struct key_column *column, struct row_value v)
{
    if (column->piece != PIECE_WHOLE) v.plain = v.sent = piece_of(v.plain, column->piece);
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
