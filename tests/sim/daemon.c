/* tests/sim/daemon.c - see daemon.h. */
#include "sim/chunk_rows.h"
#include "sim/filing.h"
#include "sim/ports.h"
#include "sim/questions.h"
#include "sim/world.h"

#include "base/heap.h"
#include <stdio.h>

unsigned sim_chunk_rows = 1;

struct arena *daemon_enter(struct process *life)
{
    sim_chunk_rows = life->w->config.chunk_rows[0];
    if (!world_rule(life->w, WORLD_CUT)) sim_chunk_rows = life->w->config.chunk_rows[life->instance];
    return arena_enter(&life->daemon->arena);
}

static bool all_links_up(const struct process *life)
{
    return life->links[ROLE_FRAME] != NULL && life->links[ROLE_SYNC] != NULL &&
           life->links[ROLE_FENCE] != NULL;
}

static bool may_turn(const struct process *life)
{
    bool all_up = true;
    for (unsigned i = 0; i < life->w->config.lanes; i++)
        all_up &= all_links_up(life->daemon->lives[i]);
    return all_up || lanes_rule(life->w, LANES_ALONE);
}

/* As a loop turn ends, at all lanes. */
static void turn_ends(struct daemon *d, struct world *w)
{
    EACH_LANE (w) {
        while (may_turn(d->life) && coalesce_turn(d->life->coalesce) && w->calm)
            continue;
    }
}

void daemon_leave(struct process *life, struct arena *before)
{
    struct world *w = life->w;
    if (w->calm || world_percent(w, w->config.turn_percent)) turn_ends(life->daemon, w);
    for (int i = 0; i < SIM_CLIENTS; i++) {
        struct client *c = &life->daemon->clients[i];
        if (c->outlet.out.n > 0 && !c->outlet.gone)
            fault_found(w, FAULT_ANSWER, "life %d wrote to a client and did not say so", life->index);
        if (lanes_rule(w, LANES_ORDER) && client_is_behind(c))
            fault_found(w, FAULT_STUCK, "an answer whose turn has come waits for another lane");
        client_recycle(c);
    }
    arena_enter(before);
}

struct process *daemon_life(struct world *w, int index)
{
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL && w->daemons[i].life->index == index) return w->daemons[i].life;
    UNREACHABLE();
}

bool daemon_hears(const struct world *w, int index)
{
    for (unsigned i = 0; i < w->config.daemons; i++) {
        const struct process *life = w->daemons[i].life;
        if (life != NULL && life->index == index) return !life->let_go;
    }
    return false;
}

static struct process *life_make(struct world *w, struct daemon *d)
{
    struct process *life = heap_zalloc(sizeof *life);
    life->w = w;
    life->daemon = d;
    life->lane = w->lane;
    life->index = (int)w->lives_n - 1;
    life->instance = d->instance;
    life->walk_ms = w->now_ms + w->config.walk_ms;
    life->number = -1;
    life->life.instance = d->instance == 0 ? SLICE("d0") : SLICE("d1");
    snprintf(life->life.id, sizeof life->life.id, "%d", life->index);
    list_init(&life->lost);
    list_init(&life->questions);
    return life;
}

static void life_begin(struct world *w, struct daemon *d)
{
    struct process *life = d->life = d->lives[w->lane] = life_make(w, d);
    struct arena *before = arena_enter(&d->arena);
    struct coalesce_ports coalesce = ports_coalesce(life);
    struct sync_ports sync = ports_sync(life);
    const struct counters *counters = world_counters_of(w, d->instance);
    filing_open(life);
    life->coalesce = coalesce_create(&coalesce, counters, &w->config.coalesce);
    life->sync = sync_create(&sync, counters, &w->config.sync);
    questions_wire(life);
    journals_wire(life);
    arena_enter(before);
}

void daemon_start(struct world *w, struct daemon *d)
{
    PRE(d->life == NULL && w->lives_n < SIM_LIVES);
    w->instance_of[w->lives_n++] = d->instance;
    TRACE(w, "daemon %d starts as life %u", d->instance, w->lives_n - 1);
    arena_init(&d->arena);
    for (int i = 0; i < SIM_CLIENTS; i++)
        client_init(&d->clients[i]);
    EACH_LANE (w)
        life_begin(w, d);
}

