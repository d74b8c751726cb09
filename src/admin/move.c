/* admin/move.c - `tallyd move`: from one Redis to a cluster. A mark (KEY_MOVE) ends counting on the Redis. All that waits there is
 * merged, what goes along is copied, and then the cluster takes hits. Until then no tallyd counts there, so nothing has to
 * be added up there, and each step may be done again: a move that was killed is run again from its beginning. */
#include "admin/bar.h"
#include "admin/verbs.h"
#include "redis/check_op.h"
#include "redis/copy_op.h"
#include "redis/move_op.h"
#include "status/ask.h"
#include "status/reach.h"

#include <inttypes.h>
#include <stdio.h>

struct mover {
    struct conf conf, from_conf;
    struct setup setup, from_setup;
    const struct call *call;
    uv_loop_t loop;
    struct life life;
    struct reach from, to;
    struct bar bar;
    bool copied;
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

/* n: lanes, or of the mark replicas. */
static enum err moving_ask(struct redis_link *l, enum redis_move_step step, uint32_t n, int64_t *told,
                           struct error *e)
{
    bool done = false;
    struct redis_moving m = {.step = step, .lanes = n, .replicas = n, .done = moving_told, .arg = &done};
    redis_move(l, &m);
    redis_run_until(l, &done);
    *told = m.told;
    e->code = ERR_NONE;
    return m.lost ? mover_lost(e, "Redis", m.text) : ERR_NONE;
}

static enum err home_ask(struct mover *m, struct redis_link *home, enum redis_move_step step,
                         enum redis_move_state wanted, struct error *e)
{
    int64_t state;
    if (moving_ask(home, step, m->setup.lanes, &state, e) != ERR_NONE) return e->code;
    if (state == (int64_t)wanted) return ERR_NONE;
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

/* --- 1: counting ends there --- */

static enum err states_judge(bool marked, int64_t state, struct error *e)
{
    if (state == MOVE_FREE || (marked && state != MOVE_IN_USE)) return ERR_NONE;
    if (state == MOVE_UNDER_WAY)
        return error_set(
            e, ERR_CONFIG,
            "a move into this cluster was begun and given up: empty the cluster (FLUSHALL on each "
            "of its primaries), and run `tallyd move` again");
    return error_set(e, ERR_CONFIG,
                     "a tallyd has begun to count in this cluster, or counted there with another number of "
                     "lanes: move into an empty one, and start tallyd there when the move is done");
}

static enum err counting_end(struct mover *m, struct redis_link *before, struct redis_link *home, bool *over,
                             struct error *e)
{
    int64_t marked, state;
    uint32_t lanes = m->setup.lanes;
    if (moving_ask(before, MOVE_LOOK, 0, &marked, e) != ERR_NONE) return e->code;
    if (moving_ask(home, MOVE_STATE, lanes, &state, e) != ERR_NONE) return e->code;
    if (states_judge(marked != 0, state, e) != ERR_NONE) return e->code;
    *over = state == MOVE_DONE;
    if (*over) return ERR_NONE;
    uint32_t replicas = (uint32_t)m->from_conf.redis_replicas;
    if (moving_ask(before, MOVE_MARK, replicas, &marked, e) != ERR_NONE) return e->code;
    if (others_end(before, e) != ERR_NONE) return e->code;
    return home_ask(m, home, MOVE_BEGIN, MOVE_UNDER_WAY, e);
}

/* The home slot is that of a cluster's only lane (lanes_op.h). */
static struct source home_of(const struct mover *m)
{
    struct source home = setup_source(&m->setup);
    home.lanes = 1;
    return home;
}

static enum err close_before(struct mover *m, bool *over, struct error *e)
{
    const struct source from = setup_source(&m->from_setup), to = home_of(m);
    struct ask before, home;
    e->code = ERR_NONE;
    if (ask_open_patiently(&before, &from, e) != ERR_NONE) return e->code;
    enum err code = ask_open_patiently(&home, &to, e);
    if (code == ERR_NONE) {
        code = counting_end(m, &before.link, &home.link, over, e);
        ask_close(&home);
    }
    ask_close(&before);
    return code;
}

/* --- 2: what waits there is merged --- */

static void drain_progress(void *arg, uint64_t done, uint64_t total)
{
    if (total > 0) bar_show(arg, done, total);
}

static enum err drain_before(struct mover *m, struct error *e)
{
    struct admin_recovered got = {0};
    const struct admin_recover how = {.drain = true, .progress = drain_progress, .arg = &m->bar};
    const struct admin_ports *ports = m->call->ports;
    bar_init(&m->bar, stdout, "merging what waits");
    enum err code = ports->recover_alone(ports->arg, &m->from_conf, &how, &got, e);
    bar_end(&m->bar);
    if (code != ERR_NONE || got.unknown + got.held == 0) return code;
    return error_set(e, ERR_FAILED,
                     "%" PRId64 " batches cannot be merged: `tallyd recover -c %s` names them. Then run "
                     "`tallyd move` again",
                     got.unknown + got.held, m->call->from);
}

/* --- 3: the rest is copied --- */

static void copied_page(struct redis_copy *c)
{
    struct mover *m = c->arg;
    bar_show(&m->bar, c->seen < c->total ? c->seen : c->total, c->total);
}

static void copied_all(struct redis_copy *c)
{
    ((struct mover *)c->arg)->copied = true;
}

static enum err copy_all(struct mover *m, struct error *e)
{
    struct redis_copy copy = {.counters = &m->setup.counters,
                              .from = m->from.links,
                              .to = m->to.links,
                              .lanes = m->to.lanes,
                              .replicas = (uint32_t)m->conf.redis_replicas,
                              .step = copied_page,
                              .ended = copied_all,
                              .arg = m};
    m->copied = false;
    bar_init(&m->bar, stdout, "copying keys");
    redis_copy(&copy);
    redis_run_until(m->from.links, &m->copied);
    bar_end(&m->bar);
    if (copy.lost) return mover_lost(e, "not all was copied", copy.text);
    printf("%" PRIu64 " keys were copied\n", copy.copied);
    return ERR_NONE;
}

/* The mark was there before the copy, and is there after it: so no tallyd counted in between. */
static enum err mark_is_kept(struct mover *m, struct error *e)
{
    int64_t marked;
    if (moving_ask(m->from.links, MOVE_LOOK, 0, &marked, e) != ERR_NONE) return e->code;
    if (marked != 0) return ERR_NONE;
    return error_set(e, ERR_FAILED,
                     "the old Redis takes hits again: " KEY_MOVE " was deleted there, or lost in a failover. "
                     "Empty the cluster (FLUSHALL on each of its primaries), and run `tallyd move` again");
}

static enum err move_over(struct mover *m, struct redis_link *home, struct error *e)
{
    for (uint32_t i = 0; i < m->to.lanes; i++)
        if (others_end(&m->to.links[i], e) != ERR_NONE) return e->code;
    if (others_end(m->from.links, e) != ERR_NONE) return e->code;
    if (home_ask(m, home, MOVE_BEGIN, MOVE_UNDER_WAY, e) != ERR_NONE || mark_is_kept(m, e) != ERR_NONE)
        return e->code;
    if (copy_all(m, e) != ERR_NONE || mark_is_kept(m, e) != ERR_NONE) return e->code;
    return home_ask(m, home, MOVE_END, MOVE_DONE, e);
}

static enum err copy_rest(struct mover *m, struct error *e)
{
    const struct source from = setup_source(&m->from_setup), to = setup_source(&m->setup),
                        at_home = home_of(m);
    struct reach home = {0};
    e->code = ERR_NONE;
    uv_loop_init(&m->loop);
    life_init(&m->life, slice_str(m->conf.instance));
    enum err code = reach_open(&m->from, &m->loop, &m->life, &from, e);
    if (code == ERR_NONE) code = reach_open(&m->to, &m->loop, &m->life, &to, e);
    if (code == ERR_NONE) code = reach_open(&home, &m->loop, &m->life, &at_home, e);
    if (code == ERR_NONE) code = move_over(m, home.links, e);
    reach_close(&home);
    reach_close(&m->to);
    reach_close(&m->from);
    uv_run(&m->loop, UV_RUN_NOWAIT);
    int left = uv_loop_close(&m->loop);
    INVARIANT(left == 0);
    return code;
}

/* --- */

static enum err mover_run(struct mover *m, struct error *e)
{
    bool over = false;
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* each step is shown at once */
    if (!m->setup.redis.cluster || m->from_setup.redis.cluster)
        return error_set(
            e, ERR_CONFIG,
            "tallyd move goes from one Redis (the configuration of --from) to a cluster (that of "
            "-c, with a redis+cluster:// URL)");
    if (close_before(m, &over, e) != ERR_NONE) return e->code;
    if (over) printf("this Redis was moved to this cluster before\n");
    if (over) return ERR_NONE;
    printf("the old Redis takes no more hits\n");
    if (drain_before(m, e) != ERR_NONE) return e->code;
    printf("all that waited there is in MySQL\n");
    if (copy_rest(m, e) != ERR_NONE) return e->code;
    printf("done: start tallyd with the configuration of the cluster\n");
    return ERR_NONE;
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
