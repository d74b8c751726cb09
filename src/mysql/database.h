/* mysql/database.h - the database itself, for `tallyd dev`, which owns its server. Blocking. */
#ifndef MYSQL_DATABASE_H
#define MYSQL_DATABASE_H

#include "mysql/db.h"

/* Makes the database that c names, if it does not exist. */
enum err database_create(const struct db_config *c, struct error *e) MUST_CHECK;

#endif
