/* tests/sim/events.c - what can happen in the world: of each event, whether it can now, and the doing of it. */
#include "sim/events.h"
#include "sim/questions.h"
#include "sim/totals.h"

static bool acting(const struct daemon *d)
{
    return d->life != NULL && !d->life->paused;
}

static bool always(struct world *w, struct daemon *d)
{
    (void)d;
    return !w->calm;
}

static bool can_act(struct world *w, struct daemon *d)
{
    return !w->calm && acting(d);
}

/* Clients. */

static bool can_hit(struct world *w, struct daemon *d)
{
    (void)w;
    for (int i = 0; acting(d) && i < SIM_CLIENTS; i++)
        if (client_can_hit(d->life, &d->clients[i])) return true;
    return false;
}

static void run_hit(struct world *w, struct daemon *d)
{
    int at = (int)world_below(w, SIM_CLIENTS);
    while (!client_can_hit(d->life, &d->clients[at % SIM_CLIENTS]))
        at++;
    struct arena *before = daemon_enter(d->life);
    client_hit(d->life, &d->clients[at % SIM_CLIENTS]);
    daemon_leave(d->life, before);
}

static void run_client_gone(struct world *w, struct daemon *d)
{
    struct client *c = &d->clients[world_below(w, SIM_CLIENTS)];
    if (c->outlet.gone) return;
    struct arena *before = daemon_enter(d->life);
    client_leave(d, c);
    daemon_leave(d->life, before);
}

/* The daemon's own time. */

static void run_turn(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_turn(d->life);
}

static void run_tick(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_tick(d->life);
}

/* Links: a role is drawn among those that fit. */

typedef bool (*role_fits)(const struct process *life, enum role role);

static int draw_role(struct world *w, const struct daemon *d, role_fits fits)
{
    int roles[ROLES], n = 0;
    for (int role = 0; acting(d) && role < ROLES; role++)
        if (fits(d->life, role)) roles[n++] = role;
    if (n == 0) return -1;
    return w == NULL || n == 1 ? roles[0] : roles[world_below(w, (uint64_t)n)];
}

static bool has_reply(const struct process *life, enum role role)
{
    return life->links[role] != NULL && !list_empty(&life->links[role]->done);
}

static bool is_cut(const struct process *life, enum role role)
{
    return life->links[role] != NULL && !life->links[role]->server_open;
}

static bool is_open(const struct process *life, enum role role)
{
    return life->links[role] != NULL && life->links[role]->server_open;
}

static bool can_deliver(struct world *w, struct daemon *d)
{
    (void)w;
    return draw_role(NULL, d, has_reply) >= 0;
}

static void run_deliver(struct world *w, struct daemon *d)
{
    daemon_deliver(d->life, (enum role)draw_role(w, d, has_reply));
}

static bool can_connect(struct world *w, struct daemon *d)
{
    (void)w;
    return acting(d) && !d->life->started && draw_role(NULL, d, daemon_wants_link) >= 0;
}

static bool can_reconnect(struct world *w, struct daemon *d)
{
    (void)w;
    return acting(d) && d->life->started && draw_role(NULL, d, daemon_wants_link) >= 0;
}

static void run_connect(struct world *w, struct daemon *d)
{
    daemon_connect(d->life, (enum role)draw_role(w, d, daemon_wants_link));
}

static void run_reconnect(struct world *w, struct daemon *d)
{
    run_connect(w, d);
}

static bool can_notice_cut(struct world *w, struct daemon *d)
{
    (void)w;
    return draw_role(NULL, d, is_cut) >= 0;
}

static void run_notice_cut(struct world *w, struct daemon *d)
{
    daemon_link_lost(d->life, (enum role)draw_role(w, d, is_cut));
}

static bool is_busy(const struct process *life, enum role role)
{
    const struct link *l = life->links[role];
    return is_open(life, role) && (!list_empty(&l->sent) || !list_empty(&l->done));
}

static bool can_cut(struct world *w, struct daemon *d)
{
    (void)w;
    return draw_role(NULL, d, is_open) >= 0;
}

/* Either the server's end closes, and the daemon sees it later; or the daemon's end, and the server reads on.
 */
static void run_cut(struct world *w, struct daemon *d)
{
    int busy = world_percent(w, 70) ? draw_role(w, d, is_busy) : -1;
    enum role role = (enum role)(busy >= 0 ? busy : draw_role(w, d, is_open));
    if (!world_percent(w, w->config.unread_percent))
        link_kill(d->life->links[role]);
    else
        daemon_link_lost(d->life, role);
}

