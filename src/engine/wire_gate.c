/* engine/wire_gate.c - the gate's ports: schema, ledger and epoch by a writer thread, Redis' history by the sync link. */
#include "base/heap.h"
#include "base/log.h"
#include "engine/core.h"
#include "mysql/ledger.h"
#include "mysql/schema.h"
#include "redis/batch.h"
#include <stdio.h>

struct check_task {
    struct db_job job;
    struct gate_check *check;
    struct core *core;
    struct schema_rules rules;
    struct schema_report report;
    struct error error;
};

static void check_work(struct db *db, struct db_job *job)
{
    struct check_task *t = CONTAINER_OF(job, struct check_task, job);
    struct gate_check *c = t->check;
    c->seen = schema_check(db, t->core->config.counters, &t->rules, &t->report, &t->error) == ERR_NONE;
    c->fit = c->seen && !schema_refused(&t->report, NULL);
    const struct lane_config *config = &t->core->config;
    char lane[16] = "";
    if (config->lanes > 1) snprintf(lane, sizeof lane, "lane %u", config->lane);
    const struct realm_asker asker = {.instance = config->life->instance,
                                      .lane = slice_str(lane),
                                      .lanes = config->lanes,
                                      .had = c->had,
                                      .take_over = config->take_over};
    if (c->fit) c->seen = realm_look(db, config->counters, c->redis, &asker, &c->look, &t->error) == ERR_NONE;
}

static void report_file(struct core *c, const struct schema_report *r)
{
    const struct counters *counters = c->config.counters;
    if (c->config.lane == 0) {
        /* Said once, though each lane looks. */
        for (size_t i = 0; i < r->n; i++) {
            const struct schema_finding *f = &r->all[i];
            bool refused = f->level == SCHEMA_REFUSE;
            log_event(refused ? LOG_ERROR : LOG_WARN, refused ? "schema_refused" : "schema",
                      "reason=%s mend=%s", LOGQ(f->reason), LOGQ(f->mend != NULL ? f->mend : "none"));
        }
    }
    for (size_t i = 0; i < counters->n; i++)
        sync_counter_fit(c->sync, &counters->all[i], !schema_refused(r, &counters->all[i]));
}

static void check_worked(struct db_job *job)
{
    struct check_task *t = CONTAINER_OF(job, struct check_task, job);
    struct gate_check *c = t->check;
    if (c->seen)
        report_file(t->core, &t->report);
    else if (job->ran)
        log_event(LOG_WARN, "mysql_check", "error=%s", LOGQ(t->error.text));
    c->refusals = schema_refusals(&t->report) > 0;
    schema_report_close(&t->report);
    heap_free(t);
    c->done(c);
}

static void port_check(void *arg, struct gate_check *check)
{
    struct core *c = arg;
    struct check_task *t = heap_zalloc(sizeof *t);
    t->check = check;
    t->core = c;
    t->rules = (struct schema_rules){.accept_flush = c->config.mysql_volatile, .lanes = c->config.lanes};
    t->job.work = check_work;
    t->job.done = check_worked;
    core_job(c, &t->job);
}

struct sign_task {
    struct db_job job;
    struct epoch epoch;
};

static void sign_work(struct db *db, struct db_job *job)
{
    struct sign_task *t = CONTAINER_OF(job, struct sign_task, job);
    struct error e;
    if (realm_answer(db, &t->epoch, &e) != ERR_NONE) log_event(LOG_WARN, "sign", "error=%s", LOGQ(e.text));
}

static void sign_worked(struct db_job *job)
{
    heap_free(CONTAINER_OF(job, struct sign_task, job));
}

static void port_sign(void *arg)
{
    struct core *c = arg;
    struct sign_task *t = heap_zalloc(sizeof *t);
    t->epoch = c->gate.epoch;
    t->job.work = sign_work;
    t->job.done = sign_worked;
    core_job(c, &t->job);
}

PORT(port_history, struct core *to, redis_history(&to->sync_link, h), struct history_read *h)

static const char *port_run_id(void *arg)
{
    const struct core *c = arg;
    const char *of_frames = c->frame_link.facts.run_id, *run_id = c->sync_link.facts.run_id;
    return coalesce_caught_up(c->coalesce) && strcmp(of_frames, run_id) == 0 ? run_id : "";
}

void wire_gate(struct core *c)
{
    struct gate_ports ports = {.arg = c,
                               .check = port_check,
                               .history = port_history,
                               .fence = core_fence,
                               .sign = port_sign,
                               .run_id = port_run_id,
                               .mono_ms = core_mono_ms};
    gate_init(&c->gate, c->sync, &ports);
}
