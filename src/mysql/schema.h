/* mysql/schema.h - checks that MySQL can be merged into, and migrates it. sql/ is the only source of tallyd's tables. */
#ifndef MYSQL_SCHEMA_H
#define MYSQL_SCHEMA_H

#include "mysql/db.h"
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

#endif
