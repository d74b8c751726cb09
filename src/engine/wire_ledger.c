/* engine/wire_ledger.c - the ports of pruning and of complete_until: MySQL by a writer thread, Redis by the sync link. */
#include "base/heap.h"
#include "base/log.h"
#include "engine/upkeep.h"
#include "mysql/ledger.h"
#include "redis/batch.h"

#define PRUNE_MS 600000
#define UNTIL_MS 10000

struct rows_task {
    struct db_job job;
    struct prune_rows *rows;
    struct epoch epoch;
    uint64_t keep_s;
    struct ledger_prune prune;
    struct error error;
};

static void rows_end(struct db_job *job)
{
    struct rows_task *t = CONTAINER_OF(job, struct rows_task, job);
    struct prune_rows *r = t->rows;
    if (job->ran && !r->ok) log_event(LOG_WARN, "prune", "error=%s", LOGQ(t->error.text));
    if (r->ok && t->prune.pruned > 0)
        log_event(LOG_INFO, "pruned", "ledger_rows=%llu", (unsigned long long)t->prune.pruned);
    heap_free(t);
    r->done(r);
}

static void ledger_rows_ask(struct core *c, struct prune_rows *r,
                            void (*work)(struct db *db, struct db_job *job))
{
    struct rows_task *t = heap_zalloc(sizeof *t);
    t->rows = r;
    t->keep_s = c->config.ledger_keep_ms / 1000;
    t->epoch = c->gate.epoch;
    t->job.work = work;
    t->job.done = rows_end;
    core_job(c, &t->job);
}

_Static_assert((int)LEDGER_CUTOFF_BYTES == (int)PRUNE_CUTOFF_BYTES, "a cutoff is handed on as MySQL gave it");

static void cutoff_work(struct db *db, struct db_job *job)
{
    struct rows_task *t = CONTAINER_OF(job, struct rows_task, job);
    t->rows->ok = ledger_cutoff(db, t->keep_s, t->rows->cutoff, &t->error) == ERR_NONE;
}

static void port_cutoff(void *arg, struct prune_rows *r)
{
    r->ok = false;
    ledger_rows_ask(arg, r, cutoff_work);
}

static void prune_work(struct db *db, struct db_job *job)
{
    struct rows_task *t = CONTAINER_OF(job, struct rows_task, job);
    struct prune_rows *r = t->rows;
    t->prune = (struct ledger_prune){.epoch = t->epoch,
                                     .standing = r->standing,
                                     .standing_n = r->standing_n,
                                     .step = 1000,
                                     .steps_max = 100};
    memcpy(t->prune.cutoff, r->cutoff, sizeof r->cutoff);
    r->ok = ledger_prune(db, &t->prune, &t->error) == ERR_NONE;
    r->more = t->prune.more;
}

static void port_prune_rows(void *arg, struct prune_rows *r)
{
    r->ok = false;
    ledger_rows_ask(arg, r, prune_work);
}

/* --- complete_until --- */

struct until_task {
    struct db_job job;
    struct until_write *write;
    struct epoch epoch;
    const struct counters *counters;
};

static void until_work(struct db *db, struct db_job *job)
{
    struct until_task *t = CONTAINER_OF(job, struct until_task, job);
    struct until_write *w = t->write;
    for (size_t i = 0; i < t->counters->n && !w->failed; i++)
        w->failed = ledger_complete_until(db, &t->epoch, t->counters->all[i].name, w->until[i], &w->error) !=
                    ERR_NONE;
}

static void until_worked(struct db_job *job)
{
    struct until_task *t = CONTAINER_OF(job, struct until_task, job);
    struct until_write *w = t->write;
    w->ran = job->ran;
    heap_free(t);
    w->done(w);
}

static void port_write(void *arg, struct until_write *w)
{
    struct core *c = arg;
    struct until_task *t = heap_zalloc(sizeof *t);
    t->write = w;
    t->counters = c->config.counters;
    t->epoch = c->gate.epoch;
    t->job.work = until_work;
    t->job.done = until_worked;
    core_job(c, &t->job);
}

PORT(port_dirty, struct core *to, redis_dirty_state(&to->sync_link, d), struct dirty_state *d)
PORT(port_batches, struct core *to, redis_batch_list(&to->sync_link, b), struct batch_list *b)

static int64_t port_lag_ms(void *arg)
{
    const struct core *c = arg;
    return coalesce_lag_ms(c->coalesce, c->config.timeout_ms);
}

void wire_ledger(struct upkeep *u)
{
    struct core *c = u->core;
    struct prune_ports prune = {.arg = c,
                                .cutoff = port_cutoff,
                                .standing = core_standing,
                                .rows = port_prune_rows,
                                .mono_ms = core_mono_ms};
    struct until_ports until = {.arg = c,
                                .dirty = port_dirty,
                                .batches = port_batches,
                                .write = port_write,
                                .redis_ms = core_redis_ms,
                                .lag_ms = port_lag_ms,
                                .mono_ms = core_mono_ms};
    prune_init(&u->prune, &c->gate, &prune, PRUNE_MS);
    until_init(&u->until, &c->gate, c->config.counters, &until, UNTIL_MS);
}
