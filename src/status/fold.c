/* status/fold.c - several lanes as one: sums, the worst, the oldest. */
#include "base/heap.h"
#include "status/probe.h"

#include <stdlib.h>

static void oldest_fold(struct figure *to, struct figure from)
{
    if (from.known && (!to->known || from.value > to->value)) *to = from;
}

static void sum_fold(struct figure *to, struct figure from, bool first)
{
    to->known = from.known && (first || to->known);
    to->value += from.value;
}

static void names_fold(struct status_redis *to, struct status_redis *from)
{
    for (size_t i = 0; i < from->held_names_n; i++)
        if (to->held_names_n < STATUS_NAMES_MAX)
            to->held_names[to->held_names_n++] = from->held_names[i];
        else
            heap_free(from->held_names[i]);
    from->held_names_n = 0;
}

static void servers_fold(struct status_redis *to, const struct status_redis *from)
{
    to->up = to->up && from->up;
    if (!from->up && to->why[0] == '\0') memcpy(to->why, from->why, sizeof to->why);
    to->nameless = to->nameless || from->nameless;
    to->sorted = to->sorted && from->sorted;
    to->aof_writes = to->aof_writes && from->aof_writes;
    if (from->replicas < to->replicas) to->replicas = from->replicas;
    to->dirty += from->dirty;
    to->held += from->held;
    oldest_fold(&to->oldest_ms, from->oldest_ms);
}

/* Facts about one server are the first lane's. */
static void redis_fold(struct status *s, struct status *lane, uint32_t number)
{
    struct status_redis *to = &s->redis, *from = &lane->redis;
    struct status_lane *all = to->lane;
    if (number == 0) {
        *to = *from;
        to->lane = heap_zalloc(to->lanes * sizeof *to->lane);
        from->held_names_n = 0;
    } else {
        servers_fold(to, from);
        names_fold(to, from);
        to->lane = all;
    }
    struct status_lane *of = &to->lane[number];
    *of = (struct status_lane){.up = from->up, .held = status_rolled_back(lane), .dirty = from->dirty};
    of->oldest_ms = from->oldest_ms;
    memcpy(of->why, from->why, sizeof of->why);
    memcpy(of->at, from->at, sizeof of->at);
}

static void counter_fold(struct status_counter *to, const struct status_counter *from, bool first)
{
    struct figure *until = &to->complete_until_ms, theirs = from->complete_until_ms;
    sum_fold(&to->dirty, from->dirty, first);
    sum_fold(&to->merged, from->merged, first);
    sum_fold(&to->rejected, from->rejected, first);
    oldest_fold(&to->oldest_ms, from->oldest_ms);
    if (first || theirs.value < until->value) until->value = theirs.value;
    until->known = theirs.known && (first || until->known);
}

static int oldest_first(const void *a, const void *b)
{
    int64_t left = ((const struct status_batch *)a)->age_ms, right = ((const struct status_batch *)b)->age_ms;
    return (left < right) - (left > right);
}

static void batches_fold(struct status *s, const struct status *lane)
{
    if (lane->batches_n == 0) return;
    s->batches = heap_realloc(s->batches, (s->batches_n + lane->batches_n) * sizeof *s->batches);
    memcpy(s->batches + s->batches_n, lane->batches, lane->batches_n * sizeof *s->batches);
    s->batches_n += lane->batches_n;
    qsort(s->batches, s->batches_n, sizeof *s->batches, oldest_first);
}

void status_fold(struct status *s, struct status *lane, uint32_t number)
{
    bool held = number > 0 && status_rolled_back(s);
    uint64_t gen = s->mysql.gen, redis_gen = s->redis.gen;
    redis_fold(s, lane, number);
    s->mysql = lane->mysql;
    s->redis.gen = lane->redis.gen;
    if (held && !status_rolled_back(lane)) { /* the two gens say so: those of a lane that is */
        s->mysql.gen = gen;
        s->redis.gen = redis_gen;
    }
    for (size_t i = 0; i < s->counters_n; i++)
        counter_fold(&s->counters[i], &lane->counters[i], number == 0);
    batches_fold(s, lane);
}
