/* mysql/writer.c - see writer.h. `lock` guards everything that the threads and the loop share: the lists, health and
 * its text, the flags. Only probes decide what is up or down. Any idle thread runs one: at once after work that failed
 * because of the link or the server, with backoff while down, now and then while up and idle. */
#include "mysql/writer.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/thread.h"
#include "mysql/merge.h"

#include <stdio.h>
#include <uv.h>

#define THREADS_MAX 16
#define MOVED "MySQL moved to another server"
#define FRESH_MS 1000 /* a connection unused for longer is looked at before it gets work */
#define PROBE_FIRST_MS 100
#define MOVED_MS                                                                                             \
    60000 /* after a move; until then other servers behind the same name are not taken for one more */

enum health { HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DOWN };

/* What a thread does next. The first two have queues; they are struct chunk and struct db_job. */
enum task { TASK_CHUNK, TASK_JOB, TASK_LEAVE, TASK_PROBE, TASK_PROBE_WRITE, TASK_END };
#define QUEUES 2

struct writer {
    struct writer_pool *pool;
    uv_thread_t thread;
    struct db *db; /* the thread's own; db_interrupt() is the loop's */
    struct merger merger;
    uint64_t used_ms, since_ms; /* its connection was used; its task began */
    unsigned era;               /* of its connection */
};

