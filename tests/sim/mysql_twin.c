/* tests/sim/mysql_twin.c - see mysql_twin.h. */
#include "sim/world.h"

#include "base/heap.h"
#include "base/slice.h"
#include "base/sm.h"
#include <stdio.h>

void mysql_init(struct mysql *m)
{
    memset(m, 0, sizeof *m);
    m->up = true;
    list_init(&m->jobs);
}

static void job_free(struct job *job)
{
    list_remove(&job->link);
    heap_free(job);
}

void mysql_close(struct mysql *m)
{
    while (!list_empty(&m->jobs))
        job_free(CONTAINER_OF(m->jobs.next, struct job, link));
    heap_free(m->ledger);
    heap_free(m->copy.ledger);
}

static unsigned put_key(const struct batch *b, const struct batch_row *row, char out[40])
{
    struct buf key = {0};
    chunk_row_key(b, row, &key);
    PRE(key.n <= 40);
    memcpy(out, key.p, key.n);
    unsigned n = (unsigned)key.n;
    buf_free(&key);
    return n;
}

int64_t mysql_count(const struct world *w, const struct counter *c, struct slice key, struct slice field)
{
    int of_hash, of_field;
    return table_find(w, c, key, field, &of_hash, &of_field) ? w->mysql.rows[of_hash][of_field] : 0;
}

static void job_row(struct world *w, struct job *job, const struct batch *b, const struct batch_row *r)
{
    struct slice key = batch_hash_name(b, r->hash), field = batch_field(b, r);
    int hash = world_hash_of(w, key), i = (int)job->rows_n++, of_hash = hash, of_field = 0;
    if (!num_parse(batch_value(b, r), &job->rows[i].delta)) UNREACHABLE();
    if (!table_find(w, &w->counter[world_counter_of(w, hash)], key, field, &of_hash, &of_field))
        fault_found(w, FAULT_PROTOCOL, SLICE_FMT " " SLICE_FMT " is in no row", SLICE_ARG(key),
                    SLICE_ARG(field));
    job->rows[i].hash = hash;
    job->rows[i].field = world_field_of(w, hash, field);
    job->rows[i].of_hash = of_hash;
    job->rows[i].of_field = of_field;
}

static void job_rows(struct world *w, struct job *job, const struct chunk *c)
{
    const struct batch *b = c->batch;
    PRE(b->sealed && c->first + c->rows_n <= b->rows_n && c->rows_n <= SIM_ROWS);
    for (size_t i = 0; i < c->rows_n; i++)
        job_row(w, job, b, &b->rows[c->first + i]);
    if (c->rows_n == 0) return; /* read by a tallyd that knows no packed hashes */
    job->row.counter = world_counter_of(w, job->rows[0].hash);
    job->row.first_n = put_key(b, &b->rows[c->first], job->row.first);
    job->row.last_n = put_key(b, &b->rows[c->first + c->rows_n - 1], job->row.last);
}

void mysql_submit(struct process *life, struct chunk *c)
{
    struct world *w = life->w;
    struct job *job = heap_zalloc(sizeof *job);
    job->target = c;
    job->life = life->index;
    job->lane = life->lane;
    job->epoch = c->epoch.id;
    job->row = (struct ledger_row){.batch = c->batch->id,
                                   .chunk = c->index,
                                   .chunks = c->chunks,
                                   .gen = c->batch->gen,
                                   .realm = mysql_realm(w, &c->epoch.realm)};
    chunk_digest(c, job->row.digest);
    job_rows(w, job, c);
    list_push(&w->mysql.jobs, &job->link);
}

static struct ledger_row *ledger_find(struct mysql *m, const struct ledger_row *like)
{
    for (size_t i = 0; i < m->ledger_n; i++) {
        struct ledger_row *r = &m->ledger[i];
        if (r->chunk == like->chunk && memcmp(&r->batch, &like->batch, sizeof r->batch) == 0) return r;
    }
    return NULL;
}

