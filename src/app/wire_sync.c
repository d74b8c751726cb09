/* app/wire_sync.c - sync's ports given by the Redis links and the writer threads. */
#include "app/service.h"
#include "base/stats.h"
#include "redis/discard_op.h"
#include "redis/scan_op.h"

static void port_claim(void *arg, struct claim *c)
{
    coalesce_claim(((struct service *)arg)->coalesce, c);
}

static void port_scan(void *arg, struct scan *scan)
{
    redis_scan(&((struct service *)arg)->sync_link, scan);
}

static void port_fence(void *arg, struct fence *fence)
{
    redis_fence(&((struct service *)arg)->fences, fence);
}

static void port_merge(void *arg, struct chunk *c)
{
    writer_pool_merge(((struct service *)arg)->pool, c);
}

static void port_discard(void *arg, struct discard *discard)
{
    struct service *s = arg;
    gate_merged(&s->gate, discard->batch->gen);
    redis_discard(&s->sync_link, discard);
}

static void port_adopt(void *arg, struct adopt *adopt)
{
    redis_adopt(&((struct service *)arg)->sync_link, adopt);
}

static void port_due_poll(void *arg, struct due_poll *poll)
{
    redis_due(&((struct service *)arg)->sync_link, poll);
}

static void port_standing(void *arg, struct standing *standing)
{
    redis_standing(&((struct service *)arg)->sync_link, standing);
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
