/* mysql/schema.c - see schema.h. */
#include "mysql/schema.h"

#include "base/heap.h"
#include "base/slice.h"

#include <stdarg.h>
#include <stdio.h>

#define REALMS_SINCE 2 /* version */
#define ADJUSTMENTS_SINCE 3
#define PACKET_LEAST (1 << 16) /* a ledger row and one row of rejects fit with room to spare */

void finding_add(struct schema_report *r, enum schema_level level, const struct counter *c, struct buf *mend,
                 const char *reason, ...)
{
    char text[600];
    va_list args;
    va_start(args, reason);
    vsnprintf(text, sizeof text, reason, args);
    va_end(args);
    HEAP_GROW(r->all, r->n, r->cap, 8);
    r->all[r->n++] = (struct schema_finding){.level = level,
                                             .counter = c,
                                             .reason = heap_strdup(text),
                                             .mend = mend == NULL ? NULL : heap_strndup(mend->p, mend->n)};
    if (mend != NULL) buf_free(mend);
}

void schema_report_close(struct schema_report *report)
{
    for (size_t i = 0; i < report->n; i++) {
        heap_free(report->all[i].reason);
        heap_free(report->all[i].mend);
    }
    heap_free(report->all);
    *report = (struct schema_report){0};
}

size_t schema_refusals(const struct schema_report *report)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n; i++)
        n += report->all[i].level == SCHEMA_REFUSE;
    return n;
}

bool schema_refused(const struct schema_report *report, const struct counter *c)
{
    for (size_t i = 0; i < report->n; i++)
        if (report->all[i].level == SCHEMA_REFUSE && report->all[i].counter == c) return true;
    return false;
}

struct server {
    uint64_t flush, sync_binlog, packet;
    bool log_bin, read_only, statement_format;
};

static uint64_t value_u64(struct slice value)
{
    uint64_t v = 0;
    return num_parse_u64(value, &v) ? v : 0;
}

static struct buf *mend_of(struct buf *b, const char *sql)
{
    buf_put_slice(b, slice_str(sql));
    return b;
}

static void server_judge(const struct server *s, const struct schema_rules *rules, struct schema_report *r)
{
    struct buf mend = {0};
    if (s->flush != 1)
        finding_add(r, rules->accept_flush ? SCHEMA_WARN : SCHEMA_REFUSE, NULL,
                    mend_of(&mend, "SET GLOBAL innodb_flush_log_at_trx_commit = 1;"),
                    "innodb_flush_log_at_trx_commit is %llu: a crash of MySQL may lose merged counts; also "
                    "set it in the server's configuration",
                    (unsigned long long)s->flush);
    if (s->log_bin && s->sync_binlog != 1)
        finding_add(r, SCHEMA_WARN, NULL, mend_of(&mend, "SET GLOBAL sync_binlog = 1;"),
                    "sync_binlog is %llu: after a power cut replicas may differ from this server",
                    (unsigned long long)s->sync_binlog);
    if (s->log_bin && s->statement_format)
        finding_add(r, SCHEMA_REFUSE, NULL, mend_of(&mend, "SET GLOBAL binlog_format = 'MIXED';"),
                    "binlog_format is STATEMENT, under which InnoDB refuses READ COMMITTED");
    if (s->read_only)
        finding_add(r, SCHEMA_REFUSE, NULL, mend_of(&mend, "SET GLOBAL read_only = 0;"),
                    "the server is read-only: name the primary in the MySQL URL, or, if this is it, make it "
                    "writable");
    if (s->packet < PACKET_LEAST)
        finding_add(r, SCHEMA_REFUSE, NULL, mend_of(&mend, "SET GLOBAL max_allowed_packet = 16777216;"),
                    "max_allowed_packet is %llu, at least %d are needed", (unsigned long long)s->packet,
                    PACKET_LEAST);
}

enum code_class table_engine(struct db *db, struct slice table, bool *exists, char engine[65])
{
    struct buf sql = {0};
    struct slice cell;
    buf_printf(
        &sql,
        "SELECT COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND"
        " TABLE_NAME = '" SLICE_FMT "'",
        SLICE_ARG(table));
    enum code_class class = db_query_free(db, &sql);
    *exists = class == CODE_OK && db_row(db, &cell, 1);
    snprintf(engine, 65, SLICE_FMT, *exists ? (int)cell.n : 0, *exists ? cell.p : "");
    return class;
}

