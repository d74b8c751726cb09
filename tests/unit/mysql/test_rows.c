/* Counters that make no rows (missing: reject, drop) in a real MariaDB: what is there is counted once, what is not there is
 * rejected, and no row is ever made. And key columns of all kinds, and columns that are set beside the count. */
#include "bench.h"

#include "base/stats.h"
#include "mysql/books.h"
#include "mysql/text.h"
#include "series/row.h"

#include "base/heap.h"

static struct counter posts = {.name = S("posts"),
                               .key = {.prefix = S("posts")},
                               .lock = {.prefix = S("posts:sync")},
                               .field = FIELD_TEXT,
                               .table = S("posts"),
                               .column_field = S("word"),
                               .column_count = S("n"),
                               .missing = MISSING_REJECT};

#define BYTES "word VARBINARY(255) NOT NULL PRIMARY KEY"
#define TEXT(charset, collation)                                                                             \
    "word VARCHAR(40) CHARACTER SET " charset " COLLATE " collation " NOT NULL PRIMARY KEY"
#define COUNT ", n BIGINT NOT NULL DEFAULT 0"

/* rows: "('a', 1), ('b', 2)" of word and n. */
static void posts_table(const char *columns, const char *rows)
{
    sql("DROP TABLE IF EXISTS posts");
    sql("CREATE TABLE posts (%s) ENGINE=InnoDB", columns);
    sql("INSERT INTO posts (word, n) VALUES %s", rows);
}

static void batch_of(uint8_t id, const struct counter *c)
{
    bench_batch(id, WORDS, 1);
    bench.batch.counter = c;
    buf_reset(&bench.batch.counter_name);
    buf_put_slice(&bench.batch.counter_name, c->name);
}

static void posts_bench(enum missing missing)
{
    posts.missing = missing;
    batch_of(1, &posts);
}

static void assert_words(const char *expected)
{
    assert_sql(expected, "SELECT CONCAT_WS('=', word, n) FROM posts ORDER BY word");
}

/* merged/rejected/chunks of the books, and what waits as rejects. */
static void assert_books(const char *books, const char *rejects)
{
    assert_sql(books, "SELECT CONCAT_WS('/', merged, rejected, chunks) FROM tally_counters");
    assert_sql(rejects,
               "SELECT CONCAT_WS('=', field, delta) FROM tally_rejects WHERE replayed_at IS NULL AND "
               "counted ORDER BY field");
}

/* ---- rows that are there, and that are not ---- */

static void some_are_there(enum missing missing, const char *rejects)
{
    posts_table(BYTES COUNT, "('a', 1), ('b', 0), ('z', 7)");
    posts_bench(missing);
    ROWS("posts", "a", "1", "b", "-2", "c", "4", "dd", "8");
    bench_seal();
    for (int i = 0; i < 2; i++) { /* what is sent again after its commit counts nothing */
        assert_outcome(i == 0 ? MERGE_DONE : MERGE_ALREADY);
        assert_rows(2, 2);
        assert_words("a=2 b=-2 z=7");
        assert_books("-1/12/1", rejects);
        assert_sql("2/11", LEDGER);
    }
}

#define TEST(name) UNIT_IN(name, bench_setup, bench_teardown)

TEST(there_and_not_there)
{
    some_are_there(MISSING_REJECT, "c=4 dd=8");
    assert_sql(ROW_MISSING, "SELECT DISTINCT reason FROM tally_rejects");
}

TEST(there_and_dropped)
{
    some_are_there(MISSING_DROP, "");
}

static void none_is_there(enum missing missing, const char *waiting)
{
    posts_table(BYTES COUNT ", id INT NOT NULL AUTO_INCREMENT UNIQUE", "('z', 7)");
    posts_bench(missing);
    bench_rows(batch_add_hash(&bench.batch, SLICE("posts"), 400), "w", 100, 500);
    assert_chunk(MERGE_DONE);
    assert_rows(0, 400);
    assert_words("z=7");
    assert_sql("0/400/1", "SELECT CONCAT_WS('/', merged, rejected, chunks) FROM tally_counters");
    assert_sql(waiting, "SELECT COUNT(*) FROM tally_rejects");
    sql("INSERT INTO posts (word) VALUES ('after')");
    assert_sql("2", "SELECT id FROM posts WHERE word = 'after'"); /* no id is used up */
}

TEST(all_are_missing)
{
    none_is_there(MISSING_REJECT, "400");
    bench_again();
    none_is_there(MISSING_DROP, "0");
}