static void forget_lost(struct process *life)
{
    for (struct list *node; (node = list_pop(&life->lost)) != NULL;)
        heap_free(CONTAINER_OF(node, struct lost, link));
}

static void life_free(struct daemon *d)
{
    forget_lost(d->life);
    questions_forget(d->life);
    d->lives[d->life->lane] = NULL;
    heap_free(d->life);
    d->life = NULL;
}

/* How much of what was sent the server has: the bytes arrived in order, up to some point. */
static unsigned draw_unread(struct world *w, const struct link *l)
{
    if (!l->server_open || !world_percent(w, w->config.unread_percent)) return 0;
    unsigned n = link_unread(l);
    return n == 0 || world_percent(w, 50) ? n : (unsigned)world_below(w, n + 1);
}

void daemon_crash(struct world *w, struct daemon *d)
{
    int index = d->life->index;
    TRACE(w, "life %d crashes", index);
    EACH_LANE (w)
        for (int role = 0; role < ROLES; role++)
            if (d->life->links[role] != NULL)
                link_lose(d->life->links[role], draw_unread(w, d->life->links[role]));
    mysql_forget_life(w, index);
    w->oracle.books_blurred |= w->oracle.cell_errors;
    ops_forgot(w);
    for (int i = 0; i < SIM_CLIENTS; i++)
        client_crashed(w, &d->clients[i]);
    arena_drop(&d->arena);
    EACH_LANE (w)
        life_free(d);
    EACH_LANE (w)
        oracle_life_ends(w, index);
}

static bool waits_busy(const struct process *life)
{
    bool busy = life->gate.asking || life->prune.busy || life->until.busy || life->recovering ||
                life->takeover.busy || life->read.busy;
    for (int i = 0; i < SIM_TOTALS; i++)
        busy |= life->asked[i].busy;
    for (int i = 0; i < SIM_WAITS; i++)
        busy |= life->waits[i].busy;
    return busy;
}

bool daemon_owes(const struct daemon *d)
{
    for (int i = 0; i < SIM_CLIENTS; i++)
        if (d->clients[i].outlet.waiting > 0) return true;
    return false;
}

bool daemon_may_end(const struct process *life)
{
    return !waits_busy(life) && list_empty(&life->lost) && sync_quiet(life->sync) &&
           (life->let_go || coalesce_idle(life->coalesce));
}

static void life_close(struct daemon *d)
{
    sync_destroy(&d->life->sync);
    coalesce_destroy(&d->life->coalesce);
    filing_close(d->life);
}

static void links_close(struct daemon *d)
{
    for (int role = 0; role < ROLES; role++)
        if (d->life->links[role] != NULL) link_lose(d->life->links[role], link_unread(d->life->links[role]));
}

void daemon_end(struct world *w, struct daemon *d)
{
    int index = d->life->index;
    TRACE(w, "life %d ends", index);
    struct arena *before = arena_enter(&d->arena);
    for (int i = 0; i < SIM_CLIENTS; i++)
        client_close(d, &d->clients[i]);
    EACH_LANE (w)
        life_close(d);
    arena_enter(before);
    if (d->arena.n > 0)
        fault_found(w, FAULT_PROTOCOL, "life %d leaks %zu blocks of memory", index, d->arena.n);
    arena_drop(&d->arena);
    EACH_LANE (w) {
        links_close(d);
        life_free(d);
    }
    EACH_LANE (w)
        oracle_life_ends(w, index);
}

/* Links. */

bool daemon_wants_link(const struct process *life, enum role role)
{
    if (role == ROLE_WAIT && life->w->config.weight[EVENT_client_wait] == 0) return false;
    return life->links[role] == NULL && !(role == ROLE_FRAME && life->let_go);
}

static void links_changed(struct process *life)
{
    bool whole = coalesce_caught_up(life->coalesce) || !world_rule(life->w, WORLD_CAUGHT_UP);
    if (!all_links_up(life) || !whole) return;
    life->redis_up = life->walk_wanted = true;
    sync_redis(life->sync, true);
    if (life->started || life->stopping) return;
    life->started = true;
    sync_start(life->sync);
}

