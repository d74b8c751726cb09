/* engine/wire_sync.c - the ports of sync and of live totals, given by the Redis links and the writer threads. */
#include "base/heap.h"
#include "base/stats.h"
#include "engine/core.h"
#include "mysql/books.h"
#include "redis/batch.h"
#include "redis/index.h"
#include "redis/query_op.h"

PORT(port_claim, struct core *to, coalesce_claim(to->coalesce, c), struct claim *c)
PORT(port_scan, struct core *to, redis_scan(&to->scans, scan), struct scan *scan)
PORT(port_merge, struct core *to, writer_pool_merge(to->pool, c), struct chunk *c)

static void port_discard(void *arg, struct discard *discard)
{
    struct core *c = arg;
    gate_merged(&c->gate, discard->batch->gen);
    redis_discard(&c->sync_link, discard);
}

PORT(port_adopt, struct core *to, redis_adopt(&to->sync_link, adopt), struct adopt *adopt)
PORT(port_due_poll, struct core *to, redis_due(&to->sync_link, poll), struct due_poll *poll)

static void port_epoch_over(void *arg)
{
    gate_epoch_over(&((struct core *)arg)->gate);
}

static void port_beat(void *arg, const struct batch_id *ids, uint32_t n)
{
    struct core *c = arg;
    redis_beat(&c->sync_link, c->config.life, slice_str(c->config.host), ids, n);
}

PORT(port_hold_names, struct core *to, redis_hold_names(&to->sync_link, names, n), const struct slice *names,
     uint32_t n)

static void port_draw_id(void *arg, struct batch_id *id)
{
    (void)arg;
    batch_id_draw(id);
}

static uint64_t port_hits(void *arg)
{
    return coalesce_hits(((struct core *)arg)->coalesce);
}

static uint64_t port_felt_us(void *arg)
{
    (void)arg;
    return __atomic_load_n(&latencies.hit.sum_us, __ATOMIC_RELAXED);
}

void wire_sync(struct core *c)
{
    struct sync_ports ports = {
        .arg = c,
        .claim = port_claim,
        .scan = port_scan,
        .fence = core_fence,
        .merge = port_merge,
        .discard = port_discard,
        .adopt = port_adopt,
        .due_poll = port_due_poll,
        .standing = core_standing,
        .epoch_over = port_epoch_over,
        .beat = port_beat,
        .hold_names = port_hold_names,
        /* (!) A run of a host that was suspended must know its age: the ledger may have been pruned meanwhile. */
        .mono_ms = core_age_ms,
        .redis_ms = core_redis_ms,
        .draw_id = port_draw_id,
        .hits = port_hits,
        .felt_us = port_felt_us,
    };
    struct sync_config config = sync_config_default;
    config.give_up_ms = c->config.ledger_keep_ms / 3;
    config.keep_ms = c->config.mysql_keep_ms;
    config.wait_ms += (uint32_t)config.keep_ms; /* another tallyd's batch is waited for until it is gone */
    c->sync = sync_create(&ports, c->config.counters, &config);
}

/* --- the ports of live totals: Redis by the sync link, MySQL by a writer thread. --- */

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