static void ledger_add(struct mysql *m, const struct ledger_row *row, uint64_t now_ms)
{
    if (m->ledger_n == m->ledger_cap) {
        m->ledger_cap = m->ledger_cap == 0 ? 16 : 2 * m->ledger_cap;
        m->ledger = heap_realloc(m->ledger, m->ledger_cap * sizeof *m->ledger);
    }
    m->ledger[m->ledger_n] = *row;
    m->ledger[m->ledger_n++].merged_ms = now_ms;
}

static bool row_is_gone(const struct mysql *m, int hash, int field)
{
    return (m->gone[hash] >> field & 1) != 0;
}

/* Is the i-th count of this chunk in a row that an earlier one is in? */
static bool row_is_written(const struct world *w, const struct job *job, unsigned i)
{
    uint8_t row = table_row_fields(w, job->rows[i].of_hash, job->rows[i].of_field);
    for (unsigned k = 0; k < i; k++)
        if (job->rows[k].of_hash == job->rows[i].of_hash && (row >> job->rows[k].of_field & 1) != 0)
            return true;
    return false;
}

static void commit(struct world *w, struct job *job)
{
    struct mysql *m = &w->mysql;
    struct ledger_row *row = ledger_find(m, &job->row);
    PRE(!world_rule(w, WORLD_LEDGER) || row == NULL || row->left != 0); /* its key is unique */
    if (row == NULL || !world_rule(w, WORLD_LEDGER))
        ledger_add(m, &job->row, w->now_ms);
    else
        row->left = job->row.left, row->merged_ms = w->now_ms;
    for (unsigned i = 0; i < job->rows_n; i++) {
        int hash = job->rows[i].of_hash, field = job->rows[i].of_field;
        bool rejected = job->rows[i].refused || job->rows[i].missing, skipped = row_is_gone(m, hash, field);
        skipped |= !world_rule(w, WORLD_COUNTS) && row_is_written(w, job, i);
        if (!rejected && !skipped)
            m->rows[hash][field] += job->rows[i].delta;
        else if (rejected && world_rule(w, WORLD_REJECTS))
            m->rejects[job->rows[i].hash][job->rows[i].field] += job->rows[i].delta;
        if (job->rows[i].refused && job->rows[i].innocent)
            fault_found(w, FAULT_LOSS, "a good row became a reject while its table took none");
        oracle_merged(w, hash, field);
    }
}

static unsigned refused_n(const struct job *job)
{
    unsigned n = 0;
    for (unsigned i = 0; i < job->rows_n; i++)
        n += job->rows[i].refused;
    return n;
}

static unsigned missing_n(const struct job *job)
{
    unsigned n = 0;
    for (unsigned i = 0; i < job->rows_n; i++)
        n += job->rows[i].missing;
    return n;
}

static void refuse_rows(const struct world *w, struct job *job)
{
    for (unsigned i = 0; i < job->rows_n; i++) {
        bool poison = (w->mysql.poison[job->rows[i].hash] >> job->rows[i].field & 1) != 0;
        job->rows[i].missing = row_is_gone(&w->mysql, job->rows[i].of_hash, job->rows[i].of_field);
        job->rows[i].refused = !job->rows[i].missing && (poison || w->mysql.takes_none[job->row.counter]);
        job->rows[i].innocent = job->rows[i].refused && !poison;
    }
}

/* As refusals_judge() of mysql/merge_rows.c: MySQL takes none of its rows, and no other. */
static bool refuses_whole(struct world *w, struct job *job)
{
    refuse_rows(w, job);
    unsigned refused = refused_n(job), counter = (unsigned)job->row.counter;
    bool by_value = true;
    for (unsigned i = 0; i < job->rows_n; i++)
        by_value &= !job->rows[i].refused || (!job->rows[i].innocent && job->rows[i].hash % 2 == 0);
    if (refused == 0 || refused < job->rows_n) return false;
    if (by_value && (refused == 1 || job->target->values_only)) return false;
    if (!world_rule(w, WORLD_WITNESS)) return false;
    bool *witness = &daemon_life(w, job->life)->witness[counter];
    if (*witness && world_percent(w, 20)) *witness = false; /* a new connection */
    job->target->by_value = by_value;
    return !*witness || w->mysql.takes_none[counter];
}

