/* sync/due.c - when due names are claimed: by time as soon as possible, by hits alone when pace.c has rows for it.
 * Every poll_ms tallyd asks the dirty index for names older than their counter's `every`. So a store without further
 * hits is merged, too, and so are names that another process left, that are paced, or that had no place in a queue. */
#include "sync/inside.h"

#define LOOK_TIMES 20 /* as many poll_ms, while nothing can be merged, from a look at the index to the next */

static bool may_claim(const struct sync *s, const struct family *f, uint64_t now_ms)
{
    if (!sync_may_merge(s) || family_held(f) || f->holds > 0) return false;
    if (f->names.n == 0 || now_ms < f->pause_ms) return false;
    if (!size_room(s) || sync_runs_full(s)) return false;
    return s->fields < s->config.fields_max;
}

static void claim_names(struct sync *s, struct family *f, struct list *from, uint32_t n)
{
    struct batch_id id;
    s->ports.draw_id(s->ports.arg, &id);
    run_claim(run_create(s, &id), f, from, n);
    refused_tried(s, f);
}

static bool claim_queued(struct sync *s, struct family *f, uint64_t now_ms)
{
    uint32_t n = family_queued(f);
    if (n == 0 || (now_ms < f->next_ms && !f->hurry)) return false;
    uint32_t full = size_now(s);
    if (n > full) n = full;
    f->next_ms = n == full || s->behind ? now_ms : now_ms + s->config.claim_gap_ms;
    claim_names(s, f, &f->queue, n);
    if (list_empty(&f->queue)) f->hurry = false;
    return true;
}

static bool claim_paced(struct sync *s, struct family *f, uint64_t now_ms)
{
    uint32_t n = pace_ready(s, f, now_ms);
    if (n == 0) return false;
    f->paced_ms = now_ms;
    claim_names(s, f, &f->paced, n);
    return true;
}

static void due_polled(struct due_poll *p)
{
    struct sync *s = p->arg;
    s->polling = false;
    s->requests_out--;
    stall_page(s, p);
    if (!sync_may_merge(s)) { /* looked at, and not queued */
        s->behind = false;
        due_poll_free(p);
        return;
    }
    if (!p->lost) s->behind = p->keys_n == p->limit;
    due_poll_names(s, p, false);
    /* Not for pages in which nothing is due: those are requested at the pace of the tick. */
    s->eager = s->due_n > s->paced_n;
}

static int64_t shortest_every_ms(const struct sync *s)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < s->counters->n; i++) {
        int64_t every = INT64_C(1000) * s->counters->all[i].every_s;
        if (every < least) least = every;
    }
    return least;
}

static bool poll_wanted(const struct sync *s, uint64_t now_ms)
{
    if (!s->redis_up || !s->started || s->stopping || s->counters->n == 0) return false;
    if (s->due_n + CLAIM_HASHES_MAX > s->config.due_max || s->fields >= s->config.fields_max) return false;
    /* The index has more than the last page, and less than a claim of that page is left. */
    return now_ms >= s->poll_at_ms || (s->behind && s->due_n - s->paced_n < size_now(s));
}

/* In turn: a counter with much to claim does not keep the others from what all share. */
static bool claim_next(struct sync *s, uint64_t now_ms)
{
    size_t n = s->counters->n;
    for (size_t i = 0; i < n; i++) {
        size_t at = (s->claim_at + i) % n;
        struct family *f = &s->families[at];
        if (!may_claim(s, f, now_ms)) continue;
        if (!claim_queued(s, f, now_ms) && !claim_paced(s, f, now_ms)) continue;
        s->claim_at = (at + 1) % n;
        return true;
    }
    return false;
}

/* While pages are full, a page and a claim take turns: a page that is read during a claim has the claimed names once
 * more. */
static bool takes_turns(const struct sync *s)
{
    return s->behind && (s->polling || s->claims_out > 0);
}

void due_tick(struct sync *s, uint64_t now_ms)
{
    pace_tick(s, now_ms);
    size_tick(s, now_ms);
    do {
        bool wanted = !s->polling && poll_wanted(s, now_ms);
        if (wanted && takes_turns(s)) return;
        if (wanted) {
            bool merges = sync_may_merge(s);
            s->poll_at_ms = now_ms + (merges ? 1 : LOOK_TIMES) * s->config.poll_ms;
            uint32_t skip = merges ? s->poll.skip : 0;
            s->poll = (struct due_poll){.skip = skip, .limit = size_page(s), .done = due_polled, .arg = s};
            s->poll.before_ms = s->ports.redis_ms(s->ports.arg) - shortest_every_ms(s);
            s->polling = true;
            s->requests_out++;
            s->ports.due_poll(s->ports.arg, &s->poll);
        }
        if (s->polling && takes_turns(s)) return;
    } while (claim_next(s, now_ms));
}
