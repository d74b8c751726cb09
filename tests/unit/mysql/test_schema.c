/* What check refuses, one fault at a time, and that the SQL it prints repairs it and touches nothing of the shop's; migrate twice, at once, and half done. */
#include "shop.h"

#include <pthread.h>

static const struct schema_rules strict = {0};

static struct schema_report report; /* of the last look */

static void look(const struct schema_rules *rules)
{
    struct error e;
    schema_report_close(&report);
    if (schema_check(server.db, &shop, rules, &report, &e) != ERR_NONE) fail_msg("%s", e.text);
}

static int report_over(void **state)
{
    schema_report_close(&report);
    return 0;
}

/* Why the first of its findings is one. */
static void assert_reason(const char *part)
{
    assert_true(report.n > 0);
    if (strstr(report.all[0].reason, part) == NULL) fail_msg("it says: %s", report.all[0].reason);
}

static void assert_sound(void)
{
    look(&strict);
    for (size_t i = 0; i < report.n; i++)
        fail_msg("%s", report.all[i].reason);
}

/* Statements end with ";\n" or at the end, as a person would paste them. */
static void run_mend(const char *mend)
{
    while (*mend != 0) {
        const char *end = strstr(mend, ";\n");
        size_t n = end != NULL ? (size_t)(end - mend) : strlen(mend) - 1;
        if (db_exec(server.db, slice_of(mend, n)) != CODE_OK) fail_msg("%s\n%s", mend, db_text(server.db));
        mend += end != NULL ? n + 2 : n + 1;
    }
}

/* Is refused for this reason; then every mend is run in the order of the report, and all is sound. */
static void refused_and_mended(const struct counter *c, const char *reason)
{
    bool said = false;
    look(&strict);
    assert_true(schema_refused(&report, c));
    for (size_t i = 0; i < report.n; i++) {
        said = said || strstr(report.all[i].reason, reason) != NULL;
        assert_ptr_equal(report.all[i].counter, c);
        assert_non_null(report.all[i].mend);
        run_mend(report.all[i].mend);
    }
    if (!said) fail_msg("it only says: %s", report.all[0].reason);
    assert_sound();
}

/* Is refused for this reason, and nothing is proposed that the shop did not ask for. */
static void refused(const struct counter *c, const char *reason)
{
    bool said = false;
    look(&strict);
    assert_true(schema_refused(&report, c));
    for (size_t i = 0; i < report.n; i++) {
        said = said || strstr(report.all[i].reason, reason) != NULL;
        assert_null(report.all[i].mend);
    }
    if (!said) fail_msg("it only says: %s", report.all[0].reason);
}

static void visitors_table(const char *columns, const char *rest)
{
    sql("DROP TABLE IF EXISTS daily_visitors");
    sql("CREATE TABLE daily_visitors (%s) %s", columns, rest);
}

#define GOOD_COLUMNS "store_id BIGINT NOT NULL, day DATE NOT NULL, visitors BIGINT NOT NULL DEFAULT 0"
#define GOOD_KEY ", PRIMARY KEY (store_id, day)"

static int afresh(void **state)
{
    sql("DROP TABLE IF EXISTS daily_visitors, words, hourly");
    shop_create(&server);
    return 0;
}

#define TEST(name) UNIT_IN(name, afresh, report_over)

TEST(sound)
{
    assert_sound();
}

TEST(refused_and_mended_tables)
{
    static const struct {
        const char *columns, *rest, *reason;
    } tables[] = {
        {GOOD_COLUMNS GOOD_KEY, "ENGINE=MyISAM", "engine MyISAM"},
        {GOOD_COLUMNS, "", "no unique key of daily_visitors is exactly (`store_id`, `day`)"},
        {GOOD_COLUMNS ", PRIMARY KEY (store_id, day, visitors)", "", "is exactly"},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        visitors_table(tables[i].columns, tables[i].rest);
        refused_and_mended(&shop_all[VISITORS], tables[i].reason);
    }
    sql("DROP TABLE daily_visitors");
    refused_and_mended(&shop_all[VISITORS], "table daily_visitors is missing");
}

#define OTHER_COUNT(type) "store_id BIGINT NOT NULL, day DATE NOT NULL, visitors " type GOOD_KEY

