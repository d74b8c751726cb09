/* sync/wait.c - CTR.SYNC: waits until every batch that held the key (ALL: that existed) at the call is merged, own or
 * not.
 *   HIGHEST  of ALL: the highest score in the dirty index now. What was dirty at the call has no higher one, even if
 *            clocks have leapt since
 *   DIRTY    what was dirty at the call is claimed now: one key is queued; for ALL the index is paged through
 *   CLAIMS   the claims begun until then are answered
 *   ASK      which batches with the key exist?
 *   WATCH    until none of them exists any more, except those that this process merged and keeps (keep.c)
 * All of it is of one history of one server, or it ends with TRYAGAIN (sync/README.md, rule S42). ALL uses the dirty
 * index, so it misses a hash whose ZADD another tallyd owes at that moment (one frame); a key does not. */
#include "base/heap.h"
#include "sync/inside.h"

enum { WAIT_HIGHEST, WAIT_DIRTY, WAIT_CLAIMS, WAIT_ASK, WAIT_WATCH };
#define WATCH_MS 50
#define PAGE_NAMES                                                                                           \
    (8 * CLAIM_HASHES_MAX) /* a claim takes some 4 ms, so that these are claimed by the next look */

static void sync_wait_end(struct sync_wait *w, enum ask_outcome outcome)
{
    w->outcome = outcome;
    w->answered = true; /* wait_tick calls done() when no request of it is out */
}

static bool held_back(const struct sync *s, const struct sync_wait *w)
{
    const struct counter *c = w->key.n == 0 ? NULL : counters_match(s->counters, w->key);
    for (size_t i = 0; i < s->counters->n; i++) {
        const struct family *f = &s->families[i];
        bool waits = c == NULL ? f->refused_runs > 0 : c == f->counter && refused_waits(s, f, w->key, false);
        if (waits || ((c == NULL || c == f->counter) && (family_held(f) || family_refuses(f)))) return true;
    }
    return s->hold;
}

static void hurry(struct sync *s)
{
    for (size_t i = 0; i < s->counters->n; i++)
        s->families[i].hurry = family_queued(&s->families[i]) > 0;
}

/* --- HIGHEST --- */

static void dirty_done(struct sync_wait *w);

static void on_highest(struct due_poll *p)
{
    struct sync_wait *w = p->arg;
    w->asking = false;
    w->sync->requests_out--;
    if (p->lost)
        w->ask_at_ms = sync_now(w->sync) + WATCH_MS;
    else if (p->keys_n == 0)
        dirty_done(w);
    else
        w->phase = WAIT_DIRTY;
    if (p->keys_n > 0) w->before_ms = p->scores[0];
    due_poll_free(p);
}

static void ask_highest(struct sync_wait *w)
{
    struct sync *s = w->sync;
    pace_release(s);
    hurry(s);
    w->poll = (struct due_poll){.highest = true, .limit = 1, .done = on_highest, .arg = w};
    w->asking = true;
    s->requests_out++;
    s->ports.due_poll(s->ports.arg, &w->poll);
}

/* --- DIRTY --- */

static void dirty_done(struct sync_wait *w)
{
    w->claim_mark = w->sync->claim_marks;
    w->phase = WAIT_CLAIMS;
}

static void on_dirty(struct due_poll *p)
{
    struct sync_wait *w = p->arg;
    w->asking = false;
    w->sync->requests_out--;
    w->ask_at_ms = sync_now(w->sync) + WATCH_MS;
    bool more = p->lost || p->keys_n > 0;
    due_poll_names(w->sync, p, true);
    w->sync->eager = true;
    if (!more) dirty_done(w);
}

/* For ALL the index is asked, page by page, until nothing is left in it that was dirty at the call. Names due since
 * then do not matter, and a name may be queued twice. */
