/* One chunk into a real MariaDB: exactly once through crashes, cut links, stopped servers, locks and refused
 * rows. */
#include "bench.h"

#include "base/sm.h"
#include "base/stats.h"
#include "lib/child.h"

/* Two stores, three rows, together 9. */
static void visitors_chunk(uint8_t id)
{
    bench_batch(id, VISITORS, 7);
    ROWS("s12:visitors", "20140920", "5");
    ROWS("s7:visitors", "20140920", "6", "20140921", "-2");
    bench_seal();
}

static void assert_visitors_once(void)
{
    assert_sql("7/2014-09-20/6 7/2014-09-21/-2 12/2014-09-20/5",
               "SELECT CONCAT_WS('/', store_id, day, visitors) FROM daily_visitors ORDER BY store_id, day");
    assert_sql("9/0", BOOKS);
    assert_sql("1", "SELECT COUNT(*) FROM tally_ledger");
}

#define WORD "word VARBINARY(255) NOT NULL, "
#define SHORT "word VARBINARY(5) NOT NULL, " N
#define N "n BIGINT NOT NULL DEFAULT 0"

static bool words_altered;

/* Until the end of the test. */
static void words_table(const char *columns)
{
    words_altered = true;
    sql("DROP TABLE words");
    sql("CREATE TABLE words (%s, PRIMARY KEY (word)) ENGINE=InnoDB", columns);
}

static int words_teardown(void **state)
{
    if (words_altered) words_table(WORD N);
    words_altered = false;
    return bench_teardown(state);
}

#define TEST(name) UNIT_IN(name, bench_setup, words_teardown)

/* ---- crashes: the first, for it counts the chunks of the process ---- */

static void merge_and_die(void *arg)
{
    setenv("TALLYD_CRASH", arg, 1);
    if (!crash_init()) abort();
    for (uint8_t id = 1; id <= 2; id++) {
        visitors_chunk(id);
        bench.chunk.index = id - 1u; /* as if the second were a later chunk of a batch */
        merge();
    }
}

TEST(crashes)
{
    static const struct {
        const char *point;
        enum merge_outcome then;
    } points[] = {
        {"merge_between_chunks", MERGE_ALREADY}, /* the first: it counts the chunks of the process */
        {"merge_after_ledger", MERGE_DONE},
        {"merge_before_commit", MERGE_DONE},
        {"merge_after_commit", MERGE_ALREADY}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        struct child_end end = child_run(merge_and_die, (void *)points[i].point);
        assert_true(child_was_killed(&end, SIGKILL));
        visitors_chunk(1);
        assert_outcome(points[i].then);
        assert_visitors_once();
        bench_again();
    }
}

/* ---- once ---- */

TEST(once)
{
    visitors_chunk(1);
    assert_outcome(MERGE_DONE);
    assert_rows(3, 0);
    assert_visitors_once();
    assert_sql(
        "01010101010101010101010101010101/0/1/visitors/7/3/9",
        "SELECT CONCAT_WS('/', LOWER(HEX(batch)), chunk, chunks, counter, gen, rows_merged, total) FROM"
        " tally_ledger WHERE merged_at BETWEEN UTC_TIMESTAMP() - INTERVAL 1 MINUTE AND UTC_TIMESTAMP(3)");
    assert_sql("000B73373A76697369746F727300083230313430393230/000C7331323A76697369746F7273000832303134303"
               "93230",
               "SELECT CONCAT_WS('/', HEX(first_key), HEX(last_key)) FROM tally_ledger");
    assert_outcome(MERGE_ALREADY);
    assert_int_equal(bench.chunk.rows_merged, 3);
    assert_visitors_once();
}

/* Otherwise pruning, which goes by age, could overtake a run that scanned before its batch was discarded. */
TEST(found_again_is_young_again)
{
    visitors_chunk(1);
    assert_outcome(MERGE_DONE);
    sql("UPDATE tally_ledger SET merged_at = merged_at - INTERVAL 30 DAY");
    assert_outcome(MERGE_ALREADY);
    assert_sql("1",
               "SELECT COUNT(*) FROM tally_ledger WHERE merged_at > UTC_TIMESTAMP() - INTERVAL 1 MINUTE");
}

TEST(adds_to_what_stands)
{
    for (uint8_t id = 1; id <= 2; id++) {
        visitors_chunk(id);
        assert_outcome(MERGE_DONE);
    }
    assert_sql("18", "SELECT SUM(visitors) FROM daily_visitors");
    assert_sql("18", "SELECT merged FROM tally_counters");
}

TEST(empty_chunk)
{
    bench_batch(1, VISITORS, 1);
    assert_chunk(MERGE_DONE);
    assert_outcome(MERGE_ALREADY);
}

