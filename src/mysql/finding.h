/* mysql/finding.h - inside the room: how the parts of schema_check add to its report. */
#ifndef MYSQL_FINDING_H
#define MYSQL_FINDING_H

#include "mysql/schema.h"

/* The reason is formatted; mend (which may be NULL) moves its text into the finding and is empty afterwards.
 */
void finding_add(struct schema_report *r, enum schema_level level, const struct counter *c, struct buf *mend,
                 const char *reason, ...) __attribute__((format(printf, 5, 6)));

/* Adds what is wrong with the counter's table. */
enum code_class table_check(struct db *db, const struct counter *c, struct schema_report *r) MUST_CHECK;

/* `store` BIGINT NOT NULL, as the counter's kind wants it for a new table. */
const char *column_type_of_store(const struct counter *c);
const char *column_type_of_field(const struct counter *c);
void table_key_columns(const struct counter *c, struct buf *out); /* (`store`,`field`) */

/* Does information_schema know this table in the current database? Its engine, "" for a view. */
enum code_class table_engine(struct db *db, struct slice table, bool *exists, char engine[65]) MUST_CHECK;
enum code_class schema_version_standing(struct db *db, uint32_t *version) MUST_CHECK; /* 0: no tally_schema */
/* As schema_dropped, and that version. */
enum code_class own_dropped(struct db *db, unsigned *dropped, uint32_t *version) MUST_CHECK;

#endif
