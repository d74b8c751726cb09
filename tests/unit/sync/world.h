/* world.h - sync's surroundings for its tests: ports that only take note, and answers that the test gives
 * later. Only the dirty index and the adoption of stale batches answer by themselves, at the next tick.
 * Header only: each test has one of its own.
 *
 * `did` is what was asked, in order: C claim, S scan, F fence, M merge (a chunk), D discard, W which exist.
 */
#ifndef SYNC_WORLD_H
#define SYNC_WORLD_H

#include "lib/unit.h"

#include "base/heap.h"
#include "base/stats.h"
#include "sync/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define OUT_MAX 512
#define RUN_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RUN_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct asked { /* requests of one kind that are out, oldest first */
    void *all[OUT_MAX];
    uint32_t n;
};

struct dirty { /* one name in the index */
    char name[40];
    int64_t score;
};

struct world {
    struct sync *s;
    uint64_t mono_ms;
    int64_t redis_ms;
    uint64_t hits, felt_us;
    struct asked claims, scans, fences, merges, discards, adopts, polls, standings;
    struct dirty *dirty; /* the test sorts it */
    uint32_t dirty_n;
    bool waits; /* neither the dirty index nor the adoption of stale batches answers by itself, at the next
                   tick */
    uint32_t polls_n, adopts_n, beats_n, epochs_over;
    char did[8192];
    char held_names[256];
    uint32_t beat_n;
    uint8_t ids; /* drawn */
    uint32_t done_n;
};

static struct world *world; /* of the test that runs */