static void step_dirty(struct sync_wait *w)
{
    struct sync *s = w->sync;
    if (w->key.n == 0) pace_release(s);
    hurry(s);
    if (w->key.n > 0) {
        struct family *f = family_of(s, counters_match(s->counters, w->key));
        if (!w->queued)
            w->queued = family_add(w->sync, f, w->key, DUE_TIME);
        else if (!map_has(&f->names, w->key))
            dirty_done(w);
    } else if (s->due_n - s->paced_n < CLAIM_HASHES_MAX && s->due_n + CLAIM_HASHES_MAX <= s->config.due_max) {
        uint32_t room = s->config.due_max - (uint32_t)s->due_n;
        uint32_t limit = room < PAGE_NAMES ? room : PAGE_NAMES;
        w->poll = (struct due_poll){.before_ms = w->before_ms, .limit = limit, .done = on_dirty, .arg = w};
        w->asking = true;
        s->requests_out++;
        s->ports.due_poll(s->ports.arg, &w->poll);
    }
}

/* --- CLAIMS --- */

static void step_claims(struct sync_wait *w)
{
    list_for_each (node, &w->sync->runs) {
        const struct run *r = CONTAINER_OF(node, struct run, link);
        if (sm_now(&r->sm) == RUN_CLAIM && r->claim_no <= w->claim_mark) return;
    }
    w->phase = WAIT_ASK;
}

/* --- ASK, WATCH --- */

/* Merged but for hashes that wait for locks, the key not among them. */
static bool key_is_in(const struct sync_wait *w, const struct run *r)
{
    return w->key.n > 0 && r->left_era == w->sync->mysql_era && r->left_era > 0 &&
           !ledger_names_have(buf_slice(&r->left), w->key);
}

static bool is_merged(const struct sync_wait *w, const struct batch_id *id)
{
    const struct run *r = run_find(w->sync, id);
    return keep_has(w->sync, id) || (r != NULL && key_is_in(w, r));
}

static void on_standing(struct standing *a)
{
    struct sync_wait *w = a->arg;
    struct sync *s = w->sync;
    w->asking = false;
    s->requests_out--;
    w->ask_at_ms = sync_now(s) + WATCH_MS;
    if (!a->lost && !w->answered) {
        /* (!) A server that took over other data may have lost a batch, and its hashes may be pending again, after we read the
         * index. A server's histories never come back, and a wait does not outlive its links. */
        if (strcmp(a->replid, w->replid) == 0 || !HOLDS(RULE_SYNC_HISTORY)) {
            struct map now;
            map_init(&now);
            for (uint32_t i = 0; i < a->ids_n; i++) {
                struct slice id = id_slice(&a->ids[i]);
                bool its = w->phase == WAIT_ASK || map_has(&w->ids, id);
                if (its && !is_merged(w, &a->ids[i])) map_put(&now, id, NULL);
            }
            map_close(&w->ids);
            w->ids = now;
            w->phase = WAIT_WATCH;
            if (w->ids.n == 0) sync_wait_end(w, ASK_DONE);
        } else {
            sync_wait_end(w, ASK_TRY_AGAIN);
            s->ports.epoch_over(s->ports.arg);
        }
    }
    heap_free(a->ids);
}

static void ask_standing(struct sync_wait *w)
{
    struct sync *s = w->sync;
    w->ask = (struct standing){.done = on_standing, .arg = w};
    if (w->phase == WAIT_ASK) w->ask.key = w->key;
    w->asking = true;
    s->requests_out++;
    s->ports.standing(s->ports.arg, &w->ask);
}

static bool runs_here(const struct sync_wait *w)
{
    list_for_each (node, &w->sync->runs) {
        const struct run *r = CONTAINER_OF(node, struct run, link);
        if (map_has(&w->ids, id_slice(&r->batch.id)) && !key_is_in(w, r)) return true;
    }
    return false;
}

static void sync_wait_step(struct sync_wait *w)
{
    if (!w->begun) memcpy(w->replid, w->sync->epoch.replid, sizeof w->replid);
    w->begun = true;
    switch (w->phase) {
    case WAIT_HIGHEST:
        ask_highest(w);
        return;
    case WAIT_DIRTY:
        step_dirty(w);
        return;
    case WAIT_CLAIMS:
        step_claims(w);
        return;
    case WAIT_ASK:
        ask_standing(w);
        return;
    case WAIT_WATCH:
        if (!runs_here(w)) ask_standing(w);
        return;
    }
}

