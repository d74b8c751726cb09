/* mysql/writer.c - see writer.h. `lock` guards everything that the threads and the loop share: the four
 * lists, health and its text, the flags. What is up or down is decided by probes alone, which any idle thread
 * runs: after work that failed for the link's or the server's sake at once, while down with backoff, while up
 * and idle now and then. */
#include "mysql/writer.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/latencies.h"
#include "base/log.h"
#include "base/rand.h"
#include "mysql/merge.h"

#include <stdio.h>
#include <uv.h>

#define THREADS_MAX 16
#define FRESH_MS 1000 /* a connection unused for longer is looked at before it gets work */
#define PROBE_FIRST_MS 100

enum health { HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DOWN };

struct writer {
    struct writer_pool *pool;
    uv_thread_t thread;
    struct db *db; /* the thread's own; db_interrupt() is the loop's */
    struct merger merger;
    uint64_t used_ms;
};

struct writer_pool {
    struct writer_config config;
    struct writer writers[THREADS_MAX];
    uv_async_t results;
    uv_timer_t deadline;
    uv_mutex_t lock;
    uv_cond_t wake;
    struct list chunks, jobs, chunks_done, jobs_done; /* of struct chunk, struct db_job */
    enum health health;
    char why[300];
    bool stopping; /* no more work comes: a thread that finds none ends */
    bool give_up;  /* the deadline passed: what is queued is answered, not tried */
    bool probing;
    unsigned probes_failed;
    uint64_t probe_at_ms;
    uint32_t running; /* threads */
    /* the loop's alone */
    enum health told;
    uint32_t busy, handles;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- on a writer thread ---- */

static void health_set(struct writer_pool *p, bool up, const char *why)
{
    uv_mutex_lock(&p->lock);
    p->health = up ? HEALTH_UP : HEALTH_DOWN;
    snprintf(p->why, sizeof p->why, "%s", up ? "" : why);
    p->probes_failed = up ? 0 : p->probes_failed + 1;
    uint64_t pause_ms = up ? p->config.idle_probe_ms
                           : rand_backoff_ms(p->probes_failed - 1, PROBE_FIRST_MS, p->config.probe_ms);
    p->probe_at_ms = mono_ms() + pause_ms;
    p->probing = false;
    uv_cond_broadcast(&p->wake); /* work may have waited for the first answer */
    uv_mutex_unlock(&p->lock);
    uv_async_send(&p->results);
}

/* A server that answers may still refuse to write, so the question after a failure is a write, to a row that
 * is never there. Missing tables or rights are no outage: the merge itself says so. */
static void probe(struct writer *w, bool write)
{
    enum code_class class = db_is_open(w->db) ? CODE_OK : db_open(w->db);
    bool opened = class == CODE_OK;
    if (opened && write)
        class = DB_EXEC(
            w->db,
            "DELETE FROM tally_ledger WHERE batch = x'00000000000000000000000000000000' AND chunk = 0");
    else if (opened)
        class = DB_EXEC(w->db, "DO 0");
    w->used_ms = mono_ms();
    if (opened && class == CODE_LINK && !write)
        return probe(w, true); /* the link was stale: a new one, once */
    health_set(w->pool, opened && class != CODE_LINK && class != CODE_WAIT, db_text(w->db));
}

static bool ready(struct writer *w)
{
    if (db_is_open(w->db) && mono_ms() - w->used_ms > FRESH_MS && DB_EXEC(w->db, "DO 0") != CODE_OK)
        db_close(w->db);
    return db_is_open(w->db) || db_open(w->db) == CODE_OK;
}

static void chunk_down(struct chunk *c, const char *why)
{
    c->outcome = MERGE_DOWN;
    c->rows_merged = c->rows_rejected = 0;
    snprintf(c->text, sizeof c->text, "%s", why);
}

/* No second connect timeout right behind a first. */
static void after_failure(struct writer *w)
{
    if (db_open_failed(w->db))
        health_set(w->pool, false, db_text(w->db));
    else
        probe(w, true);
}

static void chunk_run(struct writer *w, struct chunk *c)
{
    uint64_t since_us = mono_us();
    if (ready(w))
        merge_chunk(&w->merger, c);
    else
        chunk_down(c, db_text(w->db));
    if (c->outcome == MERGE_DONE) histogram_add(&latencies.merge, mono_us() - since_us);
    w->used_ms = mono_ms();
    if (c->outcome == MERGE_DOWN) after_failure(w);
}

static void job_run(struct writer *w, struct db_job *job)
{
    job->ran = ready(w);
    job->text[0] = 0;
    if (job->ran)
        job->work(w->db, job);
    else
        snprintf(job->text, sizeof job->text, "%s", db_text(w->db));
    w->used_ms = mono_ms();
    if (!db_is_open(w->db)) after_failure(w);
}

static void give_back(struct writer_pool *p, struct list *done, struct list *link)
{
    uv_mutex_lock(&p->lock);
    list_push(done, link);
    uv_mutex_unlock(&p->lock);
    uv_async_send(&p->results);
}

/* With the lock held: answered without being tried. */
static void answer_chunk_down(struct writer_pool *p, struct list *link)
{
    chunk_down(CONTAINER_OF(link, struct chunk, link), p->why);
    list_push(&p->chunks_done, link);
}

static void answer_job_down(struct writer_pool *p, struct list *link)
{
    struct db_job *job = CONTAINER_OF(link, struct db_job, link);
    job->ran = false;
    snprintf(job->text, sizeof job->text, "%s", p->why);
    list_push(&p->jobs_done, link);
}

static void queue_answer_down(struct writer_pool *p)
{
    for (struct list *l; (l = list_pop(&p->chunks)) != NULL;)
        answer_chunk_down(p, l);
    for (struct list *l; (l = list_pop(&p->jobs)) != NULL;)
        answer_job_down(p, l);
    uv_async_send(&p->results);
}

enum task { TASK_END, TASK_PROBE, TASK_PROBE_WRITE, TASK_CHUNK, TASK_JOB };

/* With the lock held: what is there to do? Control queries go before chunks: they are short and somebody
 * waits. */
static bool task_find(struct writer_pool *p, enum task *task, struct list **link)
{
    bool queued = !list_empty(&p->jobs) || !list_empty(&p->chunks);
    if (queued && (p->give_up || p->health == HEALTH_DOWN)) {
        queue_answer_down(p);
        queued = false;
    }
    if (queued && p->health == HEALTH_UP) {
        *task = list_empty(&p->jobs) ? TASK_CHUNK : TASK_JOB;
        *link = list_pop(*task == TASK_JOB ? &p->jobs : &p->chunks);
        return true;
    }
    *task = p->stopping && !queued ? TASK_END : p->health == HEALTH_UP ? TASK_PROBE : TASK_PROBE_WRITE;
    if (*task == TASK_END) return true;
    if (p->probing || mono_ms() < p->probe_at_ms) return false;
    p->probing = true;
    return true;
}

static enum task task_wait(struct writer_pool *p, struct list **link)
{
    enum task task;
    uv_mutex_lock(&p->lock);
    while (!task_find(p, &task, link)) {
        uint64_t now = mono_ms();
        uint64_t ms = p->probing || p->probe_at_ms <= now ? p->config.probe_ms : p->probe_at_ms - now;
        (void)uv_cond_timedwait(&p->wake, &p->lock, ms * 1000000);
    }
    uv_mutex_unlock(&p->lock);
    return task;
}

static void writer_end(struct writer_pool *p)
{
    uv_mutex_lock(&p->lock);
    p->running--;
    uv_mutex_unlock(&p->lock);
    uv_async_send(&p->results);
}

static void writer_main(void *arg)
{
    struct writer *w = arg;
    struct writer_pool *p = w->pool;
    db_thread_begin();
    for (struct list *link = NULL;;) {
        enum task task = task_wait(p, &link);
        if (task == TASK_END) break;
        if (task == TASK_PROBE || task == TASK_PROBE_WRITE) probe(w, task == TASK_PROBE_WRITE);
        if (task == TASK_CHUNK) chunk_run(w, CONTAINER_OF(link, struct chunk, link));
        if (task == TASK_JOB) job_run(w, CONTAINER_OF(link, struct db_job, link));
        if (task == TASK_CHUNK) give_back(p, &p->chunks_done, link);
        if (task == TASK_JOB) give_back(p, &p->jobs_done, link);
    }
    db_close(w->db);
    db_thread_end();
    writer_end(p); /* last line: the loop may join and free from here on */
}

/* ---- on the loop ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct writer_pool *p = handle->data;
    if (--p->handles > 0) return;
    void (*closed)(void *) = p->closed;
    void *arg = p->closed_arg;
    heap_free(p);
    if (closed != NULL) closed(arg);
}

/* All threads have ended, or never began: what is left are the handles. */
static void pool_dispose(struct writer_pool *p, uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++)
        uv_thread_join(&p->writers[i].thread);
    for (uint32_t i = 0; i < p->config.threads; i++) {
        merger_close(&p->writers[i].merger);
        db_destroy(&p->writers[i].db);
    }
    uv_mutex_destroy(&p->lock);
    uv_cond_destroy(&p->wake);
    p->handles = 2;
    uv_close((uv_handle_t *)&p->results, on_handle_closed);
    uv_close((uv_handle_t *)&p->deadline, on_handle_closed);
}

