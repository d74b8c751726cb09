/* sync/sync.c - the public face, and the tick on which all timers of the machine depend. */
#include "sync/sync.h"
#include "base/heap.h"
#include "base/log.h"
#include "sync/inside.h"

#ifdef TALLYD_RULES
uint32_t sync_rules_off;
#endif

const struct sync_config sync_config_default = {
    .runs_max = 1024,
    .claims_max = CLAIMS_OUT_MAX,
    .chunks_max = 8,
    .fields_max = 500000,
    .claim_gap_ms = 100,
    .claim_us = 500,
    .claim_least = 32,
    .busy_ms = 1000,
    .poll_ms = 250,
    .beat_ms = 10000,
    .adopt_ms = 10000,
    .stale_ms = 60000,
    .retry_ms = 100,
    .retry_most_ms = 5000,
    .held_ms = 30000,
    .give_up_ms = UINT64_C(7) * 24 * 3600 * 1000 / 3,
    .forsaken_ms = 600000,
    .scans_max = 16,
    .wait_ms = 30000,
    .due_max = 20000,
    .rows_burst = 1000,
    .rows_free_per_s = 10,
    .hits_a_row = 2000,
    .paced_wait_ms = 1000,
};

struct sync *sync_create(const struct sync_ports *ports, const struct counters *counters,
                         const struct sync_config *config)
{
    PRE(config->claims_max <= CLAIMS_OUT_MAX);
    struct sync *s = heap_zalloc(sizeof *s);
    s->ports = *ports;
    s->config = *config;
    s->counters = counters;
    s->families = heap_zalloc((counters->n + 1) * sizeof *s->families);
    for (size_t i = 0; i < counters->n; i++) {
        s->families[i].counter = &counters->all[i];
        map_init(&s->families[i].names);
        map_init(&s->families[i].stores);
        list_init(&s->families[i].queue);
        list_init(&s->families[i].paced);
    }
    list_init(&s->runs);
    list_init(&s->waits);
    list_init(&s->kept);
    map_init(&s->kept_ids);
    s->discarded = heap_zalloc(DISCARDED_MAX * sizeof *s->discarded);
    pace_init(s);
    size_init(s);
    rest_init(s);
    return s;
}

/* `started` is set by the answer to the first adoption: this instance's old batches come before any claim of its
 * own. */
void sync_start(struct sync *s)
{
    PRE(!s->started && !s->stopping);
    s->adopt_at_ms = 0;
    s->redis_up = true;
}

void sync_tick(struct sync *s)
{
    uint64_t now_ms = sync_now(s);
    adopt_tick(s, now_ms);
    if (sync_may_merge(s)) {
        for (struct list *node = s->runs.next, *next; node != &s->runs; node = next) {
            next = node->next;
            run_resume_if_due(CONTAINER_OF(node, struct run, link), now_ms);
        }
    }
    runs_merge_on(s);
    keep_tick(s, now_ms);
    refused_tick(s, now_ms);
    due_tick(s, now_ms);
    wait_tick(s, now_ms);
    recover_tick(s);
    stall_tick(s, now_ms);
}

void sync_turn(struct sync *s)
{
    runs_merge_on(s);
    if (!s->eager) return;
    s->eager = false;
    sync_tick(s);
}

static void wake_runs(struct sync *s)
{
    list_for_each (node, &s->runs) {
        struct run *r = CONTAINER_OF(node, struct run, link);
        if (!r->held) r->resume_ms = 0;
        r->attempts = 0;
    }
}

/* (!) Redis may now have what it had earlier: a batch that we discarded exists again, and no other tallyd adopts it
 * until its sign of life is old. */
void sync_redis(struct sync *s, bool up)
{
    if (up && !s->redis_up && s->started) {
        wake_runs(s);
        s->own_due = true;
        s->adopt_at_ms = 0;
    }
    if (up != s->redis_up) s->poll_at_ms = 0;
    s->redis_up = up;
    if (!up) wait_redis_down(s);
}

void sync_mysql(struct sync *s, bool up)
{
    if (up && !s->mysql_up) {
        keep_mysql_back(s);
        wake_runs(s);
        pace_release(s);
    }
    if (!up && s->mysql_up && s->config.keep_ms > 0) wait_mysql_down(s);
    if (up != s->mysql_up) s->poll_at_ms = 0;
    s->mysql_up = up;
}

void sync_mysql_unchecked(struct sync *s, bool unchecked)
{
    s->mysql_unchecked = unchecked;
}

void sync_epoch(struct sync *s, const struct epoch *epoch)
{
    s->epoch = *epoch;
}

void sync_hold(struct sync *s, bool hold, const char *why)
{
    if (hold && !s->hold) log_event(LOG_ERROR, "merges_held", "why=%s", LOGQ(why));
    if (!hold && s->hold) {
        log_event(LOG_WARN, "merges_go_on", "why=%s", LOGQ(why));
        pace_release(s);
    }
    if (hold != s->hold) s->poll_at_ms = 0;
    s->hold = hold;
}

void sync_held(const struct sync *s,
               void (*each)(void *arg, const struct batch_id *id, const char *why, const char *text),
               void *arg)
{
    list_for_each (node, &s->runs) {
        const struct run *r = CONTAINER_OF(node, struct run, link);
        if (r->held) each(arg, &r->batch.id, r->held_why, r->held_text);
    }
}

void sync_counter_fit(struct sync *s, const struct counter *c, bool fit)
{
    struct family *f = family_of(s, c);
    f->unfit = !fit;
    if (!fit) family_forget(s, f);
}

void sync_counter_hold(struct sync *s, const struct counter *c)
{
    family_of(s, c)->holds++;
}

void sync_counter_release(struct sync *s, const struct counter *c)
{
    struct family *f = family_of(s, c);
    PRE(f->holds > 0);
    f->holds--;
    s->eager = true; /* what became due meanwhile */
}

void sync_stop(struct sync *s)
{
    s->stopping = true;
}

void sync_abandon(struct sync *s)
{
    s->stopping = s->abandoned = true;
    runs_merge_on(s); /* which stops those that rest */
}

bool sync_quiet(const struct sync *s)
{
    return s->requests_out == 0 && list_empty(&s->rest.waiting);
}

void sync_destroy(struct sync **s)
{
    if (*s == NULL) return;
    PRE(sync_quiet(*s));
    while (!list_empty(&(*s)->runs))
        run_free(CONTAINER_OF((*s)->runs.next, struct run, link));
    keep_close(*s);
    due_close(*s);
    heap_free((*s)->discarded);
    heap_free((*s)->families);
    heap_free((*s)->queue);
    heap_free(*s);
    *s = NULL;
}