TEST(conflict)
{
    visitors_chunk(1);
    assert_outcome(MERGE_DONE);
    bench.chunk.chunks = 2; /* another cut */
    assert_outcome(MERGE_CONFLICT);
    bench_batch(1, VISITORS, 7);
    ROWS("s7:visitors", "20140920", "1");
    bench_seal(); /* other rows */
    assert_outcome(MERGE_CONFLICT);
    assert_visitors_once();
}

TEST(too_old)
{
    visitors_chunk(1);
    bench.chunk.not_after_ms = age_ms() - 1;
    assert_outcome(MERGE_TOO_OLD);
    assert_sql("0", "SELECT COUNT(*) FROM tally_ledger");
}

TEST(forms)
{
    bench_batch(1, HOURLY, 1);
    ROWS("s7:hourly", "2014092013", "5");
    assert_chunk(MERGE_DONE);
    bench_batch(2, WORDS, 2);
    ROWS("words", "a", "1", "A", "2", "a ", "3", "\xc3\xa1", "4", "it's \\", "5", "\xff\x01", "6");
    assert_chunk(MERGE_DONE);
    bench_batch(3, STORES, 3);
    ROWS("tS-1:views", "-9223372036854775808", "1", "9223372036854775807", "2");
    assert_chunk(MERGE_DONE);
    assert_sql("7/2014-09-20 13:00:00/5", "SELECT CONCAT_WS('/', store_id, hour, n) FROM hourly");
    assert_sql("41:2 61:1 6120:3 69742773205C:5 C3A1:4 FF01:6",
               "SELECT CONCAT(HEX(word), ':', n) FROM words ORDER BY word");
    assert_sql("S-1/-9223372036854775808/1 S-1/9223372036854775807/2",
               "SELECT CONCAT_WS('/', store, product, n) FROM store_views ORDER BY product");
}

TEST(many_chunks)
{
    bench_batch(1, WORDS, 1);
    bench_rows(batch_add_hash(&bench.batch, SLICE("words"), 2500), "w", 0, 2500);
    bench_seal();
    assert_int_equal(batch_chunks(&bench.batch), 3);
    for (uint32_t i = 0; i < 3; i++) {
        batch_chunk(&bench.batch, i, &bench.chunk);
        assert_outcome(MERGE_DONE);
    }
    assert_sql("2500", "SELECT SUM(n) FROM words");
    assert_sql("0:1000 1:1000 2:500", "SELECT CONCAT(chunk, ':', total) FROM tally_ledger ORDER BY chunk");
}

/* ---- refused rows ---- */

/* 40 good words, each 1, and what else the caller adds before the seal. */
static uint32_t words_40(uint8_t id, uint64_t more)
{
    bench_batch(id, WORDS, 1);
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("words"), 40 + more);
    bench_rows(hash, "w", 10, 50);
    return hash;
}

static void one_refused(const char *field, const char *value, const char *reason, int64_t counted)
{
    bench_row(words_40(1, 1), field, value);
    assert_chunk(MERGE_DONE);
    assert_rows(40, 1);
    assert_sql("40", "SELECT COUNT(*) FROM words WHERE n = 1 AND word LIKE 'w__'");
    char books[64];
    snprintf(books, sizeof books, "40/%lld", (long long)counted);
    assert_sql(books, BOOKS);
    snprintf(books, sizeof books, "40/%lld", (long long)(40 + counted));
    assert_sql(books, LEDGER);
    assert_sql(field, "SELECT field FROM tally_rejects WHERE pending_hash = 'words' AND chunk = 0");
    assert_sql(value, "SELECT delta FROM tally_rejects WHERE counter = 'words' AND replayed_at IS NULL");
    assert_reason(reason);
    assert_outcome(MERGE_ALREADY);
    assert_int_equal(bench.chunk.rows_rejected, 1);
    assert_sql("1", "SELECT COUNT(*) FROM tally_rejects");
}

TEST(refused_field)
{
    char field[TEXT_BYTES_MAX + 2];
    memset(field, 'x', sizeof field - 1);
    field[sizeof field - 1] = 0;
    one_refused(field, "3", "not of the counter's kind", 3);
}

/* Sums of books are modulo 2^64: of a chunk, of the counter up and down, and of several realms. */
TEST(books_go_round)
{
    bench_row(words_40(1, 1), "zad", "9223372036854775807");
    assert_chunk(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_merged, 41);
    assert_sql("-9223372036854775769/0", BOOKS);
    assert_sql("-9223372036854775769", "SELECT total FROM tally_ledger");
    sql("UPDATE tally_counters SET rejected = 9223372036854775807");
    bench_batch(2, WORDS, 1);
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("words"), 0);
    bench_row(hash, "zad", "-100");
    bench_row(hash, "zae", "1.5");
    sql("INSERT INTO tally_counters (counter, realm, epoch, merged) SELECT counter, x'00', epoch,"
        " -9223372036854775808 FROM tally_counters");
    bench.batch.hashes[hash].hlen = 2;
    assert_chunk(MERGE_DONE);
    assert_sql("9223372036854775747", "SELECT merged FROM tally_counters WHERE chunks > 0");
}

