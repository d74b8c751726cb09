/* http/pool.c - see exchange.h. */

#include "base/clock.h"
#include "base/heap.h"
#include "base/thread.h"
#include "http/inside.h"
#include "status/status.h"

#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void door_init(struct door *d, const struct http_ports *ports, uint32_t answer_ms)
{
    *d = (struct door){.ports = ports, .answer_ms = answer_ms};
}

static void door_close(struct door *d)
{
    if (d->link != NULL) redisFree(d->link);
    d->link = NULL;
}

redisContext *door_link(struct door *d)
{
    struct timeval limit = {.tv_sec = d->answer_ms / 1000, .tv_usec = (int)(d->answer_ms % 1000) * 1000};
    if (d->link != NULL && d->link->err != 0) door_close(d);
    if (d->link != NULL) return d->link;
    int fd = d->ports->connect(d->ports->arg);
    if (fd < 0) return NULL;
    d->link = redisConnectFd(fd);
    if (d->link == NULL) {
        close(fd);
    } else if (d->link->err != 0 || redisSetTimeout(d->link, limit) != REDIS_OK) {
        door_close(d);
    }
    return d->link;
}

static void words_append(redisContext *link, const struct slice *words, size_t n)
{
    const char **texts = heap_alloc(n * sizeof *texts);
    size_t *sizes = heap_alloc(n * sizeof *sizes);
    for (size_t i = 0; i < n; i++) {
        texts[i] = words[i].p;
        sizes[i] = words[i].n;
    }
    if (redisAppendCommandArgv(link, (int)n, texts, sizes) != REDIS_OK) link->err = REDIS_ERR_OTHER;
    heap_free(texts);
    heap_free(sizes);
}

static bool take_all(redisContext *link, size_t n, redisReply **answers)
{
    for (size_t i = 0; i < n; i++) {
        void *reply = NULL;
        if (link->err == 0 && redisGetReply(link, &reply) == REDIS_OK) {
            answers[i] = reply;
            continue;
        }
        while (i > 0)
            freeReplyObject(answers[--i]);
        return false;
    }
    return true;
}

bool door_ask_all(struct door *d, const struct slice *const *words, const size_t *ns, size_t n,
                  redisReply **answers)
{
    redisContext *link = door_link(d);
    if (link == NULL) return false;
    for (size_t i = 0; i < n; i++)
        words_append(link, words[i], ns[i]);
    if (take_all(link, n, answers)) return true;
    door_close(d);
    return false;
}

redisReply *door_ask(struct door *d, const struct slice *words, size_t n)
{
    redisReply *reply;
    return door_ask_all(d, &words, &n, 1, &reply) ? reply : NULL;
}

void pool_init(struct pool *p, const struct http_ports *ports, const struct source *where)
{
    *p = (struct pool){.stopping = false};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    list_init(&p->queue.first);
    for (size_t i = 0; i < POOL_WORKERS; i++) {
        p->workers[i].pool = p;
        door_init(&p->workers[i].door, ports, DOOR_ANSWER_MS);
        panel_init(&p->workers[i].panel, where->mysql, where->counters);
    }
}

/* NULL: none that may begin now. */
static struct turn *job_take(struct pool *p)
{
    list_for_each (node, &p->queue.first) {
        struct turn *turn = CONTAINER_OF(node, struct turn, link);
        size_t under_way = 0;
        for (size_t i = 0; i < POOL_WORKERS; i++)
            under_way += p->workers[i].busy && p->workers[i].who == turn->who;
        if (!p->stopping && under_way >= POOL_OF_ONE) continue;
        turns_take(&p->queue, turn);
        return turn;
    }
    return NULL;
}

/* NULL: the pool stops and no job is left. late: the pool stops, so the job must not wait for servers: if a server
 * hangs, each of a thousand jobs would take its whole time limit. */