/* 40 words that are there, 20 that are not, and `full` of two digits, which cannot take 1 more. */
static void words_with_full(int full)
{
    posts_table(BYTES ", n TINYINT NOT NULL DEFAULT 0", "('full10', 127)");
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("posts"), 60 + (unsigned)full);
    bench_rows(hash, "w", 10, 50);
    bench_rows(hash, "none", 50, 70);
    bench_rows(hash, "full", 10, 10 + full);
    for (int i = 10; i < 50; i++)
        sql("INSERT INTO posts VALUES ('w%d', 1)", i);
    for (int i = 11; i < 10 + full; i++)
        sql("INSERT INTO posts VALUES ('full%d', 127)", i);
    bench_seal();
}

/* Of 63 rows 3 may be refused; the missing ones are not among them. */
TEST(missing_and_refused)
{
    static const char *const waiting[] = {"full=3 none=20", "full=3"};
    for (int drop = 0; drop < 2; drop++) {
        posts_bench(drop ? MISSING_DROP : MISSING_REJECT);
        words_with_full(3);
        assert_outcome(MERGE_DONE);
        assert_rows(40, 23);
        assert_sql("full=127/3 w=2/40",
                   "SELECT CONCAT(REGEXP_REPLACE(word, '[0-9]', ''), '=', n, '/', COUNT(*)) FROM posts"
                   " GROUP BY REGEXP_REPLACE(word, '[0-9]', ''), n ORDER BY 1");
        assert_sql("40/23", BOOKS);
        assert_sql(waiting[drop],
                   "SELECT CONCAT(REGEXP_REPLACE(field, '[0-9]', ''), '=', SUM(delta)) FROM tally_rejects"
                   " GROUP BY REGEXP_REPLACE(field, '[0-9]', '') ORDER BY 1");
        bench_again();
    }
}

TEST(refused_beside_missing)
{
    posts_bench(MISSING_REJECT);
    words_with_full(4);
    assert_outcome(MERGE_DONE);
    assert_rows(40, 24);
    assert_int_equal(bench.chunk.rejected_n, 1);
    assert_int_equal(bench.chunk.rejected[0].rows, 4); /* those that are missing do not count */
    assert_sql("588", "SELECT SUM(n) FROM posts");
}

TEST(not_an_integer)
{
    posts_table(BYTES COUNT, "('a', 1)");
    posts_bench(MISSING_DROP);
    ROWS("posts", "a", "2", "b", "4", "c", "1.5");
    assert_chunk(MERGE_DONE);
    assert_rows(1, 2);
    assert_books("2/4/1", "");
    assert_sql(
        "c/1.5/0",
        "SELECT CONCAT_WS('/', field, delta, counted) FROM tally_rejects"); /* kept, though b is dropped */
}

/* ---- texts ---- */

#define FOLDING TEXT("utf8mb4", "utf8mb4_general_ci")

/* Counts at their bounds; texts of one row; those that are too much together, of which the first is added and the second
 * refused; and a CHAR. */
TEST(some_taken)
{
    static const struct {
        const char *columns, *stands, *words, *books, *rejects;
        uint32_t merged, rejected;
    } tables[] = {
        {BYTES ", n INT UNSIGNED NULL", "('five', 5), ('four', 4), ('null', NULL), ('nil', NULL)",
         "five=0 four=4 nil=0 null=3", "-2/-6/1", "four=-5 gone=-1", 3, 2},
        {FOLDING COUNT, "('Shoes', 100), ('boot', 0)", "boot=-32 Shoes=115", "-17/16/1", "bag=16", 5, 1},
        {FOLDING ", n TINYINT NOT NULL", "('Shoes', 100)", "Shoes=121", "21/20/1", "shoes=20", 1, 1},
        {"word CHAR(8) NOT NULL PRIMARY KEY" COUNT, "('short', 0), ('longlong', 0)", "longlong=2 short=1",
         "3/4/1", "longlonger=4", 2, 1}};
    static const char *const rows[][13] = {
        {"five", "-5", "four", "-5", "null", "3", "gone", "-1", "nil", "0"},
        {"shoes", "1", "SHOES", "2", "sh\303\266es", "4", "Shoes ", "8", "bag", "16", "Boot", "-32"},
        {"shoes", "20", "SHOES", "21"},
        {"short", "1", "longlong", "2", "longlonger", "4"}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        posts_table(tables[i].columns, tables[i].stands);
        posts_bench(MISSING_REJECT);
        shop_hash(&bench.batch, "posts", rows[i]);
        assert_chunk(MERGE_DONE);
        assert_rows(tables[i].merged, tables[i].rejected);
        assert_words(tables[i].words);
        assert_books(tables[i].books, tables[i].rejects);
        if (i == 0) assert_sql("four", "SELECT field FROM tally_rejects WHERE reason REGEXP '1690|1264'");
        bench_again();
    }
}