#define NO_BAD "CREATE TRIGGER no_bad BEFORE INSERT ON words FOR EACH ROW IF NEW.word = 'bad' THEN "

/* A row that stood before keeps what it had. */
TEST(refused_alone)
{
    static const struct {
        const char *columns, *before, *field, *value, *reason;
        int64_t counted;
    } rows[] = {
        {WORD N, "DO 0", "bad", "1.5", "not an integer", 0},
        {WORD N, "INSERT INTO words VALUES ('bad', 9223372036854775807)", "bad", "3", "1690", 3},
        {WORD "n BIGINT UNSIGNED NOT NULL DEFAULT 0", "DO 0", "bad", "-1", "1264", -1},
        {WORD "n INT UNSIGNED NOT NULL", "INSERT INTO words VALUES ('bad', 4)", "bad", "-5", "1690", -5},
        {WORD "n TINYINT NOT NULL", "INSERT INTO words VALUES ('bad', 125)", "bad", "3", "1264", 3},
        {SHORT, "DO 0", "longer", "3", "1406", 3},
        {"word VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, " N, "DO 0", "\xff",
         "3", "1366", 3},
        {WORD N ", CHECK (n > 0)", "DO 0", "bad", "-3", "4025", -3},
        {WORD N, "ALTER TABLE words PARTITION BY RANGE COLUMNS (word) (PARTITION p VALUES LESS THAN ('x'))",
         "zoo", "3", "1526", 3},
        {WORD N, NO_BAD "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no bad words'; END IF", "bad", "3",
         "no bad words", 3},
        {WORD N, NO_BAD "SET NEW.n = NULL; END IF", "bad", "3", "1048", 3},
    };
    char stood[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        words_table(rows[i].columns);
        sql("%s", rows[i].before);
        snprintf(stood, sizeof stood, "%s", ask_sql("SELECT IFNULL(SUM(n), 0) FROM words"));
        one_refused(rows[i].field, rows[i].value, rows[i].reason, rows[i].counted);
        assert_sql(stood, "SELECT IFNULL(SUM(n), 0) FROM words WHERE word NOT LIKE 'w__'");
        bench_again();
    }
}

/* Negative sums on a count that is UNSIGNED, or narrow, or NULL: each is added where the sum fits, or refused alone. */
TEST(counts_with_bounds)
{
    words_table(WORD "n TINYINT UNSIGNED NULL");
    sql("INSERT INTO words VALUES ('five', 5), ('four', 4), ('null', NULL), ('full', 250), ('nil', NULL)");
    uint32_t hash = words_40(1, 7);
    static const char *const rows[][2] = {{"five", "-5"}, {"four", "-3"}, {"null", "3"},  {"full", "5"},
                                          {"nil", "0"},   {"w10x", "-1"}, {"w11x", "255"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_row(hash, rows[i][0], rows[i][1]);
    assert_chunk(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 1);
    assert_sql(
        "five=0 four=1 full=255 nil=0 null=3 w11x=255",
        "SELECT CONCAT_WS('=', word, n) FROM words WHERE LENGTH(word) > 3 OR word = 'nil' ORDER BY word");
    assert_sql("w10x/-1", "SELECT CONCAT_WS('/', field, delta) FROM tally_rejects");
    assert_sql("295/-1", BOOKS);
}

/* The delta alone is refused, the sum is not. */
TEST(a_valid_sum_is_applied)
{
    static const char *const guards[][2] = {
        {"ALTER TABLE words ADD CONSTRAINT guard CHECK (n >= 0)", "ALTER TABLE words DROP CONSTRAINT guard"},
        {"CREATE TRIGGER guard BEFORE INSERT ON words FOR EACH ROW IF NEW.n < 0 THEN SIGNAL SQLSTATE "
         "'45000'; END IF",
         "DROP TRIGGER guard"}};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        sql("%s", guards[i][0]);
        sql("INSERT INTO words VALUES ('ten', 10), ('two', 2)");
        uint32_t hash = words_40(1, 3);
        bench_row(hash, "ten", "-3");
        bench_row(hash, "two", "-3");
        bench_row(hash, "none", "-3");
        assert_chunk(MERGE_DONE);
        assert_sql("7", "SELECT n FROM words WHERE word = 'ten'");
        assert_sql(i == 0 ? "2" : "-1", "SELECT n FROM words WHERE word = 'two'");
        assert_sql(i == 0 ? "none two" : "none",
                   "SELECT GROUP_CONCAT(field ORDER BY field SEPARATOR ' ') FROM tally_rejects");
        sql("%s", guards[i][1]);
        bench_again();
    }
}

TEST(refused_foreign_key)
{
    sql("CREATE TABLE known_words (word VARBINARY(255) NOT NULL PRIMARY KEY) ENGINE=InnoDB");
    for (int i = 10; i < 50; i++)
        sql("INSERT INTO known_words VALUES ('w%d')", i);
    words_table(WORD N ", FOREIGN KEY (word) REFERENCES known_words (word)");
    one_refused("bad", "3", "1452", 3);
    words_table(WORD N);
    sql("DROP TABLE known_words");
}

TEST(first_and_last_refused)
{
    sql("INSERT INTO words VALUES ('a', 9223372036854775807), ('zzzzz', 9223372036854775807)");
    uint32_t hash = words_40(1, 2);
    bench_row(hash, "a", "2");
    bench_row(hash, "zzzzz", "3");
    assert_chunk(MERGE_DONE); /* 42 rows: 2 may be refused */
    assert_sql("0/a/2 41/zzzzz/3",
               "SELECT CONCAT_WS('/', seq, field, delta) FROM tally_rejects ORDER BY seq");
    assert_sql("40/5", BOOKS);
}

/* Codes of MySQL, of proxies and of nobody: what one row of 41 alone meets is its own. */
TEST(refused_with_any_code)
{
    static const unsigned codes[] = {30001, 9501, 1105, 5, 1146, 1142, 1062, 3105, 1526};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char reason[40];
        snprintf(reason, sizeof reason, "no bad words %u", codes[i]);
        sql(NO_BAD "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %u, MESSAGE_TEXT = '%s'; END IF", codes[i],
            reason);
        one_refused("bad", "3", reason, 3);
        sql("DROP TRIGGER no_bad");
        bench_again();
    }
}