static bool can_answer_lost(struct world *w, struct daemon *d)
{
    (void)w;
    return acting(d) && !list_empty(&d->life->lost);
}

static void run_answer_lost(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_answer_lost(d->life);
}

/* Redis. */

/* It is tallyd that looks. */
static bool looks_later(struct world *w, const struct link *l)
{
    return l->client_open && redis_is_looking(l) && daemon_life(w, l->life)->paused;
}

static struct link *draw_executable(struct world *w, bool dead, bool first)
{
    struct link *links[64];
    unsigned n = 0;
    struct list *all[] = {&w->redis->links, &w->other->links};
    for (int i = 0; i < 2; i++)
        list_for_each (node, all[i]) {
            struct link *l = CONTAINER_OF(node, struct link, all);
            if (l->client_open == dead || !redis_can_execute(w->redis, l) || looks_later(w, l)) continue;
            if (n < 64) links[n++] = l;
            if (first) break;
        }
    if (n == 0) return NULL;
    return links[n == 1 ? 0 : world_below(w, n)];
}

static bool can_execute(struct world *w, struct daemon *d)
{
    (void)d;
    return draw_executable(w, false, true) != NULL;
}

static void run_execute(struct world *w, struct daemon *d)
{
    (void)d;
    redis_execute(w, draw_executable(w, false, false));
}

static bool can_execute_dead(struct world *w, struct daemon *d)
{
    (void)d;
    return draw_executable(w, true, true) != NULL;
}

static void run_execute_dead(struct world *w, struct daemon *d)
{
    (void)d;
    redis_execute(w, draw_executable(w, true, false));
}

static bool can_fsync(struct world *w, struct daemon *d)
{
    (void)d;
    return w->redis->durable < w->redis->offset;
}

static void run_fsync(struct world *w, struct daemon *d)
{
    (void)d;
    struct redis *r = w->redis;
    uint64_t behind = r->offset - r->durable;
    redis_fsync(r, w->calm || world_percent(w, 50) ? r->offset : r->durable + 1 + world_below(w, behind));
}

static void run_redis_restart(struct world *w, struct daemon *d)
{
    (void)d;
    bool lose_tail = world_percent(w, w->config.lose_tail_percent);
    TRACE(w, "redis: restarts%s", lose_tail ? " without its tail" : "");
    redis_restart(w, lose_tail);
}

static bool can_fence_late(struct world *w, struct daemon *d)
{
    (void)d;
    return !w->calm && redis_blocked_fence(w->redis) != NULL;
}

static void run_fence_late(struct world *w, struct daemon *d)
{
    (void)d;
    redis_refuse_fence(w, redis_blocked_fence(w->redis));
}

static void run_redis_refuse(struct world *w, struct daemon *d)
{
    (void)d;
    w->redis->refuses = !w->redis->refuses;
    TRACE(w, "redis: memory is %s", w->redis->refuses ? "full" : "there again");
}

static bool can_dump(struct world *w, struct daemon *d)
{
    (void)d;
    return !w->calm && w->config.restores && !w->redis->dumped;
}

static void run_dump(struct world *w, struct daemon *d)
{
    (void)d;
    redis_dump(w->redis);
}

/* All there is to see it by, under links that live: numbers of frames are lower than they were. */
static bool copy_shows(const struct world *w)
{
    const struct redis *r = w->redis;
    list_for_each (node, &r->links) {
        int slot = redis_seq_slot(w, CONTAINER_OF(node, struct link, all));
        if (r->dump.state.seq[slot] >= r->now.seq[slot]) return false;
    }
    return true;
}

/* A copy that lacks claims that are merged: the test is that merges are then held. */
static bool can_restore(struct world *w, struct daemon *d)
{
    (void)d;
    bool may =
        !w->calm && w->redis->dumped && !w->redis->restored && w->lives_n + 2 * SIM_DAEMONS < SIM_LIVES;
    return may && w->redis->dump.state.gen < mysql_highest_gen(w) && (!w->config.swaps || copy_shows(w));
}

static void run_restore(struct world *w, struct daemon *d)
{
    (void)d;
    redis_restore(w);
}

