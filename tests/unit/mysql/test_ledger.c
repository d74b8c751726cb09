/* Questions to the ledger, its upkeep, the books, live totals and rejects, over what merges left in a real
 * MariaDB. */
#include "shop.h"

#include "base/heap.h"
#include "mysql/books.h"
#include "mysql/ledger.h"
#include "mysql/merge.h"

static struct db *db;
static struct merger merger;
static struct witnesses witnesses;
static struct error e;

#define assert_fine(call)                                                                                    \
    do {                                                                                                     \
        if ((call) != ERR_NONE) fail_msg("%s", e.text);                                                      \
    } while (0)

static void merge_now(struct batch *b)
{
    struct chunk c;
    for (uint32_t i = 0; i == 0 || i < batch_chunks(b); i++) {
        shop_chunk(b, i, &c);
        merge_chunk(&merger, &c);
        if (c.outcome != MERGE_DONE) fail_msg("outcome %d: %s", (int)c.outcome, c.text);
    }
    batch_close(b);
}

/* One row s7:visitors, 20140920. */
static void merge_visits(uint8_t id, uint64_t gen, const char *visits)
{
    struct batch b;
    shop_batch(&b, id, VISITORS, gen);
    HASH(&b, "s7:visitors", "20140920", visits);
    merge_now(&b);
}

static int empty(void **state)
{
    shop_empty(&server);
    return db_is_open(db) ? 0 : (int)db_open(db);
}

#define TEST(name) UNIT_IN(name, empty, NULL)

TEST(gen_highest)
{
    uint64_t gen = 9;
    assert_fine(ledger_gen_highest(db, &shop_epoch.realm, &gen, &e));
    assert_int_equal(gen, 0);
    merge_visits(1, 3, "1");
    merge_visits(2, UINT64_C(18446744073709551615), "1");
    assert_fine(ledger_gen_highest(db, &shop_epoch.realm, &gen, &e));
    assert_true(gen == UINT64_MAX);
}

TEST(known)
{
    struct batch_id ids[3] = {shop_id(3), shop_id(1), shop_id(2)};
    bool is[3] = {true, false, true};
    merge_visits(1, 1, "1");
    assert_fine(ledger_known(db, ids, 3, is, &e));
    assert_false(is[0]);
    assert_true(is[1]);
    assert_false(is[2]);
    assert_fine(ledger_known(db, ids, 0, NULL, &e));
}

static void age(uint8_t id, int days)
{
    sql("UPDATE tally_ledger SET merged_at = merged_at - INTERVAL %d DAY WHERE batch = REPEAT(CHAR(%d), 16)",
        days, id);
}

#define WEEK_S (7 * 24 * 3600)

TEST(prune)
{
    struct batch_id standing = shop_id(2);
    struct ledger_prune p = {
        .epoch = shop_epoch, .standing = &standing, .standing_n = 1, .step = 1, .steps_max = 2};
    for (uint8_t id = 1; id <= 6; id++)
        merge_visits(id, id, "1");
    for (uint8_t id = 1; id <= 4; id++)
        age(id, 8);
    age(5, 6);
    assert_sql("nil", "SELECT pruned_until FROM tally_counters");
    assert_fine(ledger_cutoff(db, WEEK_S, p.cutoff, &e));
    assert_fine(ledger_prune(db, &p, &e));
    assert_int_equal(p.pruned, 2);
    assert_true(p.more);
    assert_fine(ledger_prune(db, &p, &e));
    assert_int_equal(p.pruned, 1);
    assert_false(p.more);
    assert_sql("2 5 6",
               "SELECT ORD(batch) FROM tally_ledger ORDER BY 1"); /* batch 2 still exists, 5 is young */
    assert_sql("1", "SELECT pruned_until BETWEEN UTC_TIMESTAMP(3) - INTERVAL 7 DAY - INTERVAL 1 MINUTE AND"
                    " UTC_TIMESTAMP(3) - INTERVAL 7 DAY FROM tally_counters");
    assert_sql("6", "SELECT merged FROM tally_counters");
}

/* After a quiet week the highest gen must still be known, or a Redis that was rolled back would not be seen.
 */
