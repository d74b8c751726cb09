/* Counters that make no rows (missing: reject, drop) in a real MariaDB: what is there is counted once, what is not there is
 * rejected, and no row is ever made. And key columns of all kinds, and columns that are set beside the count. */
#include "lib/sql_proxy.h"

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
    mariadb_do(&server, "DROP TABLE IF EXISTS posts");
    mariadb_do(&server, "CREATE TABLE posts (%s) ENGINE=InnoDB", columns);
    mariadb_do(&server, "INSERT INTO posts (word, n) VALUES %s", rows);
}

static void batch_of(struct bench *t, uint8_t id, const struct counter *c)
{
    batch_close(&t->batch);
    shop_batch(&t->batch, id, WORDS, 1);
    t->batch.counter = c;
    buf_reset(&t->batch.counter_name);
    buf_put_slice(&t->batch.counter_name, c->name);
}

static void posts_bench(struct bench *t, enum missing missing)
{
    posts.missing = missing;
    bench_open(t, &server.config);
    batch_of(t, 1, &posts);
}

static void assert_words(const char *expected)
{
    assert_mariadb(&server, expected, "SELECT CONCAT_WS('=', word, n) FROM posts ORDER BY word");
}

/* merged/rejected/chunks of the books, and what waits as rejects. */
static void assert_books(const char *books, const char *rejects)
{
    assert_mariadb(&server, books, "SELECT CONCAT_WS('/', merged, rejected, chunks) FROM tally_counters");
    assert_mariadb(&server, rejects,
                   "SELECT CONCAT_WS('=', field, delta) FROM tally_rejects WHERE replayed_at IS NULL AND "
                   "counted ORDER BY field");
}

static void assert_rows(const struct bench *t, uint32_t merged, uint32_t rejected)
{
    assert_int_equal(t->chunk.rows_merged, merged);
    assert_int_equal(t->chunk.rows_rejected, rejected);
}

/* ---- rows that are there, and that are not ---- */

static void some_are_there(enum missing missing, const char *rejects)
{
    struct bench t;
    posts_table(BYTES COUNT, "('a', 1), ('b', 0), ('z', 7)");
    posts_bench(&t, missing);
    HASH(&t.batch, "posts", "a", "1", "b", "-2", "c", "4", "dd", "8");
    shop_chunk(&t.batch, 0, &t.chunk);
    for (int i = 0; i < 2; i++) { /* what is sent again after its commit counts nothing */
        assert_outcome(&t, i == 0 ? MERGE_DONE : MERGE_ALREADY);
        assert_rows(&t, 2, 2);
        assert_words("a=2 b=-2 z=7");
        assert_books("-1/12/1", rejects);
        assert_mariadb(&server, "2/11", "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger");
    }
    bench_close(&t);
}

static void there_and_not_there(void **state)
{
    some_are_there(MISSING_REJECT, "c=4 dd=8");
    assert_mariadb(&server, ROW_MISSING, "SELECT DISTINCT reason FROM tally_rejects");
}

static void there_and_dropped(void **state)
{
    some_are_there(MISSING_DROP, "");
}

static void none_is_there(enum missing missing, const char *waiting)
{
    struct bench t;
    char field[16];
    posts_table(BYTES COUNT ", id INT NOT NULL AUTO_INCREMENT UNIQUE", "('z', 7)");
    posts_bench(&t, missing);
    uint32_t hash = batch_add_hash(&t.batch, SLICE("posts"), 400);
    for (int i = 100; i < 500; i++) {
        snprintf(field, sizeof field, "w%d", i);
        batch_add_row(&t.batch, hash, slice_str(field), SLICE("1"));
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 0, 400);
    assert_words("z=7");
    assert_mariadb(&server, "0/400/1", "SELECT CONCAT_WS('/', merged, rejected, chunks) FROM tally_counters");
    assert_mariadb(&server, waiting, "SELECT COUNT(*) FROM tally_rejects");
    mariadb_do(&server, "INSERT INTO posts (word) VALUES ('after')");
    assert_mariadb(&server, "2", "SELECT id FROM posts WHERE word = 'after'"); /* no id is used up */
    bench_close(&t);
}

static void all_are_missing(void **state)
{
    none_is_there(MISSING_REJECT, "400");
    assert_int_equal(shop_afresh(state), 0);
    none_is_there(MISSING_DROP, "0");
}

