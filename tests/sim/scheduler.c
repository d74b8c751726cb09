/* tests/sim/scheduler.c - what can happen next, and which of it does: drawn by weight from all that is
 * possible now. In the quiescing phase no fault happens any more, and time passes only when nothing else can.
 */
#include "sim/events.h"

struct choice {
    const struct event *event;
    struct daemon *daemon;
    unsigned lane, weight;
};
#define CHOICES (EVENT_COUNT * SIM_DAEMONS * SIM_LANES)

/* Faults are spread over the run: is this step one for faults? */
static bool draw_fault(struct world *w)
{
    const struct sim_config *c = &w->config;
    if (w->calm || w->step < c->faults_from || w->faults >= c->faults_most) return false;
    return world_below(w, c->steps - w->step) < c->faults_most - w->faults;
}

void scheduler_begin(struct world *w)
{
    w->events_n[false] = w->events_n[true] = 0;
    for (int i = 0; i < EVENT_COUNT; i++)
        if (w->config.weight[i] > 0) w->events[events[i].fault][w->events_n[events[i].fault]++] = (uint8_t)i;
}

/* At the lane that the world is at; the first has what is of all lanes. */
static unsigned choices_fill(struct world *w, bool fault, struct choice *choices)
{
    unsigned n = 0;
    for (unsigned at = 0; at < w->events_n[fault]; at++) {
        const struct event *e = &events[w->events[fault][at]];
        unsigned weight = w->config.weight[w->events[fault][at]];
        bool elsewhere = e->of_all ? w->lane > 0 : w->away == (int)w->lane;
        if (elsewhere) continue;
        for (unsigned d = 0; d < (e->of_world ? 1 : w->config.daemons); d++)
            if (e->can(w, &w->daemons[d])) choices[n++] = (struct choice){e, &w->daemons[d], w->lane, weight};
    }
    return n;
}

static unsigned choices_at_all(struct world *w, bool fault, struct choice *choices)
{
    unsigned n = 0;
    EACH_LANE (w)
        n += choices_fill(w, fault, choices + n);
    return n;
}

static const struct choice *choice_draw(struct world *w, const struct choice *choices, unsigned n)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < n; i++)
        total += choices[i].weight;
    uint64_t draw = world_below(w, total);
    for (; draw >= choices->weight; choices++)
        draw -= choices->weight;
    return choices;
}

static bool may_end(struct world *w, const struct daemon *d)
{
    if (d->life == NULL || d->life->paused || !d->life->stopping || daemon_owes(d)) return false;
    bool may = true;
    for (unsigned i = 0; i < w->config.lanes; i++)
        may &= daemon_may_end(d->lives[i]);
    return may;
}

static void end_stopped(struct world *w)
{
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (may_end(w, &w->daemons[i])) daemon_end(w, &w->daemons[i]);
}

static const char *lane_name(const struct world *w, unsigned lane)
{
    static const char *const names[SIM_LANES] = {" at lane 0", " at lane 1", " at lane 2", " at lane 3"};
    return w->config.lanes == 1 ? "" : names[lane];
}

bool scheduler_step(struct world *w)
{
    struct choice choices[CHOICES];
    bool fault = draw_fault(w);
    unsigned n = choices_at_all(w, fault, choices);
    if (n == 0 && fault) n = choices_at_all(w, false, choices);
    if (n == 0) return false;
    const struct choice *c = choice_draw(w, choices, n);
    w->step++;
    w->faults += c->event->fault;
    TRACE(w, "-- %s %d%s", c->event->name, (int)(c->daemon - w->daemons), lane_name(w, c->lane));
    world_at(w, c->lane);
    c->event->run(w, c->daemon);
    end_stopped(w);
    EACH_LANE (w) {
        redis_reap(&w->redis->links);
        redis_reap(&w->other->links);
    }
    return true;
}

#define CALM_MS 40000
#define CALM_STEP_MS 80 /* at most: which daemon polls first must be a matter of luck */
#define CALM_STEPS_MOST                                                                                      \
    200000 /* more is a busy loop: something happens all the time, and nothing comes of it */

static void lane_calms(struct world *w)
{
    w->redis->refuses = false;
    moves_rest(w);
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) daemon_hold(w->daemons[i].life, 0);
}

