/* sync/stall.c - detects that merging makes no progress, whatever the reason: something of a counter is due, its oldest
 * hit has waited for `every` and 30 s, and nothing of the counter was merged for as long. Logged once, and once more
 * when merging goes on. */
#include "base/log.h"
#include "sync/inside.h"

#define STALL_MS 30000
#define LOOK_MS 1000
#define UNREAD_MS 60000 /* for `every` of a batch whose counter is not known yet */

static void stall_waits(struct stall *w, uint64_t since_ms)
{
    if (w->due_ms == 0 || since_ms < w->due_ms) w->due_ms = since_ms;
    w->waits = true;
}

void stall_page(struct sync *s, const struct due_poll *p)
{
    uint64_t now_ms = sync_now(s);
    int64_t redis_ms = s->ports.redis_ms(s->ports.arg);
    if (p->lost) return;
    for (size_t i = 0; p->skip == 0 && i < s->counters->n; i++) { /* a pass begins */
        struct family *f = &s->families[i];
        f->index_due = f->index_seen;
        f->index_seen = false;
    }
    for (uint32_t i = 0; i < p->keys_n; i++) {
        const struct counter *c = counters_match(s->counters, p->keys[i]);
        int64_t age_ms = redis_ms - p->scores[i];
        if (c == NULL || age_ms < INT64_C(1000) * c->every_s) continue;
        struct family *f = family_of(s, c);
        f->index_seen = f->index_seen || family_held(f) || !sync_may_merge(s); /* others are queued now */
        stall_waits(&f->stall, (uint64_t)age_ms < now_ms ? now_ms - (uint64_t)age_ms : 1);
    }
}

static const char *stall_why(const struct sync *s, const struct family *f)
{
    if (!s->redis_up) return "redis_down";
    if (!s->mysql_up) return "mysql_down";
    if (s->hold) return "merges_held";
    if (f == NULL) return "batch_not_read";
    if (family_held(f) || family_refuses(f)) return "table_refuses";
    return f->runs > 0 ? "batch_stands" : "not_claimed";
}

/* f NULL: of batches whose counter is not known yet. Files how long it has stalled. */
static void stall_judge(struct sync *s, struct stall *w, const struct family *f, uint64_t every_ms,
                        uint64_t now_ms)
{
    uint64_t since_ms = w->due_ms > w->merged_ms ? w->due_ms : w->merged_ms;
    w->why = stall_why(s, f);
    w->for_s = 0;
    if (!w->waits) w->due_ms = 0;
    if (w->waits && now_ms > since_ms + every_ms + STALL_MS) w->for_s = (now_ms - since_ms) / 1000;
    w->waits = false;
    const struct slice name = f != NULL ? f->counter->name : SLICE("-");
    if (w->for_s > 0 && !w->told)
        log_event(LOG_ERROR, "merging_stalled", "counter=" SLICE_FMT " for_s=%llu why=%s", SLICE_ARG(name),
                  (unsigned long long)w->for_s, w->why);
    if (w->for_s == 0 && w->told)
        log_event(LOG_WARN, "merging_goes_on", "counter=" SLICE_FMT, SLICE_ARG(name));
    w->told = w->for_s > 0;
}

void stall_tick(struct sync *s, uint64_t now_ms)
{
    if (now_ms < s->stall_at_ms || s->stopping) return;
    s->stall_at_ms = now_ms + LOOK_MS;
    for (size_t i = 0; i < s->counters->n; i++)
        s->families[i].runs = 0;
    list_for_each (node, &s->runs) {
        struct run *r = CONTAINER_OF(node, struct run, link);
        if (r->family != NULL) r->family->runs++;
        stall_waits(r->family != NULL ? &r->family->stall : &s->stall, r->born_ms);
    }
    stall_judge(s, &s->stall, NULL, UNREAD_MS, now_ms);
    uint64_t worst_s = s->stall.for_s;
    for (size_t i = 0; i < s->counters->n; i++) {
        struct family *f = &s->families[i];
        if (f->names.n > 0 || f->index_due || f->index_seen) stall_waits(&f->stall, now_ms);
        stall_judge(s, &f->stall, f, UINT64_C(1000) * f->counter->every_s, now_ms);
        if (f->stall.for_s > worst_s) worst_s = f->stall.for_s;
    }
    s->stalled_s = worst_s;
}

uint64_t sync_stalled_s(const struct sync *s)
{
    return s->stalled_s;
}

void sync_stalled(const struct sync *s, void (*each)(void *arg, struct slice counter, const char *why),
                  void *arg)
{
    if (s->stall.told) each(arg, SLICE("-"), s->stall.why);
    for (size_t i = 0; i < s->counters->n; i++)
        if (s->families[i].stall.told) each(arg, s->families[i].counter->name, s->families[i].stall.why);
}