/* 40 words that are there, 20 that are not, and `full` of two digits, which cannot take 1 more. */
static void words_with_full(struct bench *t, int full)
{
    char field[16];
    posts_table(BYTES ", n TINYINT NOT NULL DEFAULT 0", "('full10', 127)");
    uint32_t hash = batch_add_hash(&t->batch, SLICE("posts"), 60 + (unsigned)full);
    for (int i = 10; i < 70 + full; i++) {
        int at = i < 70 ? i : i - 60;
        const char *kind = i < 50 ? "w" : i < 70 ? "none" : "full";
        snprintf(field, sizeof field, "%s%d", kind, at);
        batch_add_row(&t->batch, hash, slice_str(field), SLICE("1"));
        if (i < 50) mariadb_do(&server, "INSERT INTO posts VALUES ('%s', 1)", field);
        if (i > 70) mariadb_do(&server, "INSERT INTO posts VALUES ('%s', 127)", field);
    }
    shop_chunk(&t->batch, 0, &t->chunk);
}

/* Of 63 rows 3 may be refused; the missing ones are not among them. */
static void missing_and_refused(void **state)
{
    static const char *const waiting[] = {"full=3 none=20", "full=3"};
    struct bench t;
    for (int drop = 0; drop < 2; drop++) {
        posts_bench(&t, drop ? MISSING_DROP : MISSING_REJECT);
        words_with_full(&t, 3);
        assert_outcome(&t, MERGE_DONE);
        assert_rows(&t, 40, 23);
        assert_mariadb(&server, "full=127/3 w=2/40",
                       "SELECT CONCAT(REGEXP_REPLACE(word, '[0-9]', ''), '=', n, '/', COUNT(*)) FROM posts"
                       " GROUP BY REGEXP_REPLACE(word, '[0-9]', ''), n ORDER BY 1");
        assert_mariadb(&server, "40/23", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
        assert_mariadb(&server, waiting[drop],
                       "SELECT CONCAT(REGEXP_REPLACE(field, '[0-9]', ''), '=', SUM(delta)) FROM tally_rejects"
                       " GROUP BY REGEXP_REPLACE(field, '[0-9]', '') ORDER BY 1");
        bench_close(&t);
        assert_int_equal(shop_afresh(state), 0);
    }
}

static void refused_beside_missing(void **state)
{
    struct bench t;
    posts_bench(&t, MISSING_REJECT);
    words_with_full(&t, 4);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 40, 24);
    assert_int_equal(t.chunk.rejected_n, 1);
    assert_int_equal(t.chunk.rejected[0].rows, 4); /* those that are missing do not count */
    assert_mariadb(&server, "588", "SELECT SUM(n) FROM posts");
    bench_close(&t);
}

static void below_zero(void **state)
{
    struct bench t;
    posts_table(BYTES ", n INT UNSIGNED NULL", "('five', 5), ('four', 4), ('null', NULL), ('nil', NULL)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "five", "-5", "four", "-5", "null", "3", "gone", "-1", "nil", "0");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 3, 2);
    assert_words("five=0 four=4 nil=0 null=3");
    assert_books("-2/-6/1", "four=-5 gone=-1");
    assert_mariadb(&server, "1",
                   "SELECT COUNT(*) FROM tally_rejects WHERE field = 'four' AND reason REGEXP '1690|1264'");
    bench_close(&t);
}

static void not_an_integer(void **state)
{
    struct bench t;
    posts_table(BYTES COUNT, "('a', 1)");
    posts_bench(&t, MISSING_DROP);
    HASH(&t.batch, "posts", "a", "2", "b", "4", "c", "1.5");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 1, 2);
    assert_books("2/4/1", "");
    assert_mariadb(
        &server, "c/1.5/0",
        "SELECT CONCAT_WS('/', field, delta, counted) FROM tally_rejects"); /* kept, though b is dropped */
    bench_close(&t);
}

/* ---- texts ---- */

static void texts_of_one_row(void **state)
{
    struct bench t;
    posts_table(TEXT("utf8mb4", "utf8mb4_general_ci") COUNT, "('Shoes', 100), ('boot', 0)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "shoes", "1", "SHOES", "2",
         "sh\xc3\xb6"
         "es",
         "4", "Shoes ", "8", "bag", "16", "Boot", "-32");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 5, 1);
    assert_words("boot=-32 Shoes=115");
    assert_books("-17/16/1", "bag=16");
    bench_close(&t);
}