/* A text that the column's set lacks is no `?`, and one that is no UTF-8 holds no other. */
TEST(texts_that_a_column_lacks)
{
    static const char *const columns[] = {
        TEXT("latin1", "latin1_swedish_ci") COUNT, TEXT("utf8mb4", "utf8mb4_unicode_ci") COUNT,
        TEXT("utf8mb4", "utf8mb4_nopad_bin") COUNT, TEXT("ascii", "ascii_bin") COUNT};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        posts_table(columns[i], "('?', 0), ('a', 0), (REPEAT('?', 2), 0), (REPEAT('?', 3), 0)");
        posts_bench(MISSING_REJECT);
        uint32_t hash = batch_add_hash(&bench.batch, SLICE("posts"), 45);
        bench_rows(hash, "w", 10, 50);
        bench_row(hash, "?", "1");
        bench_row(hash, "a", "2");
        bench_row(hash, "\xe6\x97\xa5", "4");
        bench_row(hash, "\xff", "8");
        bench_row(hash, "\xc3\xa9", "16");
        assert_chunk(MERGE_DONE);
        assert_rows(2, 43);
        assert_words("?=1 ?\?=0 ?\?\?=0 a=2");
        assert_sql("3/68", BOOKS);
        bench_again();
    }
}

TEST(texts_of_a_set)
{
    posts_table(TEXT("latin1", "latin1_swedish_ci") COUNT, "(CONVERT(_utf8mb4 x'C3A9' USING latin1), 0)");
    posts_bench(MISSING_REJECT);
    ROWS("posts", "\xc3\xa9", "1", "E", "2");
    assert_chunk(MERGE_DONE);
    assert_rows(2, 0);
    assert_sql("E9=3", "SELECT CONCAT(HEX(word), '=', n) FROM posts");
}

/* A BINARY is never equal to a shorter text. */
TEST(held_by_a_binary)
{
    posts_table("word BINARY(8) NOT NULL PRIMARY KEY" COUNT, "('short', 0)");
    posts_bench(MISSING_REJECT);
    ROWS("posts", "short", "1");
    assert_chunk(MERGE_HELD);
    assert_text("run tallyd check");
}

/* ---- other sessions ---- */

static void two_words(void)
{
    posts_table(BYTES COUNT, "('a', 0), ('b', 0)");
    posts_bench(MISSING_REJECT);
    ROWS("posts", "a", "1", "b", "2");
    bench_seal();
}

/* The shop's DELETE came first: the merge waits for its end, and goes by that. */
TEST(deleted_before_the_look)
{
    static const char *const ends[] = {"ROLLBACK", "COMMIT"};
    for (int i = 0; i < 2; i++) {
        two_words();
        sql("BEGIN");
        sql("DELETE FROM posts WHERE word = 'a'");
        merge_begin(&bench);
        await_sql("1", WAITING);
        sql("%s", ends[i]);
        merge_end(MERGE_DONE);
        assert_words(i == 0 ? "a=1 b=2" : "b=2");
        assert_books(i == 0 ? "3/0/1" : "2/1/1", i == 0 ? "" : "a=1");
        bench_again();
    }
}

static void *delete_main(void *arg)
{
    struct db *db = db_create(&server.config);
    bool deleted = db_open(db) == CODE_OK && DB_EXEC(db, "DELETE FROM posts WHERE word = 'a'") == CODE_OK;
    db_destroy(&db);
    return deleted ? arg : NULL;
}

/* Between the look and the update a DELETE waits for our lock: what it deletes has our hits. */
TEST(deleted_behind_the_look)
{
    pthread_t thread;
    void *deleted;
    two_words();
    batch_of(1, &posts);
    ROWS("posts", "a", "1", "b", "2", "none", "4");
    bench_seal();
    sql("CREATE OR REPLACE TABLE gone (word VARBINARY(255), n BIGINT) ENGINE=InnoDB");
    sql("CREATE TRIGGER keep_gone BEFORE DELETE ON posts FOR EACH ROW INSERT INTO gone"
        " VALUES (OLD.word, OLD.n)");
    bench_through_proxy();
    atomic_store(&proxy->trick, PROXY_HOLD_UPDATE);
    merge_begin(&bench);
    for (uint64_t until_ms = mono_ms() + 20000; atomic_load(&proxy->trick) != PROXY_HOLDS;)
        assert_true(mono_ms() < until_ms && usleep(1000) == 0);
    assert_int_equal(pthread_create(&thread, NULL, delete_main, &bench), 0);
    await_sql("1", WAITING);
    atomic_store(&proxy->trick, PROXY_PASS);
    merge_end(MERGE_DONE);
    pthread_join(thread, &deleted);
    assert_non_null(deleted);
    assert_sql("a=1", "SELECT CONCAT_WS('=', word, n) FROM gone");
    assert_words("b=2");
    assert_books("3/4/1", "none=4");
}

