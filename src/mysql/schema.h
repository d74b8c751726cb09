/* mysql/schema.h - is MySQL fit to be merged into, and making it so. sql/ is the one source of tallyd's own
 * tables. */
#ifndef MYSQL_SCHEMA_H
#define MYSQL_SCHEMA_H

#include "mysql/db.h"
#include "series/counter.h"

enum schema_level { SCHEMA_WARN, SCHEMA_REFUSE };

struct schema_finding {
    enum schema_level level;
    const struct counter
        *counter; /* NULL: the server or tallyd's own tables; else merging it is refused (REFUSE) */
    char *reason; /* one line */
    char *mend;   /* SQL that mends it, ending in ';', or NULL where no SQL does */
};

struct schema_report {
    struct schema_finding *all;
    size_t n, cap;
};

struct schema_rules {
    bool accept_flush; /* the configuration accepts innodb_flush_log_at_trx_commit other than 1 */
};

/* Looks at everything, changes nothing. An error is only that it could not look; what it saw is in the
 * report, which begins empty ({0}) and is closed by the caller either way. */
enum err schema_check(struct db *db, const struct counters *cs, const struct schema_rules *rules,
                      struct schema_report *report, struct error *e) MUST_CHECK;
size_t schema_refusals(const struct schema_report *report);
/* Is this counter (or, with NULL, the server or tallyd's own tables) refused? */
bool schema_refused(const struct schema_report *report, const struct counter *c);
void schema_report_close(struct schema_report *report);

/* tallyd's own tables, in the order in which migrate makes them. */
enum schema_own { SCHEMA_LEDGER, SCHEMA_COUNTERS, SCHEMA_REJECTS, SCHEMA_VERSIONS, SCHEMA_OWN_TABLES };
struct schema_own_table {
    const char *name;
    const char *lost; /* what was in it; NULL: of the versions, without which none is taken for dropped */
};
extern const struct schema_own_table schema_own[SCHEMA_OWN_TABLES];

/* Which were made once and are there no more: bits 1 << enum schema_own. Where the versions are gone, too, only the
 * ledger can be told from one that was never made: it is the first, so it stood where any other stands. */
enum err schema_dropped(struct db *db, unsigned *dropped, struct error *e) MUST_CHECK;

uint32_t schema_version_wanted(void);
/* Applies what sql/ has beyond the version that stands, or, where a table was dropped, all of it. Safe to repeat and to run
 * twice at once (GET_LOCK). from and to may be NULL. A database of a newer tallyd is refused, and without ledger_lost one
 * whose ledger was dropped: an empty one knows of no chunk that it was merged. */
enum err schema_migrate(struct db *db, bool ledger_lost, uint32_t *from, uint32_t *to,
                        struct error *e) MUST_CHECK;
/* CREATE TABLE IF NOT EXISTS of each counter's table. */
enum err schema_migrate_tables(struct db *db, const struct counters *cs, uint32_t *created,
                               struct error *e) MUST_CHECK;

void schema_print(struct buf *out);                                   /* all of sql/, as text */
void schema_print_tables(const struct counters *cs, struct buf *out); /* the merchant tables' DDL */
void schema_table_ddl(const struct counter *c, struct buf *out);      /* one, without the closing ';' */

#endif
