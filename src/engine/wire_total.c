/* engine/wire_total.c - the ports of live totals: Redis by the sync link, MySQL by a writer thread. */
#include "base/heap.h"
#include "engine/core.h"
#include "mysql/books.h"
#include "redis/pending.h"

PORT(port_total_redis, struct core *to, redis_total(&to->sync_link, r), struct total_read *r)

struct stored_task {
    struct db_job job;
    struct total_stored *stored;
};

static void stored_work(struct db *db, struct db_job *job)
{
    struct total_stored *s = CONTAINER_OF(job, struct stored_task, job)->stored;
    s->code = books_totals_read(db, &s->books, &s->error);
    if (s->code == ERR_NONE) total_sum(s);
}

static void stored_worked(struct db_job *job)
{
    struct stored_task *t = CONTAINER_OF(job, struct stored_task, job);
    struct total_stored *s = t->stored;
    s->ran = job->ran;
    heap_free(t);
    s->done(s);
}

static void port_total_mysql(void *arg, struct total_stored *stored)
{
    struct stored_task *t = heap_zalloc(sizeof *t);
    t->stored = stored;
    t->job.work = stored_work;
    t->job.done = stored_worked;
    core_job(arg, &t->job);
}

void wire_totals(struct core *c, struct totals *t)
{
    struct total_ports ports = {
        .arg = c, .redis = port_total_redis, .mysql = port_total_mysql, .mono_ms = core_age_ms};
    totals_init(t, c->sync, &c->gate, &ports, c->config.coalesce.busy_ms, c->config.ledger_keep_ms / 3);
}
