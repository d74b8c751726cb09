/* tests/sim/oracle.c - see oracle.h. */
#include "sim/world.h"

#include "base/heap.h"

#include <stdarg.h>
#include <stdio.h>

const char *fault_name(enum fault f)
{
    static const char *const names[] = {"none", "loss", "double", "stuck", "answer", "books", "protocol"};
    return names[f];
}

void oracle_init(struct oracle *o)
{
    memset(o, 0, sizeof *o);
}

void fault_found(struct world *w, enum fault f, const char *fmt, ...)
{
    struct oracle *o = &w->oracle;
    if (o->fault != FAULT_NONE) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(o->text, sizeof o->text, fmt, args);
    va_end(args);
    o->fault = f;
    o->step = w->step;
    TRACE(w, "FAULT %s: %s", fault_name(f), o->text);
}

static void fault_at(struct world *w, enum fault f, int hash, int field, unsigned k, const char *what)
{
    struct slice name = world_hash_name(w, hash), of = world_field_name(w, hash, field);
    fault_found(w, f, "hit %u on %.*s %.*s: %s", k, SLICE_ARG(name), SLICE_ARG(of), what);
}

/* What Redis runs. */

/* A hit that Redis took later than allowed, or whose hash was in no index then, is not promised. */
static int64_t until_time(const struct world *w, int hash, int64_t dirty_ms)
{
    int64_t lag_ms = 2 * (int64_t)w->config.answer_ms + w->config.coalesce.doubt_ms + UNTIL_SLACK_MS;
    bool late = world_redis_ms(w) - dirty_ms > lag_ms;
    return late || w->redis->now.dirty[hash] == 0 || w->config.leap_most_ms > 0 ? 0 : dirty_ms;
}

static void hit_ran(struct world *w, int life, const struct wire_cell *c, unsigned k, int64_t dirty_ms)
{
    struct hit *hit = &w->oracle.hits[c->hash][c->field][k];
    hit->at_ms = until_time(w, c->hash, dirty_ms);
    if (hit->at_ms != 0 && hit->at_ms < mysql_complete_until(w, world_counter_of(w, c->hash)))
        fault_at(w, FAULT_LOSS, c->hash, c->field, k, "complete_until was past it when it came");
    int64_t later = 0; /* hits on the field come in the order of k: those after this one in the frame */
    for (unsigned j = k + 1; j < SIM_HITS; j++)
        later += (int64_t)world_times(w, c->field, c->delta, j) * world_delta(w, c->field, j);
    hit->value = c->value - later;
    hit->exact = hit->failed = false;
    hit->ran_by = life;
    if (world_times(w, c->field, c->delta, k) > 1)
        fault_at(w, FAULT_DOUBLE, c->hash, c->field, k, "twice in one frame");
    hit->ran = true;
    if (++hit->applied > 1) fault_at(w, FAULT_DOUBLE, c->hash, c->field, k, "its frame ran twice in Redis");
    if (hit->told == TOLD_REFUSED) fault_at(w, FAULT_ANSWER, c->hash, c->field, k, "refused, then run");
}

/* Of a frame that is sent again it is named (replay_failed), and the books have it. */
static void cell_failed(struct world *w, const struct wire_cell *c, bool again)
{
    w->oracle.cell_errors = true;
    w->oracle.books_blurred |= again;
    for (unsigned k = 0; k < SIM_HITS; k++) {
        struct hit *hit = &w->oracle.hits[c->hash][c->field][k];
        if (world_times(w, c->field, c->delta, k) == 0) continue;
        hit->failed = true;
        hit->lost |= again;
    }
}

static struct execution *execution_add(struct redis *r)
{
    if (r->executions_n == r->executions_cap) {
        r->executions_cap = r->executions_cap == 0 ? 64 : 2 * r->executions_cap;
        r->executions = heap_realloc(r->executions, r->executions_cap * sizeof *r->executions);
    }
    return &r->executions[r->executions_n++];
}

static void take_back(struct world *w, struct execution *e);