static const struct counter counters_all[] = {
    {.name = {"views", 5},
     .key = {{"p", 1}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = 50,
     .every_s = 60},
    {.name = {"stars", 5},
     .key = {{"q", 1}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = 50,
     .every_s = 600},
    {.name = {"votes", 5},
     .key = {{"v", 1}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = 50,
     .every_s = 60},
};
static const struct counters counters_three = {.all = (struct counter *)counters_all, .n = 3};
#define VIEWS (&counters_all[0])
#define STARS (&counters_all[1])
#define VOTES (&counters_all[2])

/* What was asked since the last call. */
static inline void assert_did(const char *want)
{
    assert_string_equal(world->did, want);
    world->did[0] = '\0';
}
static inline void forget_did(void)
{
    world->did[0] = '\0';
}

/* --- ports --- */

static inline void ask(struct asked *a, void *request, const char *letter)
{
    assert_true(a->n < OUT_MAX);
    a->all[a->n++] = request;
    assert_true(strlen(world->did) + 1 < sizeof world->did);
    strcat(world->did, letter);
}

static inline void *answer(struct asked *a)
{
    assert_true(a->n > 0);
    void *first = a->all[0];
    a->n--;
    memmove(a->all, a->all + 1, a->n * sizeof a->all[0]);
    return first;
}

static inline void port_claim(void *arg, struct claim *c)
{
    ask(&world->claims, c, "C");
}
static inline void port_scan(void *arg, struct scan *s)
{
    ask(&world->scans, s, "S");
}
static inline void port_fence(void *arg, struct fence *f)
{
    ask(&world->fences, f, "F");
}
static inline void port_merge(void *arg, struct chunk *c)
{
    ask(&world->merges, c, "M");
}
static inline void port_discard(void *arg, struct discard *d)
{
    ask(&world->discards, d, "D");
}
static inline void port_adopt(void *arg, struct adopt *a)
{
    world->adopts_n++;
    ask(&world->adopts, a, "");
}
static inline void port_due_poll(void *arg, struct due_poll *p)
{
    world->polls_n++;
    ask(&world->polls, p, "");
}
static inline void port_standing(void *arg, struct standing *s)
{
    ask(&world->standings, s, "W");
}
static inline void port_beat(void *arg, const struct batch_id *ids, uint32_t n)
{
    world->beat_n = n;
    world->beats_n++;
}
static inline void port_hold_names(void *arg, const struct slice *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        strncat(world->held_names, names[i].p, names[i].n);
}
static inline uint64_t port_mono(void *arg)
{
    return world->mono_ms;
}
static inline int64_t port_redis(void *arg)
{
    return world->redis_ms;
}
static inline void port_draw_id(void *arg, struct batch_id *id)
{
    *id = (struct batch_id){{++world->ids}};
}

static inline uint64_t port_hits(void *arg)
{
    return world->hits;
}

static inline uint64_t port_felt_us(void *arg)
{
    return world->felt_us;
}

static inline void port_epoch_over(void *arg)
{
    world->epochs_over++;
}

static const struct sync_ports world_ports = {
    .claim = port_claim,
    .scan = port_scan,
    .fence = port_fence,
    .merge = port_merge,
    .discard = port_discard,
    .adopt = port_adopt,
    .due_poll = port_due_poll,
    .standing = port_standing,
    .epoch_over = port_epoch_over,
    .beat = port_beat,
    .hold_names = port_hold_names,
    .mono_ms = port_mono,
    .redis_ms = port_redis,
    .draw_id = port_draw_id,
    .hits = port_hits,
    .felt_us = port_felt_us,
};

/* --- answers --- */

static inline void claim_answered(enum claim_outcome outcome, uint64_t fields, uint32_t left)
{
    struct claim *c = answer(&world->claims);
    c->outcome = outcome;
    c->left = left;
    c->fields = fields;
    c->renamed = c->keys_n - left;
    c->done(c);
}

/* One hash with this many rows, of this server and history. */
static inline void scan_in(const struct counter *counter, const char *hash, uint32_t rows, const char *run_id,
                           const char *replid)
{
    struct scan *s = answer(&world->scans);
    struct batch *b = s->batch;
    char field[24];
    size_t short_hash;
    batch_clear(b);
    b->counter = counter;
    buf_put_slice(&b->counter_name, counter->name);
    batch_add_hash(b, slice_str(hash), rows);
    for (uint32_t i = 0; i < rows; i++)
        batch_add_row(b, 0, slice_of(field, (size_t)snprintf(field, sizeof field, "%u", i)), SLICE("7"));
    assert_true(batch_seal(b, &short_hash));
    s->outcome = SCAN_SEALED;
    snprintf(s->run_id, sizeof s->run_id, "%s", run_id);
    snprintf(s->replid, sizeof s->replid, "%s", replid);
    s->done(s);
}
static inline void scan_of(const struct counter *counter, const char *hash, uint32_t rows, const char *run_id)
{
    scan_in(counter, hash, rows, run_id, run_id);
}
static inline void scan_sealed_by(const struct counter *counter, uint32_t rows, const char *run_id)
{
    scan_of(counter, "p1", rows, run_id);
}
static inline void scan_sealed(uint32_t rows)
{
    scan_sealed_by(VIEWS, rows, RUN_A);
}
static inline void fence_answered(bool passed, const char *run_id)
{
    struct fence *f = answer(&world->fences);
    f->passed = passed;
    snprintf(f->run_id, sizeof f->run_id, "%s", run_id);
    snprintf(f->replid, sizeof f->replid, "%s", run_id);
    f->done(f);
}

/* Not sealed; the fence beside it does not matter then. */
static inline void scan_ended(enum scan_outcome outcome)
{
    struct scan *s = answer(&world->scans);
    s->outcome = outcome;
    s->done(s);
    fence_answered(false, RUN_A);
}

static inline void merge_answered(enum merge_outcome outcome)
{
    struct chunk *c = answer(&world->merges);
    c->outcome = outcome;
    c->rows_merged = outcome == MERGE_DONE ? (uint32_t)c->rows_n : 0;
    c->done(c);
}

static inline void discard_answered(bool ok)
{
    struct discard *d = answer(&world->discards);
    d->done_ok = ok;
    d->done(d);
}

static inline void adopt_answered(uint8_t first_id, uint32_t n, uint32_t unknown)
{
    struct adopt *a = answer(&world->adopts);
    a->ids = heap_alloc((n + 1) * sizeof *a->ids);
    for (a->ids_n = 0; a->ids_n < n; a->ids_n++)
        a->ids[a->ids_n] = (struct batch_id){{first_id, (uint8_t)a->ids_n, (uint8_t)(a->ids_n >> 8), 1}};
    a->unknown = unknown;
    a->done(a);
}
static inline void adopt_lost(void)
{
    struct adopt *a = answer(&world->adopts);
    a->lost = true;
    a->done(a);
}

/* Which of our own batch ids exist; 0 ends the list. */
static inline void standing_answered_by(const char *history, uint8_t a, uint8_t b)
{
    struct standing *s = answer(&world->standings);
    s->ids = heap_alloc(2 * sizeof *s->ids);
    if (a != 0) s->ids[s->ids_n++] = (struct batch_id){{a}};
    if (b != 0) s->ids[s->ids_n++] = (struct batch_id){{b}};
    snprintf(s->replid, sizeof s->replid, "%s", history);
    s->done(s);
}

static inline void standing_answered(uint8_t a, uint8_t b)
{
    standing_answered_by(RUN_A, a, b);
}

static inline uint32_t dirty_highest(void)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < world->dirty_n; i++)
        if (world->dirty[i].score > world->dirty[best].score) best = i;
    return best;
}

static inline void poll_answered(void)
{
    struct due_poll *p = answer(&world->polls);
    uint32_t seen = 0;
    p->keys = heap_alloc((p->limit + 1) * sizeof *p->keys);
    p->scores = heap_alloc((p->limit + 1) * sizeof *p->scores);
    if (p->highest) p->before_ms = INT64_MAX;
    for (uint32_t i = p->highest ? dirty_highest() : 0; i < world->dirty_n && p->keys_n < p->limit; i++) {
        if (world->dirty[i].score > p->before_ms || seen++ < p->skip) continue;
        p->keys[p->keys_n] = slice_str(world->dirty[i].name);
        p->scores[p->keys_n++] = world->dirty[i].score;
    }
    p->done(p);
}

/* --- time --- */

static inline void tick_after(uint64_t ms)
{
    while (world->polls.n > 0 && !world->waits)
        poll_answered();
    if (world->adopts.n > 0 && !world->waits &&
        ((struct adopt *)world->adopts.all[0])->mode != ADOPT_INSTANCE &&
        ((struct adopt *)world->adopts.all[0])->mode != ADOPT_DEAD)
        adopt_answered(0, 0, 0);
    world->mono_ms += ms;
    world->redis_ms += (int64_t)ms;
    sync_tick(world->s);
}
static inline void tick(void)
{
    tick_after(20);
}
static inline void ticks(int n)
{
    for (int i = 0; i < n; i++)
        tick();
}

/* --- set up --- */

/* Of the server with that run_id; its history has the same name. */
static inline void epoch_is_of(const char *run_id)
{
    struct epoch epoch = {.id = {{1}}};
    snprintf(epoch.run_id, sizeof epoch.run_id, "%s", run_id);
    snprintf(epoch.replid, sizeof epoch.replid, "%s", run_id);
    sync_epoch(world->s, &epoch);
}

static inline void world_make(const struct sync_config *config)
{
    world = calloc(1, sizeof *world);
    world->mono_ms = 1000000;
    world->redis_ms = 1700000000000;
    world->s = sync_create(&world_ports, &counters_three, config);
    epoch_is_of(RUN_A);
}

/* Started, and nothing was there to be adopted. */
static inline void world_start(void)
{
    sync_mysql(world->s, true);
    sync_start(world->s);
    tick();
    assert_int_equal(world->adopts_n, 1);
    adopt_answered(0, 0, 0);
}

static inline int world_open(void **state)
{
    world_make(&sync_config_default);
    world_start();
    return 0;
}

static inline void all_lost(void)
{
    while (world->claims.n > 0)
        claim_answered(CLAIM_GONE, 0, 0);
    while (world->scans.n > 0)
        scan_ended(SCAN_LOST);
    while (world->fences.n > 0)
        fence_answered(false, "");
    while (world->merges.n > 0)
        merge_answered(MERGE_DOWN);
    while (world->discards.n > 0)
        discard_answered(false);
    while (world->adopts.n > 0)
        adopt_lost();
    while (world->standings.n > 0)
        standing_answered(0, 0);
    while (world->polls.n > 0)
        poll_answered();
}

/* Abandoned in any state that a test left it in, the machine asks for nothing more and can be destroyed. */
static inline int world_close(void **state)
{
    sync_abandon(world->s);
    world->waits = true;
    forget_did();
    uint32_t asked = world->polls_n + world->adopts_n + world->beats_n;
    tick_after(100000);
    all_lost();
    tick_after(100000);
    assert_did("");
    assert_int_equal(world->polls_n + world->adopts_n + world->beats_n, asked);
    assert_true(sync_quiet(world->s));
    sync_destroy(&world->s);
    assert_null(world->s);
    free(world->dirty);
    free(world);
    world = NULL;
    return 0;
}

#define TEST(f) UNIT_IN(f, world_open, world_close)

static inline void reopen(const struct sync_config *config)
{
    world_close(NULL);
    world_make(config);
    world_start();
}

/* The same with bounds of the test's own: reopen_with(config.due_max = 1). */
#define reopen_with(...)                                                                                     \
    do {                                                                                                     \
        struct sync_config config = sync_config_default;                                                     \
        __VA_ARGS__;                                                                                         \
        reopen(&config);                                                                                     \
    } while (0)

/* --- shorter --- */

static inline void due(const struct counter *c, const char *key)
{
    sync_due(world->s, c, slice_str(key), DUE_TIME);
}

static inline void due_all(const struct counter *c, char prefix, uint32_t from, uint32_t to, enum due_why why)
{
    char key[16];
    for (uint32_t i = from; i < to; i++) {
        snprintf(key, sizeof key, "%c%u", prefix, i);
        sync_due(world->s, c, slice_str(key), why);
    }
}
static inline void due_many(const struct counter *c, char prefix, uint32_t from, uint32_t to)
{
    due_all(c, prefix, from, to, DUE_TIME);
}
static inline void due_by_hits(const struct counter *c, char prefix, uint32_t from, uint32_t to)
{
    due_all(c, prefix, from, to, DUE_HITS);
}

static inline const struct claim *claim_out(uint32_t i)
{
    assert_true(i < world->claims.n);
    return world->claims.all[i];
}

static inline void due_now(const struct counter *c, const char *key)
{
    due(c, key);
    tick();
}

/* A batch of this many rows has been claimed, and is being read. */
static inline void run_to_scan(uint32_t rows)
{
    due_now(VIEWS, "p1");
    claim_answered(CLAIM_STANDS, rows, 0);
}

static inline void scan_fenced(uint32_t rows)
{
    scan_sealed(rows);
    fence_answered(true, RUN_A);
}

/* The last chunk of a batch, and the batch. */
static inline void merged_whole(void)
{
    merge_answered(MERGE_DONE);
    discard_answered(true);
}

/* A batch of this many rows has been claimed, its rows are sealed, and the fence has passed. */
static inline void run_to_merge(uint32_t rows)
{
    due(VIEWS, "p1");
    tick_after(200);
    claim_answered(CLAIM_STANDS, rows, 0);
    scan_fenced(rows);
}

static inline void run_whole(uint32_t rows)
{
    run_to_merge(rows);
    while (world->merges.n > 0)
        merge_answered(MERGE_DONE);
    discard_answered(true);
}

static inline void index_put(const char *name, int64_t score)
{
    world->dirty = realloc(world->dirty, (world->dirty_n + 1) * sizeof *world->dirty);
    struct dirty *d = &world->dirty[world->dirty_n++];
    snprintf(d->name, sizeof d->name, "%s", name);
    d->score = score;
}

#endif
