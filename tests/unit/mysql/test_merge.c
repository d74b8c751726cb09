/* One chunk into a real MariaDB: exactly once through crashes, cut links, stopped servers, locks and refused
 * rows. */
#include "lib/sql_proxy.h"

#include "bench.h"

#include "base/sm.h"
#include "base/stats.h"
#include "lib/child.h"

/* Two stores, three rows, together 9. */
static void visitors_chunk(struct bench *t, uint8_t id)
{
    shop_batch(&t->batch, id, VISITORS, 7);
    HASH(&t->batch, "s12:visitors", "20140920", "5");
    HASH(&t->batch, "s7:visitors", "20140920", "6", "20140921", "-2");
    shop_chunk(&t->batch, 0, &t->chunk);
}

static void assert_visitors_once(void)
{
    assert_mariadb(
        &server, "7/2014-09-20/6 7/2014-09-21/-2 12/2014-09-20/5",
        "SELECT CONCAT_WS('/', store_id, day, visitors) FROM daily_visitors ORDER BY store_id, day");
    assert_mariadb(&server, "9/0", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "1", "SELECT COUNT(*) FROM tally_ledger");
}

static void once(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_merged, 3);
    assert_int_equal(t.chunk.rows_rejected, 0);
    assert_visitors_once();
    assert_mariadb(
        &server, "01010101010101010101010101010101/0/1/visitors/7/3/9",
        "SELECT CONCAT_WS('/', LOWER(HEX(batch)), chunk, chunks, counter, gen, rows_merged, total) FROM"
        " tally_ledger WHERE merged_at BETWEEN UTC_TIMESTAMP() - INTERVAL 1 MINUTE AND UTC_TIMESTAMP(3)");
    assert_mariadb(
        &server,
        "000B73373A76697369746F727300083230313430393230/000C7331323A76697369746F7273000832303134303"
        "93230",
        "SELECT CONCAT_WS('/', HEX(first_key), HEX(last_key)) FROM tally_ledger");
    assert_outcome(&t, MERGE_ALREADY);
    assert_int_equal(t.chunk.rows_merged, 3);
    assert_visitors_once();
    bench_close(&t);
}

/* Otherwise pruning, which goes by age, could overtake a run that scanned before its batch was discarded. */
static void found_again_is_young_again(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, MERGE_DONE);
    mariadb_do(&server, "UPDATE tally_ledger SET merged_at = merged_at - INTERVAL 30 DAY");
    assert_outcome(&t, MERGE_ALREADY);
    assert_mariadb(&server, "1",
                   "SELECT COUNT(*) FROM tally_ledger WHERE merged_at > UTC_TIMESTAMP() - INTERVAL 1 MINUTE");
    bench_close(&t);
}

static void adds_to_what_stands(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    for (uint8_t id = 1; id <= 2; id++) {
        visitors_chunk(&t, id);
        assert_outcome(&t, MERGE_DONE);
        batch_close(&t.batch);
    }
    assert_mariadb(&server, "18", "SELECT SUM(visitors) FROM daily_visitors");
    assert_mariadb(&server, "18", "SELECT merged FROM tally_counters");
    bench_close(&t);
}

static void empty_chunk(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, VISITORS, 1);
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_outcome(&t, MERGE_ALREADY);
    bench_close(&t);
}

static void conflict(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, MERGE_DONE);
    t.chunk.chunks = 2; /* another cut */
    assert_outcome(&t, MERGE_CONFLICT);
    batch_close(&t.batch);
    shop_batch(&t.batch, 1, VISITORS, 7);
    HASH(&t.batch, "s7:visitors", "20140920", "1");
    shop_chunk(&t.batch, 0, &t.chunk); /* other rows */
    assert_outcome(&t, MERGE_CONFLICT);
    assert_visitors_once();
    bench_close(&t);
}

static void too_old(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    t.chunk.not_after_ms = age_ms() - 1;
    assert_outcome(&t, MERGE_TOO_OLD);
    assert_mariadb(&server, "0", "SELECT COUNT(*) FROM tally_ledger");
    bench_close(&t);
}

static void forms(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, HOURLY, 1);
    HASH(&t.batch, "s7:hourly", "2014092013", "5");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    batch_close(&t.batch);
    shop_batch(&t.batch, 2, WORDS, 2);
    HASH(&t.batch, "words", "a", "1", "A", "2", "a ", "3", "\xc3\xa1", "4", "it's \\", "5", "\xff\x01", "6");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    batch_close(&t.batch);
    shop_batch(&t.batch, 3, STORES, 3);
    HASH(&t.batch, "tS-1:views", "-9223372036854775808", "1", "9223372036854775807", "2");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    batch_close(&t.batch);
    assert_mariadb(&server, "7/2014-09-20 13:00:00/5",
                   "SELECT CONCAT_WS('/', store_id, hour, n) FROM hourly");
    assert_mariadb(&server, "41:2 61:1 6120:3 69742773205C:5 C3A1:4 FF01:6",
                   "SELECT CONCAT(HEX(word), ':', n) FROM words ORDER BY word");
    assert_mariadb(&server, "S-1/-9223372036854775808/1 S-1/9223372036854775807/2",
                   "SELECT CONCAT_WS('/', store, product, n) FROM store_views ORDER BY product");
    bench_close(&t);
}

static void many_chunks(void **state)
{
    struct bench t;
    char field[16];
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, WORDS, 1);
    uint32_t hash = batch_add_hash(&t.batch, SLICE("words"), 2500);
    for (int i = 0; i < 2500; i++) {
        snprintf(field, sizeof field, "w%d", i);
        batch_add_row(&t.batch, hash, slice_str(field), SLICE("1"));
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_int_equal(batch_chunks(&t.batch), 3);
    for (uint32_t i = 0; i < 3; i++) {
        batch_chunk(&t.batch, i, &t.chunk);
        assert_outcome(&t, MERGE_DONE);
    }
    assert_mariadb(&server, "2500", "SELECT SUM(n) FROM words");
    assert_mariadb(&server, "0:1000 1:1000 2:500",
                   "SELECT CONCAT(chunk, ':', total) FROM tally_ledger ORDER BY chunk");
    bench_close(&t);
}

