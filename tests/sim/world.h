/* tests/sim/world.h - one run: the twins, the daemons, the clock, and the order in which they act. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "series/row.h"
#include "sim/arena.h"
#include "sim/daemon.h"
#include "sim/moves.h"
#include "sim/mysql_twin.h"
#include "sim/oracle.h"
#include "sim/redis_twin.h"
#include "sim/table.h"

/* A Redis, and the server that it failed over from. */
struct world_lane {
    struct redis redis;
    struct other other;
};

struct world {
    struct sim_config config;
    struct prng prng;
    uint64_t now_ms, step;
    bool calm; /* the quiescing phase: no faults any more */
    unsigned faults;
    uint8_t events[2][EVENT_COUNT]; /* those that are drawn in this run: no faults, faults */
    unsigned events_n[2];
    int64_t leap_ms; /* Redis' clock is ahead by this */
    struct counter counter[SIM_COUNTERS];
    struct op_limits limits;
    struct counters counters, first_counter; /* all; of a daemon that knows only one */
    struct world_lane lanes[SIM_LANES];
    unsigned lane; /* that redis, other and the daemons' `life` are of: world_at() */
    struct redis *redis;
    struct other *other;
    int refused; /* the hash whose rows MySQL refuses at the end (config.refusing) */
    int away;    /* a lane whose Redis does nothing; -1: none */
    char names[SIM_HASHES][24], rows[SIM_HASHES][SIM_FIELDS][88]; /* row: its count and its key columns */
    struct key_column columns[SIM_COUNTERS][SIM_COLUMNS];
    struct named_count counts[SIM_FIELDS];
    struct places field_places;
    unsigned lane_of[SIM_HASHES];
    struct mysql mysql;
    struct daemon daemons[SIM_DAEMONS];
    unsigned lives_n;
    int instance_of[SIM_LIVES];
    struct oracle oracle;
    struct arena arena; /* of the twins */
};

extern bool sim_tracing;
void sim_trace(const struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define TRACE(w, ...)                                                                                        \
    do {                                                                                                     \
        if (sim_tracing) sim_trace(w, __VA_ARGS__);                                                          \
    } while (0)

/* Runs one seed from beginning to end; the verdict is in w->oracle. Gives everything back. */
void world_run(struct world *w, const struct sim_config *config);

void world_at(struct world *w, unsigned lane);
static inline bool world_is_away(const struct world *w, unsigned lane)
{
    return w->away == (int)lane || w->lanes[lane].redis.restored;
}
/* Once at each lane; not to be left by break or return. */
#define EACH_LANE(w)                                                                                         \
    for (unsigned at_ = 0, was_ = (w)->lane;                                                                 \
         world_at(w, at_ < (w)->config.lanes ? at_ : was_), at_ < (w)->config.lanes; at_++)
static inline bool world_any_restored(const struct world *w)
{
    bool any = false;
    for (unsigned i = 0; i < w->config.lanes; i++)
        any |= w->lanes[i].redis.restored;
    return any;
}
static inline unsigned world_lane_of(const struct world *w, int hash)
{
    return w->lane_of[hash];
}
static inline bool lanes_rule(const struct world *w, enum lanes_rule rule)
{
    return (w->config.lanes_off & (uint32_t)rule) == 0;
}
static inline bool world_rule(const struct world *w, enum world_rule rule)
{
    return (w->config.world_off & (uint64_t)rule) == 0;
}
static inline int64_t world_redis_ms(const struct world *w)
{
    return SIM_EPOCH_MS + (int64_t)w->now_ms + w->leap_ms;
}
static inline bool world_percent(struct world *w, unsigned percent)
{
    return prng_percent(&w->prng, percent);
}
static inline uint64_t world_below(struct world *w, uint64_t n)
{
    return prng_below(&w->prng, n);
}

static inline const struct counters *world_counters_of(const struct world *w, int instance)
{
    return instance == 1 && w->config.partial ? &w->first_counter : &w->counters;
}

/* Which hits on the field count down, as sim_config.down has it. */
static inline uint64_t world_down(const struct world *w, int field)
{
    return field == SIM_DOWN && !w->config.feeds ? w->config.down : 0;
}
/* What the k-th hit on a field adds. */
static inline int64_t world_delta(const struct world *w, int field, unsigned k)
{
    return (world_down(w, field) >> (2 * k) & 1) != 0 ? -hit_delta(k) : hit_delta(k);
}
/* How often is the k-th hit on a field in a sum of them? The addition turns the digit of one that counts down into 3 less that. */
static inline unsigned world_times(const struct world *w, int field, int64_t sum, unsigned k)
{
    uint64_t down = world_down(w, field);
    return (unsigned)((((uint64_t)sum + down) ^ down) >> (2 * k)) & 3;
}
struct slice world_hash_name(const struct world *w, int hash);
struct slice world_field_name(const struct world *w, int hash, int field);
int world_hash_of(const struct world *w, struct slice key); /* -1: none */
int world_field_of(const struct world *w, int hash, struct slice field);
static inline int world_counter_of(const struct world *w, int hash)
{
    return w->config.counters == 1 ? 0 : hash & 1;
}

/* scheduler.c */
void scheduler_begin(struct world *w);
bool scheduler_step(struct world *w); /* false: nothing can happen, not even time passing */
void scheduler_quiesce(struct world *w);

#endif
