/* http/pool.c - see pool.h. */
#include "http/pool.h"
#include "base/thread.h"

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

static size_t jobs_under_way(const struct pool *p, const void *who)
{
    size_t n = 0;
    for (size_t i = 0; i < POOL_WORKERS; i++)
        n += p->workers[i].busy && p->workers[i].who == who;
    return n;
}

/* NULL: none that may begin now. */
static struct turn *job_take(struct pool *p)
{
    list_for_each (node, &p->queue.first) {
        struct turn *turn = CONTAINER_OF(node, struct turn, link);
        if (!p->stopping && jobs_under_way(p, turn->who) >= POOL_OF_ONE) continue;
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
    thread_behind();
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