void mysql_put_left(const struct world *w, unsigned left, struct buf *names)
{
    for (int h = 0; h < SIM_HASHES; h++)
        if ((left >> h & 1) != 0) put_measured(names, world_hash_name(w, h));
}

static void answer(struct world *w, struct job *job, enum merge_outcome outcome, const char *text)
{
    struct chunk *c = job->target;
    struct process *life = daemon_life(w, job->life);
    bool merged = outcome == MERGE_DONE;
    unsigned rows = job->rows_n, refused = merged ? refused_n(job) + missing_n(job) : 0, left = job->row.left;
    if (merged && rows > refused) life->witness[job->row.counter] = true;
    if (merged && left != 0) outcome = MERGE_LOCKED;
    job_free(job);
    TRACE(w, "mysql: life %d, chunk %u of %u, outcome %d %s", life->index, c->index, c->chunks, (int)outcome,
          text);
    c->outcome = outcome;
    c->rows_merged = merged ? rows - refused : 0;
    c->rows_rejected = refused;
    snprintf(c->text, sizeof c->text, "%s", text);
    struct arena *before = daemon_enter(life);
    c->left = (struct buf){0};
    if (outcome == MERGE_LOCKED) mysql_put_left(w, left, &c->left);
    c->done(c);
    daemon_leave(life, before);
}

void mysql_resolve(struct world *w, struct job *job)
{
    bool committed = world_percent(w, 50);
    TRACE(w, "mysql: limbo of life %d ends, chunk %u, %s", job->life, job->row.chunk,
          committed ? "committed" : "rolled back");
    if (committed) commit(w, job);
    job_free(job);
}

static bool epoch_is_over(const struct world *w, const struct job *job)
{
    const struct batch_id *id = &w->mysql.realms[job->row.realm].epoch.id;
    return world_rule(w, WORLD_EPOCH) && !batch_id_same(&job->epoch, id);
}

static void become_limbo(struct job *job)
{
    job->state = JOB_LIMBO;
    job->target = NULL;
}

/* An open transaction whose client is silent for too long loses its session: its COMMIT will find no link. */
static bool session_lost(const struct world *w, const struct job *job)
{
    return w->now_ms - job->opened_ms > w->config.wait_timeout_ms;
}

/* Another transaction that has inserted the same ledger row: the second one waits for its end. A lost session has rolled back, and
 * holds nothing any more. */
static struct job *rival(struct world *w, const struct job *job)
{
    list_for_each (node, &w->mysql.jobs) {
        struct job *other = CONTAINER_OF(node, struct job, link);
        bool same = other->row.chunk == job->row.chunk &&
                    memcmp(&other->row.batch, &job->row.batch, sizeof job->row.batch) == 0;
        bool holds = other->state == JOB_LIMBO || (other->state == JOB_OPEN && !session_lost(w, other));
        if (other != job && holds && same) return other;
    }
    return NULL;
}

/* A transaction that saw the row has it locked. */
static bool row_is_locked(struct world *w, int hash, uint8_t fields)
{
    list_for_each (node, &w->mysql.jobs) {
        const struct job *job = CONTAINER_OF(node, struct job, link);
        if (job->state == JOB_QUEUED || (job->state == JOB_OPEN && session_lost(w, job))) continue;
        for (unsigned i = 0; i < job->rows_n; i++)
            if (job->rows[i].of_hash == hash && (fields >> job->rows[i].of_field & 1) != 0 &&
                !job->rows[i].missing)
                return true;
    }
    return false;
}

void mysql_shop(struct world *w, int hash, int field)
{
    struct mysql *m = &w->mysql;
    uint8_t row = table_row_fields(w, hash, field);
    if (world_rule(w, WORLD_LOOK) && row_is_locked(w, hash, row)) return;
    m->gone[hash] ^= row;
    for (int f = 0; f < SIM_FIELDS; f++) {
        if ((row >> f & 1) == 0) continue;
        m->deleted[hash][f] += m->rows[hash][f];
        m->rows[hash][f] = 0;
    }
    TRACE(w, "mysql: the shop %s the row of field %d of hash %d",
          row_is_gone(m, hash, field) ? "deletes" : "makes", field, hash);
}