/* Hits that the other server runs in a split brain are lost from the beginning. */
void oracle_executed(struct world *w, struct link *l, struct wire_frame *f)
{
    struct execution *e = execution_add(w->redis);
    *e = (struct execution){.offset = w->redis->offset, .seq = f->seq, .life = l->life};
    for (unsigned i = 0; i < f->cells_n; i++) {
        const struct wire_cell *c = &f->cells[i];
        if (c->error != NULL) {
            cell_failed(w, c, f->again);
            w->oracle.books_blurred |= !l->client_open; /* no client will read of it */
            continue;
        }
        e->cells[e->cells_n++] = *c;
        for (unsigned k = 0; k < SIM_HITS; k++)
            if (world_times(w, c->field, c->delta, k) != 0) hit_ran(w, l->life, c, k, f->dirty_ms);
    }
    tokens_executed(w, f, e);
    ops_executed(w, f, e);
    f->execution = w->redis->executions_n;
    if (w->redis->is_other) take_back(w, e);
}

/* What the daemon knows, and what a lost tail takes back. */

static void each_hit(struct world *w, const struct execution *e, void (*act)(struct hit *hit))
{
    for (unsigned i = 0; i < e->cells_n; i++)
        for (unsigned k = 0; k < SIM_HITS; k++)
            if (world_times(w, e->cells[i].field, e->cells[i].delta, k) != 0)
                act(&w->oracle.hits[e->cells[i].hash][e->cells[i].field][k]);
    for (int target = 0; target < OP_TARGETS; target++)
        for (unsigned k = 0; k < SIM_HITS; k++)
            if ((e->ops[target] & 1U << k) != 0) act(&w->oracle.ops[target][k]);
}

static void hit_lost(struct hit *hit)
{
    hit->lost = true;
}

static void hit_awaited(struct hit *hit)
{
    hit->awaited = true;
}

static void hit_taken_back(struct hit *hit)
{
    hit->applied--;
}

static void hit_given_back(struct hit *hit)
{
    hit->applied++;
    hit->at_ms = 0; /* it may have run since, in the copy, with another score */
}

static void token_taken_back(struct hit *hit)
{
    hit->applied--;
    hit->was_lost = true;
    hit->exact = false;
}

/* Will its daemon send it again? An operator's copy may be older than any fence. */
static bool comes_again(const struct world *w, const struct execution *e)
{
    return w->config.keeps_all && !w->config.unfenced && !w->redis->restored && !e->put_aside &&
           daemon_hears(w, e->life);
}

/* An answer that a token gave from before is lost with that one. */
static void execution_lost(struct world *w, const struct execution *e)
{
    bool again = comes_again(w, e);
    void (*act)(struct hit *) = again ? hit_awaited : hit_lost;
    each_hit(w, e, act);
    tokens_each(w, e, false, act);
    w->oracle.ops_lost |= !again;
}

void oracle_life_ends(struct world *w, int life)
{
    for (size_t i = 0; i < w->redis->executions_n; i++) {
        const struct execution *e = &w->redis->executions[i];
        if (e->life == life && e->known && e->lost) execution_lost(w, e);
    }
}

void oracle_known(struct world *w, struct execution *e)
{
    e->known = true;
    if (e->lost) execution_lost(w, e);
}

static void take_back(struct world *w, struct execution *e)
{
    e->lost = true;
    each_hit(w, e, hit_taken_back);
    tokens_each(w, e, true, token_taken_back);
    if (e->known) execution_lost(w, e);
}

void oracle_named(struct world *w, int life, int64_t found)
{
    for (size_t i = 0; i < w->redis->executions_n; i++) {
        struct execution *e = &w->redis->executions[i];
        if (e->life == life && (int64_t)e->seq > found) e->named |= e->lost && e->known;
    }
}

/* A hit that was answered and is in no history any more has been named. */
void oracle_named_all(struct world *w, const struct process *life)
{
    for (size_t i = 0; i < w->redis->executions_n; i++) {
        const struct execution *e = &w->redis->executions[i];
        bool silent = e->life == life->index && e->lost && e->known && !e->named;
        if (!silent || life->let_go || w->config.rule_out) continue;
        for (int target = 0; target < OP_TARGETS; target++)
            ops_named(w, target, e->ops[target]);
        for (unsigned k = 0; k < SIM_HITS && e->cells_n > 0; k++) {
            const struct hit *hit = &w->oracle.hits[e->cells[0].hash][e->cells[0].field][k];
            bool answered =
                hit->told == TOLD_DONE && !hit->failed; /* replay_failed names what failed since */
            if (world_times(w, e->cells[0].field, e->cells[0].delta, k) != 0 && hit->applied == 0 && answered)
                fault_at(w, FAULT_LOSS, e->cells[0].hash, e->cells[0].field, k,
                         "answered, lost, and not named by frames_lost");
        }
    }
}

