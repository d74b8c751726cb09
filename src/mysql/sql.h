/* mysql/sql.h - the files of sql/, embedded by embed.cmake, in the order of their numbers. */
#ifndef MYSQL_SQL_H
#define MYSQL_SQL_H

#include "base/slice.h"

struct sql_file {
    uint32_t version; /* the number that its name begins with */
    const char *name;
    struct slice text; /* ASCII */
};
extern const struct sql_file sql_files[];
extern const size_t sql_files_n;
extern const struct slice sql_views; /* sql/views.sql, which has no version */

/* The next statement of a file, without comments and without its semicolon. *rest moves past it; false: no more. */
bool sql_next(struct slice *rest, struct slice *statement);

#endif