/* Rows that are all there are updated without a look. After one that was missing tallyd looks first, in eight chunks that miss none. */
TEST(looks_when_some_are_missing)
{
    static const struct {
        const char *third, *words;
        bool looks;
        uint8_t last;
    } chunks[] = {{"c", "a=1 b=2 c=4", false, 1},
                  {"none", "a=2 b=4 c=4", true, 2},
                  {"c", "a=10 b=20 c=36", true, 10},
                  {"c", "a=11 b=22 c=40", false, 11}};
    two_words();
    sql("INSERT INTO posts VALUES ('c', 0)");
    bench_through_proxy();
    for (uint8_t i = 0, id = 1; i < sizeof chunks / sizeof *chunks; i++) {
        for (; id <= chunks[i].last; id++) {
            atomic_store(&proxy->looked, false);
            batch_of(id, &posts);
            ROWS("posts", "a", "1", "b", "2", chunks[i].third, "4");
            assert_chunk(MERGE_DONE);
            assert_int_equal(atomic_load(&proxy->looked), chunks[i].looks);
        }
        assert_words(chunks[i].words);
    }
    assert_books("73/4/11", "none=4");
}

/* The first statement finds `a` missing, then the second waits for too long. By the next merge there is an `a`. */
TEST(tried_again)
{
    char field[30];
    posts_table(BYTES COUNT, "('zzzzzzzzzzzz', 0), ('b', 0)");
    posts.missing = MISSING_REJECT;
    bench.config.lock_wait_s = 0;
    bench.merger.statement_max = 600; /* a few rows in each */
    batch_of(1, &posts);
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("posts"), 12);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(field, sizeof field, "%.*s", (int)i + 1, i == 0 ? "a" : "zzzzzzzzzzzz");
        bench_row(hash, field, "1");
    }
    bench_seal();
    sql("BEGIN");
    sql("UPDATE posts SET n = 5 WHERE word = 'zzzzzzzzzzzz'");
    assert_outcome(MERGE_LOCKED);
    buf_free(&bench.chunk.left);
    sql("INSERT INTO posts VALUES ('a', 10)");
    sql("COMMIT");
    assert_outcome(MERGE_DONE);
    assert_rows(2, 10);
    assert_words("a=11 b=0 zzzzzzzzzzzz=6");
    assert_sql("2/10", BOOKS);
    assert_sql("10", "SELECT COUNT(*) FROM tally_rejects");
}

TEST(deadlock)
{
    two_words();
    sql("BEGIN");
    for (int i = 0; i < 200; i++) /* the victim is the one that wrote less */
        sql("INSERT INTO posts VALUES ('other%d', 0)", i);
    sql("UPDATE posts SET n = n + 10 WHERE word = 'b'");
    int64_t before = STAT_GET(chunks_retried);
    merge_begin(&bench); /* takes a, then waits for b */
    await_sql("1", WAITING);
    sql("UPDATE posts SET n = n + 10 WHERE word = 'a'");
    sql("DELETE FROM posts WHERE word LIKE 'other%%'");
    sql("COMMIT");
    merge_end(MERGE_DONE);
    assert_true(STAT_GET(chunks_retried) > before);
    assert_words("a=11 b=12");
    assert_books("3/0/1", "");
}

/* A row of the table that is none of the chunk's is not waited for. */
TEST(other_rows_are_not_locked)
{
    two_words();
    bench.config.lock_wait_s = 1;
    sql("INSERT INTO posts VALUES ('c', 0), ('aa', 0)");
    sql("BEGIN");
    sql("UPDATE posts SET n = n + 10 WHERE word IN ('c', 'aa')");
    int64_t before = STAT_GET(chunks_retried);
    assert_outcome(MERGE_DONE);
    assert_int_equal(STAT_GET(chunks_retried), before);
    sql("COMMIT");
    assert_words("a=1 aa=10 b=2 c=10");
}