/* ---- crashes ---- */

static void merge_and_die(void *arg)
{
    struct bench t;
    setenv("TALLYD_CRASH", arg, 1);
    if (!crash_init()) abort();
    bench_open(&t, &server.config);
    for (uint8_t id = 1; id <= 2; id++) {
        visitors_chunk(&t, id);
        t.chunk.index = id - 1u; /* as if the second were a later chunk of a batch */
        merge(&t);
    }
}

static void crash_at(const char *point, enum merge_outcome then)
{
    struct bench t;
    struct child_end end = child_run(merge_and_die, (void *)point);
    assert_true(child_was_killed(&end, SIGKILL));
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, then);
    assert_visitors_once();
    bench_close(&t);
}

static void crash_after_ledger(void **state)
{
    crash_at("merge_after_ledger", MERGE_DONE);
}
static void crash_before_commit(void **state)
{
    crash_at("merge_before_commit", MERGE_DONE);
}
static void crash_after_commit(void **state)
{
    crash_at("merge_after_commit", MERGE_ALREADY);
}
static void crash_between_chunks(void **state)
{
    crash_at("merge_between_chunks", MERGE_ALREADY);
}

/* ---- refused rows ---- */

/* 40 good words, each 1, and what else the caller adds before the seal. */
static uint32_t words_40(struct bench *t, uint8_t id, uint64_t more)
{
    char field[16];
    shop_batch(&t->batch, id, WORDS, 1);
    uint32_t hash = batch_add_hash(&t->batch, SLICE("words"), 40 + more);
    for (int i = 10; i < 50; i++) {
        snprintf(field, sizeof field, "w%d", i);
        batch_add_row(&t->batch, hash, slice_str(field), SLICE("1"));
    }
    return hash;
}

static void one_refused(const char *field, const char *value, const char *reason, int64_t counted)
{
    struct bench t;
    bench_open(&t, &server.config);
    batch_add_row(&t.batch, words_40(&t, 1, 1), slice_str(field), slice_str(value));
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_merged, 40);
    assert_int_equal(t.chunk.rows_rejected, 1);
    assert_mariadb(&server, "40", "SELECT COUNT(*) FROM words WHERE n = 1 AND word LIKE 'w__'");
    char books[64];
    snprintf(books, sizeof books, "40/%lld", (long long)counted);
    assert_mariadb(&server, books, "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    snprintf(books, sizeof books, "40/%lld", (long long)(40 + counted));
    assert_mariadb(&server, books, "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger");
    assert_mariadb(&server, field,
                   "SELECT field FROM tally_rejects WHERE pending_hash = 'words' AND chunk = 0");
    assert_mariadb(&server, value,
                   "SELECT delta FROM tally_rejects WHERE counter = 'words' AND replayed_at IS NULL");
    const char *said = mariadb_ask(&server, "SELECT reason FROM tally_rejects");
    if (strstr(said, reason) == NULL) fail_msg("the reason is: %s", said);
    assert_outcome(&t, MERGE_ALREADY);
    assert_int_equal(t.chunk.rows_rejected, 1);
    assert_mariadb(&server, "1", "SELECT COUNT(*) FROM tally_rejects");
    bench_close(&t);
}

static void refused_not_an_integer(void **state)
{
    one_refused("bad", "1.5", "not an integer", 0);
}

static void refused_field(void **state)
{
    char field[TEXT_BYTES_MAX + 2];
    memset(field, 'x', sizeof field - 1);
    field[sizeof field - 1] = 0;
    one_refused(field, "3", "not of the counter's kind", 3);
}

/* Sums of books are modulo 2^64: of a chunk, of the counter up and down, and of several realms. */
static void books_go_round(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    batch_add_row(&t.batch, words_40(&t, 1, 1), SLICE("zad"), SLICE("9223372036854775807"));
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_merged, 41);
    assert_mariadb(&server, "-9223372036854775769/0",
                   "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "-9223372036854775769", "SELECT total FROM tally_ledger");
    mariadb_do(&server, "UPDATE tally_counters SET rejected = 9223372036854775807");
    batch_close(&t.batch);
    shop_batch(&t.batch, 2, WORDS, 1);
    uint32_t hash = batch_add_hash(&t.batch, SLICE("words"), 0);
    batch_add_row(&t.batch, hash, SLICE("zad"), SLICE("-100"));
    batch_add_row(&t.batch, hash, SLICE("zae"), SLICE("1.5"));
    mariadb_do(&server,
               "INSERT INTO tally_counters (counter, realm, epoch, merged) SELECT counter, x'00', epoch,"
               " -9223372036854775808 FROM tally_counters");
    t.batch.hashes[hash].hlen = 2;
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "9223372036854775747", "SELECT merged FROM tally_counters WHERE chunks > 0");
    bench_close(&t);
}

static void refused_1690(void **state)
{
    mariadb_do(&server, "INSERT INTO words VALUES ('bad', 9223372036854775807)");
    one_refused("bad", "3", "1690", 3);
}

static void words_table(const char *columns)
{
    mariadb_do(&server, "DROP TABLE words");
    mariadb_do(&server, "CREATE TABLE words (%s, PRIMARY KEY (word)) ENGINE=InnoDB", columns);
}

static void words_table_again(void)
{
    words_table("word VARBINARY(255) NOT NULL, n BIGINT NOT NULL DEFAULT 0");
}

static void refused_1264(void **state)
{
    words_table(
        "word VARBINARY(255) NOT NULL, n BIGINT UNSIGNED NOT NULL DEFAULT 0"); /* altered under our feet */
    one_refused("bad", "-1", "1264", -1);
    words_table_again();
}

