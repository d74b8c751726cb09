/* app/app.c - the verbs that need the whole service, given to the command line. */
#include "app/service.h"

#include "admin/admin.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/sm.h"
#include "base/stats.h"
#include "engine/lane.h"
#include "engine/recovery.h"
#include "mysql/ledger.h"
#include "redis/batch.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* `tallyd recover` when no service runs: a service without listeners, for this one recovery.
 *
 * Starts a service under a name of its own (so that it neither ends the links of a running one nor is ended by its start). Each
 * lane for itself waits until sync may merge, and recovers; when all are over it stops. Of several lanes it leaves out those that
 * are rolled back or away, and says so in the end. */

#define PROGRESS_MS 100
#define READY_MS 15000

enum step {
    STEP_COMPARE, /* before a rollback is accepted: what Redis and MySQL have must be known */
    STEP_ACCEPT,  /* under way */
    STEP_GATE,    /* waits until sync may merge */
    STEP_RECOVER,
    STEP_DRAIN,
    STEP_OVER
};

struct part { /* of one lane */
    struct alone *alone;
    struct lane *lane;
    enum step step;
    uint64_t until_ms; /* its gate must be open, or while it drains Redis be back */
    struct db_job gen_job;
    struct gen_read gen;
    struct batch_id told, realm; /* tally:realm, as it is and as it will be */
    uint64_t highest;
    bool looked;
    struct error error; /* of the job */
    struct drain drain;
    struct error left_out; /* why; ERR_NONE: it was not */
};

struct alone {
    const struct admin_recover *how;
    struct admin_recovered *out;
    struct service *service;
    struct part *parts; /* as many as lanes */
    uint32_t going_on;  /* parts that are not over */
    uv_timer_t timer;
    bool ended;
};

/* A recovery that was stopped may say that Redis or MySQL went away. */
static void alone_end(struct alone *a, enum err code, const char *text)
{
    if (a->ended) return;
    a->ended = true;
    uv_close((uv_handle_t *)&a->timer, NULL);
    if (code == ERR_NONE)
        service_stop(a->service);
    else if (a->service->stage != STAGE_RUNNING)
        service_fail(a->service, ERR_FAILED, "stopped; nothing is lost, run it again");
    else
        service_fail(a->service, code, text);
}

static void progress_show(const struct alone *a)
{
    if (a->how->progress != NULL)
        a->how->progress(a->how->arg, (uint64_t)STAT_GET(recover_done), (uint64_t)STAT_GET(recover_total));
}

static void alone_over(struct alone *a)
{
    struct buf list = {0};
    struct error e = {0};
    /* The lanes that were left out, "3,4", and why the first was. */
    const struct error *why = NULL;
    for (uint32_t i = 0; i < a->service->lanes_n; i++) {
        const struct part *p = &a->parts[i];
        if (p->left_out.code == ERR_NONE) continue;
        buf_printf(&list, "%s%u", why == NULL ? "" : ",", p->lane->core.config.lane);
        if (why == NULL) why = &p->left_out;
    }
    if (why != NULL) e = *why;
    if (why != NULL && a->service->lanes_n > 1)
        error_set(&e, why->code,
                  "%s (lanes " SLICE_FMT
                  " of %u; the other lanes: %lld batches taken over, %lld rows merged)",
                  why->text, SLICE_ARG(buf_slice(&list)), a->service->lanes_n, (long long)a->out->adopted,
                  (long long)a->out->rows_merged);
    buf_free(&list);
    alone_end(a, e.code, e.text);
}

static void recovery_part_over(struct part *p)
{
    p->step = STEP_OVER;
    if (--p->alone->going_on == 0) alone_over(p->alone);
}

static void part_leave(struct part *p, enum err code, const char *text)
{
    if (p->alone->service->lanes_n > 1)
        log_event(LOG_ERROR, "lane_left_out", "lane=%u why=%s", p->lane->core.config.lane, LOGQ(text));
    error_set(&p->left_out, code, "%s", text);
    recovery_part_over(p);
}