static void history_lost(struct world *w)
{
    w->oracle.tail_lost = true;
    w->oracle.books_blurred |= w->oracle.cell_errors;
    ops_forgot(w);
}

void oracle_lost_tail(struct world *w, uint64_t offset)
{
    struct redis *r = w->redis;
    history_lost(w);
    for (size_t i = r->restored ? r->newest_executions : 0; i < r->executions_n; i++) {
        struct execution *e = &r->executions[i];
        if (!e->lost && e->offset > offset) take_back(w, e);
    }
    if (mysql_highest_gen(w) > r->now.gen && !r->restored) w->oracle.gen_below = true;
}

void oracle_restored(struct world *w)
{
    history_lost(w);
    for (size_t i = 0; i < w->redis->executions_n; i++) {
        struct execution *e = &w->redis->executions[i];
        if (e->lost || e->offset <= w->redis->dump.offset) continue;
        e->put_aside = true;
        take_back(w, e);
    }
}

void oracle_mended(struct world *w)
{
    history_lost(w);
    for (size_t i = 0; i < w->redis->executions_n; i++) {
        struct execution *e = &w->redis->executions[i];
        if (i >= w->redis->newest_executions && !e->lost) take_back(w, e);
        if (!e->put_aside) continue;
        e->lost = false;
        each_hit(w, e, hit_given_back);
    }
}

/* What clients are told. */

static void told_done(struct world *w, int h, int f, unsigned k, int64_t value)
{
    const struct hit *hit = &w->oracle.hits[h][f][k];
    if (hit->applied == 0 && !hit->lost && !hit->awaited)
        fault_at(w, FAULT_LOSS, h, f, k, "answered, but Redis never ran it");
    if (hit->exact && value != hit->value) fault_at(w, FAULT_ANSWER, h, f, k, "the running value is wrong");
}

void oracle_told(struct world *w, int h, int f, unsigned k, enum told told, const int64_t *value)
{
    struct hit *hit = &w->oracle.hits[h][f][k];
    if (hit->told != TOLD_NOTHING) fault_at(w, FAULT_ANSWER, h, f, k, "answered twice");
    hit->told = told;
    if (told == TOLD_DONE) told_done(w, h, f, k, *value);
    if (told == TOLD_REFUSED && hit->applied > 0)
        fault_at(w, FAULT_ANSWER, h, f, k, "refused, but Redis ran it");
}

void oracle_told_token(struct world *w, int h, int f, unsigned k, enum told told, const int64_t *value)
{
    struct hit *hit = &w->oracle.hits[h][f][k];
    if (hit->told != TOLD_DONE) hit->told = told;
    if (told == TOLD_DONE) told_done(w, h, f, k, *value);
}

void oracle_sent(struct world *w, int h, int f, int64_t delta)
{
    for (unsigned k = 0; k < SIM_HITS; k++)
        if (world_times(w, f, delta, k) != 0 && w->oracle.hits[h][f][k].answered_unknown)
            fault_at(w, FAULT_ANSWER, h, f, k, "answered with outcome unknown, then sent again");
}

/* What is in MySQL. */

void oracle_merged(struct world *w, int h, int f)
{
    if ((w->mysql.gone[h] & 1U << f) != 0 && w->mysql.rows[h][f] != 0)
        fault_at(w, FAULT_PROTOCOL, h, f, 0, "a row was made that the counter does not make");
    if (f == SIM_VISITORS) return; /* counted at the end */
    for (unsigned k = 0; k < SIM_HITS; k++)
        if (world_times(w, f, mysql_has(&w->mysql, h, f), k) > 1)
            fault_at(w, FAULT_DOUBLE, h, f, k, "twice in MySQL");
}

/* With a split brain and no replica to wait for, hits of the other side come after it. Nor does it know of what is gone since an
 * older copy was put under its links, before that was noticed. */
void oracle_until(struct world *w, int counter)
{
    if (w->config.unfenced || w->config.swaps) return;
    int64_t until_ms = mysql_complete_until(w, counter);
    for (int h = 0; h < SIM_HASHES; h++)
        for (int f = 0; f < SIM_HIT_FIELDS && world_counter_of(w, h) == counter; f++)
            for (unsigned k = 0; k < w->oracle.hits_n[h][f]; k++) {
                const struct hit *hit = &w->oracle.hits[h][f][k];
                bool owed = hit->applied > 0 && hit->at_ms != 0 && hit->at_ms < until_ms;
                if (owed && world_times(w, f, mysql_has(&w->mysql, h, f), k) == 0)
                    fault_at(w, FAULT_LOSS, h, f, k, "complete_until is past it, MySQL does not have it");
            }
}