/* Negative sums on a count that is UNSIGNED, or narrow, or NULL: each is added where the sum fits, or refused alone. */
static void counts_with_bounds(void **state)
{
    struct bench t;
    words_table("word VARBINARY(255) NOT NULL, n TINYINT UNSIGNED NULL");
    mariadb_do(
        &server,
        "INSERT INTO words VALUES ('five', 5), ('four', 4), ('null', NULL), ('full', 250), ('nil', NULL)");
    bench_open(&t, &server.config);
    uint32_t hash = words_40(&t, 1, 7);
    static const char *const rows[][2] = {{"five", "-5"}, {"four", "-3"}, {"null", "3"},  {"full", "5"},
                                          {"nil", "0"},   {"w10x", "-1"}, {"w11x", "255"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        batch_add_row(&t.batch, hash, slice_str(rows[i][0]), slice_str(rows[i][1]));
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 1);
    assert_mariadb(
        &server, "five=0 four=1 full=255 nil=0 null=3 w11x=255",
        "SELECT CONCAT_WS('=', word, n) FROM words WHERE LENGTH(word) > 3 OR word = 'nil' ORDER BY word");
    assert_mariadb(&server, "w10x/-1", "SELECT CONCAT_WS('/', field, delta) FROM tally_rejects");
    assert_mariadb(&server, "295/-1", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    bench_close(&t);
    words_table_again();
}

static void below_zero_is_refused(void **state)
{
    words_table("word VARBINARY(255) NOT NULL, n INT UNSIGNED NOT NULL DEFAULT 0");
    mariadb_do(&server, "INSERT INTO words VALUES ('bad', 4)");
    one_refused("bad", "-5", "1690", -5);
    assert_mariadb(&server, "4", "SELECT n FROM words WHERE word = 'bad'");
    words_table_again();
}

static void beyond_its_bound_is_refused(void **state)
{
    words_table("word VARBINARY(255) NOT NULL, n TINYINT NOT NULL DEFAULT 0");
    mariadb_do(&server, "INSERT INTO words VALUES ('bad', 125)");
    one_refused("bad", "3", "1264", 3);
    words_table_again();
}

static void refused_1406(void **state)
{
    words_table("word VARBINARY(5) NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    one_refused("longer", "3", "1406", 3);
    words_table_again();
}

static void refused_1366(void **state)
{
    words_table("word VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,"
                " n BIGINT NOT NULL DEFAULT 0");
    one_refused("\xff", "3", "1366", 3);
    words_table_again();
}

static void refused_check(void **state)
{
    words_table("word VARBINARY(255) NOT NULL, n BIGINT NOT NULL DEFAULT 0, CHECK (n > 0)");
    one_refused("bad", "-3", "4025", -3);
    words_table_again();
}

/* The delta alone is refused, the sum is not. */
static void a_valid_sum_is_applied(void **state)
{
    static const char *const guards[][2] = {
        {"ALTER TABLE words ADD CONSTRAINT guard CHECK (n >= 0)", "ALTER TABLE words DROP CONSTRAINT guard"},
        {"CREATE TRIGGER guard BEFORE INSERT ON words FOR EACH ROW IF NEW.n < 0 THEN SIGNAL SQLSTATE "
         "'45000'; END IF",
         "DROP TRIGGER guard"}};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        struct bench t;
        mariadb_do(&server, "%s", guards[i][0]);
        mariadb_do(&server, "INSERT INTO words VALUES ('ten', 10), ('two', 2)");
        bench_open(&t, &server.config);
        uint32_t hash = words_40(&t, 1, 3);
        batch_add_row(&t.batch, hash, SLICE("ten"), SLICE("-3"));
        batch_add_row(&t.batch, hash, SLICE("two"), SLICE("-3"));
        batch_add_row(&t.batch, hash, SLICE("none"), SLICE("-3"));
        shop_chunk(&t.batch, 0, &t.chunk);
        assert_outcome(&t, MERGE_DONE);
        assert_mariadb(&server, "7", "SELECT n FROM words WHERE word = 'ten'");
        assert_mariadb(&server, i == 0 ? "2" : "-1", "SELECT n FROM words WHERE word = 'two'");
        assert_mariadb(&server, i == 0 ? "none two" : "none",
                       "SELECT GROUP_CONCAT(field ORDER BY field SEPARATOR ' ') FROM tally_rejects");
        bench_close(&t);
        mariadb_do(&server, "%s", guards[i][1]);
        assert_int_equal(shop_afresh(state), 0);
    }
}

static void refused_foreign_key(void **state)
{
    mariadb_do(&server, "CREATE TABLE known_words (word VARBINARY(255) NOT NULL PRIMARY KEY) ENGINE=InnoDB");
    for (int i = 10; i < 50; i++)
        mariadb_do(&server, "INSERT INTO known_words VALUES ('w%d')", i);
    words_table("word VARBINARY(255) NOT NULL, n BIGINT NOT NULL DEFAULT 0,"
                " FOREIGN KEY (word) REFERENCES known_words (word)");
    one_refused("bad", "3", "1452", 3);
    words_table_again();
    mariadb_do(&server, "DROP TABLE known_words");
}

static void refused_by_a_trigger(void **state)
{
    mariadb_do(&server, "CREATE TRIGGER no_bad BEFORE INSERT ON words FOR EACH ROW IF NEW.word = 'bad' THEN"
                        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no bad words'; END IF");
    one_refused("bad", "3", "no bad words", 3);
    mariadb_do(&server, "DROP TRIGGER no_bad");
}

static void refused_null(void **state)
{
    mariadb_do(&server, "CREATE TRIGGER no_bad BEFORE INSERT ON words FOR EACH ROW IF NEW.word = 'bad' THEN"
                        " SET NEW.n = NULL; END IF");
    one_refused("bad", "3", "1048", 3);
    mariadb_do(&server, "DROP TRIGGER no_bad");
}

static void first_and_last_refused(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    mariadb_do(&server,
               "INSERT INTO words VALUES ('a', 9223372036854775807), ('zzzzz', 9223372036854775807)");
    uint32_t hash = words_40(&t, 1, 2);
    batch_add_row(&t.batch, hash, SLICE("a"), SLICE("2"));
    batch_add_row(&t.batch, hash, SLICE("zzzzz"), SLICE("3"));
    shop_chunk(&t.batch, 0, &t.chunk); /* 42 rows: 2 may be refused */
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "0/a/2 41/zzzzz/3",
                   "SELECT CONCAT_WS('/', seq, field, delta) FROM tally_rejects ORDER BY seq");
    assert_mariadb(&server, "40/5", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    bench_close(&t);
}

/* Codes of MySQL, of proxies and of nobody: what one row of 41 alone meets is its own. */
static void refused_with_any_code(void **state)
{
    static const unsigned codes[] = {30001, 9501, 1105, 5, 1146, 1142, 1062, 3105, 1526};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char reason[40];
        snprintf(reason, sizeof reason, "no bad words %u", codes[i]);
        mariadb_do(&server,
                   "CREATE TRIGGER no_bad BEFORE INSERT ON words FOR EACH ROW IF NEW.word = 'bad' THEN SIGNAL"
                   " SQLSTATE '45000' SET MYSQL_ERRNO = %u, MESSAGE_TEXT = '%s'; END IF",
                   codes[i], reason);
        one_refused("bad", "3", reason, 3);
        mariadb_do(&server, "DROP TRIGGER no_bad");
        assert_int_equal(shop_afresh(state), 0);
    }
}

static void refused_by_partitions(void **state)
{
    mariadb_do(&server, "DROP TABLE words");
    mariadb_do(
        &server,
        "CREATE TABLE words (word VARBINARY(255) NOT NULL, n BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (word))"
        " PARTITION BY RANGE COLUMNS (word) (PARTITION p VALUES LESS THAN ('x'))");
    one_refused("zoo", "3", "1526", 3);
    words_table_again();
}

/* More than half of a chunk, by MySQL and by the counter's kind. */
static void many_refused(void **state)
{
    struct bench t;
    char field[16];
    words_table("word VARBINARY(5) NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    bench_open(&t, &server.config);
    uint32_t hash = words_40(&t, 1, 60);
    for (int i = 0; i < 60; i++) {
        snprintf(field, sizeof field, "longer%d", i);
        batch_add_row(&t.batch, hash, slice_str(field), i < 30 ? SLICE("2") : SLICE("x"));
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 60);
    assert_int_equal(t.chunk.rejected_n, 1);
    assert_int_equal(t.chunk.rejected[0].rows, 60);
    assert_mariadb(&server, "40/60", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "30/30",
                   "SELECT CONCAT_WS('/', SUM(counted), SUM(NOT counted)) FROM tally_rejects");
    bench_close(&t);
    words_table_again();
}

static void words_only(struct bench *t, uint8_t id, const char *a, const char *b)
{
    batch_close(&t->batch);
    shop_batch(&t->batch, id, WORDS, 1);
    uint32_t hash = batch_add_hash(&t->batch, SLICE("words"), 2);
    batch_add_row(&t->batch, hash, slice_str(a), SLICE("2"));
    batch_add_row(&t->batch, hash, slice_str(b), SLICE("3"));
    shop_chunk(&t->batch, 0, &t->chunk);
}

/* (!) Which is at fault, the rows or the table? A row that MySQL took before tells. */
static void none_taken(void **state)
{
    struct bench t;
    words_table("word VARBINARY(5) NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    bench_open(&t, &server.config);
    words_only(&t, 1, "longer", "longest");
    assert_outcome(&t, MERGE_REFUSED);
    assert_true(t.chunk.by_value);
    assert_non_null(
        strstr(t.chunk.text, "MySQL takes none of 2 rows for words, the last for: MySQL error 1406"));
    assert_mariadb(&server, "0", "SELECT COUNT(*) FROM tally_ledger");
    t.chunk.values_only = true;
    mariadb_do(&server, "RENAME TABLE words TO away");
    assert_outcome(&t, MERGE_HELD); /* forms */
    mariadb_do(&server, "RENAME TABLE away TO words");
    t.chunk.values_only = false;
    assert_outcome(&t, MERGE_REFUSED);
    words_only(&t, 2, "a", "b");
    assert_outcome(&t, MERGE_DONE);
    words_only(&t, 1, "longer", "longest");
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 2);
    assert_mariadb(&server, "a=2 b=3",
                   "SELECT GROUP_CONCAT(word, '=', n ORDER BY word SEPARATOR ' ') FROM words");
    words_only(&t, 4, "e", "f");
    assert_outcome(&t, MERGE_DONE);
    mariadb_do(&server, "RENAME TABLE words TO away"); /* what was taken once is not taken now */
    words_only(&t, 3, "c", "d");
    assert_outcome(&t, MERGE_REFUSED);
    assert_false(t.chunk.by_value);
    assert_non_null(strstr(t.chunk.text, "1146"));
    mariadb_do(&server, "RENAME TABLE away TO words");
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 0);
    assert_mariadb(&server, "15/5", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    bench_close(&t);
    words_table_again();
}

static void none_taken_for_their_values(void **state)
{
    struct bench t;
    words_table("word VARBINARY(5) NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    bench_open(&t, &server.config);
    words_only(&t, 1, "longer", "longest");
    t.chunk.values_only = true;
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 2);
    words_only(&t, 2, "c", "d");
    mariadb_do(&server, "CREATE TRIGGER no_words BEFORE INSERT ON words FOR EACH ROW SIGNAL SQLSTATE '45000'"
                        " SET MYSQL_ERRNO = 1142");
    t.chunk.values_only = true; /* not for another reason */
    assert_outcome(&t, MERGE_REFUSED);
    mariadb_do(&server, "DROP TRIGGER no_words");
    bench_close(&t);
    words_table_again();
}

static void single_row_refused(void **state)
{
    struct bench t;
    words_table("word VARBINARY(5) NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, WORDS, 1);
    HASH(&t.batch, "words", "longer", "1");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "1", "SELECT COUNT(*) FROM tally_rejects");
    batch_close(&t.batch);
    shop_batch(&t.batch, 2, WORDS, 1);
    HASH(&t.batch, "words", "a", "x", "b", "y");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE); /* nothing that MySQL was asked for */
    assert_mariadb(&server, "3", "SELECT COUNT(*) FROM tally_rejects");
    bench_close(&t);
    words_table_again();
}

/* tallyd migrate --ledger-lost: the batch is merged once more, and MySQL still has what it refused of it. */
static void refused_again_without_a_ledger(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, WORDS, 1);
    HASH(&t.batch, "words", "a", "1", "b", "x");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    mariadb_do(&server, "DELETE FROM tally_ledger");
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "2", "SELECT n FROM words WHERE word = 'a'");
    assert_mariadb(&server, "x", "SELECT GROUP_CONCAT(delta) FROM tally_rejects WHERE replayed_at IS NULL");
    bench_close(&t);
}

