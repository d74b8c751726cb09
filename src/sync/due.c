/* sync/due.c - what is due, two queues a counter, and when it is claimed: what is due by time as soon as may be, what
 * is due by its hits alone when pace.c has rows for it. The queues are bounded: what does not fit is still in the
 * dirty index, which is asked every poll_ms for what is older than its counter's `every`; so a store that goes quiet
 * is merged, too, and so is what another process left, and what is paced. */
#include "base/heap.h"
#include "sync/engine.h"

#define LOOK_TIMES 20 /* as many poll_ms, while nothing can be merged, from a look at the index to the next */

struct family *family_of(struct sync *s, const struct counter *c)
{
    PRE(c >= s->counters->all && c < s->counters->all + s->counters->n);
    return &s->families[c - s->counters->all];
}

/* The last places are for what is due by time: a page of the index always finds room, and in it the paced names that
 * `every` has reached. */
static bool names_full(const struct sync *s, enum due_why why)
{
    return s->due_n + (why == DUE_HITS ? CLAIM_HASHES_MAX : 0) >= s->config.due_max;
}

static void name_into(struct sync *s, struct family *f, struct due_name *d, bool paced)
{
    d->paced = paced;
    list_push(paced ? &f->paced : &f->queue, &d->link);
    f->paced_n += paced;
    s->paced_n += paced;
}

static void name_out(struct sync *s, struct family *f, struct due_name *d)
{
    list_remove(&d->link);
    f->paced_n -= d->paced;
    s->paced_n -= d->paced;
}

bool family_add(struct sync *s, struct family *f, struct slice key, enum due_why why)
{
    if (family_held(f)) return false;
    struct due_name *d = map_get(&f->names, key);
    if (d != NULL && (why == DUE_HITS || !d->paced)) return true;
    if (d != NULL) {
        name_out(s, f, d);
        name_into(s, f, d, false);
        return true;
    }
    if (names_full(s, why)) return false;
    d = heap_zalloc(sizeof *d + key.n);
    d->n = key.n;
    memcpy(d->name, key.p, key.n);
    name_into(s, f, d, why == DUE_HITS);
    map_put(&f->names, key, d);
    s->due_n++;
    return true;
}

static void name_drop(struct sync *s, struct family *f, struct due_name *d)
{
    map_remove(&f->names, slice_of(d->name, d->n));
    name_out(s, f, d);
    heap_free(d);
    s->due_n--;
}

void family_take(struct sync *s, struct family *f, struct list *from, struct buf *bytes, struct slice *keys,
                 uint32_t n)
{
    size_t total = 0;
    struct list *node = from->next;
    for (uint32_t i = 0; i < n; i++, node = node->next)
        total += CONTAINER_OF(node, struct due_name, link)->n;
    buf_reserve(bytes, total); /* so that it does not move below */
    for (uint32_t i = 0; i < n; i++) {
        struct due_name *d = CONTAINER_OF(from->next, struct due_name, link);
        keys[i] = slice_of(bytes->p + bytes->n, d->n);
        buf_put(bytes, d->name, d->n);
        name_drop(s, f, d);
    }
}

void family_release(struct sync *s, struct family *f)
{
    while (!list_empty(&f->paced)) {
        struct due_name *d = CONTAINER_OF(f->paced.next, struct due_name, link);
        name_out(s, f, d);
        name_into(s, f, d, false);
    }
}

void family_forget(struct sync *s, struct family *f)
{
    family_release(s, f);
    while (!list_empty(&f->queue)) {
        struct due_name *d = CONTAINER_OF(f->queue.next, struct due_name, link);
        struct slice key = slice_of(d->name, d->n);
        wait_names_back(s, &key, 1);
        name_drop(s, f, d);
    }
}

void due_close(struct sync *s)
{
    for (size_t i = 0; i < s->counters->n; i++) {
        family_forget(s, &s->families[i]);
        map_close(&s->families[i].names);
    }
}

void sync_due(struct sync *s, const struct counter *c, struct slice key, enum due_why why)
{
    family_add(s, family_of(s, c), key, why);
}

static bool may_claim(const struct sync *s, const struct family *f, uint64_t now_ms)
{
    if (!sync_may_merge(s) || family_held(f) || f->holds > 0) return false;
    if (f->names.n == 0 || now_ms < f->pause_ms) return false;
    if (s->claims_out >= s->config.claims_max || s->runs_n >= s->config.runs_max) return false;
    return s->fields < s->config.fields_max;
}