/* Of the COMMIT itself, and of its answer. */
TEST(commit_is_cut)
{
    for (int answer = 0; answer < 2; answer++) {
        bench_through_proxy();
        posts_table(BYTES ", n TINYINT NOT NULL", "('a', 0), ('full', 127)");
        posts_bench(MISSING_REJECT);
        ROWS("posts", "a", "1", "full", "2", "none", "4");
        bench_seal();
        atomic_store(&proxy->trick, answer ? PROXY_CUT_REPLY : PROXY_CUT_COMMIT);
        assert_outcome(answer ? MERGE_ALREADY : MERGE_DONE);
        assert_int_equal(atomic_load(&proxy->trick), PROXY_PASS);
        assert_rows(1, 2);
        assert_outcome(MERGE_ALREADY);
        assert_words("a=1 full=127");
        assert_books("1/6/1", "full=2 none=4");
        bench_again();
    }
}

/* ---- size ---- */

static char long_table[65], long_field[65], long_count[65];
static struct counter long_names;

/* The smallest packet and the longest names. Four short texts, of which `d` is not there, and a long one. */
static void long_chunk(const char *type)
{
    static char text[TEXT_BYTES_MAX];
    snprintf(long_table, sizeof long_table, "t%063d", 1);
    snprintf(long_field, sizeof long_field, "f%063d", 2);
    snprintf(long_count, sizeof long_count, "c%063d", 3);
    memset(text, 'x', sizeof text);
    long_names = posts;
    long_names.missing = MISSING_REJECT;
    long_names.table = slice_str(long_table);
    long_names.column_field = slice_str(long_field);
    long_names.column_count = slice_str(long_count);
    sql("CREATE OR REPLACE TABLE `%s` (`%s` %s NOT NULL PRIMARY KEY, `%s` BIGINT NOT NULL)"
        " SELECT 'a' AS `%s`, 0 AS `%s` UNION SELECT 'b', 0 UNION SELECT 'c', 0 UNION SELECT "
        "REPEAT('x', 255), 0",
        long_table, long_field, type, long_count, long_field, long_count);
    batch_of(1, &long_names);
    uint32_t hash = batch_add_hash(&bench.batch, SLICE("posts"), 5);
    for (int i = 0; i < 4; i++)
        batch_add_row(&bench.batch, hash, slice_of(&"abcd"[i], 1), slice_of(&"1248"[i], 1));
    batch_add_row(&bench.batch, hash, slice_of(text, sizeof text), SLICE("16"));
    bench_seal();
    packet_set(1024);
}

TEST(packet_too_small_for_a_row)
{
    long_chunk("VARBINARY(255)");
    enum merge_outcome got = merge();
    packet_set(16777216);
    if (got != MERGE_DONE) fail_msg("outcome %d: %s", (int)got, bench.chunk.text);
    assert_rows(3, 2);
    assert_sql("7/24", BOOKS);
    assert_sql("7", "SELECT SUM(`%s`) FROM `%s`", long_count, long_table);
    assert_sql("16", "SELECT delta FROM tally_rejects WHERE reason LIKE '%%max_allowed_packet%%'");
}

/* A text compares by a longer statement, of which none fits. */
TEST(packet_too_small_for_all)
{
    long_chunk("VARCHAR(255) CHARACTER SET latin1");
    enum merge_outcome got = merge();
    packet_set(16777216);
    assert_int_equal(got, MERGE_DONE);
    assert_sql("0", "SELECT SUM(`%s`) FROM `%s`", long_count, long_table);
    assert_sql("0/31", BOOKS);
    assert_sql("23", "SELECT SUM(delta) FROM tally_rejects WHERE reason LIKE '%%max_allowed_packet%%'");
}

/* ---- columns that are set ---- */

static const struct set_column sets[] = {{.name = S("moment"), .at_insert = true, .at_update = true},
                                         {.name = S("made"), .at_insert = true},
                                         {.name = S("seen"), .at_update = true},
                                         {.name = S("day"), .at_insert = true, .at_update = true},
                                         {.name = S("source"), .constant = S("w'eb"), .at_insert = true},
                                         {.name = S("site"), .constant = S("-7"), .at_insert = true}};

#define SETS_TABLE                                                                                           \
    BYTES COUNT                                                                                              \
        ", moment DATETIME NOT NULL DEFAULT '2001-01-01', made TIMESTAMP NULL, seen INT NOT NULL DEFAULT 0," \
        " day DATE NOT NULL DEFAULT '2001-01-01', source VARCHAR(9) NOT NULL DEFAULT 'app', site INT NOT "   \
        "NULL DEFAULT 0"
