/* http/pulse.c - see pulse.h. */
#include "http/pulse.h"

#include "base/clock.h"
#include "base/json.h"
#include "http/inside.h"
#include "status/service.h"

#include <stdio.h>
#include <time.h>

#define TICK_MS 500
#define ANSWER_MS 1500 /* of the service, to INFO */
#define SILENT_MS 2000 /* then its loop does not turn */
#define FIGURES_AGE_MS 900

static void figures_run(struct job *job, struct worker *w);
static void watch_run(struct job *job, struct worker *w);

void pulse_init(struct pulse *p, struct http *h)
{
    *p = (struct pulse){.http = h, .started_s = wall_ms() / 1000, .answered_ms = mono_ms()};
    p->figures_job.run = figures_run;
    p->watch_job.run = watch_run;
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

/* --- what workers find out --- */

static void seen_take(void *arg, const struct status_figures *seen)
{
    struct pulse *p = arg;
    pthread_mutex_lock(&p->lock);
    p->seen = *seen;
    p->seen.differences = NULL;
    pthread_mutex_unlock(&p->lock);
}

static void job_over(struct pulse *p, bool *is_out)
{
    pthread_mutex_lock(&p->lock);
    *is_out = false;
    pthread_mutex_unlock(&p->lock);
}

static void figures_run(struct job *job, struct worker *w)
{
    struct pulse *p = CONTAINER_OF(job, struct pulse, figures_job);
    if (w != NULL)
        status_cache_use(&p->http->status_cache, door_link(&w->door), FIGURES_AGE_MS, seen_take, p);
    job_over(p, &p->figures_out);
}

static void watch_run(struct job *job, struct worker *w)
{
    struct pulse *p = CONTAINER_OF(job, struct pulse, watch_job);
    if (w != NULL) hub_watch(&p->http->hub, w, pulse_beat(p).mysql_up);
    job_over(p, &p->watch_out);
}

/* A job that is still under way is not begun again. */
static void job_begin(struct pulse *p, struct job *job, bool *is_out)
{
    pthread_mutex_lock(&p->lock);
    bool free = !*is_out;
    *is_out = true;
    pthread_mutex_unlock(&p->lock);
    if (free && !pool_submit(&p->http->pool, job)) job_over(p, is_out);
}

/* --- what the streams get --- */

/* A Pulse of openapi.yaml. */
static void status_put(struct pulse *p, struct buf *out)
{
    struct json j = {.out = out};
    struct beat beat = pulse_beat(p);
    pthread_mutex_lock(&p->lock);
    struct status_figures seen = p->seen;
    pthread_mutex_unlock(&p->lock);
    json_open(&j, NULL, '{');
    json_int(&j, "time", wall_ms() / 1000);
    json_int(&j, "started", p->started_s);
    json_text(&j, "redis", beat.redis_up ? "up" : "down");
    json_text(&j, "mysql", beat.mysql_up ? "up" : "down");
    json_int(&j, "hits", STAT_GET(hits));
    json_int(&j, "hits_refused", STAT_GET(hits_refused));
    json_int(&j, "frames", STAT_GET(frames));
    json_int(&j, "cells", STAT_GET(cells));
    json_int(&j, "rows_merged", STAT_GET(rows_merged));
    json_int(&j, "batches_done", STAT_GET(batches_done));
    json_int(&j, "rows_in_flight", STAT_GET(fields_in_flight));
    json_int(&j, "batches_held", STAT_GET(batches_held));
    json_int(&j, "connections", STAT_GET(connections_open));
    figure_json(&j, "pending_hashes", seen.dirty);
    seconds_json(&j, "oldest_unmerged_s", seen.oldest_ms);
    figure_json(&j, "batches_in_flight", seen.batches);
    figure_json(&j, "rejects", seen.rejects);
    json_close(&j, '}');
}

static void streams_tell(struct pulse *p)
{
    struct buf status = {0};
    if (hub_empty(&p->http->hub)) return;
    status_put(p, &status);
    hub_tell(&p->http->hub, buf_slice(&status));
    buf_free(&status);
    job_begin(p, &p->figures_job, &p->figures_out);
    job_begin(p, &p->watch_job, &p->watch_out);
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
    for (unsigned tick = 0; !pause_until(p, next_ms); tick++) {
        beat_ask(p);
        if (tick % 2 == 0) streams_tell(p);
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