struct writer_pool {
    struct writer_config config;
    struct writer writers[THREADS_MAX];
    uv_async_t results;
    uv_timer_t deadline;
    uv_mutex_t lock;
    uv_cond_t wake;
    struct list queued[QUEUES], done[QUEUES];
    struct witnesses witnesses;
    enum health health;
    char why[300];
    bool stopping; /* no more work comes: a thread that finds none ends */
    bool give_up;  /* the deadline passed: what is queued is answered, not tried */
    bool probing;
    unsigned probes_failed;
    uint64_t probe_at_ms;
    uint32_t running; /* threads */
    /* Ends when MySQL fails or moves. A connection of an earlier era is not used again: all threads leave a server
     * together. None merges on another one before the loop was told, whose gate looks at the new server's ledger
     * first. */
    unsigned era;
    int host;          /* db_host() of the era; -1: none was up yet */
    char server[240];  /* db_server() of the last that was up */
    uint64_t ended_ms; /* when its era ended; 0: it did not */
    uint64_t moved_ms; /* when the server was another last; 0: it was not */
    /* the loop's alone */
    enum health told;
    unsigned told_era;
    uint32_t busy, handles;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- on a writer thread ---- */

/* With the lock held. */
static void era_end(struct writer *w, const char *why)
{
    struct writer_pool *p = w->pool;
    w->era = ++p->era;
    p->health = HEALTH_DOWN;
    if (p->ended_ms == 0) p->ended_ms = w->since_ms;
    snprintf(p->why, sizeof p->why, "%s", why);
}

/* This thread's server takes no writes any more, or another one does: all threads leave it. */
static void server_leave(struct writer *w, const char *why)
{
    uv_mutex_lock(&w->pool->lock);
    if (w->era == w->pool->era) era_end(w, why);
    uv_cond_broadcast(&w->pool->wake);
    uv_mutex_unlock(&w->pool->lock);
    uv_async_send(&w->pool->results);
}

/* With the lock held. */
static void server_set(struct writer *w)
{
    struct writer_pool *p = w->pool;
    bool moved = p->server[0] != '\0' && strcmp(p->server, db_server(w->db)) != 0;
    if (moved) {
        p->moved_ms = mono_ms();
        log_event(LOG_WARN, "mysql_moved", "from=%s to=%s took_ms=%llu", LOGQ(p->server),
                  LOGQ(db_server(w->db)), (unsigned long long)(p->moved_ms - p->ended_ms));
    }
    snprintf(p->server, sizeof p->server, "%s", db_server(w->db));
    p->host = db_host(w->db);
    p->ended_ms = 0;
}

/* With the lock held. What a connection of an earlier era found says nothing of this one. */
static void health_judge(struct writer *w, bool up, const char *why)
{
    struct writer_pool *p = w->pool;
    if (w->era != p->era) return;
    bool moved = up && db_moved(w->db);
    if (p->health == HEALTH_UP && (!up || moved)) era_end(w, moved ? MOVED : why);
    if (!up) snprintf(p->why, sizeof p->why, "%s", why);
    if (up && p->health != HEALTH_UP) server_set(w);
    p->health = up ? HEALTH_UP : HEALTH_DOWN;
    p->probes_failed = up ? 0 : p->probes_failed + 1;
    uint64_t pause_ms = up ? p->config.idle_probe_ms
                           : rand_backoff_ms(p->probes_failed - 1, PROBE_FIRST_MS, p->config.probe_ms);
    p->probe_at_ms = mono_ms() + pause_ms;
}

static void health_set(struct writer *w, bool up, const char *why)
{
    struct writer_pool *p = w->pool;
    uv_mutex_lock(&p->lock);
    health_judge(w, up, why);
    p->probing = false;
    uv_cond_broadcast(&p->wake); /* work may have waited for the first answer */
    uv_mutex_unlock(&p->lock);
    uv_async_send(&p->results);
}

/* Leaves a connection of an era before. (!) A name may lead to another server before any connect fails. Where it leads
 * to several in turn, each connection may be to another one, for good. */
static void era_follow(struct writer *w)
{
    struct writer_pool *p = w->pool;
    uv_mutex_lock(&p->lock);
    unsigned era = p->era;
    bool any = p->moved_ms != 0 && mono_ms() - p->moved_ms < MOVED_MS;
    db_prefer(w->db, p->host, p->server, any);
    uv_mutex_unlock(&p->lock);
    if (w->era != era) db_close(w->db);
    w->era = era;
}

/* A server that answers may still refuse to write. So the question after a failure is a write, to a row that never
 * exists. Missing tables or rights do not count as down: the merge itself reports them. */
static void probe(struct writer *w, bool write)
{
    era_follow(w);
    bool fresh = !db_is_open(w->db);
    enum code_class class = fresh ? db_open(w->db) : CODE_OK;
    bool opened = class == CODE_OK;
    if (opened && write)
        class = DB_EXEC(
            w->db,
            "DELETE FROM tally_ledger WHERE batch = x'00000000000000000000000000000000' AND chunk = 0");
    else if (opened && !fresh)
        class = db_look(w->db);
    w->used_ms = mono_ms();
    if (!fresh && !db_is_open(w->db)) { /* it was stale, or its server is demoted: a new one, once */
        if (class == CODE_AWAY) server_leave(w, db_text(w->db));
        return probe(w, true);
    }
    bool there = class != CODE_LINK && class != CODE_WAIT && class != CODE_AWAY && class != CODE_FOREIGN;
    health_set(w, opened && there, db_text(w->db));
}

static bool writer_ready(struct writer *w)
{
    era_follow(w);
    if (db_is_open(w->db) && mono_ms() - w->used_ms > FRESH_MS) {
        enum code_class class = db_look(w->db);
        if (class == CODE_AWAY) return false;
        if (class != CODE_OK) db_close(w->db);
    }
    return (db_is_open(w->db) || db_open(w->db) == CODE_OK) && !db_moved(w->db);
}

static const char *why_not(const struct writer *w)
{
    return db_is_open(w->db) && db_moved(w->db) ? MOVED : db_text(w->db);
}

static void chunk_down(struct list *link, const char *why)
{
    struct chunk *c = CONTAINER_OF(link, struct chunk, link);
    c->outcome = MERGE_DOWN;
    c->rows_merged = c->rows_rejected = 0;
    snprintf(c->text, sizeof c->text, "%s", why);
}

/* No second connect timeout right after a first; no second look at a server that all have left. */
static void after_failure(struct writer *w)
{
    struct writer_pool *p = w->pool;
    uv_mutex_lock(&p->lock);
    bool left = w->era != p->era;
    uv_mutex_unlock(&p->lock);
    if (left) return;
    if (db_open_failed(w->db)) {
        health_set(w, false, db_text(w->db));
        return;
    }
    if (db_left(w->db) || db_moved(w->db)) server_leave(w, why_not(w));
    probe(w, true);
}

static void chunk_run(struct writer *w, struct list *link)
{
    struct chunk *c = CONTAINER_OF(link, struct chunk, link);
    uint64_t since_us = mono_us();
    if (writer_ready(w))
        merge_chunk(&w->merger, c);
    else
        chunk_down(link, why_not(w));
    if (c->outcome == MERGE_DONE) histogram_add(&latencies.merge, mono_us() - since_us);
    w->used_ms = mono_ms();
    if (c->outcome == MERGE_DOWN) after_failure(w);
}

static void chunk_done(struct list *link)
{
    struct chunk *c = CONTAINER_OF(link, struct chunk, link);
    c->done(c);
}

static void job_down(struct list *link, const char *why)
{
    struct db_job *job = CONTAINER_OF(link, struct db_job, link);
    job->ran = false;
    snprintf(job->text, sizeof job->text, "%s", why);
}

static void job_run(struct writer *w, struct list *link)
{
    struct db_job *job = CONTAINER_OF(link, struct db_job, link);
    job->ran = writer_ready(w);
    job->text[0] = 0;
    if (job->ran)
        job->work(w->db, job);
    else
        job_down(link, why_not(w));
    w->used_ms = mono_ms();
    if (!job->ran || !db_is_open(w->db)) after_failure(w);
}

static void job_done(struct list *link)
{
    struct db_job *job = CONTAINER_OF(link, struct db_job, link);
    job->done(job);
}

static const struct {
    void (*run)(struct writer *w, struct list *link);
    void (*down)(struct list *link, const char *why); /* answers it without a try */
    void (*done)(struct list *link);                  /* on the loop */
} kinds[QUEUES] = {
    [TASK_CHUNK] = {chunk_run, chunk_down, chunk_done},
    [TASK_JOB] = {job_run, job_down, job_done},
};

/* With the lock held: what is there to do? Jobs go before chunks: they are short, and each has an asker that waits. */
static bool task_find(struct writer *w, enum task *task, struct list **link)
{
    struct writer_pool *p = w->pool;
    *task = TASK_LEAVE;
    if (w->era != p->era && db_is_open(w->db)) return true;
    enum task first = list_empty(&p->queued[TASK_JOB]) ? TASK_CHUNK : TASK_JOB;
    bool queued = !list_empty(&p->queued[first]);
    if (queued && (p->give_up || p->health == HEALTH_DOWN)) {
        /* With the lock held. */
        for (int k = 0; k < QUEUES; k++) {
            for (struct list *l; (l = list_pop(&p->queued[k])) != NULL; list_push(&p->done[k], l))
                kinds[k].down(l, p->why);
        }
        uv_async_send(&p->results);
        queued = false;
    }
    if (queued && p->health == HEALTH_UP) {
        *task = first;
        *link = list_pop(&p->queued[first]);
        return true;
    }
    *task = p->stopping && !queued ? TASK_END : p->health == HEALTH_UP ? TASK_PROBE : TASK_PROBE_WRITE;
    if (*task == TASK_END) return true;
    if (p->probing || mono_ms() < p->probe_at_ms) return false;
    p->probing = true;
    return true;
}

static enum task task_wait(struct writer *w, struct list **link)
{
    struct writer_pool *p = w->pool;
    enum task task;
    uv_mutex_lock(&p->lock);
    while (!task_find(w, &task, link)) {
        uint64_t now = mono_ms();
        uint64_t ms = p->probing || p->probe_at_ms <= now ? p->config.probe_ms : p->probe_at_ms - now;
        (void)uv_cond_timedwait(&p->wake, &p->lock, ms * 1000000);
    }
    uv_mutex_unlock(&p->lock);
    return task;
}

static void writer_main(void *arg)
{
    struct writer *w = arg;
    struct writer_pool *p = w->pool;
    thread_behind(BEHIND_MERGING);
    db_thread_begin();
    for (struct list *link = NULL;;) {
        enum task task = task_wait(w, &link);
        if (task == TASK_END) break;
        w->since_ms = mono_ms();
        if (task == TASK_LEAVE) {
            era_follow(w);
            continue;
        }
        if (task >= QUEUES) {
            probe(w, task == TASK_PROBE_WRITE);
            continue;
        }
        kinds[task].run(w, link);
        uv_mutex_lock(&p->lock);
        list_push(&p->done[task], link);
        uv_mutex_unlock(&p->lock);
        uv_async_send(&p->results);
    }
    db_close(w->db);
    db_thread_end();
    uv_mutex_lock(&p->lock);
    p->running--;
    uv_mutex_unlock(&p->lock);
    uv_async_send(&p->results); /* last line: the loop may join and free from here on */
}

/* ---- on the loop ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct writer_pool *p = handle->data;
    if (--p->handles > 0) return;
    void (*closed)(void *) = p->closed;
    void *arg = p->closed_arg;
    heap_free(p);
    if (closed != NULL) closed(arg);
}

/* All threads have ended, or never began: closes the handles. */
static void pool_dispose(struct writer_pool *p, uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++)
        uv_thread_join(&p->writers[i].thread);
    for (uint32_t i = 0; i < p->config.threads; i++) {
        merger_close(&p->writers[i].merger);
        db_destroy(&p->writers[i].db);
    }
    witnesses_close(&p->witnesses);
    uv_mutex_destroy(&p->lock);
    uv_cond_destroy(&p->wake);
    p->handles = 2;
    uv_close((uv_handle_t *)&p->results, handle_closed);
    uv_close((uv_handle_t *)&p->deadline, handle_closed);
}

