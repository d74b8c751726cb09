/* mysql/finding.h - private to the room: how the parts of schema_check add to its report. */
#ifndef MYSQL_FINDING_H
#define MYSQL_FINDING_H

#include "mysql/schema.h"
#include "mysql/text.h"

/* The reason is formatted. mend may be NULL; it is empty afterwards: the finding has its text. */
void finding_add(struct schema_report *r, enum schema_level level, const struct counter *c, struct buf *mend,
                 const char *reason, ...) __attribute__((format(printf, 5, 6)));

/* Adds what is wrong with the counter's table. */
enum code_class table_check(struct db *db, const struct counter *c, struct schema_report *r) MUST_CHECK;

/* Adds how far a narrow count is from its bound. Reads all counts. */
enum code_class table_room(struct db *db, const struct counter *c, struct schema_report *r) MUST_CHECK;

/* Is that column one by which a row of the counter is found? */
bool table_key_has(const struct counter *c, const char *column);
/* May a count be added to it? Reads the forms of its key columns, too. */
enum code_class table_fits(struct db *db, const struct counter *c, struct columns *forms,
                           bool *fits) MUST_CHECK;

/* Does information_schema know this table in the current database? Its engine, "" for a view. */
enum code_class table_engine(struct db *db, struct slice table, bool *exists, char engine[65]) MUST_CHECK;
/* As schema_dropped, and the version that the database has; 0: no tally_schema. */
enum code_class own_dropped(struct db *db, unsigned *dropped, uint32_t *version) MUST_CHECK;

#endif