/* More than half of a chunk, by MySQL and by the counter's kind. */
TEST(many_refused)
{
    char field[16];
    words_table(SHORT);
    uint32_t hash = words_40(1, 60);
    for (int i = 0; i < 60; i++) {
        snprintf(field, sizeof field, "longer%d", i);
        bench_row(hash, field, i < 30 ? "2" : "x");
    }
    assert_chunk(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 60);
    assert_int_equal(bench.chunk.rejected_n, 1);
    assert_int_equal(bench.chunk.rejected[0].rows, 60);
    assert_sql("40/60", BOOKS);
    assert_sql("30/30", "SELECT CONCAT_WS('/', SUM(counted), SUM(NOT counted)) FROM tally_rejects");
}

static void words_only(uint8_t id, const char *a, const char *b)
{
    bench_batch(id, WORDS, 1);
    ROWS("words", a, "2", b, "3");
    bench_seal();
}

/* (!) Which is at fault, the rows or the table? A row that MySQL took before tells. */
TEST(none_taken)
{
    words_table(SHORT);
    words_only(1, "longer", "longest");
    assert_outcome(MERGE_REFUSED);
    assert_true(bench.chunk.by_value);
    assert_text("MySQL takes none of 2 rows for words, the last for: MySQL error 1406");
    assert_sql("0", "SELECT COUNT(*) FROM tally_ledger");
    bench.chunk.values_only = true;
    sql("RENAME TABLE words TO away");
    assert_outcome(MERGE_HELD); /* forms */
    sql("RENAME TABLE away TO words");
    bench.chunk.values_only = false;
    assert_outcome(MERGE_REFUSED);
    words_only(2, "a", "b");
    assert_outcome(MERGE_DONE);
    words_only(1, "longer", "longest");
    assert_outcome(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 2);
    assert_sql("a=2 b=3", "SELECT GROUP_CONCAT(word, '=', n ORDER BY word SEPARATOR ' ') FROM words");
    words_only(4, "e", "f");
    assert_outcome(MERGE_DONE);
    sql("RENAME TABLE words TO away"); /* what was taken once is not taken now */
    words_only(3, "c", "d");
    assert_outcome(MERGE_REFUSED);
    assert_false(bench.chunk.by_value);
    assert_text("1146");
    sql("RENAME TABLE away TO words");
    assert_outcome(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 0);
    assert_sql("15/5", BOOKS);
}

TEST(none_taken_for_their_values)
{
    words_table(SHORT);
    words_only(1, "longer", "longest");
    bench.chunk.values_only = true;
    assert_outcome(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 2);
    words_only(2, "c", "d");
    sql("CREATE TRIGGER no_words BEFORE INSERT ON words FOR EACH ROW SIGNAL SQLSTATE '45000'"
        " SET MYSQL_ERRNO = 1142");
    bench.chunk.values_only = true; /* not for another reason */
    assert_outcome(MERGE_REFUSED);
    sql("DROP TRIGGER no_words");
}

