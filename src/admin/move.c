/* admin/move.c - `tallyd move`: from one Redis to a cluster, while its tallyds count. What goes along is copied, and again what
 * changes meanwhile. Then a mark (KEY_MOVE) ends counting on the Redis, the rest is copied, and the cluster takes hits. What
 * waits on the Redis is merged behind that. A move that was killed is run again from its beginning. tests/model/move.pml has
 * why that is exact. */
#include "admin/bar.h"
#include "admin/verbs.h"
#include "redis/check_op.h"
#include "redis/copy_op.h"
#include "redis/move_op.h"
#include "redis/sweep_op.h"
#include "status/reach.h"

#include <inttypes.h>
#include <stdio.h>

#define TOLD_MS 10000 /* that Redis may take to tell a change */

struct mover {
    struct conf conf, from_conf;
    struct setup setup, from_setup;
    const struct call *call;
    uv_loop_t loop;
    struct life life;
    char whose[20]; /* the life of the mover whose move it is: ours, or an earlier one that has copied all */
    struct reach from, to, home; /* home: the slot of a cluster's only lane (lanes_op.h) */
    struct redis_track track;
    struct redis_copy copy;
    struct bar bar;
    bool answered;
};

static enum err mover_lost(struct error *e, const char *who, const char *text)
{
    return error_set(e, ERR_UNAVAILABLE, "%s: %s; nothing is lost, run `tallyd move` again", who, text);
}

/* --- one request --- */

static void moving_told(struct redis_moving *m)
{
    *(bool *)m->arg = true;
}

static enum err moving_ask(struct redis_link *l, enum redis_move_step step, struct redis_moving *q,
                           struct error *e)
{
    bool done = false;
    q->step = step;
    q->done = moving_told;
    q->arg = &done;
    redis_move(l, q);
    redis_run_until(l, &done);
    e->code = ERR_NONE;
    return q->lost ? mover_lost(e, "Redis", q->text) : ERR_NONE;
}

static enum err home_ask(struct mover *m, enum redis_move_step step, enum redis_move_state wanted,
                         struct error *e)
{
    struct redis_moving q = {.lanes = m->setup.lanes, .replicas = (uint32_t)m->conf.redis_replicas};
    snprintf(q.mark, sizeof q.mark, "%s", m->whose);
    if (moving_ask(m->home.links, step, &q, e) != ERR_NONE) return e->code;
    if (q.told == (int64_t)wanted) return ERR_NONE;
    return error_set(
        e, ERR_FAILED,
        "another `tallyd move` into this cluster was begun, or tallyd was started there: let one "
        "of them end first");
}

static void others_killed(struct redis_kill *k)
{
    *(bool *)k->arg = true;
}

/* Of other movers, too: the last one goes on. */
static enum err others_end(struct redis_link *l, struct error *e)
{
    bool done = false;
    struct redis_kill kill = {.life = l->config.life, .everybody = true, .done = others_killed, .arg = &done};
    redis_kill_lives(l, &kill);
    redis_run_until(l, &done);
    return kill.lost ? mover_lost(e, "cannot end links of others", kill.text) : ERR_NONE;
}

/* --- 1: no tallyd begins in the cluster --- */

static enum err states_judge(bool marked, int64_t state, struct error *e)
{
    if (state == MOVE_FREE || state == MOVE_UNDER_WAY || (marked && state == MOVE_DONE)) return ERR_NONE;
    if (state == MOVE_IN_USE)
        return error_set(e, ERR_CONFIG,
                         "a tallyd has begun to count in this cluster, or counted there with another number "
                         "of lanes: move into an empty one");
    return error_set(e, ERR_CONFIG,
                     "this cluster was filled by %s. Nothing was changed: move it into an empty cluster",
                     marked ? "another move. What the old Redis has is not in it, but still in the old Redis"
                            : "a move, and the old Redis has no mark of it (" KEY_MOVE "), so it takes hits");
}

static void lane_swept(struct redis_sweep *s)
{
    ((struct mover *)s->arg)->answered = true;
}

