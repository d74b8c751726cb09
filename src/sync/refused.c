/* sync/refused.c - what MySQL refuses of a store, or another program has locked, is that store's trouble (sync/README.md, rules S12,
 * S46 to S48).
 * A batch of which MySQL took no row waits until MySQL takes other rows of the counter, and then its refused rows are rejects
 * (mysql/merge_rows.c). Meanwhile its stores are claimed seldom, all others as ever. When MySQL takes nothing of another store either,
 * the table may refuse everything: claims of the counter are then tries, one at a time.
 * Rejects have a bound by store: each costs its store REJECT_MS, and a store that owes more than OWED_MS waits. */
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "sync/inside.h"

#include <stdio.h>

#define REJECT_MS 60 /* 1,000 rejects a minute */
#define OWED_MS 60000
#define OWED_MOST_MS (OWED_MS + 600000)
#define STORES_MAX                                                                                           \
    10000 /* of a counter, that have rejects or refused batches; of more nothing is remembered */
#define STORE_BATCHES_MAX 4 /* refused whole, and of one store: it is claimed no more */
#define BATCHES_MAX 64      /* refused whole, of a counter whose table may refuse everything */
#define BY_VALUE_MS                                                                                          \
    60000 /* so long nothing passed, and nothing of others was refused: the values are at fault */
#define AGAIN_MS 2000
#define AGAIN_MOST_MS 30000
#define TELL_MS 10000
#define TELL_LINES 20 /* of a counter's stores, a second */

struct store_wait {
    uint64_t paid_ms;  /* when its rejects are paid for */
    uint64_t again_ms; /* MySQL took no row of it: not claimed before */
    unsigned tries;
    uint32_t runs;  /* refused whole */
    uint32_t locks; /* hashes of it that runs left, since rows are locked */
    bool told;      /* the log said that it waits */
    int64_t rows;   /* rejected since it is remembered */
    char why[300];
    size_t n;
    char name[];
};

/* Without stores each key is one; so is a key that the counter had before, in a batch of then. */
static struct slice store_of(const struct counter *c, struct slice key)
{
    struct slice store = {"", 0};
    return pattern_match(&c->key, c->store, key, &store) && store.n > 0 ? store : key;
}

static struct store_wait *store_get(struct family *f, struct slice name)
{
    struct store_wait *e = map_get(&f->stores, name);
    if (e != NULL || f->stores.n >= STORES_MAX) return e;
    e = heap_zalloc(sizeof *e + name.n);
    e->n = name.n;
    memcpy(e->name, name.p, name.n);
    map_put(&f->stores, name, e);
    return e;
}

static bool store_owes(const struct store_wait *e, uint64_t now_ms)
{
    return e->paid_ms > now_ms + OWED_MS;
}

bool refused_waits(const struct sync *s, const struct family *f, struct slice key, bool seldom_too)
{
    if (f->stores.n == 0) return false;
    const struct store_wait *e = map_get(&f->stores, store_of(f->counter, key));
    if (e == NULL) return false;
    uint64_t now_ms = sync_now(s);
    return e->runs >= STORE_BATCHES_MAX || (e->runs > 0 && now_ms < e->again_ms) ||
           (seldom_too && (store_owes(e, now_ms) || e->locks > 0));
}

static uint64_t again_ms(unsigned tries)
{
    uint64_t ms = (uint64_t)AGAIN_MS << (tries < 8 ? tries : 8);
    return ms < AGAIN_MOST_MS ? ms : AGAIN_MOST_MS;
}

/* --- batches of which MySQL took nothing --- */

/* False: it was refused in a batch before. */
static bool store_refuse(struct run *r, struct slice name, uint64_t now_ms)
{
    struct store_wait *e = store_get(r->family, name);
    if (e == NULL || map_has(&r->stores, name)) return false;
    bool first = e->runs++ == 0;
    map_put(&r->stores, name, e);
    e->again_ms = now_ms + again_ms(e->tries++);
    return first;
}