void mysql_lock(struct world *w, int hash)
{
    bool lets_go = (w->mysql.locked >> hash & 1) != 0;
    if (!lets_go && row_is_locked(w, hash, (1U << SIM_FIELDS) - 1)) return;
    w->mysql.locked ^= 1U << hash;
    TRACE(w, "mysql: the shop %s the rows of hash %d", lets_go ? "unlocks" : "locks", hash);
}

/* True: the lock is ours. */
static bool take_lock(struct world *w, struct job *job)
{
    struct job *other = rival(w, job);
    if (other == NULL || !world_rule(w, WORLD_LEDGER)) return true;
    if (other->state != JOB_LIMBO) return false;
    mysql_resolve(w, other);
    return true;
}

/* As mysql/locks.c: of the part what is locked is left. False: that is all there is. */
static bool take_part(const struct world *w, struct job *job, unsigned part)
{
    unsigned n = 0;
    for (unsigned i = 0; i < job->rows_n; i++) {
        if ((part >> job->rows[i].hash & 1) == 0) continue;
        if ((w->mysql.locked >> job->rows[i].of_hash & 1) != 0) job->row.left |= 1U << job->rows[i].hash;
    }
    for (unsigned i = 0; i < job->rows_n; i++)
        if ((part & ~job->row.left) >> job->rows[i].hash & 1) job->rows[n++] = job->rows[i];
    if (n == 0 && job->rows_n > 0) return false;
    job->rows_n = n;
    if (!world_rule(w, WORLD_LEFT)) job->row.left = 0;
    return true;
}

/* This chunk, or some of it, was committed before. Its ledger row is made young again, so that it outlives every run that still holds
 * these rows. False: answered. */
static bool known_chunk(struct world *w, struct job *job, struct ledger_row *row)
{
    bool same =
        row->chunks == job->row.chunks && memcmp(row->digest, job->row.digest, sizeof row->digest) == 0;
    if (same && row->left != 0) return true;
    if (same) row->merged_ms = w->now_ms;
    answer(w, job, same ? MERGE_ALREADY : MERGE_CONFLICT, same ? "1062 same digest" : "1062 other digest");
    return false;
}

/* The statements of the transaction. */
static void run_chunk(struct world *w, struct job *job)
{
    struct ledger_row *row = world_rule(w, WORLD_LEDGER) ? ledger_find(&w->mysql, &job->row) : NULL;
    unsigned part = row != NULL && world_rule(w, WORLD_PART) ? row->left : ~0U;
    job->state = JOB_OPEN;
    job->opened_ms = w->now_ms;
    if (row != NULL && !known_chunk(w, job, row)) return;
    if (!take_part(w, job, part))
        answer(w, job, MERGE_LOCKED, "all of it is locked");
    else if (refuses_whole(w, job))
        answer(w, job, MERGE_REFUSED, "none of its rows is taken");
}

static void begin(struct world *w, struct job *job)
{
    const struct chunk *c = job->target;
    if (!w->mysql.up) {
        answer(w, job, MERGE_DOWN, "2002 cannot connect");
    } else if (daemon_life(w, job->life)->mysql_starts <
               w->mysql.promoted) { /* its gate has not looked yet */
        answer(w, job, MERGE_DOWN, "another server");
    } else if (life_mono_ms(daemon_life(w, job->life)) > c->not_after_ms) {
        answer(w, job, MERGE_TOO_OLD, "too old");
    } else if (world_percent(w, w->calm ? 0 : w->config.table_refuses_percent)) {
        answer(w, job, MERGE_HELD, "1142 INSERT denied");
    } else if (!take_lock(w, job)) {
        answer(w, job, MERGE_DOWN, "1205 lock wait timeout");
    } else {
        run_chunk(w, job);
    }
}

