/* app/alone.c - starts a service under a name of its own (so that it neither ends the links of a running one nor is
 * ended by its start). For each lane, one after the other, it waits until sync may merge, and recovers; then it
 * stops. Of several lanes it leaves out one that is rolled back or away, and says so in the end. */
#include "app/alone.h"
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "engine/drain.h"
#include "engine/recovery.h"
#include "mysql/realm.h"
#include "redis/gen_op.h"
#include <stdio.h>
#include <unistd.h>

#define PROGRESS_MS 100
#define READY_MS 15000

struct alone {
    const struct admin_recover *how;
    struct admin_recovered *out;
    struct service *service;
    struct lane *lane; /* whose turn it is */
    struct db_job gen_job;
    struct gen_read gen;
    struct batch_id told, realm; /* tally:realm, as it is and as it will be */
    uint64_t highest;
    bool looked;
    struct error error; /* of the job */
    struct buf left;    /* the lanes that were left out, "3,4" */
    struct error why;   /* the first of them was */
    uv_timer_t timer;
    struct drain drain;
    bool accepting, accepted, begun, draining, ended;
    uint64_t until_ms;
};

static void alone_end(struct alone *a, enum err code, const char *text)
{
    if (a->ended) return;
    a->ended = true;
    uv_close((uv_handle_t *)&a->timer, NULL);
    if (code == ERR_NONE)
        service_stop(a->service);
    else
        service_fail(a->service, code, text);
}

static void on_drained(struct drain *d);

static void alone_lane(struct alone *a, struct lane *l)
{
    a->lane = l;
    a->until_ms = mono_ms() + READY_MS;
    a->accepted = !a->how->accept_rollback;
    a->accepting = false;
    a->begun = a->draining = a->how->drain == ADMIN_DRAIN_JOURNALS;
    a->drain = (struct drain){.lane = l, .journals_only = a->draining, .done = on_drained, .arg = a};
}

static void progress_show(const struct alone *a)
{
    if (a->how->progress != NULL)
        a->how->progress(a->how->arg, (uint64_t)STAT_GET(recover_done), (uint64_t)STAT_GET(recover_total));
}

/* All lanes have had their turn. */
static void alone_over(struct alone *a)
{
    struct error e = a->why;
    const struct admin_recovered *out = a->out;
    if (e.code != ERR_NONE && a->service->lanes_n > 1)
        error_set(&e, a->why.code,
                  "%s (lanes " SLICE_FMT
                  " of %u; the other lanes: %lld batches taken over, %lld rows merged)",
                  a->why.text, SLICE_ARG(buf_slice(&a->left)), a->service->lanes_n, (long long)out->adopted,
                  (long long)out->rows_merged);
    alone_end(a, e.code, e.text);
}

static void lane_done(struct alone *a)
{
    const struct service *s = a->service;
    if (a->lane + 1 == s->lanes + s->lanes_n)
        alone_over(a);
    else
        alone_lane(a, a->lane + 1);
}

static void lane_leave(struct alone *a, enum err code, const char *text)
{
    uint32_t lane = a->lane->core.config.lane;
    if (a->service->lanes_n > 1) log_event(LOG_ERROR, "lane_left_out", "lane=%u why=%s", lane, LOGQ(text));
    buf_printf(&a->left, "%s%u", a->left.n > 0 ? "," : "", lane);
    if (a->why.code == ERR_NONE) error_set(&a->why, code, "%s", text);
    lane_done(a);
}

static void on_drained(struct drain *d)
{
    struct alone *a = d->arg;
    a->draining = false;
    if (d->failed)
        alone_end(a, ERR_FAILED, d->text);
    else
        lane_done(a);
}

static void on_done(void *arg, const struct recovered *r)
{
    struct alone *a = arg;
    a->out->adopted += r->adopted;
    a->out->rows_merged += r->rows_merged;
    a->out->rows_already += r->rows_already;
    a->out->unknown += r->unknown;
    a->out->held += r->held;
    a->out->leftovers += r->leftovers;
    a->out->rejected += r->rejected;
    progress_show(a);
    a->draining = a->how->drain == ADMIN_DRAIN_ALL && !r->failed;
    if (r->failed)
        alone_end(a, ERR_FAILED, r->text);
    else if (!a->draining)
        lane_done(a);
}

