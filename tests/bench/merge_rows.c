/* bench/merge_rows.c - rows a second that one writer merges into a private MariaDB, of counters of several kinds: chunks of 1,000 rows
 * that are all there, so that each is added to.
 *
 *   merge_rows [-d seconds of each]
 *
 * The kinds take turns, a fortieth of their time each. Nothing is synced to a disk: it is the statements that are compared. Prints a
 * line for each: kind; rows/s; the processor's time a row, of tallyd, of MariaDB, and the plain one's by the sum; the same time of a
 * bare upsert of the same rows, written by hand, and the plain one's by that: so much is the table itself. On a busy machine the
 * processor's times are the ones to compare. */
#include "../lib/mariadb.h"
#include "base/log.h"
#include "clock.h"
#include "mysql/merge.h"
#include "mysql/schema.h"
#include "series/row.h"
#include <getopt.h>
#include <time.h>

#define ROWS 1000
#define TURNS 40

struct cost {
    uint64_t rows, ns, own_ns, server_ns; /* the latter two of the processor */
};

struct kind {
    const char *name, *table;
    const char *row; /* of hash and field, as a bare upsert has it; NULL: none is measured */
    struct counter counter;
    struct batch batch;
    struct buf upsert;
    struct cost merged, bare;
};

static struct mariadb server;

