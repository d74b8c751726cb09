/* mysql/trial.h - rows of a counter's kinds at their bounds, upserted and taken back: what MySQL says to them, whatever in the table
 * says it (a width, a partition, a foreign key, a CHECK, a trigger, a generated column). Blocking. */
#ifndef MYSQL_TRIAL_H
#define MYSQL_TRIAL_H

#include "mysql/schema.h"

/* For counters that make rows and whose table fits. A finding for each bound of a kind beyond which MySQL takes nothing, or that nothing
 * is taken, or why it was not tried: a trial would leave something behind. even_so: though it uses up ids of an AUTO_INCREMENT column
 * that is no key. */
enum err trial_check(struct db *db, const struct counter *c, bool even_so, struct schema_report *report,
                     struct error *e) MUST_CHECK;

#endif