void refused_whole(struct run *r, const struct chunk *c)
{
    struct family *f = r->family;
    uint64_t now_ms = sync_now(r->sync);
    bool others = false;
    for (size_t i = c->first; i < c->first + c->rows_n; i++) {
        uint32_t hash = r->batch.rows[i].hash;
        if (i > c->first && hash == r->batch.rows[i - 1].hash) continue;
        others |= store_refuse(r, store_of(f->counter, batch_hash_name(&r->batch, hash)), now_ms);
    }
    if (!r->none_passed) {
        f->refused_runs++;
        r->sync->apart_n++;
        r->refused_ms = now_ms;
        r->by_value = true;
    }
    r->none_passed = true;
    r->by_value = r->by_value && c->by_value;
    r->refused_last_ms = now_ms;
    if (!HOLDS(RULE_STORES_APART) && !r->refused) r->refused = true, f->refused++;
    if (others && f->refusals < 2) f->refusals++;
    refused_tried(r->sync, f);
}

static void left_count(struct run *r, struct slice names, bool waits)
{
    struct slice name;
    while (ledger_names_next(&names, &name)) {
        struct slice store = store_of(r->family->counter, name);
        struct store_wait *e = waits ? store_get(r->family, store) : map_get(&r->family->stores, store);
        if (e == NULL) continue;
        if (waits)
            e->locks++;
        else if (e->locks > 0)
            e->locks--;
        if (waits)
            snprintf(e->why, sizeof e->why, "its rows are locked in MySQL%s%s",
                     r->locked_by[0] != '\0' ? " by " : "", r->locked_by);
    }
}

void refused_left(struct run *r)
{
    left_count(r, buf_slice(&r->left_now), true);
    left_count(r, buf_slice(&r->left), false);
    r->sync->apart_n += (r->left_now.n > 0) - (r->left.n > 0);
    buf_free(&r->left);
    r->left = r->left_now;
    r->left_now = (struct buf){0};
}

void refused_tried(struct sync *s, struct family *f)
{
    if (!family_refuses(f)) return;
    f->try_ms = sync_now(s) + again_ms(f->tries++);
    f->rests = true;
    family_forget(s, f);
}

bool refused_values_only(const struct run *r)
{
    return r->none_passed && r->by_value && !family_refuses(r->family) &&
           sync_now(r->sync) - r->refused_ms >= BY_VALUE_MS;
}

bool refused_once_beside(struct run *r)
{
    bool first = !r->again;
    r->again = true;
    return first && r->family->passed_ms >= r->merge_ms;
}

/* The next try may show that the table takes rows, and these are at fault. */
void refused_passed(struct sync *s, struct family *f)
{
    f->passed_ms = sync_now(s);
    f->refusals = f->tries = 0;
    f->rests = false;
    if (f->refused_runs == 0) return;
    list_for_each (node, &s->runs) {
        struct run *r = CONTAINER_OF(node, struct run, link);
        if (!r->none_passed || r->family != f || sm_now(&r->sm) != RUN_WAIT) continue;
        if (r->resume_ms > r->refused_last_ms + 1000) r->resume_ms = r->refused_last_ms + 1000;
    }
}

void refused_over(struct run *r)
{
    struct slice name;
    void *value;
    for (size_t at = 0; map_next(&r->stores, &at, &name, &value);) {
        struct store_wait *e = value;
        if (--e->runs == 0) e->tries = 0;
    }
    map_close(&r->stores);
    if (r->left.n > 0) refused_left(r);
    if (r->none_passed) r->family->refused_runs--, r->sync->apart_n--;
}

/* --- rejects --- */