static enum code_class version_read(struct db *db, uint32_t *version)
{
    char engine[65];
    bool exists;
    struct slice cell;
    *version = 0;
    enum code_class class = table_engine(db, SLICE("tally_schema"), &exists, engine);
    if (class != CODE_OK || !exists) return class;
    class = DB_QUERY(db, "SELECT COALESCE(MAX(version), 0) FROM tally_schema");
    if (class == CODE_OK && db_row(db, &cell, 1)) *version = (uint32_t)value_u64(cell);
    return class;
}

const struct schema_own_table schema_own[SCHEMA_OWN_TABLES] = {
    [SCHEMA_LEDGER] = {"tally_ledger", "the record of what was merged: with an empty one tallyd merges the "
                                       "merged parts of the batches in Redis once more"},
    [SCHEMA_COUNTERS] = {"tally_counters",
                         "the sums of what was merged: `tallyd verify` shows them as a difference"},
    [SCHEMA_REJECTS] = {"tally_rejects",
                        "the rows that MySQL refused: their sum remains in tally_counters.rejected"},
    [SCHEMA_VERSIONS] = {"tally_schema", NULL},
    [SCHEMA_REALMS] = {"tally_realms",
                       "which tallyd merges for which Redis: every tallyd finds that out again"},
    [SCHEMA_ADJUSTMENTS] = {"tally_adjustments",
                            "the list of adjustments by hand: an adjustment that is sent again counts again"},
};

static enum code_class own_standing(struct db *db, unsigned *standing)
{
    char engine[65];
    bool exists;
    enum code_class class = CODE_OK;
    *standing = 0;
    /* The ledger last: otherwise a migrate that makes all tables meanwhile would look as if the ledger had been
     * dropped. */
    for (unsigned i = SCHEMA_OWN_TABLES; class == CODE_OK && i-- > 0;) {
        class = table_engine(db, slice_str(schema_own[i].name), &exists, engine);
        if (exists) *standing |= 1u << i;
    }
    return class;
}

enum code_class own_tables_dropped(struct db *db, unsigned *dropped, uint32_t *version)
{
    unsigned standing;
    *dropped = *version = 0;
    enum code_class class = own_standing(db, &standing);
    if (class == CODE_OK) class = version_read(db, version);
    if (class != CODE_OK) return class;
    unsigned missing = ((1u << SCHEMA_OWN_TABLES) - 1) & ~standing;
    if (*version < REALMS_SINCE) missing &= ~(1u << SCHEMA_REALMS);
    if (*version < ADJUSTMENTS_SINCE) missing &= ~(1u << SCHEMA_ADJUSTMENTS);
    if (*version > 0) *dropped = missing;
    if (standing != 0) *dropped |= missing & (1u << SCHEMA_LEDGER);
    return CODE_OK;
}

enum err schema_dropped(struct db *db, unsigned *dropped, struct error *e)
{
    uint32_t version;
    return own_tables_dropped(db, dropped, &version) == CODE_OK ? ERR_NONE : db_error(db, e);
}

static enum code_class own_table_check(struct db *db, enum schema_own which, unsigned dropped,
                                       struct schema_report *r)
{
    char engine[65];
    bool exists;
    struct buf mend = {0};
    const char *table = schema_own[which].name, *lost = schema_own[which].lost;
    enum code_class class = table_engine(db, slice_str(table), &exists, engine);
    if (class != CODE_OK) return class;
    if (!exists && (dropped >> which & 1) != 0) {
        finding_add(r, SCHEMA_REFUSE, NULL, NULL,
                    "table %s was dropped, and with it %s; tallyd migrate says how to go on", table, lost);
    } else if (!exists) {
        finding_add(r, SCHEMA_REFUSE, NULL, NULL, "table %s is missing: run tallyd migrate", table);
    } else if (!slice_ieq(slice_str(engine), SLICE("InnoDB"))) {
        buf_printf(&mend, "ALTER TABLE %s ENGINE=InnoDB;", table);
        finding_add(r, SCHEMA_REFUSE, NULL, &mend, "table %s has engine %s, which has no transactions", table,
                    engine);
    }
    return CODE_OK;
}

static enum code_class own_check(struct db *db, struct schema_report *r)
{
    uint32_t version;
    unsigned dropped;
    enum code_class class = own_tables_dropped(db, &dropped, &version);
    for (unsigned i = 0; class == CODE_OK && i < SCHEMA_OWN_TABLES; i++)
        class = own_table_check(db, i, dropped, r);
    if (class != CODE_OK) return class;
    if (version < schema_version_wanted())
        finding_add(r, SCHEMA_REFUSE, NULL, NULL,
                    "tallyd's tables have version %u, this tallyd needs %u: run tallyd migrate", version,
                    schema_version_wanted());
    if (version > schema_version_wanted())
        finding_add(r, SCHEMA_REFUSE, NULL, NULL,
                    "tallyd's tables have version %u, made by a newer tallyd; this one supports %u: run the "
                    "newer one",
                    version, schema_version_wanted());
    return CODE_OK;
}