static void health_tell(struct writer_pool *p, enum health health, const char *why)
{
    if (health == p->told) return;
    p->told = health;
    p->config.up(p->config.arg, health == HEALTH_UP, health == HEALTH_UP ? "" : why);
}

static void results_take(uv_async_t *async) /* sends coalesce: takes all, calls back unlocked */
{
    struct writer_pool *p = async->data;
    struct list done[QUEUES];
    char why[sizeof p->why];
    uv_mutex_lock(&p->lock);
    for (int k = 0; k < QUEUES; k++) {
        list_init(&done[k]);
        list_move_all(&done[k], &p->done[k]);
    }
    enum health health = p->health;
    unsigned era = p->era;
    uint32_t running = p->running;
    memcpy(why, p->why, sizeof why);
    uv_mutex_unlock(&p->lock);
    if (era != p->told_era && p->told == HEALTH_UP) health_tell(p, HEALTH_DOWN, why);
    p->told_era = era;
    health_tell(p, health, why);
    for (int k = 0; k < QUEUES; k++) {
        for (struct list *l; (l = list_pop(&done[k])) != NULL; kinds[k].done(l))
            p->busy--;
    }
    if (p->closed != NULL && running == 0 && p->busy == 0) pool_dispose(p, p->config.threads);
}

static void deadline_passed(uv_timer_t *timer)
{
    struct writer_pool *p = timer->data;
    log_event(LOG_WARN, "writers_cut", "busy=%u", p->busy);
    uv_mutex_lock(&p->lock);
    p->give_up = true;
    snprintf(p->why, sizeof p->why, "tallyd is stopping");
    uv_cond_broadcast(&p->wake);
    uv_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->config.threads; i++)
        db_interrupt(p->writers[i].db);
}