/* Together they are too much, so each is tried alone: the first is added, the second refused. */
static void texts_of_one_row_refused(void **state)
{
    struct bench t;
    posts_table(TEXT("utf8mb4", "utf8mb4_general_ci") ", n TINYINT NOT NULL", "('Shoes', 100)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "shoes", "20", "SHOES", "21");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 1, 1);
    assert_words("Shoes=121");
    assert_books("21/20/1", "shoes=20");
    bench_close(&t);
}

/* A text that the column's set lacks is no `?`, and one that is no UTF-8 holds no other. */
static void texts_that_a_column_lacks(void **state)
{
    static const char *const columns[] = {
        TEXT("latin1", "latin1_swedish_ci") COUNT, TEXT("utf8mb4", "utf8mb4_unicode_ci") COUNT,
        TEXT("utf8mb4", "utf8mb4_nopad_bin") COUNT, TEXT("ascii", "ascii_bin") COUNT};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct bench t;
        posts_table(columns[i], "('?', 0), ('a', 0), (REPEAT('?', 2), 0), (REPEAT('?', 3), 0)");
        posts_bench(&t, MISSING_REJECT);
        char field[16];
        uint32_t hash = batch_add_hash(&t.batch, SLICE("posts"), 45);
        for (int w = 10; w < 50; w++) {
            snprintf(field, sizeof field, "w%d", w);
            batch_add_row(&t.batch, hash, slice_str(field), SLICE("1"));
        }
        batch_add_row(&t.batch, hash, SLICE("?"), SLICE("1"));
        batch_add_row(&t.batch, hash, SLICE("a"), SLICE("2"));
        batch_add_row(&t.batch, hash, SLICE("\xe6\x97\xa5"), SLICE("4"));
        batch_add_row(&t.batch, hash, SLICE("\xff"), SLICE("8"));
        batch_add_row(&t.batch, hash, SLICE("\xc3\xa9"), SLICE("16"));
        shop_chunk(&t.batch, 0, &t.chunk);
        assert_outcome(&t, MERGE_DONE);
        assert_rows(&t, 2, 43);
        assert_words("?=1 ?"
                     "?=0 ?"
                     "?"
                     "?=0 a=2");
        assert_mariadb(&server, "3/68", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
        bench_close(&t);
        assert_int_equal(shop_afresh(state), 0);
    }
}

static void texts_of_a_set(void **state)
{
    struct bench t;
    posts_table(TEXT("latin1", "latin1_swedish_ci") COUNT, "(CONVERT(_utf8mb4 x'C3A9' USING latin1), 0)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "\xc3\xa9", "1", "E", "2");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 2, 0);
    assert_mariadb(&server, "E9=3", "SELECT CONCAT(HEX(word), '=', n) FROM posts");
    bench_close(&t);
}

static void texts_of_fixed_length(void **state)
{
    struct bench t;
    posts_table("word CHAR(8) NOT NULL PRIMARY KEY" COUNT, "('short', 0), ('longlong', 0)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "short", "1", "longlong", "2", "longlonger", "4");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 2, 1);
    assert_words("longlong=2 short=1");
    bench_close(&t);
}

/* A BINARY is never equal to a shorter text. */
static void held_by_a_binary(void **state)
{
    struct bench t;
    posts_table("word BINARY(8) NOT NULL PRIMARY KEY" COUNT, "('short', 0)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "short", "1");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_HELD);
    assert_non_null(strstr(t.chunk.text, "run tallyd check"));
    bench_close(&t);
}

/* ---- other sessions ---- */

static void two_words(struct bench *t)
{
    posts_table(BYTES COUNT, "('a', 0), ('b', 0)");
    posts_bench(t, MISSING_REJECT);
    HASH(&t->batch, "posts", "a", "1", "b", "2");
    shop_chunk(&t->batch, 0, &t->chunk);
}

/* The shop's DELETE came first: the merge waits for its end, and goes by that. */
static void deleted_before_the_look(void **state)
{
    static const char *const ends[] = {"ROLLBACK", "COMMIT"};
    for (int i = 0; i < 2; i++) {
        struct bench t;
        two_words(&t);
        mariadb_do(&server, "BEGIN");
        mariadb_do(&server, "DELETE FROM posts WHERE word = 'a'");
        merge_begin(&t);
        await_mariadb(&server, "1", WAITING);
        mariadb_do(&server, "%s", ends[i]);
        merge_end(&t, MERGE_DONE);
        assert_words(i == 0 ? "a=1 b=2" : "b=2");
        assert_books(i == 0 ? "3/0/1" : "2/1/1", i == 0 ? "" : "a=1");
        bench_close(&t);
        assert_int_equal(shop_afresh(state), 0);
    }
}

static void *delete_main(void *arg)
{
    struct db *db = db_create(&server.config);
    bool deleted = db_open(db) == CODE_OK && DB_EXEC(db, "DELETE FROM posts WHERE word = 'a'") == CODE_OK;
    db_destroy(&db);
    return deleted ? arg : NULL;
}

static void proxy_between(struct bench *t, struct sql_proxy *proxy, struct db_config *config)
{
    sql_proxy_start(proxy, server.dir, server.socket, server.pid);
    config->socket = proxy->path;
    db_destroy(&t->db);
    t->merger.db = t->db = db_create(config);
}

/* Between the look and the update a DELETE waits for our lock: what it deletes has our hits. */
static void deleted_behind_the_look(void **state)
{
    struct bench t;
    struct sql_proxy proxy;
    struct db_config config = server.config;
    pthread_t thread;
    void *deleted;
    two_words(&t);
    batch_of(&t, 1, &posts);
    HASH(&t.batch, "posts", "a", "1", "b", "2", "none", "4");
    shop_chunk(&t.batch, 0, &t.chunk);
    mariadb_do(&server, "CREATE OR REPLACE TABLE gone (word VARBINARY(255), n BIGINT) ENGINE=InnoDB");
    mariadb_do(&server, "CREATE TRIGGER keep_gone BEFORE DELETE ON posts FOR EACH ROW INSERT INTO gone"
                        " VALUES (OLD.word, OLD.n)");
    proxy_between(&t, &proxy, &config);
    atomic_store(&proxy.trick, PROXY_HOLD_UPDATE);
    merge_begin(&t);
    for (uint64_t until_ms = mono_ms() + 20000; atomic_load(&proxy.trick) != PROXY_HOLDS;)
        assert_true(mono_ms() < until_ms && usleep(1000) == 0);
    assert_int_equal(pthread_create(&thread, NULL, delete_main, &t), 0);
    await_mariadb(&server, "1", WAITING);
    atomic_store(&proxy.trick, PROXY_PASS);
    merge_end(&t, MERGE_DONE);
    pthread_join(thread, &deleted);
    assert_non_null(deleted);
    assert_mariadb(&server, "a=1", "SELECT CONCAT_WS('=', word, n) FROM gone");
    assert_words("b=2");
    assert_books("3/4/1", "none=4");
    bench_close(&t);
    sql_proxy_stop(&proxy);
}

/* Rows that are all there are updated without a look. After one that was missing tallyd looks first, in eight chunks that miss none. */
static void looks_when_some_are_missing(void **state)
{
    static const struct {
        const char *third, *words;
        bool looks;
        uint8_t last;
    } chunks[] = {{"c", "a=1 b=2 c=4", false, 1},
                  {"none", "a=2 b=4 c=4", true, 2},
                  {"c", "a=10 b=20 c=36", true, 10},
                  {"c", "a=11 b=22 c=40", false, 11}};
    struct bench t;
    struct sql_proxy proxy;
    struct db_config config = server.config;
    two_words(&t);
    mariadb_do(&server, "INSERT INTO posts VALUES ('c', 0)");
    proxy_between(&t, &proxy, &config);
    for (uint8_t i = 0, id = 1; i < sizeof chunks / sizeof *chunks; i++) {
        for (; id <= chunks[i].last; id++) {
            atomic_store(&proxy.looked, false);
            batch_of(&t, id, &posts);
            HASH(&t.batch, "posts", "a", "1", "b", "2", chunks[i].third, "4");
            shop_chunk(&t.batch, 0, &t.chunk);
            assert_outcome(&t, MERGE_DONE);
            assert_int_equal(atomic_load(&proxy.looked), chunks[i].looks);
        }
        assert_words(chunks[i].words);
    }
    assert_books("73/4/11", "none=4");
    bench_close(&t);
    sql_proxy_stop(&proxy);
}

/* The first statement finds `a` missing, then the second waits for too long. By the next merge there is an `a`. */
static void tried_again(void **state)
{
    struct bench t;
    struct db_config config = server.config;
    char field[30];
    posts_table(BYTES COUNT, "('zzzzzzzzzzzz', 0), ('b', 0)");
    posts.missing = MISSING_REJECT;
    config.lock_wait_s = 0;
    bench_open(&t, &config);
    t.merger.statement_max = 600; /* a few rows in each */
    batch_of(&t, 1, &posts);
    uint32_t hash = batch_add_hash(&t.batch, SLICE("posts"), 12);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(field, sizeof field, "%.*s", (int)i + 1, i == 0 ? "a" : "zzzzzzzzzzzz");
        batch_add_row(&t.batch, hash, slice_str(field), SLICE("1"));
    }
    shop_chunk(&t.batch, 0, &t.chunk);
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "UPDATE posts SET n = 5 WHERE word = 'zzzzzzzzzzzz'");
    assert_outcome(&t, MERGE_LOCKED);
    buf_free(&t.chunk.left);
    mariadb_do(&server, "INSERT INTO posts VALUES ('a', 10)");
    mariadb_do(&server, "COMMIT");
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 2, 10);
    assert_words("a=11 b=0 zzzzzzzzzzzz=6");
    assert_mariadb(&server, "2/10", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "10", "SELECT COUNT(*) FROM tally_rejects");
    bench_close(&t);
}

static void deadlock(void **state)
{
    struct bench t;
    two_words(&t);
    mariadb_do(&server, "BEGIN");
    for (int i = 0; i < 200; i++) /* the victim is the one that wrote less */
        mariadb_do(&server, "INSERT INTO posts VALUES ('other%d', 0)", i);
    mariadb_do(&server, "UPDATE posts SET n = n + 10 WHERE word = 'b'");
    int64_t before = STAT_GET(chunks_retried);
    merge_begin(&t); /* takes a, then waits for b */
    await_mariadb(&server, "1", WAITING);
    mariadb_do(&server, "UPDATE posts SET n = n + 10 WHERE word = 'a'");
    mariadb_do(&server, "DELETE FROM posts WHERE word LIKE 'other%%'");
    mariadb_do(&server, "COMMIT");
    merge_end(&t, MERGE_DONE);
    assert_true(STAT_GET(chunks_retried) > before);
    assert_words("a=11 b=12");
    assert_books("3/0/1", "");
    bench_close(&t);
}

/* A row of the table that is none of the chunk's is not waited for. */
static void other_rows_are_not_locked(void **state)
{
    struct bench t;
    struct db_config config = server.config;
    two_words(&t);
    config.lock_wait_s = 1;
    db_destroy(&t.db);
    t.merger.db = t.db = db_create(&config);
    mariadb_do(&server, "INSERT INTO posts VALUES ('c', 0), ('aa', 0)");
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "UPDATE posts SET n = n + 10 WHERE word IN ('c', 'aa')");
    int64_t before = STAT_GET(chunks_retried);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(STAT_GET(chunks_retried), before);
    mariadb_do(&server, "COMMIT");
    assert_words("a=1 aa=10 b=2 c=10");
    bench_close(&t);
}