/* MySQL counts for a Redis with another number of lanes, and for none with this one: nobody announced it. */
static enum code_class lanes_check(struct db *db, uint32_t lanes, struct schema_report *r)
{
    struct buf sql = {0};
    struct slice cell[2];
    buf_printf(
        &sql,
        "SELECT COALESCE(SUM(lanes IN (0, %u)), 0), COALESCE(GROUP_CONCAT(DISTINCT lanes ORDER BY lanes"
        " SEPARATOR ' or '), '') FROM tally_realms",
        lanes);
    enum code_class class = db_query_free(db, &sql);
    if (class != CODE_OK || !db_row(db, cell, 2) || !slice_eq(cell[0], SLICE("0")) || cell[1].n == 0)
        return class;
    finding_add(r, SCHEMA_REFUSE, NULL, NULL,
                "MySQL counts for a Redis of " SLICE_FMT " lanes, and this one has %u. Is it the same? Write "
                "redis.lanes: " SLICE_FMT ". Is it one more? Run tallyd migrate --another-redis",
                SLICE_ARG(cell[1]), lanes, SLICE_ARG(cell[1]));
    return class;
}

/* A counter that was renamed, say: what Redis accepted under the old name is not in the books of the new one. Also where nothing
 * was merged yet: some may be pending. */
static enum code_class books_check(struct db *db, const struct counters *cs, struct schema_report *r)
{
    struct slice name;
    enum code_class class = DB_QUERY(db, "SELECT DISTINCT counter FROM tally_counters ORDER BY 1");
    while (class == CODE_OK && db_row(db, &name, 1)) {
        char shown[NAME_BYTES_MAX + 4];
        if (counters_find(cs, name) != NULL) continue;
        finding_add(r, SCHEMA_WARN, NULL, NULL,
                    "tally_counters has books of a counter \"%s\" that is not configured. If it was renamed, "
                    "give it that name again: what Redis accepted under it is in no other counter's books, "
                    "and `tallyd verify` says how to move it",
                    slice_show(name, NAME_BYTES_MAX, shown, sizeof shown));
    }
    return class;
}

enum err schema_check(struct db *db, const struct counters *cs, const struct schema_rules *rules,
                      struct schema_report *report, struct error *e)
{
    struct server s = {.flush = 1, .packet = db_packet_bytes(db)};
    struct slice cell[2];
    enum code_class class = DB_QUERY(
        db, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog',"
            " 'max_allowed_packet', 'log_bin', 'read_only', 'binlog_format')");
    while (class == CODE_OK && db_row(db, cell, 2)) {
        struct slice name = cell[0];
        struct slice value = cell[1];
        if (slice_ieq(name, SLICE("innodb_flush_log_at_trx_commit"))) s.flush = value_u64(value);
        if (slice_ieq(name, SLICE("sync_binlog"))) s.sync_binlog = value_u64(value);
        if (slice_ieq(name, SLICE("max_allowed_packet"))) s.packet = value_u64(value);
        if (slice_ieq(name, SLICE("log_bin")))
            s.log_bin = slice_ieq(value, SLICE("ON")) || slice_eq(value, SLICE("1"));
        if (slice_ieq(name, SLICE("read_only")))
            s.read_only = !slice_ieq(value, SLICE("OFF")) && !slice_eq(value, SLICE("0"));
        if (slice_ieq(name, SLICE("binlog_format")))
            s.statement_format = slice_ieq(value, SLICE("STATEMENT"));
    }
    if (class == CODE_OK) server_judge(&s, rules, report);
    if (class == CODE_OK) class = own_check(db, report);
    if (class == CODE_OK && !schema_refused(report, NULL)) class = lanes_check(db, rules->lanes, report);
    if (class == CODE_OK && !schema_refused(report, NULL)) class = books_check(db, cs, report);
    for (size_t i = 0; class == CODE_OK && i < cs->n; i++)
        class = table_check(db, &cs->all[i], report);
    for (size_t i = 0; class == CODE_OK && rules->room && i < cs->n; i++)
        class = table_room(db, &cs->all[i], report);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}
