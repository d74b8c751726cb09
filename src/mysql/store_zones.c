/* mysql/store_zones.c - see panel.h. */
#include "mysql/panel.h"

#include "base/heap.h"
#include "base/log.h"
#include "mysql/text.h"

#define LIMIT_S 10 /* of reading; connecting has 3 s */

struct store_zones {
    struct db_config config; /* the service's, with other limits; borrows its texts */
    const struct lookup *where;
    const char *standard;
    struct zones *into;
    struct db *db;
    pthread_t thread;
    pthread_mutex_t lock; /* of stopping */
    pthread_cond_t changed;
    bool stopping;
    size_t stores, unknown; /* of the last line in the log */
};

static enum code_class stores_read(struct store_zones *r, struct zone_table *t, bool *all)
{
    struct buf sql = {0};
    struct slice cell[2];
    sql_lookup(&sql, r->where);
    buf_printf(&sql, " LIMIT %d", ZONES_STORES_MOST + 1);
    size_t n = 0;
    enum code_class class = db_is_open(r->db) ? CODE_OK : db_open(r->db);
    if (class == CODE_OK) class = db_query(r->db, buf_slice(&sql));
    for (; class == CODE_OK && db_row(r->db, cell, 2) && n < ZONES_STORES_MOST; n++)
        if (cell[0].p != NULL && cell[1].p != NULL) zone_table_add(t, cell[0], cell[1]);
    *all = n < ZONES_STORES_MOST;
    buf_free(&sql);
    return class;
}

static void zones_read(struct store_zones *r)
{
    static struct log_seldom line;
    unsigned times;
    bool all = true;
    struct zone_table *t = zone_table_create(r->standard, NULL);
    if (stores_read(r, t, &all) == CODE_OK) {
        if (t->stores.n != r->stores || t->unknown != r->unknown) {
            r->stores = t->stores.n;
            r->unknown = t->unknown;
            log_event(LOG_INFO, "store_zones", "stores=%zu zones=%zu", t->stores.n, t->n);
            if (t->unknown > 0)
                log_event(LOG_WARN, "store_zones_unknown", "stores=%zu zones=%s of_others=%zu next=%s",
                          t->unknown, LOGQ(t->unknown_names), t->unknown_untold,
                          LOGQ("these stores have the default zone; write a name as Europe/Berlin"));
            if (!all)
                log_event(LOG_WARN, "store_zones_too_many", "most=%d next=%s", ZONES_STORES_MOST,
                          LOGQ("further stores have the default zone"));
        }
        zones_publish(r->into, t);
        return;
    }
    if (log_seldom(&line, &times))
        log_event(LOG_WARN, "store_zones_unread", "times=%u why=%s next=%s", times, LOGQ(db_text(r->db)),
                  LOGQ("tallyd uses the zones that it read last, or the default where it has read none"));
    zone_table_drop(t);
}

static void *read_on(void *arg)
{
    struct store_zones *r = arg;
    db_thread_begin();
    while (!db_thread_stops(&r->lock, &r->changed, &r->stopping, STORE_ZONES_EVERY_S * 1000))
        zones_read(r);
    db_close(r->db);
    db_thread_end();
    return NULL;
}

struct store_zones *store_zones_create(const struct db_config *config, const struct lookup *where,
                                       const char *standard, struct zones *into, bool now)
{
    struct store_zones *r = heap_zalloc(sizeof *r);
    *r = (struct store_zones){.config = *config, .where = where, .standard = standard, .into = into};
    r->config.read_timeout_s = LIMIT_S;
    r->config.reads = true;
    r->db = db_create(&r->config);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    if (now) zones_read(r);
    db_close(r->db); /* the thread's from here on */
    if (pthread_create(&r->thread, NULL, read_on, r) == 0) return r;
    r->stopping = true;
    db_destroy(&r->db);
    heap_free(r);
    return NULL;
}

void store_zones_stop(struct store_zones *r)
{
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    db_interrupt(r->db);
}

void store_zones_destroy(struct store_zones **r)
{
    if (*r == NULL) return;
    store_zones_stop(*r);
    pthread_join((*r)->thread, NULL);
    db_destroy(&(*r)->db);
    pthread_cond_destroy(&(*r)->changed);
    pthread_mutex_destroy(&(*r)->lock);
    heap_free(*r);
    *r = NULL;
}