static void writers_stop(struct writer_pool *p)
{
    uv_mutex_lock(&p->lock);
    p->stopping = true;
    uv_cond_broadcast(&p->wake);
    uv_mutex_unlock(&p->lock);
}

static int writers_init(struct writer_pool *p, struct uv_loop_s *loop)
{
    int rc = uv_mutex_init(&p->lock);
    if (rc == 0) rc = uv_cond_init(&p->wake);
    if (rc == 0) rc = uv_async_init(loop, &p->results, results_take);
    if (rc != 0) return rc;
    uv_timer_init(loop, &p->deadline);
    witnesses_init(&p->witnesses);
    p->host = -1;
    p->results.data = p->deadline.data = p;
    for (int k = 0; k < QUEUES; k++) {
        list_init(&p->queued[k]);
        list_init(&p->done[k]);
    }
    for (uint32_t i = 0; i < p->config.threads; i++) {
        struct writer *w = &p->writers[i];
        w->pool = p;
        w->db = db_create(p->config.db);
        merger_init(&w->merger, w->db, &p->witnesses);
    }
    return 0;
}

int writer_pool_start(struct writer_pool **pool, struct uv_loop_s *loop, const struct writer_config *config)
{
    PRE(config->threads >= 1 && config->threads <= THREADS_MAX);
    PRE(config->probe_ms > 0 && config->idle_probe_ms > 0);
    struct writer_pool *p = *pool = heap_zalloc(sizeof *p);
    p->config = *config;
    int rc = writers_init(p, loop);
    if (rc != 0) {
        heap_free(p);
        return *pool = NULL, rc;
    }
    uint32_t made = 0;
    p->running = config->threads; /* before the first can end */
    while (made < config->threads && rc == 0)
        if ((rc = uv_thread_create(&p->writers[made].thread, writer_main, &p->writers[made])) == 0) made++;
    if (rc == 0) return 0;
    writers_stop(p);
    pool_dispose(p, made);
    return *pool = NULL, rc;
}

/* Work that the pool does not take is answered in the next turn: after the stop there may be no thread left to do
 * so. */
static void submit(struct writer_pool *p, enum task task, struct list *link)
{
    p->busy++;
    list_init(link);
    uv_mutex_lock(&p->lock);
    if (p->stopping) snprintf(p->why, sizeof p->why, "tallyd is stopping");
    if (p->stopping || p->health == HEALTH_DOWN) {
        kinds[task].down(link, p->why);
        list_push(&p->done[task], link);
        uv_async_send(&p->results);
    } else {
        list_push(&p->queued[task], link);
        uv_cond_signal(&p->wake);
    }
    uv_mutex_unlock(&p->lock);
}

void writer_pool_merge(struct writer_pool *p, struct chunk *c)
{
    submit(p, TASK_CHUNK, &c->link);
}

void writer_pool_job(struct writer_pool *p, struct db_job *job)
{
    submit(p, TASK_JOB, &job->link);
}

void writer_pool_close(struct writer_pool *p, uint32_t deadline_ms, void (*closed)(void *arg), void *arg)
{
    PRE(p->closed == NULL && closed != NULL);
    p->closed = closed;
    p->closed_arg = arg;
    writers_stop(p);
    uv_timer_start(&p->deadline, deadline_passed, deadline_ms, 0);
    uv_async_send(&p->results);
}
