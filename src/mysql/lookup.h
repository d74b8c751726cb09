/* mysql/lookup.h - can tallyd read a table in which it only looks things up? */
#ifndef MYSQL_LOOKUP_H
#define MYSQL_LOOKUP_H

#include "mysql/schema.h"

/* Adds a warning when the table or a column is missing, or may not be read; for the latter with the GRANT to run.
 * counter: the one whose table it is, NULL: of no counter. option: its name in the configuration. An error: it could
 * not look. */
enum err lookup_check(struct db *db, const struct lookup *l, const struct counter *counter,
                      const char *option, struct schema_report *report, struct error *e) MUST_CHECK;

#endif