/* Another daemon may say so while Redis waits for what it lost, and so may one that has not noticed yet that its server is no
 * primary any more. */
static bool is_owed(struct world *w, const struct hit *hit, int life)
{
    bool knows = hit->ran_by == life && !moves_astray(daemon_life(w, life));
    return !hit->lost && (!hit->awaited || knows);
}

void oracle_answered(const struct process *life, int64_t sums[SIM_HASHES][SIM_FIELDS])
{
    struct world *w = life->w;
    if (w->config.daemons > 1 && moves_astray(life)) return;
    for (int h = 0; h < SIM_HASHES; h++)
        for (int f = 0; f < SIM_FIELDS && world_lane_of(w, h) == life->lane; f++)
            for (unsigned k = 0; k < w->oracle.hits_n[h][f]; k++) {
                const struct hit *hit = &w->oracle.hits[h][f][k];
                if (hit->told == TOLD_DONE && is_owed(w, hit, life->index))
                    sums[h][f] += world_delta(w, f, k);
            }
}

void oracle_synced(struct world *w, int life, int h, int f, int64_t answered)
{
    for (unsigned k = 0; k < SIM_HITS; k++) {
        const struct hit *hit = &w->oracle.hits[h][f][k];
        bool owed = world_times(w, f, answered, k) != 0 && is_owed(w, hit, life);
        if (owed && world_times(w, f, mysql_has(&w->mysql, h, f), k) == 0)
            fault_at(w, FAULT_LOSS, h, f, k, "CTR.SYNC said merged, MySQL does not have it");
    }
}

void oracle_total(struct world *w, int life, int h, int f, int64_t answered, int64_t total)
{
    for (unsigned k = 0; k < SIM_HITS; k++) {
        const struct hit *hit = &w->oracle.hits[h][f][k];
        unsigned times = world_times(w, f, total, k);
        int64_t aside = w->mysql.rejects[h][f] + w->mysql.deleted[h][f];
        bool rejected = world_times(w, f, aside, k) > 0; /* in no row */
        if (times > 1) fault_at(w, FAULT_DOUBLE, h, f, k, "twice in a live total");
        if (times == 0 && world_times(w, f, answered, k) != 0 && is_owed(w, hit, life) && !rejected)
            fault_at(w, FAULT_LOSS, h, f, k, "answered, and not in a live total");
        if (times > 0 &&
            (k >= w->oracle.hits_n[h][f] || (hit->told == TOLD_REFUSED && hit->sent == 0 && !hit->ran)))
            fault_at(w, FAULT_ANSWER, h, f, k, "in a live total, and never counted");
    }
}

/* At the end, when the world is at rest. */

static void hit_at_end(struct world *w, int h, int f, unsigned k)
{
    const struct hit *hit = &w->oracle.hits[h][f][k];
    unsigned merged = world_times(w, f, mysql_has(&w->mysql, h, f), k);
    w->oracle.told[hit->told]++;
    if (merged < hit->applied) fault_at(w, FAULT_LOSS, h, f, k, "in Redis' history, not in MySQL");
    if (merged > hit->applied && (hit->told == TOLD_NOTHING || hit->told == TOLD_REFUSED))
        fault_at(w, FAULT_DOUBLE, h, f, k, "in MySQL, not in Redis' history");
    if (hit->told == TOLD_DONE && merged == 0 && !hit->lost)
        fault_at(w, FAULT_LOSS, h, f, k, "answered, but gone");
    if (hit->told == TOLD_NOTHING) fault_at(w, FAULT_ANSWER, h, f, k, "never answered");
}