static void end(struct world *w, struct job *job)
{
    if (session_lost(w, job)) {
        answer(w, job, MERGE_DOWN, "2006 server has gone away");
        return;
    }
    if (epoch_is_over(w, job)) {
        answer(w, job, MERGE_STALE, "the epoch is over");
        return;
    }
    if (!w->mysql.up && world_percent(w, 50)) { /* the others were let through before it was demoted */
        answer(w, job, MERGE_DOWN, "1290 read-only");
        return;
    }
    if (w->calm || !world_percent(w, w->config.lost_commit_percent)) {
        commit(w, job);
        answer(w, job, MERGE_DONE, "");
        return;
    }
    uint64_t how = world_below(w, 3); /* rolled back; committed; COMMIT still unread */
    if (how == 1) commit(w, job);
    if (how == 2) {
        struct job *limbo = heap_alloc(sizeof *limbo);
        *limbo = *job;
        become_limbo(limbo);
        list_push(&w->mysql.jobs, &limbo->link);
    }
    answer(w, job, MERGE_DOWN,
           how == 1   ? "2013 lost, committed"
           : how == 0 ? "2013 lost, not committed"
                      : "2013 limbo");
}

void mysql_step(struct world *w, struct job *job)
{
    PRE(job->state != JOB_LIMBO);
    if (job->state == JOB_QUEUED)
        begin(w, job);
    else
        end(w, job);
}

void mysql_start(struct world *w)
{
    w->mysql.up = true;
    w->mysql.starts++;
}

/* Sessions end with the server; an open transaction's opening time then lies too far back for its COMMIT. */
void mysql_stop(struct world *w)
{
    w->mysql.up = false;
    for (struct list *node = w->mysql.jobs.next, *next; node != &w->mysql.jobs; node = next) {
        next = node->next;
        struct job *job = CONTAINER_OF(node, struct job, link);
        if (job->state == JOB_LIMBO)
            mysql_resolve(w, job);
        else if (job->state == JOB_OPEN)
            job->opened_ms = w->now_ms - w->config.wait_timeout_ms - 1;
    }
}

/* It takes no writes any more; its sessions live on, and transactions in limbo stay there. */
void mysql_demote(struct world *w)
{
    w->mysql.up = false;
}

void mysql_copy(struct world *w)
{
    struct mysql *m = &w->mysql;
    heap_free(m->copy.ledger);
    m->copy = (struct mysql_copy){.at_ms = w->now_ms, .ledger_n = m->ledger_n};
    memcpy(m->copy.realms, m->realms, sizeof m->realms);
    memcpy(m->copy.rows, m->rows, sizeof m->rows);
    memcpy(m->copy.rejects, m->rejects, sizeof m->rejects);
    memcpy(m->copy.deleted, m->deleted, sizeof m->deleted);
    memcpy(m->copy.gone, m->gone, sizeof m->gone);
    m->copy.ledger = heap_alloc((m->ledger_n + 1) * sizeof *m->ledger);
    if (m->ledger_n > 0) memcpy(m->copy.ledger, m->ledger, m->ledger_n * sizeof *m->ledger);
}

void mysql_promote(struct world *w)
{
    struct mysql *m = &w->mysql;
    mysql_stop(w);
    memcpy(m->rows, m->copy.rows, sizeof m->rows);
    memcpy(m->rejects, m->copy.rejects, sizeof m->rejects);
    memcpy(m->deleted, m->copy.deleted, sizeof m->deleted);
    memcpy(m->gone, m->copy.gone, sizeof m->gone);
    memcpy(m->realms, m->copy.realms, sizeof m->realms);
    heap_free(m->ledger);
    m->ledger = m->copy.ledger;
    m->ledger_n = m->copy.ledger_n;
    m->ledger_cap = m->copy.ledger == NULL ? 0 : m->copy.ledger_n + 1;
    m->copy.ledger = NULL;
    mysql_start(w);
    m->promoted = m->starts;
    mysql_copy(w);
}