static void commit_cut(enum sql_proxy_trick trick, enum merge_outcome then)
{
    struct bench t;
    struct sql_proxy proxy;
    struct db_config config = server.config;
    sql_proxy_start(&proxy, server.dir, server.socket, server.pid);
    config.socket = proxy.path;
    posts_table(BYTES ", n TINYINT NOT NULL", "('a', 0), ('full', 127)");
    posts.missing = MISSING_REJECT;
    bench_open(&t, &config);
    batch_of(&t, 1, &posts);
    HASH(&t.batch, "posts", "a", "1", "full", "2", "none", "4");
    shop_chunk(&t.batch, 0, &t.chunk);
    atomic_store(&proxy.trick, (int)trick);
    assert_outcome(&t, then);
    assert_int_equal(atomic_load(&proxy.trick), PROXY_PASS);
    assert_rows(&t, 1, 2);
    assert_outcome(&t, MERGE_ALREADY);
    assert_words("a=1 full=127");
    assert_books("1/6/1", "full=2 none=4");
    bench_close(&t);
    sql_proxy_stop(&proxy);
}

static void commit_is_cut(void **state)
{
    commit_cut(PROXY_CUT_COMMIT, MERGE_DONE);
}

static void its_answer_is_cut(void **state)
{
    commit_cut(PROXY_CUT_REPLY, MERGE_ALREADY);
}