/* ---- tables and rights that do not fit ---- */

static void held_by_the_table(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    mariadb_do(&server, "RENAME TABLE daily_visitors TO away");
    assert_outcome(&t, MERGE_HELD);
    mariadb_do(&server, "RENAME TABLE away TO daily_visitors");
    assert_outcome(&t, MERGE_DONE);
    batch_close(&t.batch);
    visitors_chunk(&t, 2);
    mariadb_do(&server, "RENAME TABLE daily_visitors TO away"); /* its forms are known by now */
    assert_outcome(&t, MERGE_REFUSED);
    assert_non_null(strstr(t.chunk.text, "1146"));
    mariadb_do(&server, "RENAME TABLE away TO daily_visitors");
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "2", "SELECT COUNT(*) FROM tally_ledger");
    bench_close(&t);
}

/* The collation takes two fields for one row: both are counted in it. */
static void a_folding_column(void **state)
{
    struct bench t;
    words_table("word VARCHAR(255) COLLATE utf8mb4_general_ci NOT NULL, n BIGINT NOT NULL DEFAULT 0");
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, WORDS, 1);
    HASH(&t.batch, "words", "a", "1", "A", "2");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "1 3", "SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM words");
    words_table_again();
    bench_close(&t);
}

static void held_without_a_counter(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    t.batch.counter = NULL;
    assert_outcome(&t, MERGE_HELD);
    bench_close(&t);
}

