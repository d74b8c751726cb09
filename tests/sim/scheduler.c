/* tests/sim/scheduler.c - what can happen next, and which of it does: drawn by weight from all that is
 * possible now. In the quiescing phase no fault happens any more, and time passes only when nothing else can.
 */
#include "sim/events.h"

struct choice {
    const struct event *event;
    struct daemon *daemon;
    unsigned weight;
};

/* Faults are spread over the run: is this step one of theirs? */
static bool draw_fault(struct world *w)
{
    const struct sim_config *c = &w->config;
    if (w->calm || w->step < c->faults_from || w->faults >= c->faults_most) return false;
    return world_below(w, c->steps - w->step) < c->faults_most - w->faults;
}

static unsigned choices_fill(struct world *w, bool fault, struct choice *choices, unsigned *total)
{
    unsigned n = 0;
    *total = 0;
    for (int i = 0; i < EVENT_COUNT; i++) {
        const struct event *e = &events[i];
        unsigned weight = w->config.weight[i];
        if (weight == 0 || e->fault != fault) continue;
        for (unsigned d = 0; d < (e->of_world ? 1 : w->config.daemons); d++) {
            if (!e->can(w, &w->daemons[d])) continue;
            choices[n++] = (struct choice){e, &w->daemons[d], weight};
            *total += weight;
        }
    }
    return n;
}

static void end_stopped(struct world *w)
{
    for (unsigned i = 0; i < w->config.daemons; i++) {
        struct daemon *d = &w->daemons[i];
        if (d->life != NULL && !d->life->paused && d->life->stopping && daemon_may_end(d->life))
            daemon_end(w, d);
    }
}

bool scheduler_step(struct world *w)
{
    struct choice choices[EVENT_COUNT * SIM_DAEMONS];
    bool fault = draw_fault(w);
    unsigned total, n = choices_fill(w, fault, choices, &total), at = 0;
    if (n == 0 && fault) n = choices_fill(w, false, choices, &total);
    if (n == 0) return false;
    uint64_t draw = world_below(w, total);
    while (draw >= choices[at].weight)
        draw -= choices[at++].weight;
    w->step++;
    w->faults += choices[at].event->fault;
    TRACE(w, "-- %s %d", choices[at].event->name, (int)(choices[at].daemon - w->daemons));
    choices[at].event->run(w, choices[at].daemon);
    end_stopped(w);
    redis_reap(&w->redis.links);
    redis_reap(&w->other.links);
    return true;
}

#define CALM_MS 40000
#define CALM_STEP_MS 80 /* at most: who polls first must be a matter of luck */
#define CALM_STEPS_MOST                                                                                      \
    200000 /* more is a busy loop: something happens all the time, and nothing comes of it */

static void calm_down(struct world *w)
{
    w->calm = true;
    TRACE(w, "== from here on nothing fails any more");
    w->redis.refuses = false;
    moves_rest(w);
    w->mysql.up = true;
    memset(w->mysql.poison, 0, sizeof w->mysql.poison);
    w->mysql.schema_unfit = w->mysql.table_unfit = false;
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) daemon_hold(w->daemons[i].life, 0);
    if (!w->redis.restored) return;
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) daemon_crash(w, &w->daemons[i]);
    redis_mend(w);
}

static void calm_tick(struct world *w)
{
    w->now_ms += 20 + world_below(w, CALM_STEP_MS - 20);
    redis_age(&w->redis, w->now_ms, w->config.lag_ms);
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) daemon_tick(w->daemons[i].life);
}

void scheduler_quiesce(struct world *w)
{
    calm_down(w);
    uint64_t until_ms = w->now_ms + CALM_MS, until_step = w->step + CALM_STEPS_MOST;
    const char *unrest = "nothing happened yet";
    while (unrest != NULL && w->now_ms < until_ms && w->step < until_step && w->oracle.fault == FAULT_NONE) {
        if (scheduler_step(w)) continue;
        unrest = oracle_unrest(w);
        if (unrest != NULL) calm_tick(w);
    }
    if (unrest != NULL && w->oracle.fault == FAULT_NONE) fault_found(w, FAULT_STUCK, "%s", unrest);
}