static void on_drained(struct drain *d)
{
    struct part *p = d->arg;
    if (d->failed)
        alone_end(p->alone, ERR_FAILED, d->text);
    else
        recovery_part_over(p);
}

static void on_done(void *arg, const struct recovered *r)
{
    struct part *p = arg;
    struct alone *a = p->alone;
    a->out->adopted += r->adopted;
    a->out->rows_merged += r->rows_merged;
    a->out->rows_already += r->rows_already;
    a->out->unknown += r->unknown;
    a->out->held += r->held;
    a->out->leftovers += r->leftovers;
    a->out->rejected += r->rejected;
    p->drain.stands = r->unknown + r->held > 0;
    progress_show(a);
    if (r->failed)
        alone_end(a, ERR_FAILED, r->text);
    else if (a->how->drain == ADMIN_DRAIN_ALL)
        p->step = STEP_DRAIN;
    else
        recovery_part_over(p);
}

static void found_show(void *arg, const char *kind, struct slice name)
{
    const struct admin_recover *how = ((struct part *)arg)->alone->how;
    if (how->found != NULL) how->found(how->arg, kind, name);
}

static void part_recover(struct part *p)
{
    const struct admin_recover *wanted = p->alone->how;
    struct recovery_how how = {
        .dry_run = wanted->dry_run,
        .reject_unknown = wanted->reject_unknown,
        .found = found_show,
        .done = on_done,
        .arg = p,
    };
    p->step = STEP_RECOVER;
    bool only_one = recovery_start(&p->lane->core, &how);
    INVARIANT(only_one);
}

/* --- --accept-rollback --- */

static void on_raised(struct gen_read *g)
{
    struct part *p = CONTAINER_OF(g, struct part, gen);
    p->step = STEP_GATE;
    if (g->lost) alone_end(p->alone, ERR_UNAVAILABLE, g->text);
    gate_epoch_over(&p->lane->core.gate);
}

static void gen_work(struct db *db, struct db_job *job)
{
    struct part *p = CONTAINER_OF(job, struct part, gen_job);
    p->looked =
        realm_accept(db, &p->told, p->lane->core.config.lanes, &p->realm, &p->highest, &p->error) == ERR_NONE;
}

static void on_gen_looked(struct db_job *job)
{
    struct part *p = CONTAINER_OF(job, struct part, gen_job);
    if (!job->ran || !p->looked) {
        alone_end(p->alone, ERR_UNAVAILABLE, job->ran ? p->error.text : job->text);
        return;
    }
    p->gen = (struct gen_read){.accept = true, .least = p->highest, .realm = p->realm, .done = on_raised};
    redis_gen(&p->lane->core.sync_link, &p->gen);
}

static void accept_rollback(struct part *p)
{
    p->step = STEP_ACCEPT;
    p->told = p->lane->core.gate.told;
    p->gen_job.work = gen_work;
    p->gen_job.done = on_gen_looked;
    core_job(&p->lane->core, &p->gen_job);
}

/* --- */

static void wait_for_gate(struct part *p)
{
    struct alone *a = p->alone;
    const struct gate *g = &p->lane->core.gate;
    struct error why;
    if (g->lives)
        part_leave(p, ERR_FAILED, g->text);
    else if (p->step == STEP_COMPARE && gate_compared(g) && g->mysql_up)
        accept_rollback(p);
    else if (p->step == STEP_GATE && gate_open(g))
        part_recover(p);
    else if (g->rolled_back && !a->how->accept_rollback)
        part_leave(p, ERR_FAILED, g->text);
    else if (a->service->lanes_n > 1 && p->step != STEP_ACCEPT && lane_why(p->lane, &why) != ERR_NONE)
        part_leave(p, why.code, why.text);
    else if (mono_ms() >= p->until_ms)
        alone_end(a, ERR_UNAVAILABLE,
                  "MySQL or Redis did not become ready; `tallyd check` says what is wrong");
}

static void part_drain(struct part *p)
{
    if (lane_up(p->lane)) p->until_ms = mono_ms() + READY_MS;
    if (mono_ms() >= p->until_ms)
        alone_end(p->alone, ERR_UNAVAILABLE, "nothing is lost, but Redis went away: start it first");
    else
        drain_tick(&p->drain);
}