static void tell_health(struct writer_pool *p, enum health health, const char *why)
{
    if (health == p->told) return;
    p->told = health;
    p->config.up(p->config.arg, health == HEALTH_UP, why);
}

static void call_done(struct writer_pool *p, struct list *chunks, struct list *jobs)
{
    for (struct list *l; (l = list_pop(chunks)) != NULL;) {
        struct chunk *c = CONTAINER_OF(l, struct chunk, link);
        p->busy--;
        c->done(c);
    }
    for (struct list *l; (l = list_pop(jobs)) != NULL;) {
        struct db_job *job = CONTAINER_OF(l, struct db_job, link);
        p->busy--;
        job->done(job);
    }
}

static void on_results(uv_async_t *async) /* sends coalesce: takes all, calls back unlocked */
{
    struct writer_pool *p = async->data;
    struct list chunks, jobs;
    char why[sizeof p->why];
    list_init(&chunks);
    list_init(&jobs);
    uv_mutex_lock(&p->lock);
    list_move_all(&chunks, &p->chunks_done);
    list_move_all(&jobs, &p->jobs_done);
    enum health health = p->health;
    uint32_t running = p->running;
    memcpy(why, p->why, sizeof why);
    uv_mutex_unlock(&p->lock);
    tell_health(p, health, why);
    call_done(p, &chunks, &jobs);
    if (p->closed != NULL && running == 0 && p->busy == 0) pool_dispose(p, p->config.threads);
}

