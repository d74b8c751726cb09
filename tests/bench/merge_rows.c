/* bench/merge_rows.c - rows a second that one writer merges into a private MariaDB, of counters of several kinds: chunks of 1,000 rows
 * that are all there, so that each is added to.
 *
 *   merge_rows [-d seconds of each]
 *
 * The kinds take turns, a quarter of their time each. Nothing is synced to a disk: it is the statements that are compared. Prints a
 * line for each: kind, rows/s, times the plain one's. */
#include "../lib/mariadb.h"
#include "base/check.h"
#include "clock.h"
#include "mysql/merge.h"
#include "mysql/schema.h"
#include "series/row.h"
#include <getopt.h>

#define ROWS 1000
#define TURNS 4

struct kind {
    const char *name, *table;
    struct counter counter;
    struct batch batch;
    uint64_t rows, ns;
};

static struct mariadb server;
static const struct epoch epoch = {.realm = {{1}}, .id = {{2}}};
static const struct key_column columns_k[] = {
    {.name = {"product", 7}, .from = FROM_KEY, .at = 1, .kind = VALUE_INTEGER},
    {.name = {"kind", 4}, .from = FROM_CONSTANT, .constant = {"post", 4}}};

#define COUNTER(at, of, ...)                                                                                 \
    {                                                                                                        \
        .name = {at, sizeof at - 1}, .table = {at, sizeof at - 1}, .field = of, .store = STORE_INTEGER,      \
        .column_store = {"store", 5}, .column_field = {"field", 5}, .column_count = {"n", 1}, __VA_ARGS__    \
    }
#define PLAIN "store INT NOT NULL, field INT NOT NULL, n INT NOT NULL, PRIMARY KEY (store, field)"
#define TEXTS "store INT NOT NULL, field VARCHAR(40) NOT NULL, n INT NOT NULL, PRIMARY KEY (store, field)"

static struct kind kinds[] = {
    {.name = "plain: store and field", .table = PLAIN, .counter = COUNTER("plain", FIELD_INTEGER)},
    {.name = "two placeholders, a date and a constant",
     .table = "store INT NOT NULL, product INT NOT NULL, kind VARCHAR(9) NOT NULL, field DATE NOT NULL, n "
              "INT NOT NULL,"
              " PRIMARY KEY (kind, store, product, field)",
     .counter = COUNTER("placed", FIELD_DATE, .more = columns_k, .more_n = 2)},
    {.name = "missing: reject",
     .table = PLAIN,
     .counter = COUNTER("there", FIELD_INTEGER, .missing = MISSING_REJECT)},
    {.name = "missing: drop, none is there",
     .table = PLAIN,
     .counter = COUNTER("dropped", FIELD_INTEGER, .missing = MISSING_DROP)},
    {.name = "text", .table = TEXTS, .counter = COUNTER("texts", FIELD_TEXT)},
    {.name = "text, missing: reject",
     .table = TEXTS,
     .counter = COUNTER("textsthere", FIELD_TEXT, .missing = MISSING_REJECT)}};
#define KINDS (sizeof kinds / sizeof *kinds)

static void patterns_make(struct counter *c, bool placed)
{
    struct error e;
    const struct value_type integer = {.kind = VALUE_INTEGER};
    const char *key = placed ? "s<store>:p<product>" : "s<store>:n";
    PRE(pattern_parse_places(slice_str(key), &c->key, &e) == ERR_NONE);
    for (uint32_t i = 0; placed && i < c->key.places->n; i++)
        c->key.places->at[i].type = integer;
}

/* Ten hashes of 100 fields. */
static void batch_make(struct kind *k, bool placed)
{
    char text[40];
    const struct batch_id id = {.bytes = {[15] = (uint8_t)(k - kinds + 1)}};
    size_t short_hash;
    batch_init(&k->batch, &id);
    k->batch.format = BATCH_FORMAT;
    k->batch.counter = &k->counter;
    buf_put_slice(&k->batch.counter_name, k->counter.name);
    for (int h = 0; h < 10; h++) {
        snprintf(text, sizeof text, placed ? "s1:p%d" : "s%d:n", h);
        uint32_t hash = batch_add_hash(&k->batch, slice_str(text), ROWS / 10);
        for (int f = 0; f < ROWS / 10; f++) {
            const char *form = k->counter.field == FIELD_DATE   ? "20%02d0101"
                               : k->counter.field == FIELD_TEXT ? "word %d"
                                                                : "%d";
            snprintf(text, sizeof text, form, f);
            batch_add_row(&k->batch, hash, slice_str(text), SLICE("1"));
        }
    }
    PRE(batch_seal(&k->batch, &short_hash));
}

static void merge_once(struct kind *k, struct merger *m)
{
    struct chunk c = {.not_after_ms = UINT64_MAX, .epoch = epoch};
    batch_chunk(&k->batch, 0, &c);
    for (size_t i = 0; ++k->batch.id.bytes[i] == 0;) /* another batch each time */
        i++;
    merge_chunk(m, &c);
    if (c.outcome != MERGE_DONE) die(c.text);
}

static void kind_make(struct kind *k, struct merger *m)
{
    bool placed = k->counter.more_n > 0;
    enum missing missing = k->counter.missing;
    mariadb_do(&server, "CREATE TABLE `%.*s` (%s) ENGINE=InnoDB", SLICE_ARG(k->counter.table), k->table);
    mariadb_do(
        &server,
        "INSERT INTO tally_counters (counter, realm, epoch) SELECT '%.*s', realm, epoch FROM tally_realms",
        SLICE_ARG(k->counter.name));
    patterns_make(&k->counter, placed);
    batch_make(k, placed);
    if (missing == MISSING_REJECT) k->counter.missing = MISSING_INSERT;
    merge_once(k, m);
    k->counter.missing = missing;
}

static void kind_run(struct kind *k, struct merger *m, double seconds)
{
    uint64_t began_ns = now_ns(), end_ns = began_ns + (uint64_t)(seconds * 1e9);
    for (; now_ns() < end_ns; k->rows += ROWS)
        merge_once(k, m);
    k->ns += now_ns() - began_ns;
}

static void all_run(double seconds)
{
    struct error e;
    struct merger m;
    struct db *db = db_create(&server.config);
    if (schema_migrate(server.db, false, NULL, NULL, &e) != ERR_NONE) die(e.text);
    mariadb_do(&server, "INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by) VALUES"
                        " (RPAD(x'01', 16, x'00'), RPAD(x'02', 16, x'00'), 'run', 'history', NOW(3), 'me')");
    merger_init(&m, db);
    for (size_t i = 0; i < KINDS; i++)
        kind_make(&kinds[i], &m);
    for (int turn = 0; turn < TURNS; turn++)
        for (size_t i = 0; i < KINDS; i++)
            kind_run(&kinds[i], &m, seconds / TURNS);
    merger_close(&m);
    db_destroy(&db);
}

int main(int argc, char **argv)
{
    double seconds = 10, plain = 0;
    for (int c; (c = getopt(argc, argv, "d:")) != -1;)
        if (c == 'd') seconds = atof(optarg);
    mariadb_start(&server);
    all_run(seconds);
    for (size_t i = 0; i < KINDS; i++) {
        double per_s = (double)kinds[i].rows / ((double)kinds[i].ns / 1e9);
        if (i == 0) plain = per_s;
        printf("%-42s %8.0f rows/s  %.2f x\n", kinds[i].name, per_s, per_s / plain);
        batch_close(&kinds[i].batch);
    }
    mariadb_stop(&server);
    return 0;
}