static void down_while_read_only(void **state)
{
    struct bench t;
    struct db_config config = server.config;
    char user[] = "app";
    mariadb_do(&server, "CREATE USER app@localhost");
    mariadb_do(&server, "GRANT ALL ON shop.* TO app@localhost");
    config.user = user;
    bench_open(&t, &config);
    visitors_chunk(&t, 1);
    assert_int_equal(db_open(t.db), CODE_OK);
    mariadb_do(&server, "SET GLOBAL read_only = 1");
    assert_outcome(&t, MERGE_DOWN); /* by the open session, which it leaves */
    assert_non_null(strstr(t.chunk.text, "1290"));
    assert_true(db_left(t.db) && !db_is_open(t.db));
    assert_outcome(&t, MERGE_DOWN); /* none can be opened */
    assert_non_null(strstr(t.chunk.text, "read_only is on; name the primary"));
    mariadb_do(&server, "SET GLOBAL read_only = 0");
    assert_outcome(&t, MERGE_DONE);
    assert_visitors_once();
    bench_close(&t);
    mariadb_do(&server, "DROP USER app@localhost");
}

static void down_without_a_server(void **state)
{
    struct bench t;
    struct db_config config = server.config;
    char nowhere[] = "/nowhere/at/all";
    config.socket = nowhere;
    bench_open(&t, &config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, MERGE_DOWN);
    assert_non_null(strstr(t.chunk.text, "2002"));
    bench_close(&t);
}

/* ---- locks ---- */

/* config is the bench's until it is closed. */
static void visitors_bench(struct bench *t, struct db_config *config, uint32_t lock_wait_s)
{
    *config = server.config;
    config->lock_wait_s = lock_wait_s;
    bench_open(t, config);
    visitors_chunk(t, 1);
}

static void lock_timeout_then_done(void **state)
{
    struct bench t;
    struct db_config config;
    visitors_bench(&t, &config, 1);
    mariadb_do(&server, "INSERT INTO daily_visitors VALUES (7, '2014-09-20', 0)");
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 7");
    int64_t before = STAT_GET(chunks_retried);
    uint64_t until_ms = mono_ms() + 20000;
    merge_begin(&t);
    while (STAT_GET(chunks_retried) == before && mono_ms() < until_ms)
        usleep(10000);
    assert_true(STAT_GET(chunks_retried) > before);
    mariadb_do(&server, "ROLLBACK");
    merge_end(&t, MERGE_DONE);
    assert_visitors_once();
    bench_close(&t);
}