/* Any integer counts. The counter's key is a unique key, in any order; what else must differ does so by itself. */
TEST(sound_tables)
{
    static const char *const columns[] = {
        OTHER_COUNT("TINYINT NOT NULL"),
        OTHER_COUNT("SMALLINT UNSIGNED NOT NULL DEFAULT 1"),
        OTHER_COUNT("MEDIUMINT NULL"),
        OTHER_COUNT("INT(11) UNSIGNED NOT NULL DEFAULT 0"),
        OTHER_COUNT("BIGINT UNSIGNED NOT NULL"),
        OTHER_COUNT("BIGINT NULL"),
        GOOD_COLUMNS ", PRIMARY KEY (day, store_id)",
        "id INT AUTO_INCREMENT PRIMARY KEY, " GOOD_COLUMNS ", UNIQUE KEY u (store_id, day)",
        "id INT AUTO_INCREMENT UNIQUE, " GOOD_COLUMNS GOOD_KEY,
        "id CHAR(36) NOT NULL DEFAULT UUID() PRIMARY KEY, " GOOD_COLUMNS ", UNIQUE KEY u (day, store_id)",
        GOOD_COLUMNS ", slug VARCHAR(20) NULL, UNIQUE KEY s (slug)" GOOD_KEY,
        GOOD_COLUMNS ", shard INT NOT NULL DEFAULT 0, UNIQUE KEY s (shard, day, store_id)" GOOD_KEY,
        "id INT AUTO_INCREMENT PRIMARY KEY, store_id INT, day DATE, visitors INT, UNIQUE (store_id, day)",
        GOOD_COLUMNS ", note VARCHAR(20) NULL, made DATETIME NOT NULL DEFAULT NOW(),"
                     " double_ BIGINT AS (visitors * 2) VIRTUAL, KEY k (note)" GOOD_KEY,
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        visitors_table(columns[i], "");
        assert_sound();
    }
}

#define ANOTHER_ROW "the unique key other of daily_visitors does not hold all of (`store_id`, `day`)"

TEST(refused_tables)
{
    static const char *const tables[][2] = {
        {OTHER_COUNT("DECIMAL(20, 0) NOT NULL"),
         "daily_visitors.visitors is decimal(20,0), which does not hold a count"},
        {"store_id BIGINT NOT NULL, day DATE NOT NULL, hits INT" GOOD_KEY,
         "Columns that do for columns.count: hits"},
        {"store_id DOUBLE NOT NULL, day TIME NOT NULL, visitors BIGINT NOT NULL" GOOD_KEY,
         "daily_visitors.day is time, which does not hold a date as YYYYMMDD"},
        {GOOD_COLUMNS ", note VARCHAR(20) NOT NULL" GOOD_KEY,
         "daily_visitors.note is NOT NULL without a default"},
        {GOOD_COLUMNS ", UNIQUE KEY other (visitors)" GOOD_KEY, ANOTHER_ROW},
        {GOOD_COLUMNS ", UNIQUE KEY other (day)" GOOD_KEY, ANOTHER_ROW},
        {GOOD_COLUMNS ", slug VARCHAR(20) NOT NULL DEFAULT '', UNIQUE KEY other (slug)" GOOD_KEY,
         ANOTHER_ROW},
        {GOOD_COLUMNS ", word VARCHAR(20) NOT NULL DEFAULT '', UNIQUE KEY other (store_id, word)" GOOD_KEY,
         ANOTHER_ROW},
        {GOOD_COLUMNS ", twice BIGINT AS (visitors * 2) STORED, UNIQUE KEY other (twice)" GOOD_KEY,
         ANOTHER_ROW},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        visitors_table(tables[i][0], "");
        refused(&shop_all[VISITORS], tables[i][1]);
    }
}

static void warned(const char *reason)
{
    assert_int_equal(report.n, 1);
    assert_int_equal(report.all[0].level, SCHEMA_WARN);
    assert_reason(reason);
}

TEST(room_is_told)
{
    static const struct schema_rules told = {.room = true};
    visitors_table(OTHER_COUNT("SMALLINT UNSIGNED NOT NULL"), "");
    sql("INSERT INTO daily_visitors VALUES (1, '2014-09-20', 65000)");
    look(&told);
    warned("the highest count is 65000, and a row's hits beyond 65535");
}

TEST(key_column_missing)
{
    visitors_table("store_id BIGINT NOT NULL, datum DATE NOT NULL, visitors BIGINT NOT NULL,"
                   " PRIMARY KEY (store_id, datum)",
                   "");
    look(&strict);
    assert_reason("daily_visitors.day is missing");
    assert_reason("Columns that do for columns.field: store_id, datum, visitors");
}

TEST(hour_in_a_date)
{
    sql("ALTER TABLE hourly MODIFY COLUMN hour DATE NOT NULL");
    refused(&shop_all[HOURLY], "hourly.hour is date, which does not hold");
}

TEST(serial_store)
{
    visitors_table("store_id BIGINT AUTO_INCREMENT, day DATE NOT NULL, visitors BIGINT NOT NULL" GOOD_KEY,
                   "");
    look(&strict);
    warned("a hit on an id that is not there makes a row");
}