static void books_at_end(struct world *w)
{
    int64_t applied[SIM_COUNTERS] = {0}, accepted[SIM_COUNTERS] = {0};
    for (int h = 0; h < SIM_HASHES; h++)
        for (int f = 0; f < SIM_FIELDS; f++)
            for (unsigned k = 0; k < w->oracle.hits_n[h][f]; k++)
                applied[world_counter_of(w, h)] += w->oracle.hits[h][f][k].applied * world_delta(w, f, k);
    for (int h = 0; h < SIM_HASHES; h++)
        applied[0] += ops_visitors(w, h);
    for (int c = 0; c < SIM_COUNTERS; c++)
        for (unsigned i = 0; i < w->config.lanes; i++)
            accepted[c] += w->lanes[i].redis.now.accepted[c];
    for (int c = 0; c < SIM_COUNTERS && !w->oracle.books_blurred; c++)
        if (applied[c] + w->oracle.overbooked[c] != accepted[c])
            fault_found(w, FAULT_BOOKS, "tally:accepted of counter %d is %lld, applied were %lld", c,
                        (long long)accepted[c], (long long)applied[c]);
}

void oracle_at_end(struct world *w)
{
    for (int h = 0; h < SIM_HASHES; h++)
        for (int f = 0; f < SIM_FIELDS; f++)
            for (unsigned k = 0; k < w->oracle.hits_n[h][f]; k++)
                hit_at_end(w, h, f, k);
    ops_at_end(w);
    books_at_end(w);
    if (w->oracle.gen_below && !w->config.rule_out)
        fault_found(w, FAULT_PROTOCOL,
                    "tally:gen fell below the ledger's: the gen check would hold all merges");
}

static const char *redis_unrest(const struct redis *r)
{
    for (int h = 0; h < SIM_HASHES; h++) {
        if (r->now.pending[h].has != 0)
            return r->now.dirty[h] == 0 ? "a pending hash in no index" : "a pending hash in tally:dirty";
    }
    for (int i = 0; i < SIM_BATCHES; i++)
        if (r->now.batch[i].used)
            return r->now.batch[i].stands ? "a batch that stands" : "a claimed hash without registry";
    for (int i = 0; i < SIM_JOURNALS; i++)
        if (r->now.journal[i].stands || r->now.journal[i].listed) return "a journal";
    return NULL;
}

static const char *life_unrest(const struct process *life)
{
    if (moves_lacks(life)) return "a frame that was lost, and not looked for";
    if (!coalesce_idle(life->coalesce) && !life->let_go) return "coalesce is not idle";
    struct batch_id *ids;
    uint32_t running = sync_running(life->sync, &ids);
    heap_free(ids);
    if (running > 0 || !sync_quiet(life->sync)) return "sync is not idle";
    return daemon_may_end(life) ? NULL : "a request without an answer";
}

static const char *lane_unrest(struct world *w)
{
    const char *what = redis_unrest(w->redis);
    for (unsigned i = 0; i < w->config.daemons && what == NULL; i++)
        if (w->daemons[i].life != NULL) what = life_unrest(w->daemons[i].life);
    list_for_each (node, &w->mysql.jobs)
        if (CONTAINER_OF(node, struct job, link)->lane == w->lane) what = "a transaction under way";
    return what;
}

static const char *clients_unrest(const struct world *w, const struct daemon *d)
{
    if (d->life == NULL) return NULL;
    for (int i = 0; i < SIM_CLIENTS; i++)
        if (client_waits(w, &d->clients[i])) return "a client waits for room, or for an answer";
    return NULL;
}

/* All hits of other stores are in MySQL. */
const char *oracle_unrest_beside(struct world *w)
{
    const struct counter *c = &w->counter[world_counter_of(w, w->refused)];
    struct slice store = counter_store(c, world_hash_name(w, w->refused));
    for (int h = 0; h < SIM_HASHES; h++) {
        bool same = world_counter_of(w, h) == world_counter_of(w, w->refused) &&
                    slice_eq(counter_store(c, world_hash_name(w, h)), store);
        for (int f = 0; f < SIM_HIT_FIELDS && !same; f++)
            for (unsigned k = 0; k < w->oracle.hits_n[h][f]; k++)
                if (w->oracle.hits[h][f][k].applied > 0 &&
                    world_times(w, f, mysql_has(&w->mysql, h, f), k) == 0)
                    return "hits of a store wait for another one's, whose rows are refused";
    }
    return NULL;
}

const char *oracle_unrest(struct world *w)
{
    const char *what = NULL;
    EACH_LANE (w)
        if (what == NULL && !world_is_away(w, w->lane)) what = lane_unrest(w);
    for (unsigned i = 0; i < w->config.daemons && what == NULL; i++)
        what = clients_unrest(w, &w->daemons[i]);
    return what;
}