static void wait_check(struct sync_wait *w, uint64_t now_ms)
{
    struct sync *s = w->sync;
    if (s->stopping)
        sync_wait_end(w, ASK_TRY_AGAIN);
    else if (!s->mysql_up && !s->mysql_unchecked)
        sync_wait_end(w, ASK_MYSQL_DOWN);
    else if (!s->mysql_up && w->begun) /* what it saw may be of another history */
        sync_wait_end(w, ASK_TRY_AGAIN);
    else if (!s->redis_up)
        sync_wait_end(w, ASK_REDIS_DOWN);
    else if (held_back(s, w))
        sync_wait_end(w, ASK_HELD);
    else if (now_ms - w->since_ms >= s->config.wait_ms)
        sync_wait_end(w, ASK_TRY_AGAIN);
}

void wait_redis_down(struct sync *s)
{
    list_for_each (node, &s->waits) {
        struct sync_wait *w = CONTAINER_OF(node, struct sync_wait, link);
        if (!w->answered) sync_wait_end(w, ASK_REDIS_DOWN);
    }
}

void wait_mysql_down(struct sync *s)
{
    list_for_each (node, &s->waits)
        sync_wait_end(CONTAINER_OF(node, struct sync_wait, link), ASK_MYSQL_DOWN);
}

void wait_run_done(struct sync *s, const struct run *r)
{
    struct slice id = id_slice(&r->batch.id);
    list_for_each (node, &s->waits) {
        struct sync_wait *w = CONTAINER_OF(node, struct sync_wait, link);
        if (w->phase != WAIT_WATCH || map_has(&w->ids, id)) w->rows += r->rows_merged;
    }
}

static bool waits_for(const struct sync_wait *w, const struct slice *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (w->key.n == 0 || slice_eq(w->key, keys[i])) return true;
    return false;
}

void wait_names_back(struct sync *s, const struct slice *keys, uint32_t n)
{
    list_for_each (node, &s->waits) {
        struct sync_wait *w = CONTAINER_OF(node, struct sync_wait, link);
        if (w->phase == WAIT_HIGHEST || w->phase > WAIT_CLAIMS || !waits_for(w, keys, n)) continue;
        w->phase = WAIT_DIRTY;
        w->queued = false;
    }
}

void wait_tick(struct sync *s, uint64_t now_ms)
{
    struct list ended;
    list_init(&ended);
    for (struct list *node = s->waits.next, *next; node != &s->waits; node = next) {
        next = node->next;
        struct sync_wait *w = CONTAINER_OF(node, struct sync_wait, link);
        if (!w->answered) wait_check(w, now_ms);
        if (!w->answered && !w->asking && s->mysql_up && now_ms >= w->ask_at_ms) sync_wait_step(w);
        if (!w->answered || w->asking) continue;
        list_remove(node);
        list_push(&ended, node);
    }
    for (struct list *node; (node = list_pop(&ended)) != NULL;) {
        struct sync_wait *w = CONTAINER_OF(node, struct sync_wait, link);
        map_close(&w->ids);
        w->done(w);
    }
}

void sync_wait_for(struct sync *s, struct sync_wait *w)
{
    PRE(w->key.n == 0 || counters_match(s->counters, w->key) != NULL);
    w->sync = s;
    w->phase = w->key.n == 0 && HOLDS(RULE_SYNC_HIGHEST) ? WAIT_HIGHEST : WAIT_DIRTY;
    w->begun = w->queued = w->asking = w->answered = false;
    w->rows = 0;
    w->since_ms = sync_now(s);
    w->ask_at_ms = 0;
    w->before_ms = s->ports.redis_ms(s->ports.arg);
    map_init(&w->ids);
    list_push(&s->waits, &w->link);
}