void mysql_forget_life(struct world *w, int life)
{
    for (struct list *node = w->mysql.jobs.next, *next; node != &w->mysql.jobs; node = next) {
        next = node->next;
        struct job *job = CONTAINER_OF(node, struct job, link);
        if (job->life != life || job->state == JOB_LIMBO) continue;
        if (job->state == JOB_OPEN && !session_lost(w, job) && !epoch_is_over(w, job) && world_percent(w, 50))
            become_limbo(job);
        else
            job_free(job);
    }
}

struct batch_id sim_realm(const struct world *w, unsigned lane)
{
    return (struct batch_id){{lanes_rule(w, LANES_REALM) ? (uint8_t)(lane + 1) : 1}};
}

unsigned mysql_realm(const struct world *w, const struct batch_id *id)
{
    return batch_id_is_zero(id) ? w->lane : id->bytes[0] - 1U;
}

static struct claim_gen highest_claim(const struct mysql *m, unsigned realm)
{
    struct claim_gen highest = {0};
    for (size_t i = 0; i < m->ledger_n; i++)
        if (m->ledger[i].realm == realm && m->ledger[i].gen > highest.gen)
            highest = (struct claim_gen){.gen = m->ledger[i].gen, .id = m->ledger[i].batch};
    return highest;
}

static bool is_one_of(const struct batch_id *ids, unsigned n, const struct batch_id *id)
{
    for (unsigned i = 0; i < n; i++)
        if (memcmp(&ids[i], id, sizeof *id) == 0) return true;
    return false;
}

void mysql_prune(struct world *w, unsigned realm, int64_t cutoff_ms, const struct batch_id *standing,
                 unsigned standing_n)
{
    struct mysql *m = &w->mysql;
    size_t kept = 0;
    uint64_t highest = highest_claim(m, realm).gen;
    for (size_t i = 0; i < m->ledger_n; i++) {
        const struct ledger_row *row = &m->ledger[i];
        bool ours = row->realm == realm || !lanes_rule(w, LANES_PRUNE);
        bool stays = !ours || (int64_t)row->merged_ms > cutoff_ms || row->gen == highest;
        if (stays || is_one_of(standing, standing_n, &row->batch)) m->ledger[kept++] = *row;
    }
    if (kept < m->ledger_n) TRACE(w, "mysql: %zu ledger rows pruned", m->ledger_n - kept);
    m->ledger_n = kept;
}

void mysql_until(struct world *w, unsigned realm, int counter, int64_t ms)
{
    int64_t *until_ms = &w->mysql.realms[realm].until_ms[counter];
    if (ms <= *until_ms) return;
    TRACE(w, "mysql: complete_until of counter %d in realm %u is %lld", counter, realm,
          (long long)(ms - SIM_EPOCH_MS));
    *until_ms = ms;
    oracle_until(w, counter);
}

/* sql/views.sql: of the realm that is furthest behind. */
int64_t mysql_complete_until(const struct world *w, int counter)
{
    int64_t earliest = w->mysql.realms[0].until_ms[counter], latest = earliest;
    for (unsigned i = 1; i < w->config.lanes; i++) {
        int64_t ms = w->mysql.realms[i].until_ms[counter];
        if (ms < earliest) earliest = ms;
        if (ms > latest) latest = ms;
    }
    return lanes_rule(w, LANES_UNTIL) ? earliest : latest;
}

static void limbo_end(struct world *w)
{
    struct arena *before = arena_enter(&w->arena);
    for (struct list *node = w->mysql.jobs.next, *next; node != &w->mysql.jobs; node = next) {
        next = node->next;
        struct job *job = CONTAINER_OF(node, struct job, link);
        if (job->state == JOB_LIMBO) mysql_resolve(w, job);
    }
    arena_enter(before);
}

static bool is_primary_of(const struct epoch *epoch, const struct history_read *redis)
{
    return strcmp(epoch->run_id, redis->run_id) == 0 && strcmp(epoch->replid, redis->replid) == 0;
}

static void primary_note(struct epoch *epoch, const struct history_read *redis)
{
    memcpy(epoch->run_id, redis->run_id, sizeof epoch->run_id);
    memcpy(epoch->replid, redis->replid, sizeof epoch->replid);
}

