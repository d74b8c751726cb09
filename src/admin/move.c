/* admin/move.c - `tallyd move`: from one Redis to a cluster, while its tallyds count. What goes along is copied, and again what
 * changes meanwhile. Then a mark (KEY_MOVE) ends counting on the Redis, the rest is copied, and the cluster takes hits. What
 * waits on the Redis is merged behind that. A move that was killed is run again from its beginning. tests/model/move.pml has
 * why that is exact. */
#include "admin/human.h"
#include "admin/verbs.h"
#include "redis/check_op.h"
#include "redis/copy.h"
#include "status/ask.h"

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
    struct reach from, to, home; /* home: the slot of a cluster's only lane (lanes_agree) */
    struct track track;
    struct copy copy;
    struct bar bar;
};

/* Done, or all is copied: by the mover that is asked about, or by another. */
enum move_state { MOVE_FREE, MOVE_UNDER_WAY, MOVE_DONE, MOVE_IN_USE, MOVE_DONE_BY_ANOTHER };

static enum err mover_lost(struct error *e, const char *who, const char *text)
{
    return error_set(e, ERR_UNAVAILABLE, "%s: %s; nothing is lost, run `tallyd move` again", who, text);
}

static enum err mover_refused(struct error *e, const struct redis_answer *r)
{
    char why[200];
    answer_why(r, why, sizeof why);
    return mover_lost(e, "Redis", why);
}

/* --- one request --- */

/* A replica that is promoted must have what was written. */
static enum err replicas_have(struct redis_link *l, int64_t wanted, const char *what, struct error *e)
{
    int64_t have;
    char text[200];
    if (wanted == 0) return ERR_NONE;
    const struct redis_answer *r = redis_call(l, "WAIT %" PRId64 " %u", wanted, l->config.answer_ms / 2);
    if (!answer_integer(r, &have)) return mover_refused(e, r);
    snprintf(text, sizeof text, "%d replicas must have %s (redis.replicas), and %d have it", (int)wanted,
             what, (int)have);
    return have >= wanted ? ERR_NONE : mover_lost(e, "Redis", text);
}

/* Whose mark is on the old Redis? Empty: nobody's. Refused, too, when the right to DUMP is missing. */
static enum err mark_look(struct mover *m, char mark[20], struct error *e)
{
    struct redis_link *l = m->from.links;
    const struct redis_answer *r = redis_call(l, "GET {}" KEY_MOVE);
    if (!answer_is(r, REDIS_NIL) && !answer_is(r, REDIS_STRING)) return mover_refused(e, r);
    snprintf(mark, 20, SLICE_FMT, SLICE_ARG(r->str));
    r = redis_call(l, "DUMP {}" KEY_MOVE);
    return r == NULL || r->type == REDIS_ERROR ? mover_refused(e, r) : ERR_NONE;
}

/* In the cluster's home slot; told: the move_state as it is then. */
static enum err home_tell(struct mover *m, const char *step, const char *whose, int64_t *told,
                          struct error *e)
{
    const struct redis_answer *r = redis_call(
        m->home.links, "EVAL %.*s 4 {}" KEY_LANES " {}" KEY_GEN " {}" KEY_REALM " {}" KEY_MOVE " %u %s %s",
        SLICE_ARG(lua_move), m->setup.lanes, whose, step);
    return answer_integer(r, told) ? ERR_NONE : mover_refused(e, r);
}

/* Refused, too, when the right to RESTORE is missing: one that has it gets another error for no bytes. */
static enum err home_look(struct mover *m, const char *whose, int64_t *told, struct error *e)
{
    if (home_tell(m, "look", whose, told, e) != ERR_NONE) return e->code;
    const struct redis_answer *r = redis_call(m->home.links, "RESTORE {}" KEY_MOVE " 0 ");
    bool may = r != NULL && (r->type != REDIS_ERROR || slice_starts(r->str, SLICE("ERR DUMP payload")) ||
                             slice_starts(r->str, SLICE("BUSYKEY")));
    return may ? ERR_NONE : mover_refused(e, r);
}

/* begin: no tallyd begins to count there; copied: all is, no mover begins there any more, and it is refused when another has begun
 * since; end: then tallyds may. */
static enum err home_ask(struct mover *m, const char *step, enum move_state wanted, struct error *e)
{
    int64_t told;
    if (home_tell(m, step, m->whose, &told, e) != ERR_NONE) return e->code;
    if (replicas_have(m->home.links, m->conf.redis_replicas, "the state of the move", e) != ERR_NONE)
        return e->code;
    if (told == (int64_t)wanted) return ERR_NONE;
    return error_set(
        e, ERR_FAILED,
        "another `tallyd move` into this cluster was begun, or tallyd was started there: let one "
        "of them end first");
}