TEST(prune_keeps_the_highest_gen)
{
    struct ledger_prune p = {.epoch = shop_epoch, .step = 100, .steps_max = 10};
    uint64_t gen;
    for (uint8_t id = 1; id <= 3; id++) {
        merge_visits(id, id, "1");
        age(id, 1);
    }
    assert_fine(ledger_cutoff(db, 60, p.cutoff, &e));
    assert_fine(ledger_prune(db, &p, &e));
    assert_int_equal(p.pruned, 2);
    assert_fine(ledger_gen_highest(db, &shop_epoch.realm, &gen, &e));
    assert_int_equal(gen, 3);
    assert_int_not_equal(ledger_cutoff(db, UINT64_MAX, p.cutoff, &e), ERR_NONE);
}

/* The batch of a row that was young at the cutoff may have been claimed after the list of existing batches was read. */
TEST(prune_goes_by_the_cutoff)
{
    struct ledger_prune p = {.epoch = shop_epoch, .step = 100, .steps_max = 10};
    merge_visits(1, 1, "1");
    merge_visits(2, 2, "1");
    assert_fine(ledger_cutoff(db, WEEK_S, p.cutoff, &e));
    assert_int_equal(DB_EXEC(db, "SET SESSION timestamp = UNIX_TIMESTAMP() + 8 * 86400"), CODE_OK);
    assert_fine(ledger_prune(db, &p, &e));
    assert_int_equal(p.pruned, 0);
    assert_fine(ledger_cutoff(db, WEEK_S, p.cutoff, &e));
    assert_fine(ledger_prune(db, &p, &e));
    assert_int_equal(p.pruned, 1);
    db_close(db);
}

TEST(complete_until)
{
    shop_books("visitors");
    assert_fine(ledger_complete_until(db, &shop_epoch, SLICE("visitors"), 1411171200123, &e));
    assert_sql("2014-09-20 00:00:00.123", "SELECT complete_until FROM tally_counters");
    assert_fine(
        ledger_complete_until(db, &shop_epoch, SLICE("visitors"), 1411171200122, &e)); /* never backwards */
    assert_sql("2014-09-20 00:00:00.123", "SELECT complete_until FROM tally_counters");
    assert_fine(ledger_complete_until(db, &shop_epoch, SLICE("visitors"), 4102444800000, &e)); /* past 2038 */
    assert_sql("2100-01-01 00:00:00.000", "SELECT complete_until FROM tally_counters");
    merge_visits(1, 1, "5");
    assert_sql("5/2100-01-01 00:00:00.000", "SELECT CONCAT_WS('/', merged, complete_until) FROM"
                                            " tally_counters WHERE counter = 'visitors'");
}

TEST(reject_batch)
{
    struct batch b;
    size_t short_hash;
    uint64_t rows;
    batch_init(&b, &(struct batch_id){{9}});
    buf_put_slice(&b.counter_name, SLICE("retired"));
    b.gen = 4;
    HASH(&b, "s7:retired", "x", "4", "y", "junk");
    assert_true(batch_seal(&b, &short_hash));
    assert_fine(ledger_reject_batch(db, &b, &shop_epoch, "unknown counter", &rows, &e));
    assert_int_equal(rows, 2);
    assert_fine(ledger_reject_batch(db, &b, &shop_epoch, "unknown counter", &rows, &e));
    assert_int_equal(rows, 0);
    assert_sql(
        "s7:retired/x/4/1/unknown counter s7:retired/y/junk/0/the value is not an integer",
        "SELECT CONCAT_WS('/', pending_hash, field, delta, counted, reason) FROM tally_rejects ORDER BY seq");
    assert_sql("retired/0/4", "SELECT CONCAT_WS('/', counter, merged, rejected) FROM tally_counters");
    assert_sql("0/4", "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger");
    batch_close(&b);
}

/* ---- books ---- */

TEST(books_of_a_gen)
{
    struct batch_id ids[2] = {shop_id(2), shop_id(9)};
    struct books b = {0};
    struct batch words;
    merge_visits(1, 1, "10");
    merge_visits(2, 2, "20");
    merge_visits(3, 3, "40");
    shop_batch(&words, 4, WORDS, 4);
    HASH(&words, "words", "a", "7", "b", "x", "c", "1");
    struct chunk c;
    shop_chunk(&words, 0, &c);
    merge_chunk(&merger, &c);
    assert_int_equal(c.outcome, MERGE_DONE);
    batch_close(&words);
    assert_fine(books_read(db, &shop_epoch.realm, 2, ids, 2, &b, &e));
    assert_int_equal(b.counters_n, 2);
    assert_string_equal(b.counters[0].name, "visitors");
    assert_int_equal(b.counters[0].merged, 70);
    assert_int_equal(b.counters[0].newer, 40);
    assert_string_equal(b.counters[1].name, "words");
    assert_int_equal(b.counters[1].merged, 8);
    assert_int_equal(b.counters[1].newer, 8);
    assert_int_equal(b.counters[1].complete_until_ms, 0);
    assert_int_equal(b.chunks_n, 1);
    assert_int_equal(b.chunks[0].total, 20);
    assert_int_equal(b.chunks[0].chunks, 1);
    assert_memory_equal(&b.chunks[0].batch, &ids[0], 16);
    assert_true(books_has(&b, &ids[0], SLICE("s7:visitors"), SLICE("20140920")));
    assert_false(books_has(&b, &ids[0], SLICE("s7:visitors"), SLICE("20140921")));
    assert_false(books_has(&b, &ids[1], SLICE("s7:visitors"), SLICE("20140920")));
    books_close(&b);
}