static void calm_down(struct world *w)
{
    w->calm = true;
    TRACE(w, "== from here on nothing fails any more");
    w->mysql.up = true;
    memset(w->mysql.poison, 0, sizeof w->mysql.poison);
    memset(w->mysql.takes_none, 0, sizeof w->mysql.takes_none);
    w->mysql.locked = 0;
    w->mysql.schema_unfit = w->mysql.table_unfit = false;
    EACH_LANE (w)
        lane_calms(w);
}

/* An operator put an old copy back, and sees that this was wrong. */
static void mend_all(struct world *w)
{
    bool any = world_any_restored(w);
    for (unsigned i = 0; i < w->config.daemons && any; i++)
        if (w->daemons[i].life != NULL) daemon_crash(w, &w->daemons[i]);
    EACH_LANE (w)
        if (w->redis->restored) redis_mend(w);
}

static void lane_ticks(struct world *w)
{
    redis_age(w->redis, w->now_ms, w->config.lag_ms);
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) daemon_tick(w->daemons[i].life);
}

static void calm_tick(struct world *w)
{
    w->now_ms += 20 + world_below(w, CALM_STEP_MS - 20);
    EACH_LANE (w)
        lane_ticks(w);
}

static void rest_until(struct world *w, const char *(*unrest)(struct world *w))
{
    uint64_t until_ms = w->now_ms + CALM_MS, until_step = w->step + CALM_STEPS_MOST;
    const char *what = "nothing happened yet";
    while (what != NULL && w->now_ms < until_ms && w->step < until_step && w->oracle.fault == FAULT_NONE) {
        if (scheduler_step(w)) continue;
        what = unrest(w);
        if (what != NULL) calm_tick(w);
    }
    if (what != NULL && w->oracle.fault == FAULT_NONE) fault_found(w, FAULT_STUCK, "%s", what);
}

/* All lanes that are not away. */
static void come_to_rest(struct world *w)
{
    rest_until(w, oracle_unrest);
}

/* Its links are cut, or deliver nothing. */
static void go_away(struct world *w, unsigned lane)
{
    bool cut = world_percent(w, 50);
    TRACE(w, "== lane %u %s", lane, cut ? "is away" : "stands still");
    world_at(w, lane);
    for (unsigned i = 0; i < w->config.daemons && cut; i++)
        for (int role = 0; w->daemons[i].life != NULL && role < ROLES; role++)
            if (w->daemons[i].life->links[role] != NULL)
                daemon_link_lost(w->daemons[i].life, (enum role)role);
    w->away = (int)lane;
}

/* A daemon that starts, or stops, waits for all lanes. */
static bool all_run(const struct world *w)
{
    for (unsigned i = 0; i < w->config.daemons; i++) {
        const struct daemon *d = &w->daemons[i];
        if (d->life == NULL ? !d->for_good : d->life->stopping) return false;
    }
    return true;
}

/* For as long as the others need: they need nothing of it. A lane that holds an old copy is held as well. */
static void rest_without(struct world *w)
{
    if (!all_run(w)) return;
    if (world_percent(w, w->config.away_percent)) go_away(w, (unsigned)world_below(w, w->config.lanes));
    if (w->away >= 0 || world_any_restored(w)) come_to_rest(w);
    w->away = -1;
}

/* One hash's rows are refused, or locked, for as long as the others need. */
static void rest_beside_refused(struct world *w)
{
    w->refused = (int)world_below(w, w->config.hashes);
    bool locked = world_percent(w, 50);
    if (locked)
        w->mysql.locked = 1U << w->refused;
    else
        w->mysql.poison[w->refused] = (uint8_t)((1U << SIM_FIELDS) - 1);
    TRACE(w, "== %s row of hash %d", locked ? "the shop locks each" : "MySQL takes no", w->refused);
    rest_until(w, oracle_unrest_beside);
    w->mysql.poison[w->refused] = 0;
    w->mysql.locked = 0;
}

void scheduler_quiesce(struct world *w)
{
    calm_down(w);
    if (w->config.lanes > 1) rest_without(w);
    mend_all(w);
    if (w->config.refusing && w->oracle.fault == FAULT_NONE) rest_beside_refused(w);
    if (w->oracle.fault == FAULT_NONE) come_to_rest(w);
}