void refused_rows(struct run *r, const struct chunk *c)
{
    struct sync *s = r->sync;
    struct family *f = r->family;
    uint64_t now_ms = sync_now(s);
    bool begins = false;
    for (uint32_t i = 0; i < c->rejected_n; i++) {
        struct slice key = batch_hash_name(&r->batch, c->rejected[i].hash);
        struct store_wait *e = store_get(f, store_of(f->counter, key));
        if (e == NULL) continue;
        bool owed = store_owes(e, now_ms);
        if (e->paid_ms < now_ms) e->paid_ms = now_ms;
        e->paid_ms += (uint64_t)REJECT_MS * c->rejected[i].rows;
        if (e->paid_ms > now_ms + OWED_MOST_MS) e->paid_ms = now_ms + OWED_MOST_MS;
        e->rows += c->rejected[i].rows;
        snprintf(e->why, sizeof e->why, "%s", c->text);
        begins |= !owed && store_owes(e, now_ms);
    }
    if (begins) {
        struct slice name;
        void *value;
        size_t n = 0;
        struct slice *drop = heap_alloc((f->names.n + 1) * sizeof *drop);
        for (size_t at = 0; map_next(&f->names, &at, &name, &value);)
            if (refused_waits(s, f, name, true)) drop[n++] = name;
        while (n-- > 0)
            family_drop(s, f, drop[n]);
        heap_free(drop);
    }
    f->rejects += c->rejected_n > 0 ? c->rows_rejected : 0;
    if (c->rejected_n == 0 || now_ms < f->rejects_told_ms) return;
    f->rejects_told_ms = now_ms + TELL_MS;
    char shown[124];
    slice_show(batch_hash_name(&r->batch, c->rejected[0].hash), sizeof shown - 4, shown, sizeof shown);
    log_event(LOG_WARN, "rows_rejected", "counter=" SLICE_FMT " rows=%llu key=%s why=%s next=%s",
              SLICE_ARG(f->counter->name), (unsigned long long)f->rejects, LOGQ(shown), LOGQ(c->text),
              LOGQ("`tallyd rejects list` shows them"));
    f->rejects = 0;
}

/* --- time --- */

/* A whole table may be locked: *room is how many lines the log still gets. */
static void store_tell(struct family *f, struct store_wait *e, bool waits, unsigned *room)
{
    if (waits == e->told) return;
    e->told = waits;
    STAT_ADD(stores_waiting, waits ? 1 : -1);
    if (*room == 0) return;
    --*room;
    struct slice name = slice_of(e->name, e->n);
    char shown[80];
    slice_show(name, 60, shown, sizeof shown);
    if (waits)
        log_event(LOG_ERROR, "store_waits", "counter=" SLICE_FMT " store=%s rejects=%lld why=%s",
                  SLICE_ARG(f->counter->name), LOGQ(shown), (long long)e->rows, LOGQ(e->why));
    else
        log_event(LOG_WARN, "store_goes_on", "counter=" SLICE_FMT " store=%s", SLICE_ARG(f->counter->name),
                  LOGQ(shown));
}

static void stores_tick(struct family *f, uint64_t now_ms)
{
    struct slice name;
    void *value;
    size_t n = 0;
    unsigned room = TELL_LINES;
    struct store_wait **over = heap_alloc((f->stores.n + 1) * sizeof *over);
    for (size_t at = 0; map_next(&f->stores, &at, &name, &value);) {
        struct store_wait *e = value;
        store_tell(f, e, store_owes(e, now_ms) || e->locks > 0, &room);
        if (e->runs == 0 && e->locks == 0 && e->paid_ms <= now_ms) over[n++] = e;
    }
    for (size_t i = 0; i < n; i++) {
        map_remove(&f->stores, slice_of(over[i]->name, over[i]->n));
        heap_free(over[i]);
    }
    heap_free(over);
}

void refused_tick(struct sync *s, uint64_t now_ms)
{
    bool look = now_ms >= s->stores_at_ms;
    if (look) s->stores_at_ms = now_ms + 1000;
    for (size_t i = 0; i < s->counters->n; i++) {
        struct family *f = &s->families[i];
        f->rests = family_refuses(f) && (now_ms < f->try_ms || f->refused_runs >= BATCHES_MAX);
        if (look && f->stores.n > 0) stores_tick(f, now_ms);
    }
}

void refused_close(struct family *f)
{
    struct slice name;
    void *value;
    for (size_t at = 0; map_next(&f->stores, &at, &name, &value);) {
        if (((struct store_wait *)value)->told) STAT_ADD(stores_waiting, -1);
        heap_free(value);
    }
    map_close(&f->stores);
}

void sync_stores_waiting(const struct sync *s, sync_store_waits *each, void *arg)
{
    struct slice name;
    void *value;
    for (size_t i = 0; i < s->counters->n; i++)
        for (size_t at = 0; map_next(&s->families[i].stores, &at, &name, &value);) {
            const struct store_wait *e = value;
            if (e->told) each(arg, s->families[i].counter->name, name, e->rows, e->why);
        }
}