static enum err lane_sweep(struct mover *m, struct redis_link *l, struct redis_sweep *sweep, struct error *e)
{
    sweep->counters = &m->setup.counters;
    sweep->lanes = m->to.lanes;
    sweep->done = lane_swept;
    sweep->arg = m;
    m->answered = false;
    redis_sweep(l, sweep);
    redis_run_until(l, &m->answered);
    return sweep->lost ? mover_lost(e, "the cluster cannot be emptied", sweep->text) : ERR_NONE;
}

/* An earlier try may have copied what the old Redis does not have any more. */
static enum err lanes_sweep(struct mover *m, struct error *e)
{
    struct redis_sweep sweep = {0};
    for (uint32_t i = 0; i < m->to.lanes; i++) {
        if (others_end(&m->to.links[i], e) != ERR_NONE) return e->code;
        if (lane_sweep(m, &m->to.links[i], &sweep, e) != ERR_NONE) return e->code;
    }
    return ERR_NONE;
}

/* Without replicas that were waited for, a failover may have lost that a tallyd may count. */
static enum err lanes_look(struct mover *m, struct error *e)
{
    struct redis_sweep look = {.looks = true};
    for (uint32_t i = 0; i < m->to.lanes && !look.counted; i++)
        if (lane_sweep(m, &m->to.links[i], &look, e) != ERR_NONE) return e->code;
    if (!look.counted) return ERR_NONE;
    struct slice tag = redis_tag(m->home.links);
    return error_set(
        e, ERR_CONFIG,
        "a tallyd has counted in this cluster, so it is not emptied, and nothing was changed. If an earlier "
        "move of this Redis said that the cluster takes hits, a failover has lost that: write it again with "
        "`MSET " SLICE_FMT KEY_LANES " %u " SLICE_FMT KEY_MOVE " done`, then run `tallyd move` again. Else "
        "move into an empty cluster",
        SLICE_ARG(tag), m->setup.lanes, SLICE_ARG(tag));
}

/* (!) What another mover sent must not run behind the sweep: first it is replaced, then its links are ended. Also in a
 * cluster that looks empty: it may have been emptied behind a mover, and before the last that this one sent. */
static enum err cluster_shut(struct mover *m, bool *over, struct error *e)
{
    struct redis_moving q = {.lanes = m->setup.lanes};
    if (moving_ask(m->from.links, MOVE_LOOK, &q, e) != ERR_NONE) return e->code;
    if (moving_ask(m->home.links, MOVE_STATE, &q, e) != ERR_NONE) return e->code;
    bool marked = q.mark[0] != '\0';
    if (states_judge(marked, q.told, e) != ERR_NONE) return e->code;
    *over = q.told == MOVE_DONE;
    snprintf(m->whose, sizeof m->whose, "%s", *over ? q.mark : m->life.id);
    if (*over) return ERR_NONE;
    if (lanes_look(m, e) != ERR_NONE) return e->code;
    if (marked && q.told == MOVE_FREE)
        printf("a move of the old Redis began before, but the cluster is empty: what the old Redis has is "
               "copied now\n");
    return home_ask(m, MOVE_BEGIN, MOVE_UNDER_WAY, e) == ERR_NONE ? lanes_sweep(m, e) : e->code;
}

/* --- 2: copying --- */

static void copied_page(struct redis_copy *c)
{
    struct mover *m = c->arg;
    bar_show(&m->bar, c->seen < c->total ? c->seen : c->total, c->total);
}

static void copied_all(struct redis_copy *c)
{
    ((struct mover *)c->arg)->answered = true;
}

static enum err copy_run(struct mover *m, void (*copy)(struct redis_copy *), const char *what,
                         struct error *e)
{
    m->answered = false;
    bar_init(&m->bar, stdout, what);
    copy(&m->copy);
    redis_run_until(m->from.links, &m->answered);
    bar_end(&m->bar);
    return m->copy.lost ? mover_lost(e, "not all was copied", m->copy.text) : ERR_NONE;
}