void daemon_caught_up(struct process *life)
{
    gate_redis(&life->gate);
    links_changed(life);
}

void daemon_connect(struct process *life, enum role role)
{
    struct world *w = life->w;
    char run_id[RUN_ID_BYTES];
    bool first = life->links[0] == NULL && life->links[1] == NULL && life->links[2] == NULL;
    if (first && !life->started && world_rule(w, WORLD_KILL_NAMED))
        redis_kill_named(w->redis, life->instance, life->index);
    struct link *l = life->links[role] = moves_connect(life, role);
    if (l == NULL) return;
    redis_run_id(l->run, run_id);
    TRACE(w, "life %d: link %d is up, client %lld", life->index, (int)role, (long long)w->redis->client_id);
    if (role == ROLE_WAIT) return;
    struct arena *before = daemon_enter(life);
    if (role == ROLE_FRAME) life->leap_ms = w->leap_ms;
    if (role == ROLE_FRAME) coalesce_up(life->coalesce, run_id, w->redis->client_id);
    memcpy(life->run_id[role], run_id, sizeof run_id);
    gate_redis(&life->gate);
    links_changed(life);
    daemon_leave(life, before);
}

/* Requests that wait for a reply of this link are told, later, that it is lost; for the frame link coalesce_cut() does this. */
static void lose_requests(struct process *life, struct list *requests, enum role role)
{
    list_for_each (node, requests) {
        const struct request *q = CONTAINER_OF(node, struct request, link);
        if (q->target == NULL || (role == ROLE_FRAME && q->kind != REQ_JOURNAL_TAKE)) continue;
        struct lost *lost = heap_zalloc(sizeof *lost);
        lost->kind = q->kind;
        lost->target = q->target;
        list_push(&life->lost, &lost->link);
    }
}

/* A server that closed the link has dropped the requests it had not run; those are lost too. */
void daemon_link_lost(struct process *life, enum role role)
{
    struct world *w = life->w;
    struct link *l = life->links[role];
    TRACE(w, "life %d: link %d is cut", life->index, (int)role);
    lose_requests(life, &l->done, role);
    lose_requests(life, &l->gone, role);
    lose_requests(life, &l->sent, role);
    life->links[role] = NULL;
    link_lose(l, draw_unread(w, l));
    struct arena *before = daemon_enter(life);
    if (role == ROLE_FRAME) life->number = -1;
    if (role == ROLE_FRAME) filing_cut(life);
    if (role == ROLE_FRAME) coalesce_cut(life->coalesce, "MASTERDOWN Redis link lost");
    if (life->redis_up && role != ROLE_WAIT) {
        life->redis_up = false;
        sync_redis(life->sync, false);
    }
    daemon_leave(life, before);
}

/* As redis/place.c does it when an answer says that this is no primary. */
void daemon_leave_server(struct process *life, unsigned run)
{
    for (int role = 0; role < ROLES; role++)
        if (life->links[role] != NULL && life->links[role]->run == run)
            daemon_link_lost(life, (enum role)role);
}

/* Not what it was: the server has taken over data that lack a frame which it had. */
static bool is_of_another(const struct process *life, const struct request *q)
{
    static const uint32_t asks = 1U << REQ_TOTAL | 1U << REQ_FENCE | 1U << REQ_STANDING | 1U << REQ_WAIT;
    bool asked = (asks >> q->kind & 1) != 0 && !q->readonly;
    return q->changed || (asked && q->number < q->least && world_rule(life->w, WORLD_NUMBER));
}

void daemon_deliver(struct process *life, enum role role)
{
    struct request *q = CONTAINER_OF(life->links[role]->done.next, struct request, link);
    unsigned run = life->links[role]->run;
    if (is_of_another(life, q)) {
        TRACE(life->w, "life %d: %s finds frame %lld, was %lld", life->index, request_name(q->kind),
              (long long)q->number, (long long)q->least);
        daemon_leave_server(life, run);
        struct arena *before = daemon_enter(life);
        if (world_rule(life->w, WORLD_GATE_AGAIN)) gate_changed(&life->gate);
        daemon_leave(life, before);
        return;
    }
    list_remove(&q->link);
    struct arena *before = daemon_enter(life);
    ports_deliver(life, q);
    daemon_leave(life, before);
    if (q->readonly) daemon_leave_server(life, run);
    heap_free(q);
}