TEST(single_row_refused)
{
    words_table(SHORT);
    bench_batch(1, WORDS, 1);
    ROWS("words", "longer", "1");
    assert_chunk(MERGE_DONE);
    assert_sql("1", "SELECT COUNT(*) FROM tally_rejects");
    bench_batch(2, WORDS, 1);
    ROWS("words", "a", "x", "b", "y");
    assert_chunk(MERGE_DONE); /* nothing that MySQL was asked for */
    assert_sql("3", "SELECT COUNT(*) FROM tally_rejects");
}

/* tallyd migrate --ledger-lost: the batch is merged once more, and MySQL still has what it refused of it. */
TEST(refused_again_without_a_ledger)
{
    bench_batch(1, WORDS, 1);
    ROWS("words", "a", "1", "b", "x");
    assert_chunk(MERGE_DONE);
    sql("DELETE FROM tally_ledger");
    assert_outcome(MERGE_DONE);
    assert_sql("2", "SELECT n FROM words WHERE word = 'a'");
    assert_sql("x", "SELECT GROUP_CONCAT(delta) FROM tally_rejects WHERE replayed_at IS NULL");
}

/* ---- tables and rights that do not fit ---- */

TEST(held_by_the_table)
{
    visitors_chunk(1);
    sql("RENAME TABLE daily_visitors TO away");
    assert_outcome(MERGE_HELD);
    sql("RENAME TABLE away TO daily_visitors");
    assert_outcome(MERGE_DONE);
    visitors_chunk(2);
    sql("RENAME TABLE daily_visitors TO away"); /* its forms are known by now */
    assert_outcome(MERGE_REFUSED);
    assert_text("1146");
    sql("RENAME TABLE away TO daily_visitors");
    assert_outcome(MERGE_DONE);
    assert_sql("2", "SELECT COUNT(*) FROM tally_ledger");
}