static void on_found(void *arg, const char *kind, struct slice name)
{
    struct alone *a = arg;
    if (a->how->found != NULL) a->how->found(a->how->arg, kind, name);
}

static void begin(struct alone *a)
{
    struct recovery_how how = {
        .dry_run = a->how->dry_run,
        .reject_unknown = a->how->reject_unknown,
        .found = on_found,
        .done = on_done,
        .arg = a,
    };
    a->begun = true;
    bool only_one = recovery_start(&a->lane->core, &how);
    INVARIANT(only_one);
}

/* --- --accept-rollback --- */

static void on_raised(struct gen_read *g)
{
    struct alone *a = CONTAINER_OF(g, struct alone, gen);
    if (g->lost)
        alone_end(a, ERR_UNAVAILABLE, g->text);
    else
        a->accepted = true;
    gate_epoch_over(&a->lane->core.gate);
}

static void gen_work(struct db *db, struct db_job *job)
{
    struct alone *a = CONTAINER_OF(job, struct alone, gen_job);
    a->looked =
        realm_accept(db, &a->told, a->lane->core.config.lanes, &a->realm, &a->highest, &a->error) == ERR_NONE;
}

static void on_gen_looked(struct db_job *job)
{
    struct alone *a = CONTAINER_OF(job, struct alone, gen_job);
    if (!job->ran || !a->looked) {
        alone_end(a, ERR_UNAVAILABLE, job->ran ? a->error.text : job->text);
        return;
    }
    a->gen = (struct gen_read){.accept = true, .least = a->highest, .realm = a->realm, .done = on_raised};
    redis_gen(&a->lane->core.sync_link, &a->gen);
}

static void accept_rollback(struct alone *a)
{
    a->accepting = true;
    a->told = a->lane->core.gate.told;
    a->gen_job.work = gen_work;
    a->gen_job.done = on_gen_looked;
    core_job(&a->lane->core, &a->gen_job);
}

/* --- */

static void wait_for_gate(struct alone *a)
{
    const struct core *c = &a->lane->core;
    bool may_wait = mono_ms() < a->until_ms;
    struct error why;
    if (!a->accepted && !a->accepting && gate_compared(&c->gate) && c->gate.mysql_up)
        accept_rollback(a);
    else if (gate_open(&c->gate) && a->accepted)
        begin(a);
    else if (c->gate.rolled_back && !a->how->accept_rollback)
        lane_leave(a, ERR_FAILED, c->gate.text);
    else if (a->service->lanes_n > 1 && !a->accepting && lane_why(a->lane, &why) != ERR_NONE)
        lane_leave(a, why.code, why.text);
    else if (!may_wait)
        alone_end(a, ERR_UNAVAILABLE,
                  "MySQL or Redis did not become ready; `tallyd check` says what is wrong");
}

static void on_timer(uv_timer_t *timer)
{
    struct alone *a = timer->data;
    if (a->ended) return;
    if (a->service->stage != STAGE_RUNNING && (!a->begun || a->draining))
        alone_end(a, ERR_FAILED, "stopped; nothing is lost, run it again");
    else if (!a->begun)
        wait_for_gate(a);
    else if (a->draining)
        drain_tick(&a->drain);
    progress_show(a);
}

static void on_started(struct service *s, void *arg)
{
    struct alone *a = arg;
    a->service = s;
    *a->out = (struct admin_recovered){0};
    alone_lane(a, s->lanes);
    uv_timer_init(&s->loop, &a->timer);
    a->timer.data = a;
    uv_timer_start(&a->timer, on_timer, PROGRESS_MS, PROGRESS_MS);
}

enum err recover_alone(void *arg, const struct conf *conf, const struct admin_recover *how,
                       struct admin_recovered *out, struct error *e)
{
    (void)arg;
    struct settings settings;
    if (settings_build(conf, &settings, e) != ERR_NONE) return e->code;
    snprintf(settings.instance, sizeof settings.instance, "recover-%ld", (long)getpid());
    life_init(&settings.life, slice_str(settings.instance));
    struct service *s = heap_zalloc(sizeof *s);
    struct alone a = {.how = how, .out = out};
    enum err code = service_run(s, &settings, NULL, false, on_started, &a, e);
    buf_free(&a.left);
    heap_free(s);
    settings_close(&settings);
    return code;
}