void daemon_answer_lost(struct process *life)
{
    struct lost *lost = CONTAINER_OF(list_pop(&life->lost), struct lost, link);
    struct arena *before = daemon_enter(life);
    ports_lost(life, lost);
    daemon_leave(life, before);
    heap_free(lost);
}

/* Time and outside news. */

void daemon_turn(struct process *life)
{
    struct arena *before = daemon_enter(life);
    if (may_turn(life)) coalesce_turn(life->coalesce);
    daemon_leave(life, before);
}

/* Redis is asked for its time now and then; the daemon's own clock goes on between. */
static void ask_time(struct process *life)
{
    struct world *w = life->w;
    if (life->leap_ms == w->leap_ms || life->links[ROLE_FRAME] == NULL) return;
    if (w->calm || world_percent(w, 5)) life->leap_ms = w->leap_ms;
}

void daemon_hold(struct process *life, uint64_t until_ms)
{
    struct arena *before = daemon_enter(life);
    life->hold_ms = until_ms;
    coalesce_hold(life->coalesce, until_ms != 0);
    daemon_leave(life, before);
}

void daemon_tick(struct process *life)
{
    ask_time(life);
    moves_tick(life);
    if (life->hold_ms != 0 && life->w->now_ms >= life->hold_ms) daemon_hold(life, 0);
    struct arena *before = daemon_enter(life);
    coalesce_tick(life->coalesce);
    sync_tick(life->sync);
    gate_tick(&life->gate);
    totals_tick(&life->totals);
    if (life->redis_up) prune_tick(&life->prune);
    if (life->redis_up) until_tick(&life->until);
    if (life->redis_up) takeover_tick(&life->takeover);
    daemon_leave(life, before);
}

void daemon_tell_mysql(struct process *life)
{
    struct arena *before = daemon_enter(life);
    const struct mysql *m = &life->w->mysql;
    bool restarted = life->mysql_up && life->mysql_starts != m->starts;
    life->mysql_up = m->up && !restarted;
    life->mysql_starts = m->starts;
    gate_mysql(&life->gate, life->mysql_up);
    daemon_leave(life, before);
}

static void life_stop(struct process *life)
{
    life->stopping = true;
    struct arena *before = daemon_enter(life);
    sync_stop(life->sync);
    gate_stop(&life->gate);
    totals_stop(&life->totals);
    prune_stop(&life->prune);
    until_stop(&life->until);
    takeover_stop(&life->takeover);
    coalesce_flush(life->coalesce);
    daemon_leave(life, before);
}

void daemon_stop(struct daemon *d)
{
    struct world *w = d->life->w;
    TRACE(w, "life %d is told to stop", d->life->index);
    EACH_LANE (w)
        life_stop(d->life);
}

/* The deadline of the stop has passed: what is in doubt stays so. */
static void let_go(struct process *life)
{
    life->let_go = true;
    oracle_life_ends(life->w, life->index);
    life->w->oracle.books_blurred |= life->w->oracle.cell_errors;
    ops_forgot(life->w);
    if (life->links[ROLE_FRAME] != NULL) daemon_link_lost(life, ROLE_FRAME);
    struct arena *before = daemon_enter(life);
    coalesce_abandon(life->coalesce, "ERR tallyd stops");
    daemon_leave(life, before);
}

static void life_abandon(struct process *life)
{
    life->abandoned = true;
    struct arena *before = daemon_enter(life);
    sync_abandon(life->sync);
    daemon_leave(life, before);
}

void daemon_abandon(struct daemon *d)
{
    struct world *w = d->life->w;
    TRACE(w, "life %d stops at once", d->life->index);
    EACH_LANE (w)
        life_abandon(d->life);
    bool now = world_percent(w, 50);
    EACH_LANE (w)
        if (now) let_go(d->life);
}

void daemon_walk(struct process *life)
{
    TRACE(life->w, "life %d walks the key space", life->index);
    life->walk_wanted = false;
    life->walk_ms = life->w->now_ms + life->w->config.walk_ms;
    request_send(life->links[ROLE_SYNC], REQ_WALK, NULL, life->w->now_ms);
}