/* Of other movers, too: the last one goes on. */
static enum err others_end(struct redis_link *l, struct error *e)
{
    struct redis_kill kill = {.life = l->config.life, .everybody = true};
    redis_kill_lives(l, &kill);
    redis_settle(l);
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

/* An earlier try may have copied what the old Redis does not have any more. */
static enum err lanes_sweep(struct mover *m, struct error *e)
{
    char why[200];
    for (uint32_t i = 0; i < m->to.at.lanes; i++) {
        if (others_end(&m->to.links[i], e) != ERR_NONE) return e->code;
        if (!lane_sweep(&m->to.links[i], &m->setup.counters, m->to.at.lanes, why, sizeof why))
            return mover_lost(e, "the cluster cannot be emptied", why);
    }
    return ERR_NONE;
}

/* Without replicas that were waited for, a failover may have lost that a tallyd may count. */
static enum err lanes_look(struct mover *m, struct error *e)
{
    char why[200];
    bool counted = false;
    for (uint32_t i = 0; i < m->to.at.lanes && !counted; i++)
        if (!lane_counted(&m->to.links[i], &counted, why, sizeof why))
            return mover_lost(e, "the cluster cannot be emptied", why);
    if (!counted) return ERR_NONE;
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
    char mark[20];
    int64_t told;
    if (mark_look(m, mark, e) != ERR_NONE || home_look(m, mark, &told, e) != ERR_NONE) return e->code;
    bool marked = mark[0] != '\0';
    if (states_judge(marked, told, e) != ERR_NONE) return e->code;
    *over = told == MOVE_DONE;
    snprintf(m->whose, sizeof m->whose, "%s", *over ? mark : m->life.id);
    if (*over) return ERR_NONE;
    if (lanes_look(m, e) != ERR_NONE) return e->code;
    if (marked && told == MOVE_FREE)
        printf("a move of the old Redis began before, but the cluster is empty: what the old Redis has is "
               "copied now\n");
    return home_ask(m, "begin", MOVE_UNDER_WAY, e) == ERR_NONE ? lanes_sweep(m, e) : e->code;
}

/* --- 2: copying --- */

static void copy_show(struct copy *c)
{
    bar_show(c->arg, c->seen < c->total ? c->seen : c->total, c->total);
}

static enum err copy_run(struct mover *m, bool (*copy)(struct copy *), const char *what, struct error *e)
{
    bar_init(&m->bar, stdout, what);
    bool whole = copy(&m->copy);
    bar_end(&m->bar);
    return whole ? ERR_NONE : mover_lost(e, "not all was copied", m->copy.text);
}

/* All that was changed before is told. */
static enum err changes_reach(struct mover *m, struct error *e)
{
    bool told = track_reach(&m->track, m->from.links, TOLD_MS);
    return told ? ERR_NONE : mover_lost(e, "the old Redis", m->track.text);
}

static enum err most_copy(struct mover *m, struct error *e)
{
    m->copy = (struct copy){.counters = &m->setup.counters,
                            .from = m->from.links,
                            .to = m->to.links,
                            .track = &m->track,
                            .lanes = m->to.at.lanes,
                            .replicas = (uint32_t)m->conf.redis_replicas,
                            .step = copy_show,
                            .arg = &m->bar};
    if (!track_open(&m->track, &m->loop, m->from.at.places))
        return mover_lost(e, "CLIENT TRACKING on the old Redis", m->track.text);
    if (changes_reach(m, e) != ERR_NONE) return e->code;
    return copy_run(m, copy_most, "copying keys", e);
}

/* --- 3: counting ends on the old Redis --- */

static enum err counting_end(struct mover *m, struct error *e)
{
    struct redis_link *l = m->from.links;
    const struct redis_answer *r = redis_call(l, "SET {}" KEY_MOVE " %s", m->life.id);
    if (!answer_is_ok(r)) return mover_refused(e, r);
    if (replicas_have(l, m->from_conf.redis_replicas, "the mark", e) != ERR_NONE) return e->code;
    return others_end(l, e);
}

/* Ours was there before the copy of the rest, and is there after it: so no tallyd counted in between. */
static enum err mark_is_kept(struct mover *m, struct error *e)
{
    char mark[20];
    if (mark_look(m, mark, e) != ERR_NONE) return e->code;
    if (strcmp(mark, m->life.id) == 0) return ERR_NONE;
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

static enum err rest_copy(struct mover *m, struct error *e)
{
    struct admin_recovered got = {0};
    if (mark_is_kept(m, e) != ERR_NONE) return e->code;
    if (recover_before(m, ADMIN_DRAIN_JOURNALS, "bringing journals to their keys", &got, e) != ERR_NONE)
        return error_prefix(e, "not all journals are in their keys: run `tallyd move` again; until then "
                               "neither the old Redis nor the cluster takes hits");
    if (changes_reach(m, e) != ERR_NONE) return e->code;
    if (copy_run(m, copy_rest, "copying the rest", e) != ERR_NONE) return e->code;
    return mark_is_kept(m, e);
}

/* (!) A tallyd counts as soon as it finds the end, and a failover may then lose that. So first replicas know that nothing is swept
 * any more, and another mover that finds only this ends the move. */
static enum err cluster_open(struct mover *m, struct error *e)
{
    if (home_ask(m, "copied", MOVE_DONE, e) != ERR_NONE) return e->code;
    return home_ask(m, "end", MOVE_DONE, e);
}

static enum err move_over(struct mover *m, struct error *e)
{
    if (most_copy(m, e) != ERR_NONE) return e->code;
    printf("%" PRIu64 " keys were copied\n", m->copy.copied);
    uint64_t since_ms = mono_ms();
    if (counting_end(m, e) != ERR_NONE) return e->code;
    printf("the old Redis takes no more hits\n");
    if (rest_copy(m, e) != ERR_NONE) return e->code;
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

static enum err mover_steps(struct mover *m, struct error *e)
{
    bool over = false;
    if (mover_open(m, e) != ERR_NONE || cluster_shut(m, &over, e) != ERR_NONE) return e->code;
    if (over) printf("this Redis was moved to this cluster before\n");
    if ((over ? cluster_open : move_over)(m, e) != ERR_NONE) return e->code;
    track_close(&m->track);
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
    track_close(&m->track);
    copy_free(&m->copy);
    reach_close(&m->home);
    reach_close(&m->to);
    reach_close(&m->from);
    uv_run(&m->loop, UV_RUN_NOWAIT);
    int left = uv_loop_close(&m->loop);
    INVARIANT(left == 0);
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
