/* engine/gate.c - when sync may merge. One check answers for both sides, MySQL first: a job reads schema and the
 * ledger's highest gen; then Redis' gen is read. Redis' gen lower than the ledger's means that this Redis
 * lost claims which MySQL has merged: counting goes on, merging waits for an operator. In that order a merge
 * between the two reads cannot look like a loss. A ledger that does not know what this process merged is told,
 * and merging goes on. */
#include "engine/gate.h"
#include "base/heap.h"
#include "base/log.h"
#include "mysql/ledger.h"
#include "mysql/schema.h"
#include "redis/gen_op.h"
#include <stdio.h>

#define GATE_RETRY_MS 5000

struct gate_look { /* one check */
    struct db_job job;
    struct redis_gen gen;
    struct core *core;
    const struct counters *counters;
    struct schema_rules rules;
    struct schema_report report;
    struct error error;
    bool seen;
    uint64_t highest, merged; /* of the ledger; of this process, before it was asked */
    char run_id[RUN_ID_BYTES];
};

static void gate_ask(struct core *c);

static bool compared(const struct core *c)
{
    return strcmp(c->gate.run_id, c->sync_link.facts.run_id) == 0;
}

static bool checked(const struct core *c)
{
    return c->gate.mysql_up && c->gate.schema_fit && compared(c);
}

bool gate_open(const struct core *c)
{
    return checked(c) && !c->gate.rolled_back;
}

static void gate_apply(struct core *c)
{
    sync_mysql(c->sync, checked(c));
}

static void gate_later(struct core *c)
{
    c->gate.retry_at_ms = mono_ms() + GATE_RETRY_MS;
}

static void look_end(struct gate_look *look)
{
    struct core *c = look->core;
    schema_report_close(&look->report);
    heap_free(look);
    c->gate.asking = false;
    gate_apply(c);
    if (c->gate.again && c->stage == STAGE_RUNNING) gate_ask(c);
}

void gate_merged(struct core *c, uint64_t gen)
{
    if (gen > c->gate.merged) c->gate.merged = gen;
}

/* A ledger keeps its highest gen. Nothing is held: what this MySQL lost does not come back by waiting. */
static void ledger_compare(struct gate *g, uint64_t highest, uint64_t merged)
{
    if (highest >= merged) return;
    log_event(LOG_ERROR, "mysql_behind", "gen=%llu merged=%llu next=%s", (unsigned long long)highest,
              (unsigned long long)merged,
              LOGQ("this MySQL lost batches that were merged (a backup, a failover, a dropped tally_ledger): "
                   "tallyd verify says how much"));
    g->merged = highest; /* said once */
}

static void gate_compare(struct core *c, uint64_t gen, uint64_t highest)
{
    struct gate *g = &c->gate;
    g->rolled_back = gen < highest;
    snprintf(g->text, sizeof g->text,
             "Redis was rolled back: its gen is %llu, the ledger has %llu. Counting goes on. Find out what "
             "it lost, then run `tallyd recover --accept-rollback`",
             (unsigned long long)gen, (unsigned long long)highest);
    sync_hold(c->sync, g->rolled_back, g->rolled_back ? g->text : "gen is not behind the ledger");
    if (g->rolled_back) gate_later(c);
}

static void on_gen(struct redis_gen *g)
{
    struct gate_look *look = CONTAINER_OF(g, struct gate_look, gen);
    struct core *c = look->core;
    bool same = strcmp(look->run_id, c->sync_link.facts.run_id) == 0;
    if (g->lost || !same) {
        c->gate.again = c->gate.again || !same;
        gate_later(c);
        look_end(look);
        return;
    }
    ledger_compare(&c->gate, look->highest, look->merged);
    gate_compare(c, g->gen, look->highest);
    memcpy(c->gate.run_id, look->run_id, sizeof look->run_id);
    look_end(look);
}

static void look_work(struct db *db, struct db_job *job)
{
    struct gate_look *look = CONTAINER_OF(job, struct gate_look, job);
    look->seen = schema_check(db, look->counters, &look->rules, &look->report, &look->error) == ERR_NONE;
    if (look->seen && !schema_refused(&look->report, NULL))
        look->seen = ledger_gen_highest(db, &look->highest, &look->error) == ERR_NONE;
}

static void log_findings(const struct schema_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct schema_finding *f = &r->all[i];
        bool refused = f->level == SCHEMA_REFUSE;
        log_event(refused ? LOG_ERROR : LOG_WARN, refused ? "schema_refused" : "schema", "reason=%s mend=%s",
                  LOGQ(f->reason), LOGQ(f->mend != NULL ? f->mend : "none"));
    }
}

static void file_fitness(struct core *c, const struct schema_report *r)
{
    c->gate.schema_fit = !schema_refused(r, NULL);
    for (size_t i = 0; i < c->config.counters->n; i++) {
        const struct counter *of = &c->config.counters->all[i];
        sync_counter_fit(c->sync, of, !schema_refused(r, of));
    }
    if (schema_refusals(r) > 0) gate_later(c);
}

static void on_looked(struct db_job *job)
{
    struct gate_look *look = CONTAINER_OF(job, struct gate_look, job);
    struct core *c = look->core;
    if (!job->ran || !look->seen) {
        if (job->ran) log_event(LOG_WARN, "mysql_check", "error=%s", LOGQ(look->error.text));
        gate_later(c);
        look_end(look);
        return;
    }
    log_findings(&look->report);
    file_fitness(c, &look->report);
    memcpy(look->run_id, c->sync_link.facts.run_id, sizeof look->run_id);
    look->gen = (struct redis_gen){.done = on_gen};
    redis_gen(&c->sync_link, &look->gen);
}

static void gate_ask(struct core *c)
{
    c->gate.again = c->gate.asking;
    if (c->gate.asking) return;
    struct gate_look *look = heap_zalloc(sizeof *look);
    look->core = c;
    look->counters = c->config.counters;
    look->rules.accept_flush = c->config.mysql_volatile;
    look->merged = c->gate.merged;
    look->job.work = look_work;
    look->job.done = on_looked;
    c->gate.asking = true;
    c->gate.retry_at_ms = UINT64_MAX;
    core_job(c, &look->job);
}

void gate_redis(struct core *c)
{
    gate_apply(c);
    if (c->gate.mysql_up && !compared(c) && c->stage <= STAGE_RUNNING) gate_ask(c);
}

void gate_mysql(struct core *c, bool up)
{
    c->gate.mysql_up = up;
    if (!up) c->gate.schema_fit = false;
    gate_apply(c);
    if (up && c->stage <= STAGE_RUNNING) gate_ask(c);
}

void gate_tick(struct core *c, uint64_t now_ms)
{
    if (c->gate.mysql_up && c->stage == STAGE_RUNNING && now_ms >= c->gate.retry_at_ms) gate_ask(c);
}