/* What a row has of them: now, or as it was. */
#define SETS_ARE                                                                                             \
    "SELECT CONCAT_WS('/', word, n, IF(moment > NOW() - INTERVAL 1 MINUTE, 'now', moment),"                  \
    " IF(made > NOW() - INTERVAL 1 MINUTE, 'now', IFNULL(made, 'NULL')),"                                    \
    " IF(seen > UNIX_TIMESTAMP() - 60, 'now', seen), IF(day >= CURRENT_DATE() - INTERVAL 1 DAY, 'today', "   \
    "day),"                                                                                                  \
    " source, site) FROM posts ORDER BY word"

static void sets_merged(enum missing missing, const char *expected)
{
    posts_table(SETS_TABLE, "('a', 5)");
    posts_bench(missing);
    posts.sets = sets, posts.sets_n = sizeof sets / sizeof *sets;
    ROWS("posts", "a", "1", "b", "2");
    assert_chunk(MERGE_DONE);
    posts.sets_n = 0;
    assert_string_equal(ask_sql(SETS_ARE), expected);
}

TEST(sets_of_upserts)
{
    sets_merged(MISSING_INSERT, "a/6/now/NULL/now/today/app/0 b/2/now/now/0/today/w'eb/-7");
}

TEST(sets_of_updates)
{
    sets_merged(MISSING_REJECT, "a/6/now/NULL/now/today/app/0");
}

/* A row that MySQL refuses is set in nothing either. */
TEST(sets_of_a_refused_row)
{
    posts_table(SETS_TABLE, "('a', 9223372036854775807), ('b', 0)");
    posts_bench(MISSING_REJECT);
    posts.sets = sets, posts.sets_n = sizeof sets / sizeof *sets;
    ROWS("posts", "a", "1", "b", "2");
    assert_chunk(MERGE_DONE);
    posts.sets_n = 0;
    assert_string_equal(ask_sql(SETS_ARE), "a/9223372036854775807/2001-01-01 00:00:00/NULL/0/"
                                           "2001-01-01/app/0 b/2/now/NULL/now/today/app/0");
}

/* ---- key columns of all kinds ---- */

static const struct key_column wide_columns[] = {
    {.name = S("product"), .from = FROM_KEY, .at = 1, .kind = VALUE_INTEGER},
    {.name = S("lang"), .from = FROM_KEY, .at = 2, .kind = VALUE_TEXT},
    {.name = S("day"), .from = FROM_KEY, .at = 3, .kind = VALUE_DATE},
    {.name = S("at"), .from = FROM_FIELD, .at = 0, .kind = VALUE_HOUR},
    {.name = S("month"), .from = FROM_FIELD, .at = 1, .kind = VALUE_MONTH},
    {.name = S("y"), .from = FROM_FIELD, .at = 0, .kind = VALUE_HOUR, .piece = PIECE_YEAR},
    {.name = S("h"), .from = FROM_FIELD, .at = 0, .kind = VALUE_HOUR, .piece = PIECE_HOUR},
    {.name = S("spelled"), .from = FROM_FIELD, .at = 0, .kind = VALUE_HOUR},
    {.name = S("kind"), .from = FROM_CONSTANT, .constant = S("it's")},
    {.name = S("blog"), .from = FROM_CONSTANT, .constant = S("-3")},
};
static struct places wide_field;
static struct counter wide = {.name = S("wide"),
                              .lock = {.prefix = S("wide:sync")},
                              .field = FIELD_PLACES,
                              .store = STORE_INTEGER,
                              .table = S("wide"),
                              .column_store = S("store"),
                              .column_count = S("n"),
                              .field_places = &wide_field,
                              .more = wide_columns,
                              .more_n = sizeof wide_columns / sizeof *wide_columns};

static void types_set(struct places *p, const char *const *types)
{
    for (uint32_t i = 0; i < p->n; i++)
        assert_true(value_type_parse(slice_str(types[i]), &p->at[i].type));
}

static void wide_make(void)
{
    static const char *const of_key[] = {"integer", "integer", "text", "date seconds"},
                             *const of_field[] = {"hour 2024-05-01T13", "month"};
    struct error e;
    const char *why;
    assert_int_equal(pattern_parse_places(SLICE("s:<store>:p<product>:<lang>/<day>"), &wide.key, &e),
                     ERR_NONE);
    assert_true(places_parse(SLICE("<at>|<month>"), &wide_field, &why));
    types_set(wide.key.places, of_key);
    types_set(&wide_field, of_field);
    sql("CREATE OR REPLACE TABLE wide (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,"
        " store BIGINT UNSIGNED NOT NULL, product INT NOT NULL, lang VARCHAR(20) NULL, day DATE NOT NULL,"
        " at DATETIME NOT NULL, month INT NOT NULL, y YEAR NOT NULL, h TINYINT NOT NULL,"
        " spelled VARCHAR(20) NOT NULL, kind VARCHAR(8) NOT NULL, blog INT NULL, n INT NOT NULL,"
        " UNIQUE KEY u (store, product, lang, day, at, month, y, h, spelled, kind, blog)) ENGINE=InnoDB");
}