/* There is one realm for each lane, which is free until a history has it. */
static void realm_give(struct world *w, const struct history_read *redis, struct realm_look *out)
{
    struct batch_id realm = sim_realm(w, w->lane);
    struct epoch *epoch = &w->mysql.realms[mysql_realm(w, &realm)].epoch;
    bool is_free = batch_id_is_zero(&epoch->id) && (epoch->run_id[0] == '\0' || is_primary_of(epoch, redis));
    *out = (struct realm_look){.outcome = is_free ? REALM_GIVEN : REALM_STRANGER, .epoch.realm = realm};
    if (is_free) primary_note(epoch, redis);
    TRACE(w, "mysql: the realm is %s", is_free ? "given" : "another one's");
}

static bool is_heir(const struct world *w, const struct twin_realm *at, const struct batch_id *had)
{
    bool unanswered = at->asked_ms != 0 && at->alive_ms == 0 && at->asked_ms + REALM_WAIT_MS <= w->now_ms;
    return batch_id_is_zero(&at->epoch.id) || batch_id_same(&at->epoch.id, had) || unanswered ||
           w->config.unheard;
}

static void life_ask(struct world *w, struct twin_realm *at, struct realm_look *out)
{
    bool answered = at->alive_ms != 0;
    out->outcome = answered ? REALM_LIVES : REALM_ASKED;
    if (answered || at->asked_ms == 0) {
        at->asked_ms = w->now_ms;
        at->alive_ms = 0;
    }
    TRACE(w, "mysql: %s",
          answered ? "one that has the epoch lives" : "is asked whether one lives that has the epoch");
}

void mysql_sign(struct world *w, const struct epoch *epoch)
{
    struct twin_realm *at = &w->mysql.realms[mysql_realm(w, &epoch->realm)];
    if (at->asked_ms != 0 && at->alive_ms == 0 && batch_id_same(&at->epoch.id, &epoch->id))
        at->alive_ms = w->now_ms;
}

/* As in mysql/realm.c. A transaction in limbo has moved its row of the books, and holds its lock. */
void mysql_look(struct world *w, const struct history_read *redis, const struct batch_id *had,
                struct realm_look *out)
{
    if (batch_id_is_zero(&redis->realm)) {
        realm_give(w, redis, out);
        return;
    }
    struct mysql *m = &w->mysql;
    unsigned realm = mysql_realm(w, &redis->realm);
    struct twin_realm *at = &m->realms[realm];
    struct epoch *epoch = &at->epoch;
    bool same = is_primary_of(epoch, redis) && !batch_id_is_zero(&epoch->id);
    bool first = batch_id_is_zero(&epoch->id) && world_rule(w, WORLD_REALM_FENCE);
    if (first && w->config.fresh && !redis->fenced) {
        *out = (struct realm_look){.outcome = REALM_UNFENCED};
        return;
    }
    bool asks = !same && !is_heir(w, at, had);
    if (!same && !asks) limbo_end(w);
    *out = (struct realm_look){.outcome = REALM_BEHIND, .taken = !same, .highest = highest_claim(m, realm)};
    bool behind = RULE(sync_rules_off, RULE_GEN_ID) ? !history_has(redis, &out->highest)
                                                    : out->highest.gen > redis->gen;
    if (RULE(sync_rules_off, RULE_GATE) && out->highest.gen > 0 && behind) return;
    if (asks) {
        life_ask(w, at, out);
        return;
    }
    out->outcome = REALM_OURS;
    if (same)
        mysql_sign(w, epoch);
    else {
        uint64_t number = ++m->epochs;
        at->asked_ms = at->alive_ms = 0;
        *epoch = (struct epoch){.realm = redis->realm};
        memcpy(epoch->id.bytes, &number, sizeof number);
        primary_note(epoch, redis);
        TRACE(w, "mysql: epoch %llu is taken", (unsigned long long)number);
    }
    out->epoch = *epoch;
}

uint64_t mysql_highest_gen(const struct world *w)
{
    return highest_claim(&w->mysql, w->lane).gen;
}