static bool can_announce(struct world *w, struct daemon *d)
{
    (void)d;
    for (unsigned i = 0; i < w->config.daemons; i++) /* a daemon that starts later would not learn of it */
        if (w->daemons[i].life == NULL) return false;
    return !w->calm && w->config.third_copy && w->redis->chosen == UINT64_MAX;
}

static void run_announce(struct world *w, struct daemon *d)
{
    (void)d;
    moves_announce(w);
}

static bool can_failover(struct world *w, struct daemon *d)
{
    (void)d;
    return !w->calm && moves_can_fail_over(w);
}

static void run_failover(struct world *w, struct daemon *d)
{
    (void)d;
    moves_fail_over(w);
}

static bool can_demote(struct world *w, struct daemon *d)
{
    (void)d;
    return w->other->writes;
}

static void run_demote(struct world *w, struct daemon *d)
{
    (void)d;
    moves_demote(w);
}

static bool can_follow(struct world *w, struct daemon *d)
{
    (void)d;
    return !w->calm && w->other->there && !w->other->writes &&
           (!w->other->follows || w->redis->durable < w->redis->offset);
}

static void run_follow(struct world *w, struct daemon *d)
{
    (void)d;
    moves_follow(w);
}

static bool is_demoted(const struct process *life, enum role role)
{
    return is_open(life, role) && moves_is_away(life->w, life->links[role]) && !life->w->other->writes;
}

static bool can_leave(struct world *w, struct daemon *d)
{
    (void)w;
    return draw_role(NULL, d, is_demoted) >= 0;
}

static void run_leave(struct world *w, struct daemon *d)
{
    daemon_link_lost(d->life, (enum role)draw_role(w, d, is_demoted));
}

/* Another program puts a string in the place of a pending hash; only while no frame is in doubt, so that a client reads afterwards
 * what its increment met. */
static bool can_wrong_type(struct world *w, struct daemon *d)
{
    (void)d;
    for (unsigned i = 0; i < w->config.daemons; i++) {
        const struct process *life = w->daemons[i].life;
        if (life != NULL && (life->links[ROLE_FRAME] == NULL || !coalesce_idle(life->coalesce))) return false;
    }
    return !w->calm;
}

static void run_wrong_type(struct world *w, struct daemon *d)
{
    (void)d;
    unsigned h = (unsigned)world_below(w, w->config.hashes);
    if (w->redis->now.pending[h].has != 0 || w->lane_of[h] != w->lane) return;
    w->redis->now.wrong_type[h] = !w->redis->now.wrong_type[h];
    TRACE(w, "redis: pending hash %u is %s", h, w->redis->now.wrong_type[h] ? "a string" : "free again");
    redis_wrote(w, NULL);
}

/* Another program sets a field that holds no counts so high that nothing can be added, or takes that out again. The value it sets
 * is not made of hits, and is not followed. */
static void run_full(struct world *w, struct daemon *d)
{
    (void)d;
    unsigned h = (unsigned)world_below(w, w->config.hashes), f = (unsigned)world_below(w, w->config.fields);
    if ((w->redis->now.pending[h].has >> f & 1) != 0 || w->lane_of[h] != w->lane) return;
    w->redis->now.full[h] ^= (uint8_t)(1U << f);
    TRACE(w, "redis: field %u of pending hash %u is %s", f, h,
          (w->redis->now.full[h] >> f & 1) != 0 ? "full" : "free again");
    redis_wrote(w, NULL);
}

/* MySQL. */

static struct job *draw_job(struct world *w, const struct daemon *d, bool limbo, bool first)
{
    struct job *jobs[64];
    unsigned n = 0;
    list_for_each (node, &w->mysql.jobs) {
        struct job *job = CONTAINER_OF(node, struct job, link);
        bool fits = limbo ? job->state == JOB_LIMBO
                          : job->state != JOB_LIMBO && acting(d) && job->life == d->life->index &&
                                job->lane == d->life->lane;
        if (fits && n < 64) jobs[n++] = job;
        if (first && n > 0) break;
    }
    if (n == 0) return NULL;
    return jobs[n == 1 ? 0 : world_below(w, n)];
}

static bool can_merge(struct world *w, struct daemon *d)
{
    return draw_job(w, d, false, true) != NULL;
}

static void run_merge(struct world *w, struct daemon *d)
{
    mysql_step(w, draw_job(w, d, false, false));
}

static bool can_question(struct world *w, struct daemon *d)
{
    (void)w;
    return acting(d) && !list_empty(&d->life->questions);
}