#define WIDE_KEY "s:9223372036854775807:p42:d'e/1714521600"
#define WIDE_ROW                                                                                             \
    "'d\\'e', '2024-05-01', '2024-05-02 23:00:00', 202402, 2024, 23, '2024-05-02T23', 'it\\'s', -3"

static void wide_merged(enum missing missing, const char *expected)
{
    wide_make();
    wide.missing = missing;
    sql("INSERT INTO wide VALUES (7, 9223372036854775807, 42, " WIDE_ROW ", 100)");
    batch_of(1, &wide);
    ROWS(WIDE_KEY, "2024-05-02T23|202402", "1", "2024-05-02T22|202402", "2");
    ROWS("s:0:p0:x/0", "1970-01-01T00|197001", "4");
    assert_chunk(MERGE_DONE);
    assert_sql(
        expected,
        "SELECT CONCAT_WS(',', store, product, lang, day, REPLACE(at, ' ', '_'), month, y, h, spelled, kind,"
        " blog, n) FROM wide ORDER BY n");
    heap_free(wide.key.places);
}

#define WIDE_SHOWN(hour, n)                                                                                  \
    "9223372036854775807,42,d'e,2024-05-01,2024-05-02_" hour ":00:00,202402,2024," hour ",2024-05-02T" hour  \
    ",it's,-3," n

TEST(columns_of_all_kinds)
{
    wide_merged(MISSING_INSERT, WIDE_SHOWN("22", "2") " 0,0,x,1970-01-01,1970-01-01_00:00:00,197001,1970,0,"
                                                      "1970-01-01T00,it's,-3,4 " WIDE_SHOWN("23", "101"));
    assert_books("7/0/1", "");
}

TEST(columns_of_all_kinds_there)
{
    wide_merged(MISSING_REJECT, WIDE_SHOWN("23", "101"));
    assert_books("1/6/1", "1970-01-01T00|197001=4 2024-05-02T22|202402=2");
}

/* Whatever the kinds are, the key finds the row: others, which the shop has locked, are not looked at. */
TEST(columns_of_all_kinds_by_their_key)
{
    wide_make();
    wide.missing = MISSING_REJECT;
    for (int product = 1; product <= 50; product++)
        sql("INSERT INTO wide VALUES (%d, 7, %d, " WIDE_ROW ", 0)", product, product);
    bench.config.lock_wait_s = 1;
    batch_of(1, &wide);
    ROWS("s:7:p42:d'e/1714521600", "2024-05-02T23|202402", "1");
    bench_seal();
    sql("BEGIN");
    sql("UPDATE wide SET n = 5 WHERE id BETWEEN 1 AND 30");
    enum merge_outcome got = merge();
    sql("COMMIT");
    if (got != MERGE_DONE) fail_msg("outcome %d: %s", (int)got, bench.chunk.text);
    assert_rows(1, 0);
    assert_sql("1/150",
               "SELECT CONCAT_WS('/', SUM(IF(product = 42, n, 0)), SUM(IF(product = 42, 0, n))) FROM wide");
    heap_free(wide.key.places);
}

/* ---- fields that name a column ---- */

/* Each column is a pass over the chunk: what one pass found missing is not missed again by the next. */
TEST(counts_of_a_row)
{
    static const struct named_count counts[] = {{S("viewed"), S("viewed")}, {S("sold"), S("sold")}};
    const struct counter c = {.name = S("posts"),
                              .key = {.prefix = S("p:"), .has_store = true},
                              .field = FIELD_COUNT,
                              .store = STORE_INTEGER,
                              .table = S("sales"),
                              .column_store = S("product"),
                              .counts = counts,
                              .counts_n = 2,
                              .missing = MISSING_REJECT};
    sql("CREATE OR REPLACE TABLE sales (product INT NOT NULL PRIMARY KEY, viewed INT NOT "
        "NULL, sold INT NOT NULL)");
    sql("INSERT INTO sales VALUES (1, 0, 0)");
    batch_of(1, &c);
    ROWS("p:1", "sold", "2", "viewed", "1");
    ROWS("p:9", "sold", "8", "viewed", "4");
    assert_chunk(MERGE_DONE);
    assert_rows(2, 2);
    assert_sql("1/1/2", "SELECT CONCAT_WS('/', product, viewed, sold) FROM sales");
    assert_books("3/12/1", "sold=8 viewed=4");
}