/* ---- size ---- */

static char long_table[65], long_field[65], long_count[65];
static struct counter long_names;

/* The smallest packet and the longest names. Four short texts, of which `d` is not there, and a long one. */
static void long_chunk(struct bench *t, const char *type)
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
    mariadb_do(&server,
               "CREATE OR REPLACE TABLE `%s` (`%s` %s NOT NULL PRIMARY KEY, `%s` BIGINT NOT NULL)"
               " SELECT 'a' AS `%s`, 0 AS `%s` UNION SELECT 'b', 0 UNION SELECT 'c', 0 UNION SELECT "
               "REPEAT('x', 255), 0",
               long_table, long_field, type, long_count, long_field, long_count);
    bench_open(t, &server.config);
    batch_of(t, 1, &long_names);
    uint32_t hash = batch_add_hash(&t->batch, SLICE("posts"), 5);
    for (int i = 0; i < 4; i++)
        batch_add_row(&t->batch, hash, slice_of(&"abcd"[i], 1), slice_of(&"1248"[i], 1));
    batch_add_row(&t->batch, hash, slice_of(text, sizeof text), SLICE("16"));
    shop_chunk(&t->batch, 0, &t->chunk);
    packet_set(1024);
}

static void packet_too_small_for_a_row(void **state)
{
    struct bench t;
    long_chunk(&t, "VARBINARY(255)");
    enum merge_outcome got = merge(&t);
    packet_set(16777216);
    if (got != MERGE_DONE) fail_msg("outcome %d: %s", (int)got, t.chunk.text);
    assert_rows(&t, 3, 2);
    assert_mariadb(&server, "7/24", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "7", "SELECT SUM(`%s`) FROM `%s`", long_count, long_table);
    assert_mariadb(&server, "16",
                   "SELECT delta FROM tally_rejects WHERE reason LIKE '%%max_allowed_packet%%'");
    bench_close(&t);
}