/* All that was changed before is told. */
static enum err track_reach(struct mover *m, struct error *e)
{
    redis_track_mark(&m->track, m->from.links);
    return redis_track_await(&m->track, &m->track.seen, TOLD_MS)
               ? ERR_NONE
               : mover_lost(e, "the old Redis", m->track.text);
}

static enum err copy_most(struct mover *m, struct error *e)
{
    m->copy = (struct redis_copy){.counters = &m->setup.counters,
                                  .from = m->from.links,
                                  .to = m->to.links,
                                  .track = &m->track,
                                  .lanes = m->to.lanes,
                                  .replicas = (uint32_t)m->conf.redis_replicas,
                                  .step = copied_page,
                                  .ended = copied_all,
                                  .arg = m};
    redis_track_open(&m->track, &m->loop, m->from.places);
    if (!redis_track_await(&m->track, &m->track.on, TOLD_MS))
        return mover_lost(e, "CLIENT TRACKING on the old Redis", m->track.text);
    if (track_reach(m, e) != ERR_NONE) return e->code;
    return copy_run(m, redis_copy_most, "copying keys", e);
}

/* --- 3: counting ends on the old Redis --- */

static enum err counting_end(struct mover *m, struct error *e)
{
    struct redis_moving q = {.replicas = (uint32_t)m->from_conf.redis_replicas};
    if (moving_ask(m->from.links, MOVE_MARK, &q, e) != ERR_NONE) return e->code;
    return others_end(m->from.links, e);
}

/* Ours was there before the copy of the rest, and is there after it: so no tallyd counted in between. */
static enum err mark_is_kept(struct mover *m, struct error *e)
{
    struct redis_moving q = {0};
    if (moving_ask(m->from.links, MOVE_LOOK, &q, e) != ERR_NONE) return e->code;
    if (strcmp(q.mark, m->life.id) == 0) return ERR_NONE;
    return error_set(e, ERR_FAILED,
                     "the old Redis may have taken hits: " KEY_MOVE
                     " was deleted there, lost in a failover, or "
                     "written by another mover. Run `tallyd move` again");
}

static void recovered_some(void *arg, uint64_t done, uint64_t total)
{
    struct mover *m = arg;
    if (total > 0) bar_show(&m->bar, done, total);
    uv_run(&m->loop, UV_RUN_NOWAIT); /* else Redis would end the link that changes are told on */
}

static enum err recover_before(struct mover *m, enum admin_drain drain, const char *what,
                               struct admin_recovered *got, struct error *e)
{
    const struct admin_recover how = {.drain = drain, .progress = recovered_some, .arg = m};
    const struct admin_ports *ports = m->call->ports;
    bar_init(&m->bar, stdout, what);
    enum err code = ports->recover_alone(ports->arg, &m->from_conf, &how, got, e);
    bar_end(&m->bar);
    return code;
}

static enum err copy_rest(struct mover *m, struct error *e)
{
    struct admin_recovered got = {0};
    if (mark_is_kept(m, e) != ERR_NONE) return e->code;
    if (recover_before(m, ADMIN_DRAIN_JOURNALS, "bringing journals to their keys", &got, e) != ERR_NONE)
        return error_prefix(e, "not all journals are in their keys: run `tallyd move` again; until then "
                               "neither the old Redis nor the cluster takes hits");
    if (track_reach(m, e) != ERR_NONE) return e->code;
    if (copy_run(m, redis_copy_rest, "copying the rest", e) != ERR_NONE) return e->code;
    return mark_is_kept(m, e);
}

/* (!) A tallyd counts as soon as it finds the end, and a failover may then lose that. So first replicas know that nothing is swept
 * any more, and another mover that finds only this ends the move. */
static enum err cluster_open(struct mover *m, struct error *e)
{
    if (home_ask(m, MOVE_COPIED, MOVE_DONE, e) != ERR_NONE) return e->code;
    return home_ask(m, MOVE_END, MOVE_DONE, e);
}

