/* sync/adopt.c - adopts batches whose owner died, and writes our own sign of life. One script takes a batch over, so
 * two processes normally do not scan the same batch. If they did, the ledger would still count each hit once. */
#include "base/heap.h"
#include "base/log.h"
#include "sync/inside.h"

#define ADOPT_QUEUE_MAX 1000

const struct run *run_find(const struct sync *s, const struct batch_id *id)
{
    list_for_each (node, &s->runs) {
        const struct run *r = CONTAINER_OF(node, struct run, link);
        if (memcmp(&r->batch.id, id, sizeof *id) == 0) return r;
    }
    return NULL;
}

bool adopt_known(const struct sync *s, const struct batch_id *id)
{
    for (uint32_t i = 0; i < s->queue_n; i++)
        if (memcmp(&s->queue[i].id, id, sizeof *id) == 0) return true;
    return keep_has(s, id) || run_find(s, id) != NULL;
}

void adopt_push(struct sync *s, const struct batch_id *id, bool in_recover)
{
    HEAP_GROW(s->queue, s->queue_n, s->queue_cap, 64);
    s->queue[s->queue_n++] = (struct adopted){.id = *id, .in_recover = in_recover};
}

static void adopt_file(struct sync *s, const struct adopt *a)
{
    bool all = a->ids_n < a->limit;
    if (!all) s->adopt_at_ms = 0;
    if (a->mode == ADOPT_INSTANCE && all) s->started = true;
    if (a->mode == ADOPT_OWN && all) s->own_due = false;
    /* With a map: to look for each of thousands in the queue would hold up hits. */
    struct map queued;
    map_init(&queued);
    for (uint32_t i = 0; a->ids_n > 0 && i < s->queue_n; i++)
        map_put(&queued, id_slice(&s->queue[i].id), NULL);
    for (uint32_t i = 0; i < a->ids_n; i++) {
        const struct batch_id *id = &a->ids[i];
        if (!map_has(&queued, id_slice(id)) && !keep_has(s, id) && run_find(s, id) == NULL)
            adopt_push(s, id, false);
    }
    map_close(&queued);
    if (a->ids_n > 0 || a->unknown != s->unknown)
        log_event(LOG_INFO, "adopted", "batches=%u unknown=%u stale=%d", a->ids_n, a->unknown,
                  a->mode == ADOPT_STALE);
    s->unknown = a->unknown;
}

static void on_adopted(struct adopt *a)
{
    struct sync *s = a->arg;
    s->adopting = false;
    s->requests_out--;
    if (a->lost) {
        s->adopt_at_ms = sync_now(s) + s->config.retry_most_ms / 5;
        log_event(LOG_WARN, "adopt_failed", "error=%s", LOGQ(a->text));
    } else {
        adopt_file(s, a);
    }
    heap_free(a->ids);
    a->ids = NULL;
}

/* (!) All of our own at once: they remain ours, so that each page of them would be full. */
static void adopt_ask(struct sync *s, enum adopt_mode mode)
{
    s->adopt = (struct adopt){.mode = mode,
                              .stale_ms = s->config.stale_ms,
                              .limit = mode == ADOPT_OWN ? UINT32_MAX : ADOPT_QUEUE_MAX,
                              .counters = s->counters,
                              .done = on_adopted,
                              .arg = s};
    s->adopting = true;
    s->requests_out++;
    s->ports.adopt(s->ports.arg, &s->adopt);
}

uint32_t sync_running(const struct sync *s, struct batch_id **out)
{
    *out = heap_alloc((s->runs_n + s->queue_n + s->kept_ids.n + 1) * sizeof **out);
    uint32_t n = keep_ids(s, *out);
    for (uint32_t i = 0; i < s->queue_n; i++)
        (*out)[n++] = s->queue[i].id;
    list_for_each (node, &s->runs) {
        const struct run *r = CONTAINER_OF(node, struct run, link);
        if (sm_now(&r->sm) != RUN_CLAIM) (*out)[n++] = r->batch.id;
    }
    return n;
}

void adopt_tick(struct sync *s, uint64_t now_ms)
{
    if (!s->adopting && s->redis_up && !s->stopping && now_ms >= s->adopt_at_ms) {
        s->adopt_at_ms = now_ms + s->config.adopt_ms;
        if (!s->started)
            adopt_ask(s, ADOPT_INSTANCE);
        else if (s->own_due)
            adopt_ask(s, ADOPT_OWN);
        else if (sync_may_merge(s) && s->queue_n < ADOPT_QUEUE_MAX && HOLDS(RULE_ADOPT))
            adopt_ask(s, ADOPT_STALE);
    }
    /* An adopted batch's fields count only once it is scanned; until then they are bounded by number. */
    uint32_t scans = 0;
    list_for_each (node, &s->runs)
        scans += sm_now(&CONTAINER_OF(node, struct run, link)->sm) == RUN_SCAN;
    while (s->queue_n > 0 && sync_may_merge(s) && !sync_runs_full(s) && s->fields < s->config.fields_max &&
           scans++ < s->config.scans_max) {
        struct adopted a = s->queue[--s->queue_n];
        run_adopted(run_create(s, &a.id), &a);
    }
    if (!s->redis_up || s->abandoned || now_ms < s->beat_at_ms) return;
    s->beat_at_ms = now_ms + s->config.beat_ms;
    struct batch_id *ids;
    uint32_t n = sync_running(s, &ids);
    s->ports.beat(s->ports.arg, ids, n);
    heap_free(ids);
}
