/* mysql/table.h - a table of the shop's as information_schema has it. */
#ifndef MYSQL_TABLE_H
#define MYSQL_TABLE_H

#include "mysql/text.h"

struct column {
    char name[65], type[260], data_type[65], collation[65];
    enum column_form form;
    bool nullable, has_default, random_default, auto_increment, generated, on_update;
    struct buf values; /* of table_sample: each ends with a NUL */
};

struct key_part { /* one column of one unique key */
    char key[65], column[65];
    bool prefix; /* only its first characters: folds longer values */
};

struct table {
    struct slice name; /* borrowed */
    char engine[65];   /* "": a view */
    bool exists;
    struct column *columns;
    struct key_part *parts; /* by key, then in order */
    size_t columns_n, parts_n;
};

/* The name is letters, digits, '_' and '$'. To be closed also after an error. */
enum code_class table_load(struct db *db, struct slice name, struct table *out) MUST_CHECK;
void table_close(struct table *t);
const struct column *table_column(const struct table *t, struct slice name); /* NULL: none of that name */

/* May the configuration name it? */
bool table_name_valid(struct slice name);
/* Adds values of each text and of each column of a unique key: up to 8, of the first 10,000 rows. */
enum code_class table_sample(struct db *db, struct table *t) MUST_CHECK;

#endif
