/* engine/upkeep.c - slow tasks apart from the hits: pruning of the ledger, complete_until (wire_ledger.c), and the walk
 * over the key space for pending hashes that are missing in tally:dirty (coalesce/README.md, rule C8). The walk runs at
 * start, on every reconnect, when Redis' clock went back, and every WALK_MS. A tallyd may have died for good and left
 * such a hash. */
#include "engine/upkeep.h"
#include "base/heap.h"
#include "base/log.h"
#include "mysql/schema.h"

#define WALK_MS UINT64_C(600000)
#define WALK_PAUSE_MS 10 /* beside a page of half a millisecond: a million keys in a minute */
#define CLOCK_BACK_MS 2000
#define FIT_MS 2000
#define LOOK_MS 10000

/* --- walk --- */

static void on_walked(struct redis_walk *w)
{
    struct upkeep *u = CONTAINER_OF(w, struct upkeep, walk);
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
    CONTAINER_OF(w, struct upkeep, walk)->leftovers_seen++;
}

static void upkeep_restored(struct redis_restore *r)
{
    struct upkeep *u = CONTAINER_OF(r, struct upkeep, restore);
    if (r->lost || u->core->stage != STAGE_RUNNING) {
        u->walking = false;
        u->walk_at_ms = mono_ms() + 1000;
        return;
    }
    if (r->restored > 0) log_event(LOG_INFO, "restored_held", "n=%u", r->restored);
    u->restoring = false;
    u->leftovers_seen = 0;
    u->walk = (struct redis_walk){.counters = u->core->config.counters,
                                  .pause_ms = WALK_PAUSE_MS,
                                  .leftover = on_leftover,
                                  .done = on_walked};
    redis_walk(&u->core->sync_link, &u->walk);
}

void upkeep_walk(struct upkeep *u)
{
    u->walk_at_ms = 0;
    u->walk_again = u->walking;
}

static void on_fit(struct redis_fit *f)
{
    struct upkeep *u = CONTAINER_OF(f, struct upkeep, fit);
    u->fitting = false;
    if (!f->lost) aof_watch_look(&u->core->aof, &f->look);
    if (!f->lost) gate_fit(&u->core->gate, f->error.code == ERR_NONE ? NULL : f->error.text);
}

/* --- the tables. ALTER TABLE may take away the key by which MySQL finds a row, or add one by which it finds another, and merges
 * go on without an error. The gate asks when MySQL came up, and as long as something is refused. --- */

struct look_task {
    struct db_job job;
    struct upkeep *upkeep;
    struct schema_rules rules;
    struct schema_report report;
    bool seen;
};

static void look_work(struct db *db, struct db_job *job)
{
    struct look_task *t = CONTAINER_OF(job, struct look_task, job);
    struct error e;
    t->seen = schema_check(db, t->upkeep->core->config.counters, &t->rules, &t->report, &e) == ERR_NONE;
}

static void look_worked(struct db_job *job)
{
    struct look_task *t = CONTAINER_OF(job, struct look_task, job);
    struct upkeep *u = t->upkeep;
    u->looking = false;
    u->look_at_ms = mono_ms() + LOOK_MS;
    if (t->seen && schema_refusals(&t->report) > 0 && u->core->stage == STAGE_RUNNING)
        gate_mysql(&u->core->gate, true);
    schema_report_close(&t->report);
    heap_free(t);
}

static void tables_look(struct upkeep *u)
{
    struct look_task *t = heap_zalloc(sizeof *t);
    u->looking = true;
    t->upkeep = u;
    t->rules =
        (struct schema_rules){.accept_flush = u->core->config.mysql_volatile, .lanes = u->core->config.lanes};
    t->job.work = look_work;
    t->job.done = look_worked;
    core_job(u->core, &t->job);
}

void upkeep_tick(struct upkeep *u, uint64_t now_ms)
{
    if (u->core->stage != STAGE_RUNNING || !core_up(u->core)) return;
    /* When Redis' clock went back, scores are in the future, and the walk corrects them. */
    int64_t ahead_ms = redis_time_ms(&u->core->frame_link) - (int64_t)now_ms;
    if (ahead_ms < u->clock_ahead_ms - CLOCK_BACK_MS) {
        log_event(LOG_WARN, "redis_clock_back", "by_ms=%lld", (long long)(u->clock_ahead_ms - ahead_ms));
        upkeep_walk(u);
    }
    u->clock_ahead_ms = ahead_ms;
    /* CONFIG SET may turn what a claim is kept by off, or let Redis evict counts. */
    if (!u->fitting && now_ms >= u->fit_at_ms) {
        u->fitting = true;
        u->fit_at_ms = now_ms + FIT_MS;
        u->fit = (struct redis_fit){.keeps = u->core->config.keeps, .done = on_fit};
        redis_fit(&u->core->sync_link, &u->fit);
    }
    if (!u->looking && gate_open(&u->core->gate) && now_ms >= u->look_at_ms) tables_look(u);
    if (!u->walking && now_ms >= u->walk_at_ms) {
        /* First held names that a counter of ours matches: another tallyd may have put them there. */
        u->walking = u->restoring = true;
        u->restore = (struct redis_restore){.counters = u->core->config.counters, .done = upkeep_restored};
        redis_restore(&u->core->sync_link, &u->restore);
    }
    prune_tick(&u->prune);
    until_tick(&u->until);
}

void upkeep_stop(struct upkeep *u)
{
    prune_stop(&u->prune);
    until_stop(&u->until);
    if (u->walking && !u->restoring) redis_walk_stop(&u->walk);
}

bool upkeep_quiet(const struct upkeep *u)
{
    return !u->walking && !u->fitting && !u->looking && !u->prune.busy && !u->until.busy;
}