static void on_timer(uv_timer_t *timer)
{
    struct alone *a = timer->data;
    if (a->service->stage != STAGE_RUNNING) alone_end(a, ERR_FAILED, "");
    for (uint32_t i = 0; i < a->service->lanes_n && !a->ended; i++) {
        struct part *p = &a->parts[i];
        if (p->step < STEP_RECOVER)
            wait_for_gate(p);
        else if (p->step == STEP_DRAIN)
            part_drain(p);
    }
    progress_show(a);
}

static void on_started(struct service *s, void *arg)
{
    struct alone *a = arg;
    bool journals_only = a->how->drain == ADMIN_DRAIN_JOURNALS;
    a->service = s;
    *a->out = (struct admin_recovered){0};
    a->parts = heap_zalloc(s->lanes_n * sizeof *a->parts);
    a->going_on = s->lanes_n;
    for (uint32_t i = 0; i < s->lanes_n; i++) {
        struct part *p = &a->parts[i];
        *p = (struct part){.alone = a, .lane = &s->lanes[i], .until_ms = mono_ms() + READY_MS};
        p->step = journals_only ? STEP_DRAIN : a->how->accept_rollback ? STEP_COMPARE : STEP_GATE;
        p->drain =
            (struct drain){.lane = p->lane, .journals_only = journals_only, .done = on_drained, .arg = p};
    }
    uv_timer_init(&s->loop, &a->timer);
    a->timer.data = a;
    uv_timer_start(&a->timer, on_timer, PROGRESS_MS, PROGRESS_MS);
}

static enum err app_recover(void *arg, const struct conf *conf, const struct admin_recover *how,
                            struct admin_recovered *out, struct error *e)
{
    (void)arg;
    struct settings settings;
    if (settings_build(conf, &settings, e) != ERR_NONE) return e->code;
    snprintf(settings.instance, sizeof settings.instance, "recover-%ld", (long)getpid());
    life_init(&settings.life, slice_str(settings.instance));
    settings.take_over = how->take_over;
    struct service *s = heap_zalloc(sizeof *s);
    struct alone a = {.how = how, .out = out};
    enum err code = service_run(s, &settings, NULL, false, on_started, &a, e);
    heap_free(a.parts);
    heap_free(s);
    settings_close(&settings);
    return code;
}

#define KEPT_MOST (32 << 20) /* free memory that stays ours */

static enum err app_run(void *arg, const struct conf *conf, const char *path, struct error *e)
{
    (void)arg;
    struct settings settings;
    /* Passwords are in the memory. No option turns this off: root can still look into the process, and take a core with gcore. */
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        log_event(LOG_WARN, "core_dumps", "error=%s", LOGQ(strerror(errno)));
    if (settings_build(conf, &settings, e) != ERR_NONE) return e->code;
    if (geteuid() == 0)
        log_event(LOG_WARN, "runs_as_root", "next=%s",
                  LOGQ("let systemd (User=) or the container start it as a user of its own"));
    if (certificates_load(&settings, e) != ERR_NONE) return settings_close(&settings), e->code;
    struct service *s = heap_zalloc(sizeof *s);
    int fd = -1;
    enum err code = setup_hold_name(&settings.setup, settings.instance, &fd, e);
    if (code == ERR_NONE) {
        code = service_run(s, &settings, path, true, NULL, NULL, e);
        close(fd);
    }
    settings_close(&settings);
    heap_free(s);
    if (code == ERR_NONE) log_event(LOG_INFO, "stopped", "outcome=clean");
    return code;
}

int app_main(int argc, char **argv)
{
    if (!crash_init()) return 64;
    /* The pages of a long answer serve the next one: given back each time, they would cost a fault each, 13 ms for 5 MB on a slow machine. */
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_MOST);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_MOST);
    log_journal_detect();
    db_library_init();
    struct admin_ports ports = {.run = app_run, .recover_alone = app_recover};
    return admin_main(argc, argv, &ports);
}
