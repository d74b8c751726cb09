/* mysql/text.h - pieces of SQL text. Data goes in only as x'..', which is good under every sql_mode and character set;
 * names come from validated configuration. Pure. */
#ifndef MYSQL_TEXT_H
#define MYSQL_TEXT_H

#include "mysql/db.h"
#include "series/counter.h"
#include "series/names.h"

/* How a key column wants its value written. FORM_NONE: a column that no counter may use as a key. */
enum column_form { FORM_NONE, FORM_INTEGER, FORM_DATE, FORM_DATETIME, FORM_BYTES };

struct columns {
    enum column_form store, field; /* store: FORM_NONE without a store column */
    bool nullable, bounded;        /* the count: may be NULL, which is 0; is no signed BIGINT */
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
bool column_fits_field(enum column_form form, enum field_kind kind);
bool columns_fit(const struct columns *forms, const struct counter *c); /* all that it has */
/* The key of a row, `store,field` or `field`: the same bytes for the same primary key and no other. field is valid. */
void sql_key(struct buf *b, const struct counter *c, const struct columns *forms, struct slice store,
             struct slice field);

/* One of them as a literal of that form; value is of the counter's kind. */
void sql_value(struct buf *b, enum column_form form, struct slice value);
void sql_store_is(struct buf *b, const struct counter *c, const struct columns *forms,
                  struct slice store); /* `store` = value */
void sql_key_names(struct buf *b, const struct counter *c,
                   const char *comma); /* `store`,`field`, or `field` */

/* INSERT ... VALUES | (key,delta),(key,delta) | ON DUPLICATE KEY UPDATE ... */
void sql_upsert_head(struct buf *b, const struct counter *c);
void sql_lookup(struct buf *b, const struct lookup *l); /* SELECT `key`, `value` FROM `table` */
void sql_upsert_row(struct buf *b, struct slice key, int64_t delta, bool first);
void sql_upsert_tail(struct buf *b, const struct counter *c, const struct columns *forms,
                     enum db_dialect dialect);
/* UPDATE of one row that is there. */
void sql_update_row(struct buf *b, const struct counter *c, const struct columns *forms, struct slice key,
                    int64_t delta);

/* Makes the books of a counter, unless they exist; the caller ends the statement. */
void sql_counter_make(struct buf *b, struct slice counter, const struct batch_id *realm);
/* UPDATE of the books of a counter, of one realm; the caller ends the statement. */
void sql_counter_add(struct buf *b, struct slice counter, const struct batch_id *realm, int64_t merged,
                     int64_t rejected);
/* A realm. Zero, for a Redis that has none yet or was not read: the only realm, or the one that it would be given. */
void sql_realm(struct buf *b, const struct batch_id *realm);

/* Reads the forms of the counter's columns. CODE_OK does not say that they fit: ask columns_fit. */
enum code_class columns_read(struct db *db, const struct counter *c, struct columns *out) MUST_CHECK;

/* Adds delta to the row of that key. A row that is there is updated where the count has bounds: an UNSIGNED one takes no negative
 * value, but a sum with one. Otherwise, and where there is none, it is an upsert, so an error is that of the server. */
enum code_class row_add(struct db *db, const struct counter *c, const struct columns *forms, struct slice key,
                        int64_t delta) MUST_CHECK;

#endif