/* Of the row of one hash: the other is merged, and the ledger says what is left, for whoever merges the chunk again. */
static void a_lock_delays_its_hash_alone(void **state)
{
    struct bench t;
    struct db_config config;
    char blocks[40];
    visitors_bench(&t, &config, 1);
    mariadb_do(&server, "INSERT INTO daily_visitors VALUES (7, '2014-09-20', 0)");
    snprintf(blocks, sizeof blocks, "thread %s (", mariadb_ask(&server, "SELECT CONNECTION_ID()"));
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 7");
    for (int i = 0; i < 2; i++) {
        assert_outcome(&t, MERGE_LOCKED);
        assert_int_equal(t.chunk.rows_merged, i == 0);
        assert_true(ledger_names_have(buf_slice(&t.chunk.left), SLICE("s7:visitors")));
        assert_int_equal(t.chunk.left.n, 4 + strlen("s7:visitors"));
        buf_free(&t.chunk.left);
        assert_non_null(strstr(t.chunk.locked_by, blocks));
        assert_mariadb(&server, "5", "SELECT SUM(visitors) FROM daily_visitors WHERE store_id = 12");
        assert_mariadb(&server, "5/0", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
        assert_mariadb(&server, "1/5/0000000B73373A76697369746F7273",
                       "SELECT CONCAT_WS('/', rows_merged, total, HEX(waiting)) FROM tally_ledger");
    }
    mariadb_do(&server, "ROLLBACK");
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_merged, 2);
    assert_visitors_once();
    assert_mariadb(&server, "3/9/-",
                   "SELECT CONCAT_WS('/', rows_merged, total, COALESCE(waiting, '-')) FROM tally_ledger");
    assert_outcome(&t, MERGE_ALREADY);
    assert_int_equal(t.chunk.rows_merged, 3);
    assert_visitors_once();
    bench_close(&t);
}

/* A tallyd that knows of no parts takes it for another chunk; one that does, for no other's rows. */
static void a_part_has_a_digest_of_its_own(void **state)
{
    struct bench t;
    struct db_config config;
    visitors_bench(&t, &config, 0);
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "INSERT INTO daily_visitors VALUES (12, '2014-09-20', 0)");
    assert_outcome(&t, MERGE_LOCKED);
    buf_free(&t.chunk.left);
    mariadb_do(&server, "ROLLBACK");
    mariadb_do(&server, "UPDATE tally_ledger SET waiting = NULL");
    assert_outcome(&t, MERGE_CONFLICT);
    bench_close(&t);
}

/* Many are locked: those between them are merged, whatever the order, and no lock of ours is held while we wait for the shop's. */
static void locks_here_and_there(void **state)
{
    struct bench t;
    struct db_config config = server.config;
    char name[32];
    config.lock_wait_s = 0;
    bench_open(&t, &config);
    shop_batch(&t.batch, 1, VISITORS, 7);
    for (int i = 100; i < 140; i++) {
        snprintf(name, sizeof name, "s%d:visitors", i);
        HASH(&t.batch, name, "20140920", "1", "20140921", "x");
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    mariadb_do(&server, "BEGIN");
    for (int i = 100; i < 140; i += 7)
        mariadb_do(&server, "INSERT INTO daily_visitors VALUES (%d, '2014-09-20', 0)", i);
    assert_outcome(&t, MERGE_LOCKED);
    buf_free(&t.chunk.left);
    assert_int_equal(t.chunk.rows_merged, 34);
    assert_int_equal(t.chunk.rows_rejected, 34);
    mariadb_do(&server, "ROLLBACK");
    assert_mariadb(&server, "34/34", "SELECT CONCAT_WS('/', COUNT(*), SUM(visitors)) FROM daily_visitors");
    assert_mariadb(&server, "34", "SELECT COUNT(*) FROM tally_rejects");
    assert_mariadb(&server, "34/34/102",
                   "SELECT CONCAT_WS('/', rows_merged, total, LENGTH(waiting)) FROM tally_ledger");
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "40/40", "SELECT CONCAT_WS('/', COUNT(*), SUM(visitors)) FROM daily_visitors");
    assert_mariadb(&server, "40", "SELECT COUNT(*) FROM tally_rejects");
    assert_mariadb(&server, "40/40",
                   "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger WHERE waiting IS NULL");
    bench_close(&t);
}

/* The lock is never released: the chunk is given back and nothing is left behind. */
static void lock_timeout_for_good(void **state)
{
    struct bench t;
    struct db_config config;
    visitors_bench(&t, &config, 0);
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "INSERT INTO daily_visitors VALUES (12, '2014-09-20', 0), (7, '2014-09-21', 0)");
    assert_outcome(&t, MERGE_LOCKED);
    assert_string_equal(t.chunk.text, "rows of 2 of its hashes are locked");
    buf_free(&t.chunk.left);
    mariadb_do(&server, "COMMIT");
    assert_mariadb(&server, "0",
                   "SELECT COUNT(*) FROM tally_ledger"); /* 1205 leaves it open: it was rolled back */
    assert_mariadb(&server, "2/0", "SELECT CONCAT_WS('/', COUNT(*), SUM(visitors)) FROM daily_visitors");
    assert_mariadb(&server, "0", "SELECT COUNT(*) FROM information_schema.INNODB_TRX");
    mariadb_do(&server, "DELETE FROM daily_visitors");
    assert_outcome(&t, MERGE_DONE);
    assert_visitors_once();
    bench_close(&t);
}

static void deadlock(void **state)
{
    struct bench t;
    struct db_config config;
    visitors_bench(&t, &config, 8);
    mariadb_do(&server, "INSERT INTO daily_visitors VALUES (7, '2014-09-20', 0), (12, '2014-09-20', 0)");
    mariadb_do(&server, "BEGIN");
    for (int i = 0; i < 200; i++) /* the victim is the one that wrote less */
        mariadb_do(&server, "INSERT INTO daily_visitors VALUES (99, '2014-01-01' + INTERVAL %d DAY, 0)", i);
    mariadb_do(&server, "UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 12");
    int64_t before = STAT_GET(chunks_retried);
    merge_begin(&t); /* takes store 7, then waits for 12 */
    await_mariadb(&server, "1", WAITING);
    mariadb_do(&server, "UPDATE daily_visitors SET visitors = visitors + 1 WHERE store_id = 7");
    mariadb_do(&server, "DELETE FROM daily_visitors WHERE store_id = 99");
    mariadb_do(&server, "COMMIT");
    merge_end(&t, MERGE_DONE);
    assert_true(STAT_GET(chunks_retried) > before);
    mariadb_do(&server, "UPDATE daily_visitors SET visitors = visitors - 1 WHERE day = '2014-09-20'");
    assert_visitors_once();
    bench_close(&t);
}

