/* A shop's counters and batches for the tests of this room. */
#ifndef UNIT_MYSQL_SHOP_H
#define UNIT_MYSQL_SHOP_H

#include "lib/mariadb.h"
#include "lib/unit.h"
#include "mysql/schema.h"
#include "series/batch.h"

#define S SLICE

enum { VISITORS, HOURLY, WORDS, STORES, SHOP_COUNTERS };

/* visitors: DATE; hourly: DATETIME; words: no store, text; stores: text store, integer field. */
static struct counter shop_all[SHOP_COUNTERS] = {
    {.name = S("visitors"),
     .key = {.prefix = S("s"), .suffix = S(":visitors"), .has_store = true},
     .lock = {.prefix = S("s"), .suffix = S(":visitors:sync"), .has_store = true},
     .field = FIELD_DATE,
     .store = STORE_INTEGER,
     .table = S("daily_visitors"),
     .column_store = S("store_id"),
     .column_field = S("day"),
     .column_count = S("visitors")},
    {.name = S("hourly"),
     .key = {.prefix = S("s"), .suffix = S(":hourly"), .has_store = true},
     .lock = {.prefix = S("s"), .suffix = S(":hourly:sync"), .has_store = true},
     .field = FIELD_HOUR,
     .store = STORE_INTEGER,
     .table = S("hourly"),
     .column_store = S("store_id"),
     .column_field = S("hour"),
     .column_count = S("n")},
    {.name = S("words"),
     .key = {.prefix = S("words")},
     .lock = {.prefix = S("words:sync")},
     .field = FIELD_TEXT,
     .table = S("words"),
     .column_field = S("word"),
     .column_count = S("n")},
    {.name = S("stores"),
     .key = {.prefix = S("t"), .suffix = S(":views"), .has_store = true},
     .lock = {.prefix = S("t"), .suffix = S(":views:sync"), .has_store = true},
     .field = FIELD_INTEGER,
     .store = STORE_TEXT,
     .table = S("store_views"),
     .column_store = S("store"),
     .column_field = S("product"),
     .column_count = S("n")},
};
static const struct counters shop = {.all = shop_all, .n = SHOP_COUNTERS};

static struct mariadb server;
#define sql(...) mariadb_do(&server, __VA_ARGS__)
#define ask_sql(...) mariadb_ask(&server, __VA_ARGS__)
#define assert_sql(expected, ...) assert_mariadb(&server, (expected), __VA_ARGS__)
#define await_sql(expected, ...) await_mariadb(&server, (expected), __VA_ARGS__)
static const struct epoch shop_epoch = {
    .realm = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    .id = {{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
};

static inline void shop_create(struct mariadb *m)
{
    struct error e;
    uint32_t created;
    if (schema_migrate(m->db, false, NULL, NULL, &e) != ERR_NONE) fail_msg("%s", e.text);
    if (schema_migrate_tables(m->db, &shop, &created, &e) != ERR_NONE) fail_msg("%s", e.text);
}

#define BOOKS "SELECT CONCAT_WS('/', merged, rejected) FROM tally_counters"
#define LEDGER "SELECT CONCAT_WS('/', rows_merged, total) FROM tally_ledger"

/* The books of a counter, as a tallyd makes them when it takes an epoch; once after each shop_empty(): a test may stop the server.
 * */
static char shop_has_books[200];
static inline void shop_books(const char *counter)
{
    size_t n = strlen(shop_has_books);
    if (strstr(shop_has_books, counter) != NULL) return;
    snprintf(shop_has_books + n, sizeof shop_has_books - n, "%s ", counter);
    mariadb_do(&server,
               "INSERT IGNORE INTO tally_counters (counter, realm, epoch) VALUES ('%s', REPEAT(x'01', 16),"
               " REPEAT(x'02', 16))",
               counter);
}

static inline void shop_empty(struct mariadb *m)
{
    static const char *const tables[] = {"tally_ledger",   "tally_counters", "tally_rejects", "tally_realms",
                                         "daily_visitors", "hourly",         "words",         "store_views"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        mariadb_do(m, "DELETE FROM %s", tables[i]);
    shop_has_books[0] = 0;
    mariadb_do(m, "INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by) VALUES "
                  "(REPEAT(x'01', 16), REPEAT(x'02', 16), 'run', 'history', "
                  "NOW(3), 'me')");
}

/* Of a group of tests. */
static inline int shop_start(void **state)
{
    mariadb_start(&server);
    shop_create(&server);
    return 0;
}

static inline int shop_afresh(void **state)
{
    shop_empty(&server);
    return 0;
}

static inline int shop_stop(void **state)
{
    mariadb_stop(&server);
    return 0;
}

static inline struct batch_id shop_id(uint8_t n)
{
    struct batch_id id = {{0}};
    memset(id.bytes, n, sizeof id.bytes);
    return id;
}

static inline void shop_batch(struct batch *b, uint8_t n, int counter, uint64_t gen)
{
    struct batch_id id = shop_id(n);
    batch_init(b, &id);
    b->format = BATCH_FORMAT;
    b->counter = &shop_all[counter];
    buf_put_slice(&b->counter_name, b->counter->name);
    b->gen = gen;
}

/* One hash: pairs of field and value, NULL at the end. */
static inline void shop_hash(struct batch *b, const char *name, const char *const *pairs)
{
    uint64_t n = 0;
    while (pairs[2 * n] != NULL)
        n++;
    uint32_t hash = batch_add_hash(b, slice_str(name), n);
    for (uint64_t i = 0; i < n; i++)
        batch_add_row(b, hash, slice_str(pairs[2 * i]), slice_str(pairs[2 * i + 1]));
}
#define HASH(b, name, ...) shop_hash((b), (name), (const char *const[]){__VA_ARGS__, NULL})

static inline void shop_chunk(struct batch *b, uint32_t index, struct chunk *c)
{
    size_t short_hash;
    if (!b->sealed) assert_true(batch_seal(b, &short_hash));
    char name[65];
    snprintf(name, sizeof name, SLICE_FMT, SLICE_ARG(buf_slice(&b->counter_name)));
    shop_books(name);
    *c = (struct chunk){.not_after_ms = UINT64_MAX, .epoch = shop_epoch};
    batch_chunk(b, index, c);
}

#endif