static void run_question(struct world *w, struct daemon *d)
{
    (void)w;
    questions_answer(d->life);
}

static bool can_limbo(struct world *w, struct daemon *d)
{
    return draw_job(w, d, true, true) != NULL;
}

static void run_limbo(struct world *w, struct daemon *d)
{
    mysql_resolve(w, draw_job(w, d, true, false));
}

static void run_mysql_toggle(struct world *w, struct daemon *d)
{
    (void)d;
    if (w->config.sync.keep_ms > 0 && world_percent(w, 60) &&
        !world_any_restored(w)) { /* or no copy shows it */
        TRACE(w, "mysql: its replica is promoted, %llu ms behind",
              (unsigned long long)(w->now_ms - w->mysql.copy.at_ms));
        mysql_promote(w);
        return;
    }
    bool demoted = w->mysql.up && world_percent(w, 50);
    TRACE(w, "mysql: %s", demoted ? "is demoted" : w->mysql.up ? "goes down" : "comes up");
    if (demoted)
        mysql_demote(w);
    else if (w->mysql.up)
        mysql_stop(w);
    else
        mysql_start(w);
}

static bool can_tell_mysql(struct world *w, struct daemon *d)
{
    return acting(d) &&
           (d->life->mysql_up != w->mysql.up || (w->mysql.up && d->life->mysql_starts != w->mysql.starts));
}

static void run_tell_mysql(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_tell_mysql(d->life);
}

static void run_takes_none(struct world *w)
{
    unsigned counter = (unsigned)world_below(w, w->config.counters);
    w->mysql.takes_none[counter] ^= true;
    TRACE(w, "mysql: the table of counter %u takes %s", counter,
          w->mysql.takes_none[counter] ? "no rows" : "rows");
}

/* One row, or all rows of a hash, or those of all hashes. */
static void run_poison(struct world *w, struct daemon *d)
{
    (void)d;
    if (w->config.refusing && world_percent(w, 30)) {
        run_takes_none(w);
        return;
    }
    if (w->config.refusing && world_percent(w, 40)) {
        mysql_lock(w, (int)world_below(w, w->config.hashes));
        return;
    }
    unsigned hash = (unsigned)world_below(w, w->config.hashes), all = (1U << w->config.fields) - 1;
    w->mysql.poison[hash] ^= (uint8_t)(world_percent(w, 60) ? 1U << world_below(w, w->config.fields) : all);
    TRACE(w, "mysql: refuses fields %#x of hash %u", w->mysql.poison[hash], hash);
}

static bool can_shop(struct world *w, struct daemon *d)
{
    (void)d;
    return w->config.makes_none && !w->calm && w->mysql.up;
}

static void run_shop(struct world *w, struct daemon *d)
{
    (void)d;
    mysql_shop(w, (int)world_below(w, w->config.hashes), (int)world_below(w, w->config.fields));
}

static bool can_leap(struct world *w, struct daemon *d)
{
    (void)d;
    return !w->calm && w->config.leap_most_ms > 0;
}

/* An operator sets Redis' clock; its monotonic clock, and ours, go on. */
static void run_leap(struct world *w, struct daemon *d)
{
    (void)d;
    int64_t most = (int64_t)w->config.leap_most_ms;
    w->leap_ms = (int64_t)world_below(w, 2 * w->config.leap_most_ms + 1) - most;
    TRACE(w, "redis: its clock is off by %lld ms", (long long)w->leap_ms);
}

/* What a service does from time to time. */

static bool can_walk(struct world *w, struct daemon *d)
{
    if (!acting(d) || d->life->links[ROLE_SYNC] == NULL) return false;
    bool time = world_rule(w, WORLD_WALK_TIMER) && w->now_ms >= d->life->walk_ms;
    return d->life->walk_wanted || time;
}

static void run_walk(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_walk(d->life);
}

static bool can_read(struct world *w, struct daemon *d)
{
    return !w->calm && acting(d) && d->life->started && !d->life->stopping && !d->life->read.busy;
}

static void run_read(struct world *w, struct daemon *d)
{
    (void)w;
    journals_read(d->life);
}

static bool can_ask(struct world *w, struct daemon *d)
{
    return can_act(w, d) && d->life->started && !d->life->stopping;
}

static void run_wait(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_wait(d->life);
}