/* The second merger of a chunk waits for the first to end. */
static void two_mergers(void **state)
{
    struct bench t[2];
    for (int i = 0; i < 2; i++) {
        bench_open(&t[i], &server.config);
        visitors_chunk(&t[i], 1);
        merge_begin(&t[i]);
    }
    int done = 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i].thread, NULL);
        assert_true(t[i].chunk.outcome == MERGE_DONE || t[i].chunk.outcome == MERGE_ALREADY);
        done += t[i].chunk.outcome == MERGE_DONE;
        batch_close(&t[i].batch);
        bench_close(&t[i]);
    }
    assert_int_equal(done, 1);
    assert_visitors_once();
}

/* ---- lost connections ---- */

/* Kills the connection that waits for a lock; when it returns, that transaction is gone. */
static void kill_waiting(void)
{
    char id[32];
    await_mariadb(&server, "1", WAITING);
    snprintf(
        id, sizeof id, "%s",
        mariadb_ask(
            &server,
            "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"));
    mariadb_do(&server, "KILL %s", id);
    await_mariadb(&server, "0", "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %s", id);
}

static void killed_in_the_middle(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "INSERT INTO daily_visitors VALUES (12, '2014-09-20', 0)");
    merge_begin(&t);
    kill_waiting();
    mariadb_do(&server, "ROLLBACK");
    merge_end(&t, MERGE_DONE);
    assert_visitors_once();
    bench_close(&t);
}

static void server_killed_between(void **state)
{
    struct bench t;
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, MERGE_DONE);
    mariadb_kill(&server);
    assert_outcome(&t, MERGE_DOWN);
    mariadb_back(&server);
    assert_outcome(&t, MERGE_ALREADY);
    assert_visitors_once();
    bench_close(&t);
}

static void through_proxy(enum sql_proxy_trick trick, enum merge_outcome first, enum merge_outcome second)
{
    struct bench t;
    struct sql_proxy proxy;
    struct db_config config = server.config;
    sql_proxy_start(&proxy, server.dir, server.socket, server.pid);
    config.socket = proxy.path;
    config.read_timeout_s = 2;
    config.connect_timeout_s = 1;
    config.lock_wait_s = 1;
    bench_open(&t, &config);
    visitors_chunk(&t, 1);
    atomic_store(&proxy.trick, (int)trick);
    assert_outcome(&t, first);
    assert_int_equal(atomic_load(&proxy.trick), PROXY_PASS);
    kill(server.pid, SIGCONT);
    assert_outcome(&t, second);
    assert_visitors_once();
    bench_close(&t);
    sql_proxy_stop(&proxy);
}

static void commit_cut(void **state)
{
    through_proxy(PROXY_CUT_COMMIT, MERGE_DONE, MERGE_ALREADY);
}
static void commit_reply_cut(void **state)
{
    through_proxy(PROXY_CUT_REPLY, MERGE_ALREADY, MERGE_ALREADY);
}

/* What MySQL refused in the first try is found again in the second, and noted once. */
static void commit_cut_with_a_refused_row(void **state)
{
    struct bench t;
    struct sql_proxy proxy;
    struct db_config config = server.config;
    sql_proxy_start(&proxy, server.dir, server.socket, server.pid);
    config.socket = proxy.path;
    bench_open(&t, &config);
    mariadb_do(&server, "INSERT INTO words VALUES ('bad', 9223372036854775807)");
    uint32_t hash = words_40(&t, 1, 2);
    batch_add_row(&t.batch, hash, SLICE("bad"), SLICE("3"));
    batch_add_row(&t.batch, hash, SLICE("junk"), SLICE("x"));
    shop_chunk(&t.batch, 0, &t.chunk);
    atomic_store(&proxy.trick, PROXY_CUT_COMMIT);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 2);
    assert_mariadb(&server, "bad/3/1 junk/x/0",
                   "SELECT CONCAT_WS('/', field, delta, counted) FROM tally_rejects ORDER BY field");
    assert_mariadb(&server, "40/3", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "40/43", "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger");
    bench_close(&t);
    sql_proxy_stop(&proxy);
}

/* The server has COMMIT in its socket when it is stopped. Whether it then commits or sees the closed link
 * first is its own affair: the ledger row tells, and the rows are there once. */
static void commit_stopped(void **state)
{
    struct bench t;
    struct sql_proxy proxy;
    struct db_config config = server.config;
    sql_proxy_start(&proxy, server.dir, server.socket, server.pid);
    config.socket = proxy.path;
    config.read_timeout_s = config.connect_timeout_s = config.lock_wait_s = 1;
    bench_open(&t, &config);
    visitors_chunk(&t, 1);
    atomic_store(&proxy.trick, PROXY_STOP_SERVER);
    assert_outcome(&t, MERGE_DOWN);
    kill(server.pid, SIGCONT);
    enum merge_outcome then = merge(&t);
    assert_true(then == MERGE_ALREADY || then == MERGE_DONE);
    assert_visitors_once();
    bench_close(&t);
    sql_proxy_stop(&proxy);
}

/* ---- size ---- */

