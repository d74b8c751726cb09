/* tests/sim/world.c - see world.h. */
#include "sim/world.h"

#include "series/moved.h"
#include "sim/override.h"
#include <stdarg.h>
#include <stdio.h>

bool sim_tracing;

uint64_t prng_next(struct prng *p)
{
    uint64_t z = p->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void sim_trace(const struct world *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%6llu %8.3f ", (unsigned long long)w->step, (double)w->now_ms / 1000);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

struct slice world_hash_name(const struct world *w, int hash)
{
    return slice_str(w->names[hash]);
}

int world_hash_of(const struct world *w, struct slice key)
{
    for (int h = 0; h < SIM_HASHES; h++)
        if (slice_eq(world_hash_name(w, h), key)) return h;
    return -1;
}

void world_at(struct world *w, unsigned lane)
{
    w->lane = lane;
    w->redis = &w->lanes[lane].redis;
    w->other = &w->lanes[lane].other;
    for (int i = 0; i < SIM_DAEMONS; i++)
        w->daemons[i].life = w->daemons[i].lives[lane];
}

static void hash_init(struct world *w, int hash, unsigned nth, unsigned store)
{
    table_hash(w, hash, nth, store);
    w->lane_of[hash] = lane_of_key(&w->counters, world_hash_name(w, hash), w->config.lanes);
}

/* With two counters each store has a hash of both. Over lanes the stores are such that each lane has one before any has two. */
static void hashes_init(struct world *w)
{
    unsigned lanes = w->config.lanes, per_store = w->config.counters, store = 0;
    for (unsigned h = 0; h < SIM_HASHES; h++) {
        bool next = h % per_store == 0;
        do
            hash_init(w, (int)h, h / per_store, next && lanes > 1 ? ++store : store);
        while (lanes > 1 && next && w->lane_of[h] != h / per_store % lanes);
    }
}

static void world_init(struct world *w, const struct sim_config *config)
{
    w->config = *config;
    w->prng.state = config->seed ^ UINT64_C(0x74616c6c79);
    w->now_ms = 1000;
    w->step = 0;
    w->calm = false;
    w->faults = w->lives_n = 0;
    w->leap_ms = 0;
    for (int i = 0; i < SIM_COUNTERS; i++)
        table_counter(w, i);
    if (config->feeds) ops_feed(&w->counter[0]);
    w->limits = ops_limits;
    w->limits.uniq_counter = &w->counter[0];
    w->counters = (struct counters){.all = w->counter, .n = config->counters, .ops = &w->limits};
    if (config->seed % 16 == 0) table_valid(&w->counters); /* its shapes are few, and it takes a while */
    w->first_counter = (struct counters){.all = w->counter, .n = 1, .ops = &w->limits};
    for (int i = 0; i < SIM_DAEMONS; i++)
        w->daemons[i] = (struct daemon){.instance = i};
    hashes_init(w);
    w->away = -1;
    scheduler_begin(w);
    world_at(w, 0);
    EACH_LANE (w) {
        redis_init(w->redis, w->config.fresh);
        moves_init(w);
    }
    mysql_init(&w->mysql);
    oracle_init(&w->oracle);
}

/* Lives at rest are taken apart as the service does it; after a fault they are only forgotten. */
static void world_close(struct world *w)
{
    bool at_rest = w->oracle.fault == FAULT_NONE && !w->config.unfenced;
    for (unsigned i = 0; i < w->config.daemons; i++) {
        struct daemon *d = &w->daemons[i];
        if (d->life == NULL) continue;
        EACH_LANE (w)
            if (at_rest) oracle_named_all(w, d->life);
        if (at_rest && w->oracle.fault == FAULT_NONE)
            daemon_end(w, d);
        else
            daemon_crash(w, d);
    }
    if (at_rest && w->oracle.fault == FAULT_NONE) oracle_at_end(w);
    EACH_LANE (w) {
        redis_close(w->redis);
        moves_close(w);
    }
    mysql_close(&w->mysql);
    for (int i = 0; i < SIM_COUNTERS; i++)
        table_counter_close(&w->counter[i]);
}

void world_run(struct world *w, const struct sim_config *config)
{
    arena_init(&w->arena);
    struct arena *before = arena_enter(&w->arena);
    world_init(w, config);
    override_begin(w);
    while (w->step < config->steps && w->oracle.fault == FAULT_NONE)
        scheduler_step(w);
    if (w->oracle.fault == FAULT_NONE && !config->unfenced) scheduler_quiesce(w);
    world_close(w);
    override_begin(NULL);
    arena_enter(before);
    INVARIANT(w->arena.n == 0);
}