static enum err move_over(struct mover *m, struct error *e)
{
    if (copy_most(m, e) != ERR_NONE) return e->code;
    printf("%" PRIu64 " keys were copied\n", m->copy.copied);
    uint64_t since_ms = mono_ms();
    if (counting_end(m, e) != ERR_NONE) return e->code;
    printf("the old Redis takes no more hits\n");
    if (copy_rest(m, e) != ERR_NONE) return e->code;
    if (cluster_open(m, e) != ERR_NONE) return e->code;
    printf("the cluster takes hits, after %.1f s: start tallyd with the configuration of the cluster\n",
           (double)(mono_ms() - since_ms) / 1000);
    return ERR_NONE;
}

/* --- 4: what waits there is merged --- */

static enum err drain_before(struct mover *m, struct error *e)
{
    struct admin_recovered got = {0};
    if (recover_before(m, ADMIN_DRAIN_ALL, "merging what waits", &got, e) != ERR_NONE)
        return error_prefix(e, "the cluster takes hits, but not all that waits in the old Redis is merged; "
                               "run `tallyd move` again");
    if (got.unknown + got.held == 0) return ERR_NONE;
    return error_set(e, ERR_FAILED,
                     "the cluster takes hits, but %" PRId64 " batches of the old Redis cannot be merged: "
                     "`tallyd recover -c %s` names them. Then run `tallyd move` again",
                     got.unknown + got.held, m->call->from);
}

/* --- */

static enum err mover_open(struct mover *m, struct error *e)
{
    const struct source from = setup_source(&m->from_setup), to = setup_source(&m->setup);
    struct source home = to;
    home.lanes = 1;
    life_init(&m->life, slice_str(m->conf.instance));
    if (reach_open(&m->from, &m->loop, &m->life, &from, e) != ERR_NONE) return e->code;
    if (reach_open(&m->to, &m->loop, &m->life, &to, e) != ERR_NONE) return e->code;
    return reach_open(&m->home, &m->loop, &m->life, &home, e);
}

static void mover_close(struct mover *m)
{
    redis_track_close(&m->track);
    redis_copy_free(&m->copy);
    reach_close(&m->home);
    reach_close(&m->to);
    reach_close(&m->from);
    uv_run(&m->loop, UV_RUN_NOWAIT);
    int left = uv_loop_close(&m->loop);
    INVARIANT(left == 0);
}

static enum err mover_steps(struct mover *m, struct error *e)
{
    bool over = false;
    if (mover_open(m, e) != ERR_NONE || cluster_shut(m, &over, e) != ERR_NONE) return e->code;
    if (over) printf("this Redis was moved to this cluster before\n");
    if ((over ? cluster_open : move_over)(m, e) != ERR_NONE) return e->code;
    redis_track_close(&m->track);
    if (drain_before(m, e) != ERR_NONE) return e->code;
    printf("done: all that waited in the old Redis is in MySQL\n");
    return ERR_NONE;
}

static enum err mover_run(struct mover *m, struct error *e)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* each step is shown at once */
    if (!m->setup.redis.cluster || m->from_setup.redis.cluster)
        return error_set(
            e, ERR_CONFIG,
            "tallyd move goes from one Redis (the configuration of --from) to a cluster (that of "
            "-c, with a redis+cluster:// URL)");
    uv_loop_init(&m->loop);
    enum err code = mover_steps(m, e);
    mover_close(m);
    return code;
}

enum err verb_move(const struct call *call)
{
    struct mover m = {.call = call};
    struct call before = *call;
    struct error e;
    before.conf_path = call->from;
    if (call->from == NULL) {
        error_set(&e, ERR_USAGE, "tallyd move needs --from FILE, the configuration with the old Redis");
        return call_failed(&e);
    }
    if (!call_load(call, &m.conf, &m.setup)) return ERR_CONFIG;
    bool loaded = call_load(&before, &m.from_conf, &m.from_setup);
    enum err code = loaded ? mover_run(&m, &e) : ERR_CONFIG;
    if (loaded && code != ERR_NONE) code = call_failed(&e);
    if (loaded) setup_close(&m.from_setup);
    if (loaded) conf_free(&m.from_conf);
    setup_close(&m.setup);
    conf_free(&m.conf);
    return code;
}
