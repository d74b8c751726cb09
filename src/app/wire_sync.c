/* app/wire_sync.c - sync's ports given by the Redis links and the writer threads. Each request that both
 * rooms know in their own words is carried by one task; it lives from the call to the answer. */
#include "app/service.h"
#include "base/heap.h"
#include "base/latencies.h"
#include "base/stats.h"
#include "redis/discard_op.h"
#include "redis/scan_op.h"
#include <stdio.h>

static void port_claim(void *arg, struct claim *c)
{
    coalesce_claim(((struct service *)arg)->coalesce, c);
}

struct scan_task {
    struct redis_scan redis;
    struct scan *scan;
    uint64_t since_us;
};

_Static_assert((int)SCANNED_SEALED == SCAN_SEALED && (int)SCANNED_GONE == SCAN_GONE &&
                   (int)SCANNED_LOST == SCAN_LOST && (int)SCANNED_SHORT == SCAN_SHORT &&
                   (int)SCANNED_UNKNOWN == SCAN_UNKNOWN,
               "redis and sync name the outcomes of a scan in one order");

static void on_scanned(struct redis_scan *r)
{
    struct scan_task *task = CONTAINER_OF(r, struct scan_task, redis);
    struct scan *scan = task->scan;
    if (r->outcome == SCANNED_SEALED) histogram_add(&latencies.scan, mono_us() - task->since_us);
    scan->outcome = (enum scan_outcome)r->outcome;
    memcpy(scan->run_id, r->run_id, sizeof scan->run_id);
    memcpy(scan->text, r->text, sizeof scan->text);
    heap_free(task);
    scan->done(scan);
}

static void port_scan(void *arg, struct scan *scan)
{
    struct service *s = arg;
    struct scan_task *task = heap_zalloc(sizeof *task);
    task->scan = scan;
    task->since_us = mono_us();
    task->redis.batch = scan->batch;
    task->redis.counters = &s->settings->setup.counters;
    task->redis.done = on_scanned;
    redis_scan(&s->sync_link, &task->redis);
}

struct fence_task {
    struct redis_fence redis;
    struct fence *fence;
    uint64_t since_us;
};

static void on_fenced(struct redis_fence *r)
{
    struct fence_task *task = CONTAINER_OF(r, struct fence_task, redis);
    struct fence *fence = task->fence;
    if (r->passed) histogram_add(&latencies.barrier, mono_us() - task->since_us);
    fence->passed = r->passed;
    memcpy(fence->run_id, r->run_id, sizeof fence->run_id);
    memcpy(fence->text, r->text, sizeof fence->text);
    heap_free(task);
    fence->done(fence);
}

static void port_fence(void *arg, struct fence *fence)
{
    struct service *s = arg;
    struct fence_task *task = heap_zalloc(sizeof *task);
    task->fence = fence;
    task->since_us = mono_us();
    task->redis.done = on_fenced;
    redis_fence(&s->fences, &task->redis);
}

static void port_merge(void *arg, struct chunk *c)
{
    writer_pool_merge(((struct service *)arg)->pool, c);
}

struct discard_task {
    struct redis_discard redis;
    struct discard *discard;
};

static void on_discarded(struct redis_discard *r)
{
    struct discard_task *task = CONTAINER_OF(r, struct discard_task, redis);
    struct discard *discard = task->discard;
    discard->done_ok = r->done_ok;
    heap_free(task);
    discard->done(discard);
}

static void port_discard(void *arg, struct discard *discard)
{
    struct service *s = arg;
    struct discard_task *task = heap_zalloc(sizeof *task);
    task->discard = discard;
    task->redis.batch = discard->batch;
    task->redis.done = on_discarded;
    gate_merged(s, discard->batch->gen);
    redis_discard(&s->sync_link, &task->redis);
}

struct adopt_task {
    struct redis_adopt redis;
    struct adopt *adopt;
};

_Static_assert((int)REDIS_ADOPT_INSTANCE == ADOPT_INSTANCE && (int)REDIS_ADOPT_STALE == ADOPT_STALE &&
                   (int)REDIS_ADOPT_DEAD == ADOPT_DEAD,
               "redis and sync name the modes of adoption in one order");