TEST(books_times)
{
    struct books b = {0};
    merge_visits(1, 1, "1");
    assert_fine(ledger_complete_until(db, &shop_epoch, SLICE("visitors"), 1411171200123, &e));
    assert_fine(books_read(db, &shop_epoch.realm, 0, NULL, 0, &b, &e));
    assert_true(b.counters[0].complete_until_ms == 1411171200123);
    assert_int_equal(b.counters[0].newer, 1);
    books_close(&b);
    assert_fine(ledger_complete_until(db, &shop_epoch, SLICE("visitors"), 1411171200124,
                                      &e)); /* the snapshot was ended */
    assert_sql("2014-09-20 00:00:00.124", "SELECT complete_until FROM tally_counters");
}

/* Rows on both sides of a chunk's border. */
TEST(books_know_rows_by_chunk)
{
    struct batch b;
    struct batch_id id = shop_id(1);
    struct books books = {0};
    struct chunk c;
    char field[16];
    shop_batch(&b, 1, WORDS, 1);
    uint32_t hash = batch_add_hash(&b, SLICE("words"), 1500);
    for (int i = 0; i < 1500; i++) {
        snprintf(field, sizeof field, "%d", i);
        batch_add_row(&b, hash, slice_str(field), SLICE("1"));
    }
    shop_chunk(&b, 1, &c); /* the second chunk alone */
    merge_chunk(&merger, &c);
    assert_int_equal(c.outcome, MERGE_DONE);
    assert_fine(books_read(db, &shop_epoch.realm, 1, &id, 1, &books, &e));
    for (size_t i = 0; i < b.rows_n; i++)
        assert_int_equal(books_has(&books, &id, SLICE("words"), batch_field(&b, &b.rows[i])), i >= 1000);
    books_close(&books);
    batch_close(&b);
}

static void totals_done(struct books_totals *t)
{
    for (size_t i = 0; i < t->n; i++)
        heap_free(t->all[i].stored);
    books_close(&t->books);
}

TEST(live_totals)
{
    struct slice fields[2] = {SLICE("20140921"), SLICE("20140920")}, day[1] = {SLICE("20140920")};
    struct batch_id ids[2] = {shop_id(1), shop_id(9)};
    struct books_total all[3] = {
        {.key = SLICE("s7:visitors"), .fields = fields, .fields_n = 2, .gen = 1},
        {.key = SLICE("s8:visitors"), .fields = fields, .fields_n = 2, .gen = 2},
        {.key = SLICE("s7:visitors"), .fields = day, .fields_n = 1, .gen = 2},
    };
    struct books_totals t = {
        .epoch = shop_epoch, .counter = &shop_all[VISITORS], .all = all, .n = 3, .ids = ids, .ids_n = 2};
    merge_visits(1, 1, "10");
    assert_fine(books_totals_read(db, &t, &e));
    assert_int_equal(all[0].stored[0], 0);
    assert_int_equal(all[0].stored[1], 10);
    assert_int_equal(all[1].stored[1], 0);
    assert_int_equal(all[2].stored[0], 10);
    assert_false(all[0].newer || all[1].newer || all[2].newer);
    assert_int_equal(t.books.chunks_n, 1);
    assert_true(books_has(&t.books, &ids[0], all[0].key, fields[1]));
    assert_false(books_has(&t.books, &ids[1], all[0].key, fields[1]));
    totals_done(&t);
    merge_visits(2, 2, "5");
    assert_fine(books_totals_read(db, &t, &e));
    assert_int_equal(all[2].stored[0], 15);
    assert_true(all[0].newer); /* of gen 2, which it had not seen */
    assert_false(all[1].newer || all[2].newer || t.stale);
    totals_done(&t);
    t.epoch.id.bytes[0] ^= 1;
    assert_fine(books_totals_read(db, &t, &e));
    assert_true(t.stale);
    totals_done(&t);
    fields[0] = SLICE("20140931"); /* no such day */
    assert_int_equal(books_totals_read(db, &t, &e), ERR_CONFIG);
    totals_done(&t);
}