TEST(key_of_prefixes)
{
    sql("ALTER TABLE words DROP PRIMARY KEY, ADD PRIMARY KEY (word(10))");
    look(&strict);
    assert_int_equal(report.n, 2);
    assert_reason("the unique key PRIMARY of words does not hold all of (`word`)");
}

TEST(folding_text)
{
    static const char *const types[] = {"VARCHAR(255) COLLATE utf8mb4_general_ci",
                                        "VARCHAR(255) COLLATE utf8mb4_bin",
                                        "CHAR(100) COLLATE utf8mb4_nopad_bin"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        sql("ALTER TABLE words MODIFY COLUMN word %s NOT NULL", types[i]);
        look(&strict);
        assert_int_equal(report.n, 1);
        assert_false(schema_refused(&report, &shop_all[WORDS]));
        assert_reason("takes some texts for one row");
        assert_null(report.all[0].mend);
    }
}

/* Its values end with NUL bytes, so that none is equal to what the app sent. */
TEST(binary_text)
{
    sql("ALTER TABLE words MODIFY COLUMN word BINARY(100) NOT NULL");
    look(&strict);
    assert_true(schema_refused(&report, &shop_all[WORDS]));
}

TEST(exact_text_is_sound)
{
    sql("ALTER TABLE words MODIFY COLUMN word VARCHAR(255) COLLATE utf8mb4_nopad_bin NOT NULL");
    assert_sound();
}

TEST(view)
{
    sql("RENAME TABLE daily_visitors TO away");
    sql("CREATE VIEW daily_visitors AS SELECT * FROM away");
    look(&strict);
    assert_int_equal(report.n, 1);
    assert_string_equal(report.all[0].reason, "daily_visitors is a view: name the table itself");
    sql("DROP VIEW daily_visitors");
    sql("RENAME TABLE away TO daily_visitors");
}

/* ---- the server ---- */

TEST(flush)
{
    const struct schema_rules accepted = {.accept_flush = true};
    sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    look(&accepted);
    assert_int_equal(report.n, 1);
    assert_int_equal(report.all[0].level, SCHEMA_WARN);
    assert_int_equal(schema_refusals(&report), 0);
    refused_and_mended(NULL, "innodb_flush_log_at_trx_commit is 2");
}

TEST(server_mended)
{
    sql("SET GLOBAL read_only = 1");
    refused_and_mended(NULL, "the server is read-only");
    sql("SET GLOBAL max_allowed_packet = 4096");
    refused_and_mended(NULL, "max_allowed_packet is 4096");
    sql("ALTER TABLE tally_ledger ENGINE=MyISAM");
    refused_and_mended(NULL, "table tally_ledger has engine MyISAM");
}

/* ---- tallyd's own ---- */

TEST(own_missing)
{
    struct error e;
    uint32_t from, to;
    sql("DROP TABLE tally_rejects, tally_schema");
    look(&strict);
    assert_int_equal(schema_refusals(&report), 3); /* two tables, and the version */
    assert_true(schema_refused(&report, NULL));
    assert_false(schema_refused(&report, &shop_all[VISITORS]));
    assert_reason("table tally_rejects is missing: run tallyd migrate");
    assert_int_equal(schema_migrate(server.db, false, &from, &to, &e), ERR_NONE);
    assert_int_equal(from, 0);
    assert_int_equal(to, schema_version_wanted());
    assert_sound();
}

static void own_dropped_is_made_again(const char *table, const char *lost)
{
    struct error e;
    sql("DROP TABLE %s", table);
    look(&strict);
    assert_int_equal(schema_refusals(&report), 1);
    assert_reason(table);
    assert_reason(lost);
    assert_reason("tallyd migrate");
    if (schema_migrate(server.db, false, NULL, NULL, &e) != ERR_NONE) fail_msg("%s", e.text);
    assert_sound();
}

TEST(own_dropped)
{
    own_dropped_is_made_again("tally_counters", "the sums of what was merged");
    own_dropped_is_made_again("tally_rejects", "the rows that MySQL refused");
    own_dropped_is_made_again("tally_realms", "which tallyd merges for which Redis");
    own_dropped_is_made_again("tally_adjustments", "adjustments by hand");
}

/* If an empty ledger replaced it, what it knew could be merged again: tallyd never makes one unasked, not even when the versions
 * are gone. */
