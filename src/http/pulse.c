/* http/pulse.c - see pulse.h. */
#include "http/pulse.h"

#include "base/clock.h"
#include "http/inside.h"
#include "status/service.h"

#include <stdio.h>
#include <time.h>

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

static bool is_one(const struct buf *info, const char *name)
{
    int64_t v;
    return service_number(info, name, &v) && v == 1;
}

/* NULL: it did not answer. */
static void beat_file(struct pulse *p, const struct beat *beat)
{
    pthread_mutex_lock(&p->lock);
    if (beat != NULL) {
        p->beat = *beat;
        p->answered_ms = mono_ms();
    }
    if (!p->asked) pthread_cond_broadcast(&p->changed);
    p->asked = true;
    pthread_mutex_unlock(&p->lock);
}

static void beat_ask(struct pulse *p)
{
    struct buf info = {0};
    struct beat beat = {.turns = true};
    redisContext *link = door_link(&p->door);
    bool answered = link != NULL && service_info(link, &info);
    if (answered) {
        beat.redis_up = is_one(&info, "redis_up");
        beat.mysql_up = is_one(&info, "mysql_up");
        service_text(&info, "merges_held", beat.held, sizeof beat.held);
    }
    beat_file(p, answered ? &beat : NULL);
    buf_free(&info);
}

/* --- the thread --- */

/* True: it is to end. */
static bool pause_until(struct pulse *p, uint64_t when_ms)
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
    while (!pause_until(p, next_ms)) {
        beat_ask(p);
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