static void on_deadline(uv_timer_t *timer)
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

static void pool_stop(struct writer_pool *p)
{
    uv_mutex_lock(&p->lock);
    p->stopping = true;
    uv_cond_broadcast(&p->wake);
    uv_mutex_unlock(&p->lock);
}

static int pool_init(struct writer_pool *p, struct uv_loop_s *loop)
{
    int rc = uv_mutex_init(&p->lock);
    if (rc == 0) rc = uv_cond_init(&p->wake);
    if (rc == 0) rc = uv_async_init(loop, &p->results, on_results);
    if (rc != 0) return rc;
    uv_timer_init(loop, &p->deadline);
    p->results.data = p->deadline.data = p;
    list_init(&p->chunks);
    list_init(&p->jobs);
    list_init(&p->chunks_done);
    list_init(&p->jobs_done);
    for (uint32_t i = 0; i < p->config.threads; i++) {
        struct writer *w = &p->writers[i];
        w->pool = p;
        w->db = db_create(p->config.db);
        merger_init(&w->merger, w->db);
    }
    return 0;
}

int writer_pool_start(struct writer_pool **pool, struct uv_loop_s *loop, const struct writer_config *config)
{
    PRE(config->threads >= 1 && config->threads <= THREADS_MAX);
    PRE(config->probe_ms > 0 && config->idle_probe_ms > 0);
    struct writer_pool *p = *pool = heap_zalloc(sizeof *p);
    p->config = *config;
    int rc = pool_init(p, loop);
    if (rc != 0) {
        heap_free(p);
        return *pool = NULL, rc;
    }
    uint32_t made = 0;
    p->running = config->threads; /* before the first can end */
    while (made < config->threads && rc == 0)
        if ((rc = uv_thread_create(&p->writers[made].thread, writer_main, &p->writers[made])) == 0) made++;
    if (rc == 0) return 0;
    pool_stop(p);
    pool_dispose(p, made);
    return *pool = NULL, rc;
}

/* What the pool does not take is answered from the next turn. After the stop no thread may be left to do so.
 */
static void submit(struct writer_pool *p, struct list *queue, struct list *link,
                   void (*answer_down)(struct writer_pool *p, struct list *link))
{
    p->busy++;
    list_init(link);
    uv_mutex_lock(&p->lock);
    if (p->stopping) snprintf(p->why, sizeof p->why, "tallyd is stopping");
    if (p->stopping || p->health == HEALTH_DOWN) {
        answer_down(p, link);
        uv_async_send(&p->results);
    } else {
        list_push(queue, link);
        uv_cond_signal(&p->wake);
    }
    uv_mutex_unlock(&p->lock);
}

void writer_pool_merge(struct writer_pool *p, struct chunk *c)
{
    submit(p, &p->chunks, &c->link, answer_chunk_down);
}

void writer_pool_job(struct writer_pool *p, struct db_job *job)
{
    submit(p, &p->jobs, &job->link, answer_job_down);
}
void writer_pool_close(struct writer_pool *p, uint32_t deadline_ms, void (*closed)(void *arg), void *arg)
{
    PRE(p->closed == NULL && closed != NULL);
    p->closed = closed;
    p->closed_arg = arg;
    pool_stop(p);
    uv_timer_start(&p->deadline, on_deadline, deadline_ms, 0);
    uv_async_send(&p->results);
}
