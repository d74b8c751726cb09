/* status/status.c - one look at all, and of several lanes one sum. */
#include "status/status.h"
#include "base/clock.h"
#include "base/heap.h"
#include "status/probe.h"
#include "status/proof.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* --- several lanes as one: sums, the worst, the oldest. --- */

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
        to->up = to->up && from->up;
        if (!from->up && to->why[0] == '\0') memcpy(to->why, from->why, sizeof to->why);
        to->nameless = to->nameless || from->nameless;
        to->sorted = to->sorted && from->sorted;
        to->aof_writes = to->aof_writes && from->aof_writes;
        if (from->replicas < to->replicas) to->replicas = from->replicas;
        to->dirty += from->dirty;
        to->held += from->held;
        oldest_fold(&to->oldest_ms, from->oldest_ms);
        names_fold(to, from);
        to->lane = all;
    }
    struct status_lane *of = &to->lane[number];
    *of = (struct status_lane){.up = from->up, .held = status_rolled_back(lane), .dirty = from->dirty};
    of->oldest_ms = from->oldest_ms;
    memcpy(of->why, from->why, sizeof of->why);
    memcpy(of->at, from->at, sizeof of->at);
}

/* Of several lanes: adds one lane's look, with its books, to the look at all of them. It takes over the lane's names
 * and batches. */
static void status_fold(struct status *s, struct status *lane, uint32_t number)
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
    for (size_t i = 0; i < s->counters_n; i++) {
        struct status_counter *to = &s->counters[i];
        const struct status_counter *from = &lane->counters[i];
        bool first = number == 0;
        struct figure *until = &to->complete_until_ms, theirs = from->complete_until_ms;
        sum_fold(&to->dirty, from->dirty, first);
        sum_fold(&to->merged, from->merged, first);
        sum_fold(&to->rejected, from->rejected, first);
        oldest_fold(&to->oldest_ms, from->oldest_ms);
        if (first || theirs.value < until->value) until->value = theirs.value;
        until->known = theirs.known && (first || until->known);
    }
    if (lane->batches_n == 0) return;
    s->batches = heap_realloc(s->batches, (s->batches_n + lane->batches_n) * sizeof *s->batches);
    memcpy(s->batches + s->batches_n, lane->batches, lane->batches_n * sizeof *s->batches);
    s->batches_n += lane->batches_n;
    qsort(s->batches, s->batches_n, sizeof *s->batches, batches_order);
}

/* --- the order of the questions. The ledger's gen is read before Redis', so that a merge between the two cannot look like a Redis
 * that lost it. The service comes first and last, for the rate of its hits. --- */

static const struct proof_limits probe_limits = {.dirty_max = 2000, .fields_max = 20000};

static void status_init(const struct source *where, struct status *s)
{
    *s = (struct status){.at_ms = wall_ms(), .mono_ms = mono_ms()};
    s->redis.durability = (enum conf_durability)where->conf->redis_durability;
    s->redis.replicas_wanted = where->conf->redis_replicas;
    s->redis.lanes = where->lanes;
    s->counters_n = where->counters->n;
    s->counters = heap_zalloc((s->counters_n + 1) * sizeof *s->counters);
    for (size_t i = 0; i < s->counters_n; i++)
        s->counters[i].counter = &where->counters->all[i];
    sums_init(&s->books.sums, where->counters);
}

static void books_unknown(struct status *s, const char *why)
{
    snprintf(s->books.why, sizeof s->books.why, "%.*s", STATUS_WHY_BYTES - 1, why);
}

static void books_probe(struct ask *a, struct db *db, struct status *s)
{
    struct error e;
    if (!s->mysql.read) {
        books_unknown(s, "MySQL could not be read");
    } else if (proof_read(a, db, &probe_limits, &s->books.sums, &e) != ERR_NONE) {
        books_unknown(s, e.code == ERR_FAILED ? "too much waits to add it up here: run `tallyd verify`"
                                              : e.text);
    } else if (s->books.sums.realm != REALM_OURS) {
        books_unknown(s, "MySQL was merged for other data than this Redis has");
    } else {
        s->books.known = true;
        s->books.unbalanced = sums_unbalanced(&s->books.sums);
    }
}

/* why: it could not be connected; NULL: it is. */
static void lane_probe(struct ask *a, const struct source *where, bool brief, struct db *db, const char *why,
                       struct status *s)
{
    const struct batch_id realm = why == NULL ? a->realms[a->lane] : (struct batch_id){{0}};
    s->redis.nameless = why == NULL && batch_id_is_zero(&realm);
    probe_mysql_first(db, &realm, s);
    if (why == NULL)
        probe_redis(a, where->counters, brief, s);
    else
        snprintf(s->redis.why, sizeof s->redis.why, "%.*s", (int)strcspn(why, ";"), why);
    probe_mysql_lane(db, where, &realm, brief, s);
}

static void servers_probe(const struct source *where, const struct status_how *how, struct db *db,
                          struct status *s)
{
    struct ask ask;
    struct error e;
    bool many = where->lanes > 1;
    bool open = (many ? ask_find : ask_open)(&ask, where, PROBE_WAIT_MS, PROBE_WAIT_MS, &e) == ERR_NONE;
    if (!open || !many) lane_probe(&ask, where, how->brief, db, open ? NULL : e.text, s);
    for (uint32_t i = 0; open && many && i < where->lanes; i++) {
        struct status lane;
        bool connected = ask_lane(&ask, i, &e) == ERR_NONE;
        status_init(where, &lane);
        lane_probe(&ask, where, how->brief, db, connected ? NULL : e.text, &lane);
        status_fold(s, &lane, i);
        status_close(&lane);
    }
    probe_mysql(db, where, how->brief, s);
    if (!how->books)
        books_unknown(s, "not asked for");
    else if (s->redis.up)
        books_probe(&ask, db, s);
    else
        books_unknown(s, "Redis could not be read");
    if (open) ask_close(&ask);
}

static void status_pause_until(uint64_t when_ms)
{
    uint64_t now_ms = mono_ms();
    if (now_ms >= when_ms) return;
    uint64_t left_ms = when_ms - now_ms;
    struct timespec pause = {.tv_sec = (time_t)(left_ms / 1000), .tv_nsec = (long)(left_ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

void status_probe(const struct source *where, const struct status_how *how, struct status *out)
{
    struct buf info = {0};
    struct db_config hasty = *where->mysql; /* borrows its texts */
    status_init(where, out);
    redisContext *own = how->service == NULL ? service_connect(where->conf, &out->service.secure) : NULL;
    redisContext *link = how->service == NULL ? own : how->service;
    hasty.reads = true;
    hasty.connect_timeout_s = hasty.read_timeout_s = hasty.write_timeout_s = PROBE_MYSQL_S;
    struct db *db = db_create(&hasty);
    probe_service(link, &info, out);
    servers_probe(where, how, db, out);
    probe_stands(&info, out);
    if (how->rate_ms > 0) {
        status_pause_until(out->mono_ms + how->rate_ms);
        probe_service_again(link, out);
    }
    db_destroy(&db);
    if (own != NULL) redisFree(own);
    buf_free(&info);
}

void status_close(struct status *s)
{
    for (size_t i = 0; i < s->redis.held_names_n; i++)
        heap_free(s->redis.held_names[i]);
    heap_free(s->redis.lane);
    heap_free(s->counters);
    heap_free(s->batches);
    schema_report_close(&s->schema);
    sums_close(&s->books.sums);
    *s = (struct status){0};
}

bool status_rolled_back(const struct status *s)
{
    return s->redis.up && s->mysql.read && s->redis.gen < s->mysql.gen;
}