/* The collation takes two fields for one row: both are counted in it. */
TEST(a_folding_column)
{
    words_table("word VARCHAR(255) COLLATE utf8mb4_general_ci NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    bench_batch(1, WORDS, 1);
    ROWS("words", "a", "1", "A", "2");
    assert_chunk(MERGE_DONE);
    assert_sql("1 3", "SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM words");
}

TEST(held_without_a_counter)
{
    visitors_chunk(1);
    bench.batch.counter = NULL;
    assert_outcome(MERGE_HELD);
}

TEST(down_while_read_only)
{
    static char user[] = "app";
    sql("CREATE USER app@localhost");
    sql("GRANT ALL ON shop.* TO app@localhost");
    bench.config.user = user;
    visitors_chunk(1);
    assert_int_equal(db_open(bench.db), CODE_OK);
    sql("SET GLOBAL read_only = 1");
    assert_outcome(MERGE_DOWN); /* by the open session, which it leaves */
    assert_text("1290");
    assert_true(db_left(bench.db) && !db_is_open(bench.db));
    assert_outcome(MERGE_DOWN); /* none can be opened */
    assert_text("read_only is on; name the primary");
    sql("SET GLOBAL read_only = 0");
    assert_outcome(MERGE_DONE);
    assert_visitors_once();
    sql("DROP USER app@localhost");
}

TEST(down_without_a_server)
{
    static char nowhere[] = "/nowhere/at/all";
    bench.config.socket = nowhere;
    visitors_chunk(1);
    assert_outcome(MERGE_DOWN);
    assert_text("2002");
}

/* ---- locks ---- */

TEST(lock_timeout_then_done)
{
    bench.config.lock_wait_s = 1;
    visitors_chunk(1);
    sql("INSERT INTO daily_visitors VALUES (7, '2014-09-20', 0)");
    sql("BEGIN");
    sql("UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 7");
    int64_t before = STAT_GET(chunks_retried);
    uint64_t until_ms = mono_ms() + 20000;
    merge_begin(&bench);
    while (STAT_GET(chunks_retried) == before && mono_ms() < until_ms)
        usleep(10000);
    assert_true(STAT_GET(chunks_retried) > before);
    sql("ROLLBACK");
    merge_end(MERGE_DONE);
    assert_visitors_once();
}

/* Of the row of one hash: the other is merged, and the ledger says what is left, for whoever merges the chunk again. */
TEST(a_lock_delays_its_hash_alone)
{
    char blocks[40];
    bench.config.lock_wait_s = 1;
    visitors_chunk(1);
    sql("INSERT INTO daily_visitors VALUES (7, '2014-09-20', 0)");
    snprintf(blocks, sizeof blocks, "thread %s (", ask_sql("SELECT CONNECTION_ID()"));
    sql("BEGIN");
    sql("UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 7");
    for (int i = 0; i < 2; i++) {
        assert_outcome(MERGE_LOCKED);
        assert_int_equal(bench.chunk.rows_merged, i == 0);
        assert_true(ledger_names_have(buf_slice(&bench.chunk.left), SLICE("s7:visitors")));
        assert_int_equal(bench.chunk.left.n, 4 + strlen("s7:visitors"));
        buf_free(&bench.chunk.left);
        assert_non_null(strstr(bench.chunk.locked_by, blocks));
        assert_sql("5", "SELECT SUM(visitors) FROM daily_visitors WHERE store_id = 12");
        assert_sql("5/0", BOOKS);
        assert_sql("1/5/0000000B73373A76697369746F7273",
                   "SELECT CONCAT_WS('/', rows_merged, total, HEX(waiting)) FROM tally_ledger");
    }
    sql("ROLLBACK");
    assert_outcome(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_merged, 2);
    assert_visitors_once();
    assert_sql("3/9/-",
               "SELECT CONCAT_WS('/', rows_merged, total, COALESCE(waiting, '-')) FROM tally_ledger");
    assert_outcome(MERGE_ALREADY);
    assert_int_equal(bench.chunk.rows_merged, 3);
    assert_visitors_once();
}

/* A tallyd that knows of no parts takes it for another chunk; one that does, for no other's rows. */
TEST(a_part_has_a_digest_of_its_own)
{
    bench.config.lock_wait_s = 0;
    visitors_chunk(1);
    sql("BEGIN");
    sql("INSERT INTO daily_visitors VALUES (12, '2014-09-20', 0)");
    assert_outcome(MERGE_LOCKED);
    buf_free(&bench.chunk.left);
    sql("ROLLBACK");
    sql("UPDATE tally_ledger SET waiting = NULL");
    assert_outcome(MERGE_CONFLICT);
}

/* Many are locked: those between them are merged, whatever the order, and no lock of ours is held while we wait for the shop's. */
TEST(locks_here_and_there)
{
    char name[32];
    bench.config.lock_wait_s = 0;
    bench_batch(1, VISITORS, 7);
    for (int i = 100; i < 140; i++) {
        snprintf(name, sizeof name, "s%d:visitors", i);
        ROWS(name, "20140920", "1", "20140921", "x");
    }
    bench_seal();
    sql("BEGIN");
    for (int i = 100; i < 140; i += 7)
        sql("INSERT INTO daily_visitors VALUES (%d, '2014-09-20', 0)", i);
    assert_outcome(MERGE_LOCKED);
    buf_free(&bench.chunk.left);
    assert_rows(34, 34);
    sql("ROLLBACK");
    assert_sql("34/34", "SELECT CONCAT_WS('/', COUNT(*), SUM(visitors)) FROM daily_visitors");
    assert_sql("34", "SELECT COUNT(*) FROM tally_rejects");
    assert_sql("34/34/102", "SELECT CONCAT_WS('/', rows_merged, total, LENGTH(waiting)) FROM tally_ledger");
    assert_outcome(MERGE_DONE);
    assert_sql("40/40", "SELECT CONCAT_WS('/', COUNT(*), SUM(visitors)) FROM daily_visitors");
    assert_sql("40", "SELECT COUNT(*) FROM tally_rejects");
    assert_sql("40/40", "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger WHERE waiting IS NULL");
}

/* The lock is never released: the chunk is given back and nothing is left behind. */
TEST(lock_timeout_for_good)
{
    bench.config.lock_wait_s = 0;
    visitors_chunk(1);
    sql("BEGIN");
    sql("INSERT INTO daily_visitors VALUES (12, '2014-09-20', 0), (7, '2014-09-21', 0)");
    assert_outcome(MERGE_LOCKED);
    assert_string_equal(bench.chunk.text, "rows of 2 of its hashes are locked");
    buf_free(&bench.chunk.left);
    sql("COMMIT");
    assert_sql("0", "SELECT COUNT(*) FROM tally_ledger"); /* 1205 leaves it open: it was rolled back */
    assert_sql("2/0", "SELECT CONCAT_WS('/', COUNT(*), SUM(visitors)) FROM daily_visitors");
    assert_sql("0", "SELECT COUNT(*) FROM information_schema.INNODB_TRX");
    sql("DELETE FROM daily_visitors");
    assert_outcome(MERGE_DONE);
    assert_visitors_once();
}

TEST(deadlock)
{
    bench.config.lock_wait_s = 8;
    visitors_chunk(1);
    sql("INSERT INTO daily_visitors VALUES (7, '2014-09-20', 0), (12, '2014-09-20', 0)");
    sql("BEGIN");
    for (int i = 0; i < 200; i++) /* the victim is the one that wrote less */
        sql("INSERT INTO daily_visitors VALUES (99, '2014-01-01' + INTERVAL %d DAY, 0)", i);
    sql("UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 12");
    int64_t before = STAT_GET(chunks_retried);
    merge_begin(&bench); /* takes store 7, then waits for 12 */
    await_sql("1", WAITING);
    sql("UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 7");
    sql("DELETE FROM daily_visitors WHERE store_id = 99");
    sql("COMMIT");
    merge_end(MERGE_DONE);
    assert_true(STAT_GET(chunks_retried) > before);
    sql("UPDATE daily_visitors SET visitors = visitors - 1 WHERE day = '2014-09-20'");
    assert_visitors_once();
}

/* The second merger of a chunk waits for the first to end. */
TEST(two_mergers)
{
    struct bench other;
    bench_open(&other);
    visitors_chunk(1);
    other.chunk = bench.chunk;
    merge_begin(&bench);
    merge_begin(&other);
    pthread_join(bench.thread, NULL);
    pthread_join(other.thread, NULL);
    enum merge_outcome got = bench.chunk.outcome, others = other.chunk.outcome;
    assert_true(got == MERGE_DONE ? others == MERGE_ALREADY : got == MERGE_ALREADY && others == MERGE_DONE);
    bench_close(&other);
    assert_visitors_once();
}

/* ---- lost connections ---- */

/* Kills the connection that waits for a lock; when it returns, that transaction is gone. */
static void kill_waiting(void)
{
    char id[32];
    await_sql("1", WAITING);
    snprintf(id, sizeof id, "%s",
             ask_sql("SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state ="
                     " 'LOCK WAIT'"));
    sql("KILL %s", id);
    await_sql("0", "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %s", id);
}

TEST(killed_in_the_middle)
{
    visitors_chunk(1);
    sql("BEGIN");
    sql("INSERT INTO daily_visitors VALUES (12, '2014-09-20', 0)");
    merge_begin(&bench);
    kill_waiting();
    sql("ROLLBACK");
    merge_end(MERGE_DONE);
    assert_visitors_once();
}

TEST(server_killed_between)
{
    visitors_chunk(1);
    assert_outcome(MERGE_DONE);
    mariadb_kill(&server);
    assert_outcome(MERGE_DOWN);
    mariadb_back(&server);
    assert_outcome(MERGE_ALREADY);
    assert_visitors_once();
}

/* Of the COMMIT itself, and of its answer. */
TEST(commit_cut)
{
    for (int answer = 0; answer < 2; answer++) {
        bench_through_proxy();
        bench.config.read_timeout_s = 2;
        bench.config.connect_timeout_s = bench.config.lock_wait_s = 1;
        visitors_chunk(1);
        atomic_store(&proxy->trick, answer ? PROXY_CUT_REPLY : PROXY_CUT_COMMIT);
        assert_outcome(answer ? MERGE_ALREADY : MERGE_DONE);
        assert_int_equal(atomic_load(&proxy->trick), PROXY_PASS);
        assert_outcome(MERGE_ALREADY);
        assert_visitors_once();
        bench_again();
    }
}

/* What MySQL refused in the first try is found again in the second, and noted once. */
TEST(commit_cut_with_a_refused_row)
{
    bench_through_proxy();
    sql("INSERT INTO words VALUES ('bad', 9223372036854775807)");
    uint32_t hash = words_40(1, 2);
    bench_row(hash, "bad", "3");
    bench_row(hash, "junk", "x");
    bench_seal();
    atomic_store(&proxy->trick, PROXY_CUT_COMMIT);
    assert_outcome(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 2);
    assert_sql("bad/3/1 junk/x/0",
               "SELECT CONCAT_WS('/', field, delta, counted) FROM tally_rejects ORDER BY field");
    assert_sql("40/3", BOOKS);
    assert_sql("40/43", LEDGER);
}

/* The server has COMMIT in its socket when it is stopped. Whether it then commits or sees the closed link
 * first is its own affair: the ledger row tells, and the rows are there once. */
TEST(commit_stopped)
{
    bench_through_proxy();
    bench.config.read_timeout_s = bench.config.connect_timeout_s = bench.config.lock_wait_s = 1;
    visitors_chunk(1);
    atomic_store(&proxy->trick, PROXY_STOP_SERVER);
    assert_outcome(MERGE_DOWN);
    kill(server.pid, SIGCONT);
    enum merge_outcome then = merge();
    assert_true(then == MERGE_ALREADY || then == MERGE_DONE);
    assert_visitors_once();
}

/* ---- size ---- */

TEST(packet_lowered)
{
    char field[TEXT_BYTES_MAX + 1];
    visitors_chunk(1);
    assert_outcome(MERGE_DONE);
    packet_set(4096);
    db_close(bench.db);
    bench_batch(2, WORDS, 1);
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("words"), 300);
    for (int i = 0; i < 300; i++) {
        memset(field, 'x', sizeof field);
        field[snprintf(field, sizeof field, "%d", i)] = 'x';
        batch_add_row(&bench.batch, hash, slice_of(field, TEXT_BYTES_MAX), SLICE("1"));
    }
    assert_chunk(MERGE_DONE);
    assert_int_equal(db_packet_bytes(bench.db), 4096);
    assert_sql("300", "SELECT COUNT(*) FROM words");
    packet_set(16777216);
}

