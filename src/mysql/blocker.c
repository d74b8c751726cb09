/* mysql/blocker.c - see merge.h. */
#include "mysql/merge.h"

#include "base/heap.h"

#include <stdio.h>

#define ASK_MS 200
#define NO_RIGHT 1227

#define FROM_WAITS(waits, requesting, blocking)                                                              \
    "SELECT b.trx_mysql_thread_id, COALESCE(p.USER, ''), COALESCE(p.HOST, '') FROM " waits " w"              \
    " JOIN information_schema.INNODB_TRX r ON r.trx_id = w." requesting                                      \
    " JOIN information_schema.INNODB_TRX b ON b.trx_id = w." blocking                                        \
    " LEFT JOIN information_schema.PROCESSLIST p ON p.ID = b.trx_mysql_thread_id"                            \
    " WHERE r.trx_mysql_thread_id = %lu LIMIT 1"

static const char *const questions[] = {
    /* MariaDB and MySQL 5.7; MySQL 8 */
    FROM_WAITS("information_schema.INNODB_LOCK_WAITS", "requesting_trx_id", "blocking_trx_id"),
    FROM_WAITS("performance_schema.data_lock_waits", "REQUESTING_ENGINE_TRANSACTION_ID",
               "BLOCKING_ENGINE_TRANSACTION_ID")};

struct blocker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    struct db_config config; /* shares the other one's strings */
    struct db *db;           /* the thread's */
    unsigned long waiting;
    char text[BLOCKER_BYTES]; /* the thread's, until it was joined */
};

/* True: it is known, or cannot be. */
static bool asked(struct blocker *b, const char *question)
{
    struct buf sql = {0};
    struct slice cell[3];
    buf_printf(&sql, question, b->waiting);
    if (db_query_free(b->db, &sql) != CODE_OK) {
        if (db_code(b->db) == NO_RIGHT)
            snprintf(b->text, sizeof b->text,
                     "another program (tallyd is told its thread if it has the PROCESS right)");
        return db_code(b->db) == NO_RIGHT;
    }
    if (!db_row(b->db, cell, 3)) return false;
    snprintf(b->text, sizeof b->text, "thread " SLICE_FMT " (%.40s@%.60s)", SLICE_ARG(cell[0]), cell[1].p,
             cell[2].p);
    return true;
}

static void *ask_on(void *arg)
{
    struct blocker *b = arg;
    db_thread_begin();
    bool known = db_open(b->db) != CODE_OK;
    while (!known && !db_thread_stops(&b->lock, &b->changed, &b->stopping, ASK_MS))
        for (size_t i = 0; i < sizeof questions / sizeof *questions && !known && db_is_open(b->db); i++)
            known = asked(b, questions[i]);
    db_close(b->db);
    db_thread_end();
    return NULL;
}

struct blocker *blocker_start(const struct db *waiting)
{
    struct blocker *b = heap_zalloc(sizeof *b);
    b->config = *db_config(waiting);
    b->config.connect_timeout_s = b->config.read_timeout_s = 1;
    b->waiting = db_thread_id(waiting);
    b->db = db_create(&b->config);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    if (pthread_create(&b->thread, NULL, ask_on, b) == 0) return b;
    db_destroy(&b->db);
    heap_free(b);
    return NULL;
}

void blocker_stop(struct blocker *b, char text[BLOCKER_BYTES])
{
    if (b == NULL) return;
    pthread_mutex_lock(&b->lock);
    b->stopping = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    memcpy(text, b->text, sizeof b->text);
    db_destroy(&b->db);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    heap_free(b);
}