static struct job *next_job(struct worker *w, bool *late)
{
    struct pool *p = w->pool;
    struct turn *turn;
    pthread_mutex_lock(&p->lock);
    w->busy = false;
    while ((turn = job_take(p)) == NULL && !p->stopping)
        pthread_cond_wait(&p->more, &p->lock);
    w->busy = turn != NULL;
    w->who = turn != NULL ? turn->who : NULL;
    *late = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return turn == NULL ? NULL : CONTAINER_OF(turn, struct job, turn);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    bool late;
    thread_behind(BEHIND_READING);
    db_thread_begin();
    for (struct job *job; (job = next_job(w, &late)) != NULL;)
        job->run(job, late ? NULL : w);
    db_close(w->panel.db);
    door_close(&w->door);
    db_thread_end();
    return NULL;
}

bool pool_start(struct pool *p)
{
    for (; p->started < POOL_WORKERS; p->started++) {
        struct worker *w = &p->workers[p->started];
        if (pthread_create(&w->thread, NULL, work, w) != 0) return false;
    }
    return true;
}

bool pool_submit(struct pool *p, struct job *job)
{
    pthread_mutex_lock(&p->lock);
    bool taken = !p->stopping;
    if (taken) {
        turns_push(&p->queue, &job->turn);
        pthread_cond_signal(&p->more);
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}

void pool_stop(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (; p->started > 0; p->started--)
        pthread_join(p->workers[p->started - 1].thread, NULL);
}

void pool_close(struct pool *p)
{
    for (size_t i = 0; i < POOL_WORKERS; i++)
        panel_close(&p->workers[i].panel);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
}

#define TICK_MS 500
#define ANSWER_MS 1500 /* of the service, to INFO */
#define SILENT_MS 2000 /* then its loop does not turn */

void pulse_init(struct pulse *p, struct http *h)
{
    *p = (struct pulse){.http = h, .started_s = wall_ms() / 1000, .answered_ms = mono_ms()};
    door_init(&p->door, &h->ports, ANSWER_MS);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void pulse_close(struct pulse *p)
{
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

struct beat pulse_beat(struct pulse *p)
{
    pthread_mutex_lock(&p->lock);
    struct beat beat = p->beat;
    beat.asked = p->asked;
    beat.turns = mono_ms() - p->answered_ms < SILENT_MS;
    pthread_mutex_unlock(&p->lock);
    beat.redis_up = beat.redis_up && beat.turns;
    beat.mysql_up = beat.mysql_up && beat.turns;
    return beat;
}

void pulse_await(struct pulse *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->asked && !p->stopping)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* --- what the service says --- */

static void beat_ask(struct pulse *p)
{
    struct buf info = {0};
    struct beat beat = {.turns = true};
    redisContext *link = door_link(&p->door);
    bool answered = link != NULL && service_info(link, &info);
    if (answered) {
        beat.redis_up = service_flag(&info, "redis_up");
        beat.mysql_up = service_flag(&info, "mysql_up");
        service_text(&info, "merges_held", beat.held, sizeof beat.held);
    }
    pthread_mutex_lock(&p->lock);
    if (answered) {
        p->beat = beat;
        p->answered_ms = mono_ms();
    }
    if (!p->asked) pthread_cond_broadcast(&p->changed);
    p->asked = true;
    pthread_mutex_unlock(&p->lock);
    buf_free(&info);
}

/* --- the thread --- */

/* True: it is to end. */
static bool pulse_pause_until(struct pulse *p, uint64_t when_ms)
{
    struct timespec until = {(time_t)(when_ms / 1000), (long)(when_ms % 1000) * 1000000};
    pthread_mutex_lock(&p->lock);
    while (!p->stopping && mono_ms() < when_ms)
        pthread_cond_timedwait(&p->changed, &p->lock, &until);
    bool stop = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return stop;
}

static void *pulse_main(void *arg)
{
    struct pulse *p = arg;
    uint64_t next_ms = mono_ms();
    while (!pulse_pause_until(p, next_ms)) {
        beat_ask(p);
        history_tick(p->http);
        next_ms += TICK_MS;
        if (next_ms < mono_ms()) next_ms = mono_ms();
    }
    door_close(&p->door);
    return NULL;
}

bool pulse_start(struct pulse *p)
{
    p->running = pthread_create(&p->thread, NULL, pulse_main, p) == 0;
    return p->running;
}

void pulse_stop(struct pulse *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->running) pthread_join(p->thread, NULL);
    p->running = false;
}