static void claim_names(struct sync *s, struct family *f, struct list *from, uint32_t n)
{
    struct batch_id id;
    s->ports.draw_id(s->ports.arg, &id);
    run_claim(run_create(s, &id), f, from, n);
}

static bool claim_queued(struct sync *s, struct family *f, uint64_t now_ms)
{
    uint32_t n = family_queued(f);
    if (n == 0 || (now_ms < f->next_ms && !f->hurry)) return false;
    if (n > CLAIM_HASHES_MAX) n = CLAIM_HASHES_MAX;
    f->next_ms = n == CLAIM_HASHES_MAX ? now_ms : now_ms + s->config.claim_gap_ms;
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

/* A name is due when its own counter's `every` has passed since its score. One that no counter of ours claims may be
 * another service's: it is held only when nobody has merged it for long. Returns how many of the page stay. */
static uint32_t file_names(struct sync *s, struct due_poll *p, bool all)
{
    struct slice *unknown = heap_alloc((p->keys_n + 1) * sizeof *unknown);
    uint32_t unknown_n = 0, stays = 0;
    int64_t now_ms = s->ports.redis_ms(s->ports.arg);
    for (uint32_t i = 0; i < p->keys_n; i++) {
        const struct counter *c = counters_match(s->counters, p->keys[i]);
        bool is_due = c != NULL && (all || p->scores[i] <= now_ms - INT64_C(1000) * c->every_s);
        bool forsaken = c == NULL && p->scores[i] <= now_ms - (int64_t)s->config.forsaken_ms;
        if (forsaken)
            unknown[unknown_n++] = p->keys[i];
        else if (c == NULL || !is_due || family_held(family_of(s, c)))
            stays++;
        else
            family_add(s, family_of(s, c), p->keys[i], DUE_TIME);
    }
    if (unknown_n > 0) s->ports.hold_names(s->ports.arg, unknown, unknown_n);
    heap_free(unknown);
    return stays;
}

void due_poll_free(struct due_poll *p)
{
    buf_free(&p->names);
    heap_free(p->keys);
    heap_free(p->scores);
    p->keys = NULL;
    p->scores = NULL;
}

/* Names of counters with a long `every`, or of held ones, may stand first in the index and stay there: the
 * next page begins behind them. */
void due_poll_names(struct sync *s, struct due_poll *p, bool all)
{
    uint32_t stays = p->lost ? 0 : file_names(s, p, all);
    bool more = !p->lost && p->keys_n == p->limit;
    p->skip = more ? p->skip + stays : 0;
    due_poll_free(p);
}

static void on_polled(struct due_poll *p)
{
    struct sync *s = p->arg;
    s->polling = false;
    s->requests_out--;
    stall_page(s, p);
    if (!sync_may_merge(s)) { /* looked at, and not queued */
        due_poll_free(p);
        return;
    }
    bool full = !p->lost && p->keys_n == p->limit;
    due_poll_names(s, p, false);
    if (full) s->poll_at_ms = 0;
    /* Not for pages in which nothing is due: those are asked for at the pace of the tick. */
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

static void poll_if_time(struct sync *s, uint64_t now_ms)
{
    bool merges = sync_may_merge(s);
    if (s->polling || !s->redis_up || !s->started || s->stopping || now_ms < s->poll_at_ms ||
        s->counters->n == 0)
        return;
    if (s->due_n + CLAIM_HASHES_MAX > s->config.due_max || s->fields >= s->config.fields_max) return;
    s->poll_at_ms = now_ms + (merges ? 1 : LOOK_TIMES) * s->config.poll_ms;
    uint32_t skip = merges ? s->poll.skip : 0;
    s->poll = (struct due_poll){.skip = skip, .limit = CLAIM_HASHES_MAX, .done = on_polled, .arg = s};
    s->poll.before_ms = s->ports.redis_ms(s->ports.arg) - shortest_every_ms(s);
    s->polling = true;
    s->requests_out++;
    s->ports.due_poll(s->ports.arg, &s->poll);
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

void due_tick(struct sync *s, uint64_t now_ms)
{
    pace_tick(s, now_ms);
    poll_if_time(s, now_ms);
    while (claim_next(s, now_ms))
        continue;
}