/* Of a process, and of its threads; 0: this one. */
static uint64_t processor_ns(pid_t pid)
{
    clockid_t id;
    struct timespec t;
    PRE(clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const struct epoch epoch = {.realm = {{1}}, .id = {{2}}};
static const struct key_column columns_k[] = {
    {.name = {"product", 7}, .from = FROM_KEY, .at = 1, .kind = VALUE_INTEGER},
    {.name = {"kind", 4}, .from = FROM_CONSTANT, .constant = {"post", 4}}};
static const struct key_column columns_two[] = {
    {.name = {"product", 7}, .from = FROM_KEY, .at = 1, .kind = VALUE_INTEGER}};

#define PLAIN "store INT NOT NULL, field INT NOT NULL, n INT NOT NULL, PRIMARY KEY (store, field)"
#define TEXTS "store INT NOT NULL, field VARCHAR(40) NOT NULL, n INT NOT NULL, PRIMARY KEY (store, field)"

static struct kind kinds[] = {
    {.name = "plain: store and field",
     .table = PLAIN,
     .row = "(%1$d,%2$d,1)",
     .counter = {.name = {"plain", 5}, .field = FIELD_INTEGER}},
    {.name = "two placeholders",
     .table = "store INT NOT NULL, product INT NOT NULL, field INT NOT NULL, n INT NOT NULL,"
              " PRIMARY KEY (store, product, field)",
     .row = "(1,%1$d,%2$d,1)",
     .counter = {.name = {"two", 3}, .field = FIELD_INTEGER, .more = columns_two, .more_n = 1}},
    {.name = "two placeholders, a date and a constant",
     .table = "store INT NOT NULL, product INT NOT NULL, kind VARCHAR(9) NOT NULL, field DATE NOT NULL, n "
              "INT NOT NULL,"
              " PRIMARY KEY (kind, store, product, field)",
     .row = "(1,%1$d,'post',20%2$02d0101,1)",
     .counter = {.name = {"placed", 6}, .field = FIELD_DATE, .more = columns_k, .more_n = 2}},
    {.name = "missing: reject",
     .table = PLAIN,
     .counter = {.name = {"there", 5}, .field = FIELD_INTEGER, .missing = MISSING_REJECT}},
    {.name = "missing: drop, none is there",
     .table = PLAIN,
     .counter = {.name = {"dropped", 7}, .field = FIELD_INTEGER, .missing = MISSING_DROP}},
    {.name = "text", .table = TEXTS, .counter = {.name = {"texts", 5}, .field = FIELD_TEXT}},
    {.name = "text, missing: reject",
     .table = TEXTS,
     .counter = {.name = {"textsthere", 10}, .field = FIELD_TEXT, .missing = MISSING_REJECT}}};
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

static void upsert_make(struct kind *k)
{
    char text[80];
    buf_printf(&k->upsert, "INSERT INTO `%.*s` VALUES ", SLICE_ARG(k->counter.table));
    for (int i = 0; i < ROWS; i++) {
        snprintf(text, sizeof text, k->row, i / (ROWS / 10), i % (ROWS / 10));
        buf_printf(&k->upsert, "%s%s", i > 0 ? "," : "", text);
    }
    buf_printf(&k->upsert, " ON DUPLICATE KEY UPDATE n = `%.*s`.n + VALUES(n)", SLICE_ARG(k->counter.table));
}

static void upsert_once(struct kind *k, struct merger *m)
{
    bool done = DB_EXEC(m->db, "START TRANSACTION") == CODE_OK &&
                db_exec(m->db, buf_slice(&k->upsert)) == CODE_OK && DB_EXEC(m->db, "COMMIT") == CODE_OK;
    if (!done) die(db_text(m->db));
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
    k->counter.table = k->counter.name;
    k->counter.column_store = SLICE("store");
    k->counter.column_field = SLICE("field");
    k->counter.column_count = SLICE("n");
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
    if (k->row != NULL) upsert_make(k);
}

/* With the time since the one before. */
static void cost_add(struct cost *c, const struct cost *since)
{
    c->ns += now_ns() - since->ns;
    c->own_ns += processor_ns(0) - since->own_ns;
    c->server_ns += processor_ns(server.pid) - since->server_ns;
}

static void turn_run(struct kind *k, struct merger *m, double seconds, struct cost *c,
                     void (*once)(struct kind *k, struct merger *m))
{
    struct cost since = {.ns = now_ns(), .own_ns = processor_ns(0), .server_ns = processor_ns(server.pid)};
    for (uint64_t end_ns = since.ns + (uint64_t)(seconds * 1e9); now_ns() < end_ns; c->rows += ROWS)
        once(k, m);
    cost_add(c, &since);
}

static void kind_run(struct kind *k, struct merger *m, double seconds)
{
    turn_run(k, m, seconds, &k->merged, merge_once);
    if (k->row != NULL) turn_run(k, m, seconds, &k->bare, upsert_once);
}

static double us_a_row(uint64_t ns, const struct cost *c)
{
    return c->rows > 0 ? (double)ns / 1e3 / (double)c->rows : 0;
}

static void kind_print(const struct kind *k, const struct kind *plain)
{
    const struct cost *c = &k->merged, *of = &plain->merged;
    printf("%-42s %8.0f rows/s %.2f x | us a row: %.2f + %.2f, %.2f x", k->name, 1e6 / us_a_row(c->ns, c),
           us_a_row(of->ns, of) / us_a_row(c->ns, c), us_a_row(c->own_ns, c), us_a_row(c->server_ns, c),
           us_a_row(of->own_ns + of->server_ns, of) / us_a_row(c->own_ns + c->server_ns, c));
    if (k->row != NULL)
        printf(" | bare upsert: %.2f, %.2f x", us_a_row(k->bare.server_ns, &k->bare),
               us_a_row(plain->bare.server_ns, &plain->bare) / us_a_row(k->bare.server_ns, &k->bare));
    printf("\n");
}

static void all_run(double seconds)
{
    struct error e;
    struct merger m;
    struct witnesses witnesses;
    struct db *db = db_create(&server.config);
    if (schema_migrate(server.db, false, NULL, NULL, &e) != ERR_NONE) die(e.text);
    mariadb_do(&server, "INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by) VALUES"
                        " (RPAD(x'01', 16, x'00'), RPAD(x'02', 16, x'00'), 'run', 'history', NOW(3), 'me')");
    witnesses_init(&witnesses);
    merger_init(&m, db, &witnesses);
    for (size_t i = 0; i < KINDS; i++)
        kind_make(&kinds[i], &m);
    for (int turn = 0; turn < TURNS; turn++)
        for (size_t i = 0; i < KINDS; i++)
            kind_run(&kinds[i], &m, seconds / TURNS);
    merger_close(&m);
    witnesses_close(&witnesses);
    db_destroy(&db);
}

int main(int argc, char **argv)
{
    double seconds = 10;
    for (int c; (c = getopt(argc, argv, "d:")) != -1;)
        if (c == 'd') seconds = atof(optarg);
    mariadb_start(&server);
    all_run(seconds);
    for (size_t i = 0; i < KINDS; i++) {
        kind_print(&kinds[i], &kinds[0]);
        batch_close(&kinds[i].batch);
        buf_free(&kinds[i].upsert);
    }
    mariadb_stop(&server);
    return 0;
}