/* A text compares by a longer statement, of which none fits. */
static void packet_too_small_for_all(void **state)
{
    struct bench t;
    long_chunk(&t, "VARCHAR(255) CHARACTER SET latin1");
    enum merge_outcome got = merge(&t);
    packet_set(16777216);
    assert_int_equal(got, MERGE_DONE);
    assert_mariadb(&server, "0", "SELECT SUM(`%s`) FROM `%s`", long_count, long_table);
    assert_mariadb(&server, "0/31", "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters");
    assert_mariadb(&server, "23",
                   "SELECT SUM(delta) FROM tally_rejects WHERE reason LIKE '%%max_allowed_packet%%'");
    bench_close(&t);
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
    struct bench t;
    posts_table(SETS_TABLE, "('a', 5)");
    posts_bench(&t, missing);
    posts.sets = sets, posts.sets_n = sizeof sets / sizeof *sets;
    HASH(&t.batch, "posts", "a", "1", "b", "2");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    bench_close(&t);
    posts.sets_n = 0;
    assert_string_equal(mariadb_ask(&server, SETS_ARE), expected);
}

static void sets_of_upserts(void **state)
{
    sets_merged(MISSING_INSERT, "a/6/now/NULL/now/today/app/0 b/2/now/now/0/today/w'eb/-7");
}

static void sets_of_updates(void **state)
{
    sets_merged(MISSING_REJECT, "a/6/now/NULL/now/today/app/0");
}

