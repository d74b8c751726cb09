/* series/row.h - which row of a counter's table a pending hash and a field of it mean. Pure. */
#ifndef SERIES_ROW_H
#define SERIES_ROW_H

#include "series/counter.h"

#define MORE_COLUMNS_MAX 10

enum row_piece { PIECE_WHOLE, PIECE_YEAR, PIECE_MONTH, PIECE_DAY, PIECE_HOUR };
#define PIECES 5
enum column_from { FROM_KEY, FROM_FIELD, FROM_WHOLE_FIELD, FROM_CONSTANT };

/* A key column beside those of the store and of the field. */
struct key_column {
    struct slice name; /* a MySQL identifier */
    enum column_from from;
    uint32_t at;           /* FROM_KEY, FROM_FIELD: which placeholder */
    enum value_kind kind;  /* not of a constant */
    enum row_piece piece;  /* of a time */
    struct slice constant; /* FROM_CONSTANT */
};

/* A column that is no key and no count. */
#define SET_COLUMNS_MAX 8
struct set_column {
    struct slice name;
    struct slice constant; /* p NULL: the time of the merge */
    bool at_insert, at_update;
};

struct row_value {
    struct slice sent;  /* as the app spelled it */
    struct slice plain; /* a time as digits; otherwise the same */
};

/* Borrows key, field and counter; points into itself, so it is not to be copied. */
struct table_row {
    struct row_value store, field, more[MORE_COLUMNS_MAX];
    char digits[MORE_COLUMNS_MAX + 1][PLAIN_BYTES];
};

enum row_fault { ROW_FITS, ROW_KEY, ROW_FIELD };
enum row_fault counter_row(const struct counter *c, struct slice key, struct slice field,
                           struct table_row *out);
/* The same, but only what the key says; the rest of out is left. False: the key is none of c's. */
bool counter_row_of_key(const struct counter *c, struct slice key, struct table_row *out);
const char *row_fault_text(enum row_fault fault); /* "the field is not of the counter's kind" */

/* The kind of what columns.field holds; the field is one value. */
enum value_kind counter_field_kind(const struct counter *c);

/* Is a row found by a store, a field as it is in the row, and constants? */
bool counter_is_simple(const struct counter *c);

#endif
