/* app/upkeep.c - what is done slowly, off the hits' way:
 *   walk            the key space, for pending hashes that are missing in tally:dirty (coalesce/README.md, rule C8): at start, on every
 *                   reconnect, when Redis' clock went back, and every WALK_MS, which heals what a daemon left that died
 *                   for good
 *   prune           the ledger, never of a batch that stands: MySQL says what is old, then Redis what stands, then rows go
 *   complete_until  of each counter: nothing older is unmerged. Read in this order: Redis' time, dirty index, batches;
 *                   a hash that is claimed between the last two is seen in the first of them. */
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "mysql/ledger.h"
#include <stdio.h>

#define WALK_MS UINT64_C(600000)
#define WALK_PAUSE_MS 5
#define CLOCK_BACK_MS 2000
#define PRUNE_MS UINT64_C(600000)
#define UNTIL_MS UINT64_C(10000)
#define UNTIL_SLACK_MS 1000 /* over coalesce_lag_ms(): ticks, and clocks as they were told */

/* --- walk --- */

static void on_walked(struct redis_walk *w)
{
    struct service *s = CONTAINER_OF(w, struct service, upkeep.walk);
    struct upkeep *u = &s->upkeep;
    u->walking = false;
    if (w->restored > 0)
        log_event(LOG_WARN, "walk", "keys=%llu restored=%llu", (unsigned long long)w->keys,
                  (unsigned long long)w->restored);
    if (w->lost) u->walk_again = true;
    if (!w->lost) {
        u->walked = true;
        u->leftovers = u->leftovers_seen;
    }
    u->walk_at_ms = mono_ms() + (u->walk_again ? 1000 : WALK_MS);
    u->walk_again = false;
}

static void on_leftover(struct redis_walk *w, const struct counter *c, struct slice key, struct slice pending,
                        const struct batch_id *id)
{
    (void)c, (void)key, (void)pending, (void)id;
    CONTAINER_OF(w, struct service, upkeep.walk)->upkeep.leftovers_seen++;
}

static void on_restored(struct redis_restore *r)
{
    struct service *s = CONTAINER_OF(r, struct service, upkeep.restore);
    struct upkeep *u = &s->upkeep;
    if (r->lost || s->stage != STAGE_RUNNING) {
        u->walking = false;
        u->walk_at_ms = mono_ms() + 1000;
        return;
    }
    if (r->restored > 0) log_event(LOG_INFO, "restored_held", "n=%u", r->restored);
    u->restoring = false;
    u->leftovers_seen = 0;
    u->walk = (struct redis_walk){.counters = &s->settings->setup.counters,
                                  .pause_ms = WALK_PAUSE_MS,
                                  .leftover = on_leftover,
                                  .done = on_walked};
    redis_walk(&s->sync_link, &u->walk);
}

/* Held names that a counter of ours claims first: another service may have put them there. */
static void walk_begin(struct service *s)
{
    struct upkeep *u = &s->upkeep;
    u->walking = u->restoring = true;
    u->restore = (struct redis_restore){.counters = &s->settings->setup.counters, .done = on_restored};
    redis_restore(&s->sync_link, &u->restore);
}

void upkeep_walk(struct service *s)
{
    s->upkeep.walk_at_ms = 0;
    s->upkeep.walk_again = s->upkeep.walking;
}

/* When Redis' clock went back, scores are in the future, and the walk mends them. */
static void clock_look(struct service *s, uint64_t now_ms)
{
    int64_t ahead_ms = redis_time_ms(&s->frame_link) - (int64_t)now_ms;
    if (ahead_ms < s->upkeep.clock_ahead_ms - CLOCK_BACK_MS) {
        log_event(LOG_WARN, "redis_clock_back", "by_ms=%lld",
                  (long long)(s->upkeep.clock_ahead_ms - ahead_ms));
        upkeep_walk(s);
    }
    s->upkeep.clock_ahead_ms = ahead_ms;
}

/* --- prune --- */

struct prune_task {
    struct standing standing;
    struct db_job job;
    struct ledger_prune prune;
    uint64_t keep_s;
    struct error error;
    bool failed;
    struct service *service;
};

static void prune_end(struct prune_task *t)
{
    t->service->upkeep.prune = NULL;
    heap_free(t->standing.ids);
    heap_free(t);
}

static void prune_work(struct db *db, struct db_job *job)
{
    struct prune_task *t = CONTAINER_OF(job, struct prune_task, job);
    t->failed = ledger_prune(db, &t->prune, &t->error) != ERR_NONE;
}

static void on_pruned(struct db_job *job)
{
    struct prune_task *t = CONTAINER_OF(job, struct prune_task, job);
    if (job->ran && t->failed)
        log_event(LOG_WARN, "prune", "error=%s", LOGQ(t->error.text));
    else if (t->prune.pruned > 0)
        log_event(LOG_INFO, "pruned", "ledger_rows=%llu", (unsigned long long)t->prune.pruned);
    if (t->prune.more) t->service->upkeep.prune_at_ms = 0;
    prune_end(t);
}

static void on_prune_standing(struct standing *r)
{
    struct prune_task *t = CONTAINER_OF(r, struct prune_task, standing);
    if (r->lost || t->service->stage != STAGE_RUNNING) {
        prune_end(t);
        return;
    }
    t->prune.standing = r->ids;
    t->prune.standing_n = r->ids_n;
    t->job.work = prune_work;
    t->job.done = on_pruned;
    service_job(t->service, &t->job);
}