static bool can_client_wait(struct world *w, struct daemon *d)
{
    (void)w;
    return acting(d) && daemon_may_client_wait(d->life);
}

static void run_client_wait(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_client_wait(d->life);
}

static void run_total(struct world *w, struct daemon *d)
{
    (void)w;
    totals_draw(d->life);
}

static void run_recover(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_recover(d->life);
}

/* Lives. */

static bool can_start(struct world *w, struct daemon *d)
{
    return d->life == NULL && !d->for_good && w->lives_n < SIM_LIVES;
}

static bool can_crash(struct world *w, struct daemon *d)
{
    return !w->calm && d->life != NULL && w->lives_n + SIM_DAEMONS < SIM_LIVES;
}

/* One daemon always stays, or comes back. */
static void run_crash(struct world *w, struct daemon *d)
{
    bool other = false;
    for (unsigned i = 0; i < w->config.daemons; i++)
        other |= &w->daemons[i] != d && !w->daemons[i].for_good;
    d->for_good = other && world_percent(w, w->config.for_good_percent);
    daemon_crash(w, d);
}

/* It has taken a journal whose owner's links are still open. */
static bool can_crash_taking(struct world *w, struct daemon *d)
{
    if (!can_crash(w, d) || d->life->links[ROLE_FRAME] == NULL) return false;
    const struct list *sent = &d->life->links[ROLE_FRAME]->sent;
    if (list_empty(sent)) return false;
    const struct request *q = CONTAINER_OF(sent->next, struct request, link);
    return q->kind == REQ_JOURNAL_TAKE && q->step == 1;
}

static void run_crash_taking(struct world *w, struct daemon *d)
{
    run_crash(w, d);
}

static bool can_stop(struct world *w, struct daemon *d)
{
    return can_crash(w, d) && acting(d) && !d->life->stopping;
}

static void run_stop(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_stop(d);
}

static bool can_abandon(struct world *w, struct daemon *d)
{
    (void)w;
    return acting(d) && d->life->stopping && !d->life->abandoned;
}

static void run_abandon(struct world *w, struct daemon *d)
{
    (void)w;
    daemon_abandon(d);
}

/* An operator alters a table, or the shared schema, and restarts MySQL. */
static void run_unfit(struct world *w, struct daemon *d)
{
    (void)d;
    bool *what = world_percent(w, 60) ? &w->mysql.table_unfit : &w->mysql.schema_unfit;
    *what = !*what;
    TRACE(w, "mysql: its schema %s, the table of views %s", w->mysql.schema_unfit ? "does not fit" : "fits",
          w->mysql.table_unfit ? "does not fit" : "fits");
    mysql_stop(w);
    mysql_start(w);
}

static void run_pause(struct world *w, struct daemon *d)
{
    uint64_t resume_ms = w->now_ms + 1 + world_below(w, w->config.pause_ms);
    EACH_LANE (w) {
        d->life->paused = true;
        d->life->paused_ms = w->now_ms;
        d->life->resume_ms = resume_ms;
    }
    TRACE(w, "life %d stands still", d->life->index);
}

static bool can_resume(struct world *w, struct daemon *d)
{
    return d->life != NULL && d->life->paused && (w->calm || w->now_ms >= d->life->resume_ms);
}

static void run_resume(struct world *w, struct daemon *d)
{
    TRACE(w, "life %d goes on", d->life->index);
    EACH_LANE (w) {
        d->life->paused = false;
        if (!world_rule(w, WORLD_CLOCK)) d->life->slept_ms += w->now_ms - d->life->paused_ms;
    }
}

/* A failover is announced; later the primary moves, or the failover is called off. */
static void run_hold(struct world *w, struct daemon *d)
{
    TRACE(w, "life %d holds its frames", d->life->index);
    daemon_hold(d->life, w->now_ms + 1 + world_below(w, 3000));
}

/* The replica is behind by less than mysql.keep. */
static void mysql_age(struct world *w)
{
    uint64_t keep_ms = w->config.sync.keep_ms, behind_ms = w->now_ms - w->mysql.copy.at_ms;
    if (keep_ms > 0 && (behind_ms + 1 >= keep_ms || world_percent(w, 10))) mysql_copy(w);
}

