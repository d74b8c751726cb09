/* bench/upsert.c - MySQL without tallyd, into the same tables, with the same durability.
 *
 *   upsert hit  PORT -c connections -k stores -z zipf -w warm-up -d seconds
 *       what a shop does without a counter service: a prepared upsert for each hit, autocommit
 *   upsert rows PORT -c connections -n rows -t visitors|views -f first
 *       the database's limit: new rows, 1,000 a statement, each statement a transaction
 *
 * A thread a connection. -t visitors: one row for each of the stores first, first + 1, ...; -t views: one
 * store (first) with products 1, 2, .... User bench, no password, database shop, 127.0.0.1. Prints one line:
 * rows=... seconds=... rows_per_s=... */
#include "clock.h"
#include "zipf.h"
#include <getopt.h>
#include <mysql.h>
#include <pthread.h>
#include <stdbool.h>

#define ROWS_A_STATEMENT 1000u
#define ROW_BYTES_MAX 64u

struct options {
    bool by_hit, views;
    unsigned port, connections;
    uint32_t stores, rows, first;
    double zipf, warm_s, seconds;
};

struct worker {
    pthread_t thread;
    const struct options *o;
    unsigned index;
    uint64_t rows; /* by_hit: inside the window */
};

static pthread_barrier_t all_connected;

static _Noreturn void refuse(const char *what, const char *why)
{
    fprintf(stderr, "upsert: %s: %s\n", what, why);
    exit(69);
}

static void run(MYSQL *m, const char *sql, size_t n)
{
    if (mysql_real_query(m, sql, n) != 0) refuse("query", mysql_error(m));
}

static MYSQL *link_open(const struct options *o)
{
    static const char session[] = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    MYSQL *m = mysql_init(NULL);
    if (m == NULL) die("mysql_init");
    if (mysql_real_connect(m, "127.0.0.1", "bench", NULL, "shop", o->port, NULL, 0) == NULL)
        refuse("connect", mysql_error(m));
    run(m, session, sizeof session - 1);
    return m;
}

static MYSQL_STMT *prepare(MYSQL *m, uint32_t *store)
{
    static const char sql[] =
        "INSERT INTO daily_visitors (store_id, day, visitors) VALUES (?, '2014-09-19', 1)"
        " ON DUPLICATE KEY UPDATE visitors = visitors + VALUES(visitors)";
    MYSQL_STMT *s = mysql_stmt_init(m);
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_LONG, .buffer = store, .is_unsigned = true};
    if (s == NULL) die("mysql_stmt_init");
    if (mysql_stmt_prepare(s, sql, sizeof sql - 1) != 0 || mysql_stmt_bind_param(s, &bind) != 0)
        refuse("prepare", mysql_stmt_error(s));
    return s;
}

static void by_hit(struct worker *w, MYSQL *m)
{
    uint32_t store;
    struct zipf zipf;
    zipf_init(&zipf, w->o->stores, w->o->zipf, UINT64_C(0x9E3779B97F4A7C15) + w->index);
    MYSQL_STMT *s = prepare(m, &store);
    pthread_barrier_wait(&all_connected);
    uint64_t window_ns = now_ns() + (uint64_t)(w->o->warm_s * 1e9);
    uint64_t end_ns = window_ns + (uint64_t)(w->o->seconds * 1e9);
    for (uint64_t at_ns = 0; at_ns < end_ns;) {
        store = zipf_draw(&zipf) + 1;
        if (mysql_stmt_execute(s) != 0) refuse("execute", mysql_stmt_error(s));
        at_ns = now_ns();
        w->rows += at_ns >= window_ns && at_ns < end_ns;
    }
    mysql_stmt_close(s);
    zipf_close(&zipf);
}

