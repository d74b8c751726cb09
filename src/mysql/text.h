/* mysql/text.h - pieces of SQL text. Data goes in only as x'..', which is good under every sql_mode and character set;
 * names come from validated configuration. Pure. */
#ifndef MYSQL_TEXT_H
#define MYSQL_TEXT_H

#include "mysql/db.h"
#include "series/counter.h"
#include "series/names.h"
#include "series/row.h"

/* How a key column wants its value written. FORM_NONE: a column that no counter may use as a key. */
enum column_form { FORM_NONE, FORM_INTEGER, FORM_DATE, FORM_DATETIME, FORM_BYTES, FORM_TEXT };

/* How the server takes rows as a table: from MariaDB 10.3, from MySQL 8.0.19, any. */
enum rows_form { ROWS_VALUES, ROWS_VALUES_ROW, ROWS_SELECT };

struct columns {
    enum column_form store, field; /* FORM_NONE without such a column */
    enum column_form more[MORE_COLUMNS_MAX];
    enum column_form sets[SET_COLUMNS_MAX];
    struct column_text {
        char charset[33], collation[65]; /* empty: none */
    } texts[2 + MORE_COLUMNS_MAX];       /* of the store's column, the field's, more */
    bool nullable, bounded;              /* a count may be NULL, which is 0; is no signed BIGINT */
    enum rows_form rows;                 /* of a counter that makes no rows */
};

void sql_hex(struct buf *b, struct slice bytes); /* x'6162' */
void sql_name(struct buf *b, struct slice name); /* `name` */
void sql_id(struct buf *b, const struct batch_id *id);
void sql_ids(struct buf *b, const struct batch_id *ids,
             size_t n);                      /* (x'..',x'..'); none: (NULL), equal to nothing */
void sql_ms(struct buf *b, int64_t wall_ms); /* a DATETIME(3) in UTC */

/* Which form has a column of this type (information_schema's DATA_TYPE and COLLATION_NAME)? */
enum column_form column_form_of(struct slice data_type, struct slice collation);
bool column_fits_store(enum column_form form, enum store_kind kind);
bool column_fits(enum column_form form, enum value_kind kind);
bool column_fits_more(enum column_form form, const struct key_column *column);
bool column_fits_set(enum column_form form, const struct set_column *set);
bool columns_fit(const struct columns *forms, const struct counter *c); /* all that it has */
/* The key of a row, its values in the order of sql_key_names. */
void sql_key(struct buf *b, const struct counter *c, const struct columns *forms,
             const struct table_row *row);

/* One of them as a literal of that form; value is of the counter's kind, a time in digits. */
void sql_value(struct buf *b, enum column_form form, struct slice value);
void sql_store_is(struct buf *b, const struct counter *c, const struct columns *forms,
                  struct slice store); /* `store` = value */
/* " AND `column` = value" of each constant. */
void sql_constants_are(struct buf *b, const struct counter *c, const struct columns *forms);
/* TRUE, and " AND `column` = value" of all that the key says: the rows of a pending hash. */
void sql_key_is(struct buf *b, const struct counter *c, const struct columns *forms,
                const struct table_row *row);
void sql_field_value(struct buf *b, const struct columns *forms, const struct table_row *row);
/* " WHERE (<names>) = (<key>)" */
void sql_row_is(struct buf *b, const struct counter *c, struct slice key);
void sql_key_names(struct buf *b, const struct counter *c,
                   const char *comma); /* `store`,`field`, and others */

/* INSERT ... VALUES | (key,delta),(key,delta) | ON DUPLICATE KEY UPDATE ... */
void sql_upsert_head(struct buf *b, const struct counter *c);
void sql_lookup(struct buf *b, const struct lookup *l); /* SELECT `key`, `value` FROM `table` */
void sql_upsert_row(struct buf *b, const struct counter *c, const struct columns *forms, struct slice key,
                    int64_t delta, bool first);
void sql_upsert_tail(struct buf *b, const struct counter *c, const struct columns *forms,
                     enum db_dialect dialect);
/* Rows as a table `d`: a number s, a delta d and the key; begun, then added. */
void sql_rows_begin(struct buf *b, const struct counter *c);
void sql_rows_add(struct buf *b, const struct columns *forms, size_t number, struct slice key, int64_t delta,
                  bool first);
/* SELECT of the numbers whose row is there, which it locks; and UPDATE of all that are there. sum: several of d may be one row. */
void sql_rows_find(struct buf *b, const struct counter *c, const struct columns *forms, struct slice rows);
void sql_rows_update(struct buf *b, const struct counter *c, const struct columns *forms, struct slice rows,
                     bool sum);
/* UPDATE of one row that is there. */
void sql_update_row(struct buf *b, const struct counter *c, const struct columns *forms, struct slice key,
                    int64_t delta);

/* Makes the books of a counter, unless they exist; the caller ends the statement. */
void sql_counter_make(struct buf *b, struct slice counter, const struct batch_id *realm);
void sql_sum_add(struct buf *b, const char *column, int64_t n); /* column = column + n, modulo 2^64 */
/* UPDATE of the books of a counter, of one realm; the caller ends the statement. */
void sql_counter_add(struct buf *b, struct slice counter, const struct batch_id *realm, int64_t merged,
                     int64_t rejected);
/* A realm. Zero, for a Redis that has none yet or was not read: the only realm, or the one that it would be given. */
void sql_realm(struct buf *b, const struct batch_id *realm);

/* Reads the forms of the counter's columns. CODE_OK does not say that they fit: ask columns_fit. */
enum code_class columns_read(struct db *db, const struct counter *c, struct columns *out) MUST_CHECK;

/* Adds delta to the row of that key. A row that is there is updated where the count has bounds or the delta is negative: an UNSIGNED
 * one, or a CHECK, takes no negative value, but a sum with one. Otherwise, and where there is none, it is an upsert, so an error is that of the server. *missing: there
 * is no row, and the counter makes none. */
#define ROW_MISSING "there is no such row, and the counter makes none (missing)"
enum code_class row_add(struct db *db, const struct counter *c, const struct columns *forms, struct slice key,
                        int64_t delta, bool *missing) MUST_CHECK;

#endif