static void on_adopted(struct redis_adopt *r)
{
    struct adopt_task *task = CONTAINER_OF(r, struct adopt_task, redis);
    struct adopt *adopt = task->adopt;
    adopt->ids = r->ids;
    adopt->ids_n = r->ids_n;
    adopt->unknown = r->unknown;
    adopt->lost = r->lost;
    memcpy(adopt->text, r->text, sizeof adopt->text);
    heap_free(task);
    adopt->done(adopt);
}

static void port_adopt(void *arg, struct adopt *adopt)
{
    struct service *s = arg;
    struct adopt_task *task = heap_zalloc(sizeof *task);
    task->adopt = adopt;
    task->redis.mode = (enum redis_adopt_mode)adopt->mode;
    task->redis.stale_ms = adopt->stale_ms;
    task->redis.limit = adopt->limit;
    task->redis.counters = &s->settings->setup.counters;
    task->redis.life = &s->settings->life;
    task->redis.done = on_adopted;
    redis_adopt(&s->sync_link, &task->redis);
}

struct due_task {
    struct redis_due redis;
    struct due_poll *poll;
};

static void on_due(struct redis_due *r)
{
    struct due_task *task = CONTAINER_OF(r, struct due_task, redis);
    struct due_poll *poll = task->poll;
    poll->names = r->names;
    poll->keys = r->keys;
    poll->scores = r->scores;
    poll->keys_n = r->keys_n;
    poll->lost = r->lost;
    heap_free(task);
    poll->done(poll);
}

static void port_due_poll(void *arg, struct due_poll *poll)
{
    struct service *s = arg;
    struct due_task *task = heap_zalloc(sizeof *task);
    task->poll = poll;
    task->redis.highest = poll->highest;
    task->redis.before_ms = poll->before_ms;
    task->redis.skip = poll->skip;
    task->redis.limit = poll->limit;
    task->redis.done = on_due;
    redis_due(&s->sync_link, &task->redis);
}

struct standing_task {
    struct redis_standing redis;
    struct standing *standing;
};

static void on_standing(struct redis_standing *r)
{
    struct standing_task *task = CONTAINER_OF(r, struct standing_task, redis);
    struct standing *standing = task->standing;
    standing->ids = r->ids;
    standing->ids_n = r->ids_n;
    standing->lost = r->lost;
    heap_free(task);
    standing->done(standing);
}

static void port_standing(void *arg, struct standing *standing)
{
    struct service *s = arg;
    struct standing_task *task = heap_zalloc(sizeof *task);
    task->standing = standing;
    task->redis.key = standing->key;
    task->redis.done = on_standing;
    redis_standing(&s->sync_link, &task->redis);
}

static void port_beat(void *arg, const struct batch_id *ids, uint32_t n)
{
    struct service *s = arg;
    redis_beat(&s->sync_link, &s->settings->life, slice_str(s->settings->host), ids, n);
}

static void port_hold_names(void *arg, const struct slice *names, uint32_t n)
{
    redis_hold_names(&((struct service *)arg)->sync_link, names, n);
}

/* (!) A run that slept with its host must know its age: the ledger may have been pruned meanwhile (sync/run.c). */
static uint64_t port_mono_ms(void *arg)
{
    (void)arg;
    return age_ms();
}

static int64_t port_redis_ms(void *arg)
{
    return redis_time_ms(&((struct service *)arg)->frame_link);
}

static void port_draw_id(void *arg, struct batch_id *id)
{
    (void)arg;
    batch_id_draw(id);
}

static uint64_t port_hits(void *arg)
{
    (void)arg;
    return (uint64_t)STAT_GET(hits);
}

void wire_sync(struct service *s)
{
    struct sync_ports ports = {
        .arg = s,
        .claim = port_claim,
        .scan = port_scan,
        .fence = port_fence,
        .merge = port_merge,
        .discard = port_discard,
        .adopt = port_adopt,
        .due_poll = port_due_poll,
        .standing = port_standing,
        .beat = port_beat,
        .hold_names = port_hold_names,
        .mono_ms = port_mono_ms,
        .redis_ms = port_redis_ms,
        .draw_id = port_draw_id,
        .hits = port_hits,
    };
    struct sync_config config = sync_config_default;
    config.give_up_ms = (uint64_t)s->settings->conf->ledger_keep_ms / 3;
    s->sync = sync_create(&ports, &s->settings->setup.counters, &config);
}