/* A row that MySQL refuses is set in nothing either. */
static void sets_of_a_refused_row(void **state)
{
    struct bench t;
    posts_table(SETS_TABLE, "('a', 9223372036854775807), ('b', 0)");
    posts_bench(&t, MISSING_REJECT);
    posts.sets = sets, posts.sets_n = sizeof sets / sizeof *sets;
    HASH(&t.batch, "posts", "a", "1", "b", "2");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    bench_close(&t);
    posts.sets_n = 0;
    assert_string_equal(mariadb_ask(&server, SETS_ARE), "a/9223372036854775807/2001-01-01 00:00:00/NULL/0/"
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
    mariadb_do(
        &server,
        "CREATE OR REPLACE TABLE wide (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,"
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
    struct bench t;
    wide_make();
    wide.missing = missing;
    mariadb_do(&server, "INSERT INTO wide VALUES (7, 9223372036854775807, 42, " WIDE_ROW ", 100)");
    bench_open(&t, &server.config);
    batch_of(&t, 1, &wide);
    HASH(&t.batch, WIDE_KEY, "2024-05-02T23|202402", "1", "2024-05-02T22|202402", "2");
    HASH(&t.batch, "s:0:p0:x/0", "1970-01-01T00|197001", "4");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    bench_close(&t);
    assert_mariadb(
        &server, expected,
        "SELECT CONCAT_WS(',', store, product, lang, day, REPLACE(at, ' ', '_'), month, y, h, spelled, kind,"
        " blog, n) FROM wide ORDER BY n");
    heap_free(wide.key.places);
}

#define WIDE_SHOWN(hour, n)                                                                                  \
    "9223372036854775807,42,d'e,2024-05-01,2024-05-02_" hour ":00:00,202402,2024," hour ",2024-05-02T" hour  \
    ",it's,-3," n

static void columns_of_all_kinds(void **state)
{
    wide_merged(MISSING_INSERT, WIDE_SHOWN("22", "2") " 0,0,x,1970-01-01,1970-01-01_00:00:00,197001,1970,0,"
                                                      "1970-01-01T00,it's,-3,4 " WIDE_SHOWN("23", "101"));
    assert_books("7/0/1", "");
}

static void columns_of_all_kinds_there(void **state)
{
    wide_merged(MISSING_REJECT, WIDE_SHOWN("23", "101"));
    assert_books("1/6/1", "1970-01-01T00|197001=4 2024-05-02T22|202402=2");
}

/* Whatever the kinds are, the key finds the row: others, which the shop has locked, are not looked at. */
static void columns_of_all_kinds_by_their_key(void **state)
{
    struct bench t;
    struct db_config config = server.config;
    wide_make();
    wide.missing = MISSING_REJECT;
    for (int product = 1; product <= 50; product++)
        mariadb_do(&server, "INSERT INTO wide VALUES (%d, 7, %d, " WIDE_ROW ", 0)", product, product);
    config.lock_wait_s = 1;
    bench_open(&t, &config);
    batch_of(&t, 1, &wide);
    HASH(&t.batch, "s:7:p42:d'e/1714521600", "2024-05-02T23|202402", "1");
    shop_chunk(&t.batch, 0, &t.chunk);
    mariadb_do(&server, "BEGIN");
    mariadb_do(&server, "UPDATE wide SET n = 5 WHERE id BETWEEN 1 AND 30");
    enum merge_outcome got = merge(&t);
    mariadb_do(&server, "COMMIT");
    if (got != MERGE_DONE) fail_msg("outcome %d: %s", (int)got, t.chunk.text);
    assert_rows(&t, 1, 0);
    assert_mariadb(
        &server, "1/150",
        "SELECT CONCAT_WS('/', SUM(IF(product = 42, n, 0)), SUM(IF(product = 42, 0, n))) FROM wide");
    bench_close(&t);
    heap_free(wide.key.places);
}

/* ---- fields that name a column ---- */

/* Each column is a pass over the chunk: what one pass found missing is not missed again by the next. */
static void counts_of_a_row(void **state)
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
    struct bench t;
    mariadb_do(&server, "CREATE OR REPLACE TABLE sales (product INT NOT NULL PRIMARY KEY, viewed INT NOT "
                        "NULL, sold INT NOT NULL)");
    mariadb_do(&server, "INSERT INTO sales VALUES (1, 0, 0)");
    bench_open(&t, &server.config);
    batch_of(&t, 1, &c);
    HASH(&t.batch, "p:1", "sold", "2", "viewed", "1");
    HASH(&t.batch, "p:9", "sold", "8", "viewed", "4");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_rows(&t, 2, 2);
    assert_mariadb(&server, "1/1/2", "SELECT CONCAT_WS('/', product, viewed, sold) FROM sales");
    assert_books("3/12/1", "sold=8 viewed=4");
    bench_close(&t);
}

/* ---- beside merges ---- */

/* One that is not there, one that the column folds, and some that its set lacks, which keep no other from being read. */
static void live_totals(void **state)
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
static void replayed_when_it_is_there(void **state)
{
    struct bench t;
    struct error e;
    const struct rejects_which every = {0};
    const struct counters cs = {.all = &posts, .n = 1};
    struct rejects_replay run = {.counters = &cs};
    posts_table(BYTES ", n INT UNSIGNED NOT NULL", "('a', 3)");
    posts_bench(&t, MISSING_REJECT);
    HASH(&t.batch, "posts", "b", "4", "c", "-2");
    shop_chunk(&t.batch, 0, &t.chunk);
    assert_outcome(&t, MERGE_DONE);
    assert_int_equal(rejects_replay(server.db, &every, &run, &e), ERR_NONE);
    assert_true(run.replayed == 0 && run.refused == 2);
    assert_words("a=3");
    assert_books("0/2/1", "b=4 c=-2");
    mariadb_do(&server, "INSERT INTO posts VALUES ('b', 1), ('c', 1)");
    assert_int_equal(rejects_replay(server.db, &every, &run, &e), ERR_NONE);
    assert_true(run.replayed == 1 && run.refused == 1); /* c would be below 0 */
    assert_words("a=3 b=5 c=1");
    assert_books("4/-2/2", "c=-2");
    assert_int_equal(rejects_replay(server.db, &every, &run, &e), ERR_NONE);
    assert_words("a=3 b=5 c=1");
    bench_close(&t);
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

static void adjusted_where_it_is(void **state)
{
    posts.missing = MISSING_REJECT;
    mariadb_do(&server, "DELETE FROM tally_adjustments");
    posts_table(TEXT("utf8mb4", "utf8mb4_general_ci") ", n INT UNSIGNED NULL", "('a', 3), ('b', NULL)");
    adjust_is("1", "a", false, -3, ADJUST_DONE);
    adjust_is("2", "gone", false, 5, ADJUST_MISSING);
    adjust_is("3", "gone", true, 5, ADJUST_MISSING);
    adjust_is("4", "B", true, 9, ADJUST_DONE);
    adjust_is("4", "B", true, 9, ADJUST_KNOWN);
    adjust_is("5", "a", true, 0, ADJUST_DONE); /* it is 0 already: a row that is there */
    assert_words("a=0 b=9");
    assert_mariadb(&server, "1/-3 4/9 5/0",
                   "SELECT CONCAT_WS('/', id, delta) FROM tally_adjustments ORDER BY id");
    mariadb_do(&server, "INSERT INTO posts VALUES ('gone', 0)");
    adjust_is("2", "gone", false, 5, ADJUST_DONE); /* the same id: it was not done before */
    assert_words("a=0 b=9 gone=5");
}

#define TEST(name) cmocka_unit_test_setup(name, shop_afresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(there_and_not_there),
        TEST(there_and_dropped),
        TEST(all_are_missing),
        TEST(missing_and_refused),
        TEST(refused_beside_missing),
        TEST(below_zero),
        TEST(not_an_integer),
        TEST(texts_of_one_row),
        TEST(texts_of_one_row_refused),
        TEST(texts_that_a_column_lacks),
        TEST(texts_of_a_set),
        TEST(texts_of_fixed_length),
        TEST(held_by_a_binary),
        TEST(deleted_before_the_look),
        TEST(deleted_behind_the_look),
        TEST(looks_when_some_are_missing),
        TEST(tried_again),
        TEST(deadlock),
        TEST(other_rows_are_not_locked),
        TEST(commit_is_cut),
        TEST(its_answer_is_cut),
        TEST(packet_too_small_for_a_row),
        TEST(packet_too_small_for_all),
        TEST(sets_of_upserts),
        TEST(sets_of_updates),
        TEST(sets_of_a_refused_row),
        TEST(columns_of_all_kinds),
        TEST(columns_of_all_kinds_there),
        TEST(columns_of_all_kinds_by_their_key),
        TEST(counts_of_a_row),
        TEST(live_totals),
        TEST(replayed_when_it_is_there),
        TEST(adjusted_where_it_is),
    };
    return cmocka_run_group_tests(tests, shop_start, shop_stop);
}