static void run_clock(struct world *w, struct daemon *d)
{
    (void)d;
    bool jump = world_percent(w, w->config.clock_jump_percent);
    uint64_t next_ms =
        w->now_ms + 1 + world_below(w, jump ? w->config.clock_jump_ms : w->config.clock_step_ms);
    EACH_LANE (w)
        if (next_ms > w->config.unread_ms) redis_catch_up(w, next_ms - w->config.unread_ms);
    w->now_ms = next_ms;
    mysql_age(w);
    if (w->config.clean_percent > 0 && world_percent(w, w->config.clean_percent)) ops_clean(w);
    EACH_LANE (w) {
        redis_age(w->redis, w->now_ms, w->config.lag_ms);
        moves_clock(w);
    }
}

/* The table. */

#define OF_DAEMON(name, can) [EVENT_##name] = {#name, false, false, false, can, run_##name}
#define OF_WORLD(name, can) [EVENT_##name] = {#name, false, true, false, can, run_##name}
#define FAULT_OF_DAEMON(name, can) [EVENT_##name] = {#name, true, false, false, can, run_##name}
#define FAULT_OF_WORLD(name, can) [EVENT_##name] = {#name, true, true, false, can, run_##name}
/* Of all lanes. */
#define ALL_OF_DAEMON(name, can) [EVENT_##name] = {#name, false, false, true, can, run_##name}
#define ALL_OF_WORLD(name, can) [EVENT_##name] = {#name, false, true, true, can, run_##name}
#define ALL_FAULT_OF_DAEMON(name, can) [EVENT_##name] = {#name, true, false, true, can, run_##name}
#define ALL_FAULT_OF_WORLD(name, can) [EVENT_##name] = {#name, true, true, true, can, run_##name}

const struct event events[EVENT_COUNT] = {
    ALL_OF_DAEMON(hit, can_hit),
    OF_DAEMON(turn, can_act),
    OF_DAEMON(tick, can_act),
    OF_WORLD(execute, can_execute),
    OF_WORLD(execute_dead, can_execute_dead),
    OF_DAEMON(deliver, can_deliver),
    OF_DAEMON(answer_lost, can_answer_lost),
    OF_DAEMON(connect, can_connect),
    OF_DAEMON(reconnect, can_reconnect),
    OF_DAEMON(notice_cut, can_notice_cut),
    OF_DAEMON(merge, can_merge),
    ALL_OF_WORLD(limbo, can_limbo),
    OF_DAEMON(walk, can_walk),
    OF_DAEMON(read, can_read),
    OF_DAEMON(wait, can_ask),
    OF_DAEMON(recover, can_ask),
    OF_DAEMON(total, can_ask),
    OF_DAEMON(tell_mysql, can_tell_mysql),
    ALL_OF_WORLD(clock, always),
    OF_WORLD(fsync, can_fsync),
    [EVENT_start] = {"start", false, false, true, can_start, daemon_start},
    ALL_OF_DAEMON(resume, can_resume),
    FAULT_OF_DAEMON(cut, can_cut),
    ALL_FAULT_OF_DAEMON(crash, can_crash),
    ALL_FAULT_OF_DAEMON(stop, can_stop),
    ALL_FAULT_OF_DAEMON(pause, can_act),
    FAULT_OF_WORLD(redis_restart, always),
    FAULT_OF_WORLD(fence_late, can_fence_late),
    FAULT_OF_WORLD(redis_refuse, always),
    ALL_FAULT_OF_WORLD(mysql_toggle, always),
    FAULT_OF_WORLD(wrong_type, can_wrong_type),
    FAULT_OF_WORLD(full, always),
    ALL_FAULT_OF_WORLD(poison, always),
    ALL_FAULT_OF_WORLD(leap, can_leap),
    ALL_FAULT_OF_DAEMON(client_gone, can_act),
    ALL_OF_DAEMON(abandon, can_abandon),
    ALL_FAULT_OF_WORLD(unfit, always),
    OF_DAEMON(question, can_question),
    OF_WORLD(dump, can_dump),
    FAULT_OF_WORLD(restore, can_restore),
    FAULT_OF_DAEMON(hold, can_act),
    FAULT_OF_WORLD(announce, can_announce),
    FAULT_OF_WORLD(failover, can_failover),
    OF_WORLD(demote, can_demote),
    OF_WORLD(follow, can_follow),
    OF_DAEMON(leave, can_leave),
    FAULT_OF_DAEMON(crash_taking, can_crash_taking),
    OF_DAEMON(client_wait, can_client_wait),
    ALL_OF_WORLD(shop, can_shop),
};