/* More fields than one statement takes. */
TEST(live_totals_of_many_fields)
{
    enum { MANY = 1000 };
    static char text[MANY][12];
    static struct slice fields[MANY];
    struct books_total one = {.key = SLICE("words"), .fields = fields, .fields_n = MANY, .gen = 1};
    struct books_totals t = {.epoch = shop_epoch, .counter = &shop_all[WORDS], .all = &one, .n = 1};
    struct batch b;
    shop_batch(&b, 1, WORDS, 1);
    HASH(&b, "words", "w0", "3", "w399", "4", "w999", "5");
    merge_now(&b);
    for (int i = 0; i < MANY; i++)
        fields[i] = slice_of(text[i], (size_t)snprintf(text[i], sizeof text[i], "w%d", i));
    assert_fine(books_totals_read(db, &t, &e));
    int64_t sum = 0;
    for (int i = 0; i < MANY; i++)
        sum += one.stored[i];
    assert_int_equal(sum, 12);
    assert_int_equal(one.stored[399], 4);
    assert_int_equal(one.stored[999], 5);
    totals_done(&t);
}

TEST(live_total_without_store)
{
    struct slice fields[1] = {SLICE("it's")};
    struct books_total one = {.key = SLICE("words"), .fields = fields, .fields_n = 1};
    struct books_totals t = {.epoch = shop_epoch, .counter = &shop_all[WORDS], .all = &one, .n = 1};
    struct batch b;
    shop_batch(&b, 1, WORDS, 1);
    HASH(&b, "words", "it's", "3");
    merge_now(&b);
    assert_fine(books_totals_read(db, &t, &e));
    assert_int_equal(one.stored[0], 3);
    assert_true(one.newer);
    totals_done(&t);
}

/* ---- rejects ---- */

static void count_row(void *arg, const struct reject *r)
{
    int *n = arg;
    assert_slice(r->counter, "words");
    assert_slice(r->pending_hash, "words");
    assert_true(r->rejected_ms > INT64_C(1600000000000) && r->reason.n > 0);
    assert_int_equal(r->counted, slice_eq(r->delta, SLICE("3")));
    (*n)++;
}

static const struct rejects_which every;

TEST(ids)
{
    static const char *const bad[] = {"",
                                      "-0-0",
                                      "0123456789abcdef0123456789abcdef",
                                      "0123456789abcdef0123456789abcdef-1",
                                      "0123456789abcdef0123456789abcdef-1-",
                                      "0123456789abcdef0123456789abcdef--1",
                                      "0123456789ABCDEF0123456789abcdef-1-2",
                                      "0123456789abcdef0123456789abcdef-1-2-3",
                                      "0123456789abcdef0123456789abcdef-01-2",
                                      "0123456789abcdef0123456789abcdef-1-4294967296"};
    struct reject_id id;
    char text[REJECT_ID_BYTES];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(reject_id_read(slice_str(bad[i]), &id));
    const char *good = "0123456789abcdef0123456789abcdef-4294967295-4294967295";
    assert_true(reject_id_read(slice_str(good), &id));
    reject_id_write(&id, text);
    assert_string_equal(text, good);
}

static void reject_make(uint8_t batch, unsigned seq, const char *field)
{
    sql("INSERT INTO tally_rejects (realm, batch, chunk, seq, counter, pending_hash, field, delta, "
        "counted, reason,"
        " rejected_at) VALUES (REPEAT(x'01', 16), REPEAT(x'%02x', 16), 0, %u, 'words', 'words', '%s', "
        "'3', 1, 'why', "
        "UTC_TIMESTAMP(3))",
        batch, seq, field);
}