/* ---- beside merges ---- */

/* One that is not there, one that the column folds, and some that its set lacks, which keep no other from being read. */
TEST(live_totals)
{
    static const char *const columns[] = {TEXT("utf8mb4", "utf8mb4_general_ci") ", n INT NULL",
                                          TEXT("latin1", "latin1_swedish_ci") ", n INT NULL"};
    struct slice fields[] = {SLICE("gone"), SLICE("a"), SLICE("\xff"), SLICE("\xe6\x97\xa5"), SLICE("A")};
    struct books_total one = {.key = SLICE("posts"), .fields = fields, .fields_n = 5};
    struct books_totals t = {.epoch = shop_epoch, .counter = &posts, .all = &one, .n = 1};
    struct error e;
    posts.missing = MISSING_REJECT;
    for (size_t i = 0; i < 2; i++) {
        posts_table(columns[i], "('a', 5), ('?', 7), (REPEAT('?', 3), 7)");
        if (books_totals_read(server.db, &t, &e) != ERR_NONE) fail_msg("%s", e.text);
        for (size_t f = 0; f < 5; f++)
            assert_int_equal(one.stored[f], f == 1 || f == 4 ? 5 : 0);
        heap_free(one.stored);
        books_close(&t.books);
    }
}

/* A reject of a row that is not there waits until it is, and is counted once. */
TEST(replayed_when_it_is_there)
{
    struct error e;
    const struct rejects_which every = {0};
    const struct counters cs = {.all = &posts, .n = 1};
    struct rejects_replay run = {.counters = &cs};
    posts_table(BYTES ", n INT UNSIGNED NOT NULL", "('a', 3)");
    posts_bench(MISSING_REJECT);
    ROWS("posts", "b", "4", "c", "-2");
    assert_chunk(MERGE_DONE);
    assert_int_equal(rejects_replay(server.db, &every, &run, &e), ERR_NONE);
    assert_true(run.replayed == 0 && run.refused == 2);
    assert_words("a=3");
    assert_books("0/2/1", "b=4 c=-2");
    sql("INSERT INTO posts VALUES ('b', 1), ('c', 1)");
    assert_int_equal(rejects_replay(server.db, &every, &run, &e), ERR_NONE);
    assert_true(run.replayed == 1 && run.refused == 1); /* c would be below 0 */
    assert_words("a=3 b=5 c=1");
    assert_books("4/-2/2", "c=-2");
    assert_int_equal(rejects_replay(server.db, &every, &run, &e), ERR_NONE);
    assert_words("a=3 b=5 c=1");
}

static void adjust_is(const char *id, const char *field, bool to, int64_t by, enum adjust_outcome expected)
{
    struct error e;
    enum adjust_outcome outcome;
    struct adjustment a = {.id = slice_str(id),
                           .counter = posts.name,
                           .key = SLICE("posts"),
                           .field = slice_str(field),
                           .reason = SLICE("why"),
                           .sets = to,
                           .delta = by,
                           .set_to = by};
    assert_int_equal(adjust(server.db, &posts, &a, &outcome, &e), ERR_NONE);
    assert_int_equal(outcome, expected);
}

TEST(adjusted_where_it_is)
{
    posts.missing = MISSING_REJECT;
    sql("DELETE FROM tally_adjustments");
    posts_table(TEXT("utf8mb4", "utf8mb4_general_ci") ", n INT UNSIGNED NULL", "('a', 3), ('b', NULL)");
    adjust_is("1", "a", false, -3, ADJUST_DONE);
    adjust_is("2", "gone", false, 5, ADJUST_MISSING);
    adjust_is("3", "gone", true, 5, ADJUST_MISSING);
    adjust_is("4", "B", true, 9, ADJUST_DONE);
    adjust_is("4", "B", true, 9, ADJUST_KNOWN);
    adjust_is("5", "a", true, 0, ADJUST_DONE); /* it is 0 already: a row that is there */
    assert_words("a=0 b=9");
    assert_sql("1/-3 4/9 5/0", "SELECT CONCAT_WS('/', id, delta) FROM tally_adjustments ORDER BY id");
    sql("INSERT INTO posts VALUES ('gone', 0)");
    adjust_is("2", "gone", false, 5, ADJUST_DONE); /* the same id: it was not done before */
    assert_words("a=0 b=9 gone=5");
}

UNITS_IN(shop_start, shop_stop)