/* A reject that fits into no packet cannot be dropped: it is held until the bound is raised. */
TEST(packet_too_small_for_a_reject)
{
    char field[6000];
    memset(field, 'x', sizeof field);
    packet_set(8192);
    batch_add_row(&bench.batch, words_40(1, 1), slice_of(field, sizeof field), SLICE("1"));
    assert_chunk(MERGE_HELD);
    assert_text("max_allowed_packet");
    assert_sql("0", "SELECT COUNT(*) FROM tally_ledger");
    packet_set(16777216);
    db_close(bench.db);
    assert_outcome(MERGE_DONE);
    assert_sql("6000", "SELECT LENGTH(field) FROM tally_rejects");
}

/* With the smallest packet and the longest names one row alone is too much. */
TEST(packet_too_small_for_a_row)
{
    struct counter wide = shop_all[STORES];
    char name[65], store[65], field[65], count[65], product[TEXT_BYTES_MAX];
    snprintf(name, sizeof name, "%064d", 1);
    snprintf(store, sizeof store, "s%063d", 2);
    snprintf(field, sizeof field, "f%063d", 3);
    snprintf(count, sizeof count, "c%063d", 4);
    memset(product, 'x', sizeof product);
    name[0] = 't';
    wide.field = FIELD_TEXT;
    wide.table = slice_str(name);
    wide.column_store = slice_str(store);
    wide.column_field = slice_str(field);
    wide.column_count = slice_str(count);
    struct counters one = {.all = &wide, .n = 1};
    struct error e;
    uint32_t created;
    assert_int_equal(schema_migrate_tables(server.db, &one, &created, &e), ERR_NONE);
    assert_int_equal(created, 1);
    packet_set(1024);
    bench_batch(1, STORES, 1);
    bench.batch.counter = &wide;
    uint32_t a = batch_add_hash(&bench.batch, SLICE("ta:views"), 2),
             b = batch_add_hash(&bench.batch, SLICE("tbb:views"), 1);
    bench_row(a, "p", "1");
    batch_add_row(&bench.batch, a, slice_of(product, sizeof product), SLICE("2"));
    bench_row(b, "p", "4");
    assert_chunk(MERGE_DONE);
    assert_int_equal(bench.chunk.rows_rejected, 1);
    assert_sql("5/2", BOOKS);
    assert_reason("max_allowed_packet");
    packet_set(16777216);
    sql("DROP TABLE `%s`", name);
}