static void cutoff_work(struct db *db, struct db_job *job)
{
    struct prune_task *t = CONTAINER_OF(job, struct prune_task, job);
    t->failed = ledger_cutoff(db, t->keep_s, t->prune.cutoff, &t->error) != ERR_NONE;
}

static void on_cutoff(struct db_job *job)
{
    struct prune_task *t = CONTAINER_OF(job, struct prune_task, job);
    if (job->ran && !t->failed && t->service->stage == STAGE_RUNNING) {
        redis_standing(&t->service->sync_link, &t->standing);
        return;
    }
    if (job->ran && t->failed) log_event(LOG_WARN, "prune", "error=%s", LOGQ(t->error.text));
    prune_end(t);
}

static void prune_begin(struct service *s)
{
    struct prune_task *t = heap_zalloc(sizeof *t);
    t->service = s;
    t->keep_s = (uint64_t)s->settings->conf->ledger_keep_ms / 1000;
    t->prune.step = 1000;
    t->prune.steps_max = 100;
    t->standing.done = on_prune_standing;
    t->job.work = cutoff_work;
    t->job.done = on_cutoff;
    s->upkeep.prune = t;
    service_job(s, &t->job);
}

/* --- complete_until --- */

struct until_task {
    struct redis_dirty_state dirty;
    struct redis_batch_list batches;
    struct db_job job;
    struct service *service;
    struct error error;
    bool failed;
    int64_t begun_ms;
    int64_t *until; /* one a counter */
};

static void until_end(struct until_task *t)
{
    t->service->upkeep.until = NULL;
    heap_free(t->until);
    heap_free(t);
}

static void until_least(struct until_task *t, struct slice counter, int64_t ms)
{
    const struct counters *cs = &t->service->settings->setup.counters;
    for (size_t i = 0; i < cs->n; i++) {
        bool its = counter.n == 0 || slice_eq(counter, cs->all[i].name);
        if (its && ms < t->until[i]) t->until[i] = ms;
    }
}

static void until_work(struct db *db, struct db_job *job)
{
    struct until_task *t = CONTAINER_OF(job, struct until_task, job);
    const struct counters *cs = &t->service->settings->setup.counters;
    for (size_t i = 0; i < cs->n && !t->failed; i++)
        t->failed = ledger_complete_until(db, cs->all[i].name, t->until[i], &t->error) != ERR_NONE;
}

/* Said once, until it is well again. */
static void on_until(struct db_job *job)
{
    struct until_task *t = CONTAINER_OF(job, struct until_task, job);
    struct upkeep *u = &t->service->upkeep;
    if (t->failed && !u->until_told)
        log_event(LOG_WARN, "complete_until", "error=%s next=%s", LOGQ(t->error.text),
                  LOGQ("mend what MySQL refuses; merging goes on, but complete_until stands still"));
    if (job->ran) u->until_told = t->failed;
    until_end(t);
}

static void until_batch(void *arg, const struct redis_batch_seen *b)
{
    if (b->lowest_ms >= 0) until_least(arg, b->counter, b->lowest_ms);
}

static void on_until_batches(struct redis_batch_list *b)
{
    struct until_task *t = CONTAINER_OF(b, struct until_task, batches);
    if (b->lost || t->service->stage != STAGE_RUNNING) {
        until_end(t);
        return;
    }
    t->job.work = until_work;
    t->job.done = on_until;
    service_job(t->service, &t->job);
}

static void on_until_dirty(struct redis_dirty_state *d)
{
    struct until_task *t = CONTAINER_OF(d, struct until_task, dirty);
    if (d->lost || t->service->stage != STAGE_RUNNING) {
        until_end(t);
        return;
    }
    until_least(t, SLICE(""), d->lowest_ms < t->begun_ms ? d->lowest_ms : t->begun_ms);
    t->batches = (struct redis_batch_list){.batch = until_batch, .done = on_until_batches, .arg = t};
    redis_batch_list(&t->service->sync_link, &t->batches);
}

static void until_begin(struct service *s)
{
    struct until_task *t = heap_zalloc(sizeof *t);
    t->service = s;
    t->begun_ms = redis_time_ms(&s->frame_link) - UNTIL_SLACK_MS -
                  coalesce_lag_ms(s->coalesce, (uint32_t)s->settings->conf->redis_timeout_ms);
    t->until = heap_alloc((s->settings->setup.counters.n + 1) * sizeof *t->until);
    for (size_t i = 0; i < s->settings->setup.counters.n; i++)
        t->until[i] = INT64_MAX;
    t->dirty.done = on_until_dirty;
    s->upkeep.until = t;
    redis_dirty_state(&s->sync_link, &t->dirty);
}

void upkeep_tick(struct service *s, uint64_t now_ms)
{
    struct upkeep *u = &s->upkeep;
    if (s->stage != STAGE_RUNNING || !service_links_up(s)) return;
    clock_look(s, now_ms);
    if (!u->walking && now_ms >= u->walk_at_ms) walk_begin(s);
    if (!s->mysql_up || !s->gate.schema_fit) return;
    if (u->prune == NULL && now_ms >= u->prune_at_ms) {
        u->prune_at_ms = now_ms + PRUNE_MS;
        prune_begin(s);
    }
    if (u->until == NULL && now_ms >= u->until_at_ms) {
        u->until_at_ms = now_ms + UNTIL_MS;
        until_begin(s);
    }
}

void upkeep_stop(struct service *s)
{
    if (s->upkeep.walking && !s->upkeep.restoring) redis_walk_stop(&s->upkeep.walk);
}

bool upkeep_quiet(const struct service *s)
{
    return !s->upkeep.walking && s->upkeep.prune == NULL && s->upkeep.until == NULL;
}