TEST(own_ledger_dropped)
{
    struct error e;
    unsigned dropped;
    for (int i = 0; i < 2; i++) {
        sql(i == 0 ? "DROP TABLE tally_ledger" : "DROP TABLE tally_ledger, tally_schema");
        assert_int_equal(schema_dropped(server.db, &dropped, &e), ERR_NONE);
        assert_int_equal(dropped, 1u << SCHEMA_LEDGER);
        assert_int_equal(schema_migrate(server.db, false, NULL, NULL, &e), ERR_CONFIG);
        assert_non_null(strstr(e.text, "--ledger-lost"));
        assert_int_equal(schema_dropped(server.db, &dropped, &e), ERR_NONE);
        assert_int_equal(dropped, 1u << SCHEMA_LEDGER);
        if (schema_migrate(server.db, true, NULL, NULL, &e) != ERR_NONE) fail_msg("%s", e.text);
        assert_sound();
    }
}

TEST(own_newer)
{
    struct error e;
    sql("INSERT INTO tally_schema VALUES (999, NOW(3))");
    look(&strict);
    assert_int_equal(report.n, 1);
    assert_reason("version 999, made by a newer tallyd");
    assert_int_equal(schema_migrate(server.db, false, NULL, NULL, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "999"));
    sql("DELETE FROM tally_schema WHERE version = 999");
}

TEST(migrate_twice)
{
    struct error e;
    uint32_t from, to, created;
    assert_int_equal(schema_migrate(server.db, false, &from, &to, &e), ERR_NONE);
    assert_int_equal(from, schema_version_wanted());
    assert_int_equal(to, schema_version_wanted());
    assert_int_equal(schema_migrate_tables(server.db, &shop, &created, &e), ERR_NONE);
    assert_int_equal(created, 0);
    assert_sound();
}

static void *migrate_main(void *arg)
{
    struct db *db = db_create(&server.config);
    struct error e;
    uint32_t created;
    *(bool *)arg = db_open(db) == CODE_OK && schema_migrate(db, false, NULL, NULL, &e) == ERR_NONE &&
                   schema_migrate_tables(db, &shop, &created, &e) == ERR_NONE;
    db_destroy(&db);
    return NULL;
}

TEST(migrate_at_once)
{
    pthread_t threads[4];
    bool good[4];
    sql("DROP TABLE tally_ledger, tally_counters, tally_rejects, tally_realms, "
        "tally_adjustments, tally_schema, words, hourly");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, migrate_main, &good[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
    assert_sound();
    assert_sql("6/1",
               "SELECT CONCAT_WS('/', COUNT(*), (SELECT COUNT(*) FROM tally_realms)) FROM tally_schema");
}

TEST(migrate_waits_for_the_other)
{
    pthread_t thread;
    bool good;
    sql("DROP TABLE tally_ledger, tally_counters, tally_rejects, tally_realms, "
        "tally_adjustments, tally_schema");
    assert_sql("1", "SELECT GET_LOCK(CONCAT('tallyd_', LEFT(SHA2(DATABASE(), 256), 32)), 0)");
    assert_int_equal(pthread_create(&thread, NULL, migrate_main, &good), 0);
    await_sql("1", "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT GET_LOCK%%'");
    assert_sql("0", "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'tally_ledger'");
    sql("DO RELEASE_LOCK(CONCAT('tallyd_', LEFT(SHA2(DATABASE(), 256), 32)))");
    pthread_join(thread, NULL);
    assert_true(good);
    assert_sound();
}

TEST(printed_is_what_runs)
{
    struct buf all = {0}, tables = {0};
    schema_print(&all);
    schema_print_tables(&shop, &tables);
    buf_put_char(&all, 0);
    buf_put_char(&tables, 0);
    assert_non_null(strstr(all.p, "CREATE TABLE IF NOT EXISTS tally_ledger"));
    assert_non_null(strstr(tables.p, "CREATE TABLE IF NOT EXISTS `daily_visitors` (\n"
                                     "    `store_id` BIGINT NOT NULL,\n"
                                     "    `day` DATE NOT NULL,\n"
                                     "    `visitors` BIGINT NOT NULL DEFAULT 0,\n"
                                     "    PRIMARY KEY (`store_id`, `day`)\n"
                                     ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n"));
    buf_free(&all);
    buf_free(&tables);
}

/* The last of all: the server is started again with a binary log. */
TEST(binary_log)
{
    mariadb_kill(&server);
    server.args[0] = "--log-bin=binlog";
    server.args[1] = "--binlog-format=STATEMENT";
    mariadb_back(&server);
    look(&strict);
    assert_int_equal(report.n, 2);
    assert_int_equal(report.all[0].level, SCHEMA_WARN);
    assert_reason("sync_binlog is 0");
    assert_int_equal(report.all[1].level, SCHEMA_REFUSE);
    refused_and_mended(NULL, "binlog_format is STATEMENT");
}

UNITS_IN(shop_start, shop_stop)