/* A link was lost after a large statement: the next is half as large, and success lets it grow again. */
TEST(large_statement_cut)
{
    char field[TEXT_BYTES_MAX];
    bench_batch(1, WORDS, 1);
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("words"), 100);
    memset(field, 'x', sizeof field);
    for (int i = 0; i < 100; i++) {
        field[0] = (char)('0' + i / 10);
        field[1] = (char)('0' + i % 10);
        batch_add_row(&bench.batch, hash, slice_of(field, sizeof field), SLICE("1"));
    }
    bench_seal();
    sql("BEGIN");
    sql("INSERT INTO words VALUES (CONCAT('99', REPEAT('x', %d)), 0)", TEXT_BYTES_MAX - 2);
    size_t before = bench.merger.statement_max;
    merge_begin(&bench);
    for (int i = 0; i < 2; i++)
        kill_waiting();
    sql("ROLLBACK");
    merge_end(MERGE_DONE);
    assert_int_equal(bench.merger.statement_max, before / 2); /* halved twice, doubled once */
    assert_sql("100", "SELECT COUNT(*) FROM words");
}

TEST(session)
{
    struct db *db = db_create(&server.config);
    struct slice cell[4];
    assert_int_equal(db_open(db), CODE_OK);
    assert_true(db_is_mariadb(db));
    assert_int_equal(db_dialect(db), DB_VALUES);
    assert_false(db_probe_row_alias(db)); /* MariaDB does not parse it */
    assert_true(db_is_open(db));
    assert_int_equal(DB_QUERY(db, "SELECT @@sql_mode, @@time_zone, @@tx_isolation, @@wait_timeout"), CODE_OK);
    assert_true(db_row(db, cell, 4));
    assert_non_null(memmem(cell[0].p, cell[0].n, "STRICT_ALL_TABLES", 17));
    assert_slice(cell[1], "SYSTEM"); /* of the server */
    assert_slice(cell[2], "READ-COMMITTED");
    assert_slice(cell[3], "60");
    assert_int_equal(db_opened(db), 1);
    db_destroy(&db);
}

UNITS_IN(shop_start, shop_stop)
