/* app/wire_ledger.c - the ports of pruning and of complete_until: MySQL by a writer thread, Redis by the sync link. */
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "mysql/ledger.h"

#define PRUNE_MS 600000
#define UNTIL_MS 10000

struct rows_task {
    struct db_job job;
    struct prune_rows *rows;
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

static void rows_ask(struct service *s, struct prune_rows *r, void (*work)(struct db *db, struct db_job *job))
{
    struct rows_task *t = heap_zalloc(sizeof *t);
    t->rows = r;
    t->keep_s = (uint64_t)s->settings->conf->ledger_keep_ms / 1000;
    t->job.work = work;
    t->job.done = rows_end;
    service_job(s, &t->job);
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
    rows_ask(arg, r, cutoff_work);
}

static void prune_work(struct db *db, struct db_job *job)
{
    struct rows_task *t = CONTAINER_OF(job, struct rows_task, job);
    struct prune_rows *r = t->rows;
    t->prune = (struct ledger_prune){
        .standing = r->standing, .standing_n = r->standing_n, .step = 1000, .steps_max = 100};
    memcpy(t->prune.cutoff, r->cutoff, sizeof r->cutoff);
    r->ok = ledger_prune(db, &t->prune, &t->error) == ERR_NONE;
    r->more = t->prune.more;
}

static void port_rows(void *arg, struct prune_rows *r)
{
    r->ok = false;
    rows_ask(arg, r, prune_work);
}

static void port_standing(void *arg, struct standing *standing)
{
    redis_standing(&((struct service *)arg)->sync_link, standing);
}

static uint64_t port_mono_ms(void *arg)
{
    (void)arg;
    return mono_ms();
}

/* --- complete_until --- */

struct until_task {
    struct db_job job;
    struct until_write *write;
    const struct counters *counters;
};

static void until_work(struct db *db, struct db_job *job)
{
    struct until_task *t = CONTAINER_OF(job, struct until_task, job);
    struct until_write *w = t->write;
    for (size_t i = 0; i < t->counters->n && !w->failed; i++)
        w->failed = ledger_complete_until(db, t->counters->all[i].name, w->until[i], &w->error) != ERR_NONE;
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
    struct service *s = arg;
    struct until_task *t = heap_zalloc(sizeof *t);
    t->write = w;
    t->counters = &s->settings->setup.counters;
    t->job.work = until_work;
    t->job.done = until_worked;
    service_job(s, &t->job);
}

static void port_dirty(void *arg, struct dirty_state *d)
{
    redis_dirty_state(&((struct service *)arg)->sync_link, d);
}

static void port_batches(void *arg, struct batch_list *b)
{
    redis_batch_list(&((struct service *)arg)->sync_link, b);
}

static int64_t port_redis_ms(void *arg)
{
    return redis_time_ms(&((struct service *)arg)->frame_link);
}

static int64_t port_lag_ms(void *arg)
{
    const struct service *s = arg;
    return coalesce_lag_ms(s->coalesce, (uint32_t)s->settings->conf->redis_timeout_ms);
}

void wire_ledger(struct service *s)
{
    struct prune_ports prune = {.arg = s,
                                .cutoff = port_cutoff,
                                .standing = port_standing,
                                .rows = port_rows,
                                .mono_ms = port_mono_ms};
    struct until_ports until = {.arg = s,
                                .dirty = port_dirty,
                                .batches = port_batches,
                                .write = port_write,
                                .redis_ms = port_redis_ms,
                                .lag_ms = port_lag_ms,
                                .mono_ms = port_mono_ms};
    prune_init(&s->prune, &s->gate, &prune, PRUNE_MS);
    until_init(&s->until, &s->gate, &s->settings->setup.counters, &until, UNTIL_MS);
}