uint64_t life_mono_ms(const struct process *life)
{
    return life->w->now_ms - life->slept_ms;
}

int64_t life_redis_ms(const struct process *life)
{
    return SIM_EPOCH_MS + (int64_t)life->w->now_ms + life->leap_ms;
}

bool life_knows(const struct process *life, int hash)
{
    return (size_t)world_counter_of(life->w, hash) < world_counters_of(life->w, life->instance)->n;
}

/* CTR.SYNC and CTR.RECOVER. */

static void wait_done(struct sync_wait *wait)
{
    struct sim_wait *sw = wait->arg;
    struct world *w = sw->life->w;
    TRACE(w, "life %d: CTR.SYNC ends with %d", sw->life->index, (int)wait->outcome);
    sw->busy = false;
    if (sw->life->mysql_starts < w->mysql.promoted) return; /* it speaks of the server that was */
    if (moves_strayed(sw->life, sw->strays)) return;
    for (int h = 0; h < SIM_HASHES && wait->outcome == ASK_DONE; h++)
        for (int f = 0; f < SIM_FIELDS && (sw->hash < 0 || sw->hash == h); f++)
            oracle_synced(w, sw->life->index, h, f, sw->answered[h][f]);
}

/* ALL asks the index; a ZADD may be owed to it just now, or a service that lacks the counter took the name out. */
static void forgive_unindexed(struct world *w, struct sim_wait *sw)
{
    for (int h = 0; h < SIM_HASHES; h++) {
        bool owed = w->redis->now.pending[h].has != 0 && w->redis->now.dirty[h] == 0;
        bool unknown = w->config.partial && world_counter_of(w, h) == 1;
        if (owed || unknown) memset(sw->answered[h], 0, sizeof sw->answered[h]);
    }
}

void daemon_wait(struct process *life)
{
    struct world *w = life->w;
    struct sim_wait *sw = NULL;
    for (int i = 0; i < SIM_WAITS; i++)
        if (!life->waits[i].busy) sw = &life->waits[i];
    int hash = world_percent(w, 30) ? -1 : (int)world_below(w, w->config.hashes);
    bool asks = hash < 0 || (life_knows(life, hash) && world_lane_of(w, hash) == life->lane);
    if (sw == NULL || !asks) return;
    memset(sw, 0, sizeof *sw);
    sw->busy = true;
    sw->life = life;
    sw->hash = hash;
    sw->strays = life->strays;
    oracle_answered(life, sw->answered);
    if (sw->hash < 0) forgive_unindexed(w, sw);
    sw->wait.arg = sw;
    sw->wait.done = wait_done;
    if (sw->hash >= 0) sw->wait.key = world_hash_name(w, sw->hash);
    TRACE(w, "life %d: CTR.SYNC %d", life->index, sw->hash);
    struct arena *before = daemon_enter(life);
    sync_wait_for(life->sync, &sw->wait);
    daemon_leave(life, before);
}

/* One beside each fence that has written. */
bool daemon_may_client_wait(const struct process *life)
{
    const struct link *fence = life->links[ROLE_FENCE];
    bool beside = fence != NULL && redis_is_looking(fence) && life->waited_beside != life->fences;
    return beside && life->links[ROLE_WAIT] != NULL && !life->client_waits_busy;
}

void daemon_client_wait(struct process *life)
{
    life->client_waits_busy = true;
    life->waited_beside = life->fences;
    ports_ask(life, ROLE_WAIT, REQ_WAIT, life);
}

static void recover_done(struct sync_recover *r)
{
    struct process *life = r->arg;
    TRACE(life->w, "life %d: CTR.RECOVER ends, adopted %lld", life->index, (long long)r->adopted);
    life->recovering = false;
}

void daemon_recover(struct process *life)
{
    if (life->recovering) return;
    TRACE(life->w, "life %d: CTR.RECOVER", life->index);
    life->recovering = true;
    life->recover = (struct sync_recover){.done = recover_done, .arg = life};
    struct arena *before = daemon_enter(life);
    sync_recover(life->sync, &life->recover);
    daemon_leave(life, before);
}
