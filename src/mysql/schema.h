/* mysql/schema.h - checks that MySQL can be merged into, and migrates it. sql/ is the only source of tallyd's own
 * tables; of the shop's, see the second part. */
#ifndef MYSQL_SCHEMA_H
#define MYSQL_SCHEMA_H

#include "base/slice.h"
#include "mysql/db.h"
#include "mysql/text.h"
#include "series/counter.h"

enum schema_level { SCHEMA_WARN, SCHEMA_REFUSE };

struct schema_finding {
    enum schema_level level;
    const struct counter *counter; /* NULL: of the server or of tallyd's own tables */
    char *reason;                  /* one line */
    char *mend;                    /* SQL, ending in ';'; NULL where none corrects it */
};

struct schema_report {
    struct schema_finding *all;
    size_t n, cap;
};

struct schema_rules {
    bool accept_flush; /* innodb_flush_log_at_trx_commit need not be 1 */
    bool room;         /* how far narrow counts are from their bounds, too: reads them all */
    uint32_t lanes;    /* of the Redis that is counted for */
};

/* Changes nothing. Findings go to the report, which starts as {0} and which the caller closes also after an error. An
 * error means only that it could not look. */
enum err schema_check(struct db *db, const struct counters *cs, const struct schema_rules *rules,
                      struct schema_report *report, struct error *e) MUST_CHECK;
size_t schema_refusals(const struct schema_report *report);
/* Is this counter (or, with NULL, the server or tallyd's own tables) refused? */
bool schema_refused(const struct schema_report *report, const struct counter *c);
void schema_report_close(struct schema_report *report);

/* tallyd's own tables, in the order in which migrate makes them. */
enum schema_own {
    SCHEMA_LEDGER,
    SCHEMA_COUNTERS,
    SCHEMA_REJECTS,
    SCHEMA_VERSIONS,
    SCHEMA_REALMS,
    SCHEMA_ADJUSTMENTS,
    SCHEMA_OWN_TABLES
};
struct schema_own_table {
    const char *name;
    const char *lost; /* what was in it; NULL: of the versions, without which none is taken for dropped */
};
extern const struct schema_own_table schema_own[SCHEMA_OWN_TABLES];

/* Bits 1 << enum schema_own of the tables that were made once and are missing now. Without the table of versions only
 * the ledger's loss can be known: migrate makes the ledger first, so if another table exists, the ledger did. */
enum err schema_dropped(struct db *db, unsigned *dropped, struct error *e) MUST_CHECK;

uint32_t schema_version_wanted(void);
/* Applies what sql/ has beyond the database's version or, if a table was dropped, all of it. Safe to repeat and to run
 * concurrently (GET_LOCK). from and to may be NULL. Refuses a newer tallyd's database and, without ledger_lost, one whose
 * ledger was dropped: an empty ledger has forgotten which chunks are merged. */
enum err schema_migrate(struct db *db, bool ledger_lost, uint32_t *from, uint32_t *to,
                        struct error *e) MUST_CHECK;
/* CREATE TABLE IF NOT EXISTS of each counter's table. */
enum err schema_migrate_tables(struct db *db, const struct counters *cs, uint32_t *created,
                               struct error *e) MUST_CHECK;

void schema_print(struct buf *out);                                   /* all of sql/, as text */
void schema_print_tables(const struct counters *cs, struct buf *out); /* the merchant tables' DDL */
void schema_table_ddl(const struct counter *c, struct buf *out);      /* one, without the closing ';' */

/* A table of the shop's as information_schema has it. */

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

/* Private to the room: how the parts of schema_check add to its report. */

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
enum code_class own_tables_dropped(struct db *db, unsigned *dropped, uint32_t *version) MUST_CHECK;

/* Can tallyd read a table in which it only looks things up? */

/* Adds a warning when the table or a column is missing, or may not be read; for the latter with the GRANT to run.
 * counter: the one whose table it is, NULL: of no counter. option: its name in the configuration. An error: it could
 * not look. */
enum err lookup_check(struct db *db, const struct lookup *l, const struct counter *counter,
                      const char *option, struct schema_report *report, struct error *e) MUST_CHECK;

/* Rows of a counter's kinds at their bounds, upserted and taken back: what MySQL says to them, whatever in the table
 * says it (a width, a partition, a foreign key, a CHECK, a trigger, a generated column). Blocking. */

/* For counters that make rows and whose table fits. A finding for each bound of a kind beyond which MySQL takes nothing, or that nothing
 * is taken, or why it was not tried: a trial would leave something behind. even_so: though it uses up ids of an AUTO_INCREMENT column
 * that is no key. */
enum err trial_check(struct db *db, const struct counter *c, bool even_so, struct schema_report *report,
                     struct error *e) MUST_CHECK;

/* The views of sql/views.sql, a view of each counter, and the role tally_reader, which may read only them. tallyd
 * itself does not use them. */

struct views_made {
    uint32_t views;
    bool role;           /* it exists, with its rights */
    char role_text[300]; /* else the server's error */
    uint32_t nameless;   /* counters left out because their view's name is too long for MySQL */
};

/* Makes or renews them. If the role cannot be made, that is no error: it takes rights which tallyd's account should not
 * have. */
enum err views_apply(struct db *db, const struct counters *cs, struct views_made *made,
                     struct error *e) MUST_CHECK;
void views_print(const struct counters *cs, struct buf *out); /* as SQL, for an account with the rights */

/* The files of sql/, embedded by embed.cmake, in the order of their numbers. */

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