static void packet_lowered(void **state)
{
    struct bench t;
    char field[TEXT_BYTES_MAX + 1];
    bench_open(&t, &server.config);
    visitors_chunk(&t, 1);
    assert_outcome(&t, MERGE_DONE);
    batch_close(&t.batch);
    packet_set(4096);
    db_close(t.db);
    shop_batch(&t.batch, 2, WORDS, 1);
    uint32_t hash = batch_add_hash(&t.batch, SLICE("words"), 300);
    for (int i = 0; i < 300; i++) {
        memset(field, 'x', sizeof field);
        field[snprintf(field, sizeof field, "%d", i)] = 'x';
        batch_add_row(&t.batch, hash, slice_of(field, TEXT_BYTES_MAX), SLICE("1"));
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(db_packet_bytes(t.db), 4096);
    assert_mariadb(&server, "300", "SELECT COUNT(*) FROM words");
    packet_set(16777216);
    bench_close(&t);
}

/* A reject that fits into no packet cannot be dropped: it is held until the bound is raised. */
static void packet_too_small_for_a_reject(void **state)
{
    struct bench t;
    char field[6000];
    memset(field, 'x', sizeof field);
    bench_open(&t, &server.config);
    packet_set(8192);
    batch_add_row(&t.batch, words_40(&t, 1, 1), slice_of(field, sizeof field), SLICE("1"));
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_HELD);
    assert_non_null(strstr(t.chunk.text, "max_allowed_packet"));
    assert_mariadb(&server, "0", "SELECT COUNT(*) FROM tally_ledger");
    packet_set(16777216);
    db_close(t.db);
    assert_outcome(&t, MERGE_DONE);
    assert_mariadb(&server, "6000", "SELECT LENGTH(field) FROM tally_rejects");
    bench_close(&t);
}

/* With the smallest packet and the longest names one row alone is too much. */
static void packet_too_small_for_a_row(void **state)
{
    struct counter wide = shop_all[STORES];
    struct bench t;
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
    bench_open(&t, &server.config);
    packet_set(1024);
    shop_batch(&t.batch, 1, STORES, 1);
    t.batch.counter = &wide;
    uint32_t a = batch_add_hash(&t.batch, SLICE("ta:views"), 2),
             b = batch_add_hash(&t.batch, SLICE("tbb:views"), 1);
    batch_add_row(&t.batch, a, SLICE("p"), SLICE("1"));
    batch_add_row(&t.batch, a, slice_of(product, sizeof product), SLICE("2"));
    batch_add_row(&t.batch, b, SLICE("p"), SLICE("4"));
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(t.chunk.rows_rejected, 1);
    assert_mariadb(&server, "5/2", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    const char *said = mariadb_ask(&server, "SELECT reason FROM tally_rejects");
    if (strstr(said, "max_allowed_packet") == NULL) fail_msg("the reason is: %s", said);
    packet_set(16777216);
    mariadb_do(&server, "DROP TABLE `%s`", name);
    bench_close(&t);
}

/* A link was lost after a large statement: the next is half as large, and success lets it grow again. */
static void large_statement_cut(void **state)
{
    struct bench t;
    char field[TEXT_BYTES_MAX];
    bench_open(&t, &server.config);
    shop_batch(&t.batch, 1, WORDS, 1);
    uint32_t hash = batch_add_hash(&t.batch, SLICE("words"), 100);
    memset(field, 'x', sizeof field);
    for (int i = 0; i < 100; i++) {
        field[0] = (char)('0' + i / 10);
        field[1] = (char)('0' + i % 10);
        batch_add_row(&t.batch, hash, slice_of(field, sizeof field), SLICE("1"));
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "INSERT INTO words VALUES (CONCAT('99', REPEAT('x', %d)), 0)", TEXT_BYTES_MAX - 2);
    size_t before = t.merger.statement_max;
    merge_begin(&t);
    for (int i = 0; i < 2; i++)
        kill_waiting();
    mariadb_do(&server, "ROLLBACK");
    merge_end(&t, MERGE_DONE);
    assert_int_equal(t.merger.statement_max, before / 2); /* halved twice, doubled once */
    assert_mariadb(&server, "100", "SELECT COUNT(*) FROM words");
    bench_close(&t);
}

static void session(void **state)
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

#define TEST(name) cmocka_unit_test_setup(name, shop_afresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(crash_between_chunks), /* the first: it counts the chunks of the process */
        TEST(session),
        TEST(once),
        TEST(found_again_is_young_again),
        TEST(adds_to_what_stands),
        TEST(empty_chunk),
        TEST(conflict),
        TEST(too_old),
        TEST(forms),
        TEST(many_chunks),
        TEST(crash_after_ledger),
        TEST(crash_before_commit),
        TEST(crash_after_commit),
        TEST(refused_not_an_integer),
        TEST(refused_field),
        TEST(books_go_round),
        TEST(refused_1690),
        TEST(refused_1264),
        TEST(counts_with_bounds),
        TEST(below_zero_is_refused),
        TEST(beyond_its_bound_is_refused),
        TEST(refused_1406),
        TEST(refused_1366),
        TEST(refused_check),
        TEST(a_valid_sum_is_applied),
        TEST(refused_foreign_key),
        TEST(refused_by_a_trigger),
        TEST(refused_null),
        TEST(first_and_last_refused),
        TEST(refused_with_any_code),
        TEST(refused_by_partitions),
        TEST(many_refused),
        TEST(none_taken),
        TEST(none_taken_for_their_values),
        TEST(single_row_refused),
        TEST(refused_again_without_a_ledger),
        TEST(held_by_the_table),
        TEST(a_folding_column),
        TEST(held_without_a_counter),
        TEST(down_while_read_only),
        TEST(down_without_a_server),
        TEST(lock_timeout_then_done),
        TEST(lock_timeout_for_good),
        TEST(a_lock_delays_its_hash_alone),
        TEST(a_part_has_a_digest_of_its_own),
        TEST(locks_here_and_there),
        TEST(deadlock),
        TEST(two_mergers),
        TEST(killed_in_the_middle),
        TEST(server_killed_between),
        TEST(commit_cut),
        TEST(commit_reply_cut),
        TEST(commit_cut_with_a_refused_row),
        TEST(commit_stopped),
        TEST(packet_lowered),
        TEST(packet_too_small_for_a_reject),
        TEST(packet_too_small_for_a_row),
        TEST(large_statement_cut),
    };
    return cmocka_run_group_tests(tests, shop_start, shop_stop);
}