static size_t statement_put(const struct options *o, char *sql, uint32_t from, uint32_t n)
{
    size_t used = 0;
    const char *head = o->views ? "INSERT INTO product_views (store_id, product_id, views) VALUES "
                                : "INSERT INTO daily_visitors (store_id, day, visitors) VALUES ";
    used += (size_t)sprintf(sql, "%s", head);
    for (uint32_t i = from; i < from + n; i++) {
        if (i > from) sql[used++] = ',';
        if (o->views)
            used += (size_t)sprintf(sql + used, "(%u,%u,1)", o->first, i + 1);
        else
            used += (size_t)sprintf(sql + used, "(%u,'2014-09-20',1)", o->first + i);
    }
    const char *count = o->views ? "views" : "visitors";
    return used +
           (size_t)sprintf(sql + used, " ON DUPLICATE KEY UPDATE %s = %s + VALUES(%s)", count, count, count);
}

/* Statements go to the workers in turn, as a batch's chunks to the writers. */
static void by_rows(struct worker *w, MYSQL *m)
{
    const struct options *o = w->o;
    char *sql = malloc(ROWS_A_STATEMENT * ROW_BYTES_MAX + 512);
    if (sql == NULL) die("memory");
    pthread_barrier_wait(&all_connected);
    for (uint32_t at = w->index * ROWS_A_STATEMENT; at < o->rows; at += o->connections * ROWS_A_STATEMENT) {
        uint32_t n = o->rows - at < ROWS_A_STATEMENT ? o->rows - at : ROWS_A_STATEMENT;
        run(m, sql, statement_put(o, sql, at, n));
        w->rows += n;
    }
    free(sql);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    MYSQL *m = link_open(w->o);
    if (w->o->by_hit)
        by_hit(w, m);
    else
        by_rows(w, m);
    mysql_close(m);
    mysql_thread_end();
    return NULL;
}

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: upsert hit  PORT -c connections -k stores -z zipf -w warm-up -d seconds\n"
                    "       upsert rows PORT -c connections -n rows -t visitors|views -f first\n");
    exit(64);
}

static void option_read(struct options *o, int letter)
{
    switch (letter) {
    case 'c':
        o->connections = (unsigned)strtoul(optarg, NULL, 10);
        return;
    case 'k':
        o->stores = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 'z':
        o->zipf = atof(optarg);
        return;
    case 'w':
        o->warm_s = atof(optarg);
        return;
    case 'd':
        o->seconds = atof(optarg);
        return;
    case 'n':
        o->rows = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 't':
        o->views = strcmp(optarg, "views") == 0;
        return;
    case 'f':
        o->first = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    default:
        usage();
    }
}

static struct options options_read(int argc, char **argv)
{
    struct options o = {.connections = 1, .stores = 1000, .zipf = 1.0, .seconds = 1, .first = 1};
    for (int c; (c = getopt(argc, argv, "c:k:z:w:d:n:t:f:")) != -1;)
        option_read(&o, c);
    if (argc - optind != 2 || o.connections < 1 || o.connections > 1000 || o.stores < 1) usage();
    o.by_hit = strcmp(argv[optind], "hit") == 0;
    o.port = (unsigned)atoi(argv[optind + 1]);
    if (!o.by_hit && (strcmp(argv[optind], "rows") != 0 || o.rows == 0)) usage();
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_read(argc, argv);
    struct worker *workers = calloc(o.connections, sizeof *workers);
    uint64_t rows = 0;
    if (workers == NULL || mysql_library_init(0, NULL, NULL) != 0) die("set-up");
    pthread_barrier_init(&all_connected, NULL, o.connections + 1);
    for (unsigned i = 0; i < o.connections; i++) {
        workers[i] = (struct worker){.o = &o, .index = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) die("pthread_create");
    }
    pthread_barrier_wait(&all_connected);
    uint64_t began_ns = now_ns();
    for (unsigned i = 0; i < o.connections; i++) {
        pthread_join(workers[i].thread, NULL);
        rows += workers[i].rows;
    }
    double seconds = o.by_hit ? o.seconds : (double)(now_ns() - began_ns) / 1e9;
    printf("rows=%llu seconds=%.3f rows_per_s=%.0f\n", (unsigned long long)rows, seconds,
           (double)rows / seconds);
    free(workers);
    mysql_library_end();
    return 0;
}