TEST(chosen)
{
    struct reject_id id = {.batch = shop_id(2), .seq = 1};
    struct rejects_replay run = {.counters = &shop};
    uint64_t n;
    shop_books("words");
    sql("UPDATE tally_counters SET rejected = 9");
    reject_make(1, 0, "a");
    reject_make(2, 1, "b");
    reject_make(2, 2, "c");
    assert_fine(rejects_count(db, &(struct rejects_which){.counter = SLICE("words")}, &n, &e));
    assert_int_equal(n, 3);
    assert_fine(rejects_count(db, &(struct rejects_which){.counter = SLICE("other")}, &n, &e));
    assert_int_equal(n, 0);
    static const struct {
        const char *key;
        uint64_t n;
    } keys[] = {{"words", 3}, {"other", 0}, {"w*s", 3},     {"*", 3},
                {"w_rds", 0}, {"w%", 0},    {"wor*\\*", 0}, {"\\words", 3}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_fine(rejects_count(db, &(struct rejects_which){.key = slice_str(keys[i].key)}, &n, &e));
        assert_int_equal(n, keys[i].n);
    }
    assert_fine(
        rejects_count(db, &(struct rejects_which){.key = SLICE("words"), .field = SLICE("b*")}, &n, &e));
    assert_int_equal(n, 1);
    assert_fine(rejects_drop(db, &(struct rejects_which){.key = SLICE("other")}, &n, &e));
    assert_int_equal(n, 0);
    assert_fine(rejects_replay(db, &(struct rejects_which){.id = &id}, &run, &e));
    assert_int_equal(run.replayed, 1);
    assert_sql("b", "SELECT word FROM words");
    assert_sql("3/6", BOOKS);
    assert_fine(rejects_drop(db, &(struct rejects_which){.id = &id}, &n, &e)); /* it waits no more */
    assert_int_equal(n, 0);
    id.seq = 2;
    assert_fine(rejects_drop(db, &(struct rejects_which){.id = &id}, &n, &e));
    assert_int_equal(n, 1);
    assert_sql("3/6", BOOKS);
    assert_fine(rejects_count(db, &every, &n, &e));
    assert_int_equal(n, 1);
}

TEST(replay)
{
    struct rejects_replay run = {.counters = &shop};
    struct batch b;
    struct chunk c;
    uint64_t waiting;
    int listed = 0;
    sql("INSERT INTO words VALUES ('full', 9223372036854775807)");
    shop_batch(&b, 1, WORDS, 1);
    HASH(&b, "words", "full", "3");
    shop_chunk(&b, 0, &c);
    merge_chunk(&merger, &c);
    batch_close(&b);
    shop_batch(&b, 2, WORDS, 2);
    HASH(&b, "words", "junk", "x");
    shop_chunk(&b, 0, &c);
    merge_chunk(&merger, &c);
    batch_close(&b);
    assert_fine(rejects_count(db, &every, &waiting, &e));
    assert_int_equal(waiting, 2);
    assert_fine(rejects_list(db, &every, 10, count_row, &listed, &e));
    assert_int_equal(listed, 2);
    assert_fine(rejects_replay(db, &every, &run, &e));
    assert_int_equal(run.replayed, 0);
    assert_int_equal(run.refused, 2);
    assert_sql("0/3", BOOKS);
    sql("UPDATE words SET n = 1");
    assert_fine(rejects_replay(db, &every, &run, &e));
    assert_int_equal(run.replayed, 1);
    assert_int_equal(run.refused, 1);
    assert_sql("4", "SELECT n FROM words");
    assert_sql("3/0", BOOKS);
    assert_fine(rejects_replay(db, &every, &run, &e)); /* not again */
    assert_int_equal(run.replayed, 0);
    assert_sql("4", "SELECT n FROM words");
    assert_fine(rejects_count(db, &every, &waiting, &e));
    assert_int_equal(waiting, 1);
}

TEST(errors_are_told)
{
    uint64_t gen;
    sql("RENAME TABLE tally_ledger TO away");
    assert_int_equal(ledger_gen_highest(db, &shop_epoch.realm, &gen, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "1146"));
    assert_non_null(strstr(e.text, "run tallyd check"));
    struct books b = {0};
    assert_int_equal(books_read(db, &shop_epoch.realm, 0, NULL, 0, &b, &e), ERR_CONFIG);
    books_close(&b);
    sql("RENAME TABLE away TO tally_ledger");
    assert_fine(ledger_gen_highest(db, &shop_epoch.realm, &gen, &e)); /* the snapshot was ended */
    db_close(db);
    assert_int_equal(ledger_gen_highest(db, &shop_epoch.realm, &gen, &e), ERR_UNAVAILABLE);
}

static int start(void **state)
{
    mariadb_start(&server);
    shop_create(&server);
    db = db_create(&server.config);
    witnesses_init(&witnesses);
    merger_init(&merger, db, &witnesses);
    return 0;
}

static int stop(void **state)
{
    merger_close(&merger);
    witnesses_close(&witnesses);
    db_destroy(&db);
    mariadb_stop(&server);
    return 0;
}

UNITS_IN(start, stop)
