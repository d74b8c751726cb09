/* engine/lane.c - see lane.h. */
#include "engine/lane.h"
#include "base/log.h"
#include "engine/core.h"
#include "engine/recovery.h"
#include <stdio.h>

#define SENTINELS_MS 5000

/* --- links --- */

/* Until lane_begin() sync sees no Redis: it must not begin before all links are up. Nor does it see one that lacks
 * frames. */
static void links_changed(struct lane *l)
{
    struct core *c = &l->core;
    if (c->stage != STAGE_STARTING) sync_redis(c->sync, core_up(c) && coalesce_caught_up(c->coalesce));
}

void lane_caught_up(struct lane *l)
{
    place_found(&l->core.place);
    if (l->core.stage == STAGE_RUNNING) upkeep_walk(&l->upkeep);
    gate_redis(&l->core.gate);
    links_changed(l);
}

static void frame_up(struct redis_link *link)
{
    struct lane *l = link->arg;
    coalesce_up(l->core.coalesce, link->facts.run_id, link->client_id);
    links_changed(l);
}

static void frame_down(struct redis_link *link, const char *why)
{
    struct lane *l = link->arg;
    redis_link_numbered(link, 0);
    coalesce_cut(l->core.coalesce, why);
    if (link->was_up) coalesce_in_doubt(l->core.coalesce, &l->doubt_answers, &l->doubt_claims);
    links_changed(l);
}

static void sync_up(struct redis_link *link)
{
    struct lane *l = link->arg;
    if (l->core.stage <= STAGE_RUNNING) name_tick(&l->core.name, mono_ms());
    if (l->changes != l->core.place.changes)
        gate_changed(&l->core.gate);
    else
        gate_redis(&l->core.gate);
    l->changes = l->core.place.changes;
    links_changed(l);
}

static void fence_up(struct redis_link *link)
{
    links_changed(link->arg);
}

/* Until the name is ours there is no frame link to say why. */
static void sync_down(struct redis_link *link, const char *why)
{
    struct lane *l = link->arg;
    if (!l->core.name.ours) coalesce_cut(l->core.coalesce, why);
    links_changed(l);
}

static void fence_down(struct redis_link *link, const char *why)
{
    (void)why;
    links_changed(link->arg);
}

/* --- the instance's name --- */

static void name_taken(struct name *n)
{
    struct lane *l = CONTAINER_OF(n, struct lane, core.name);
    if (l->core.stage > STAGE_RUNNING) return;
    redis_link_start(&l->core.frame_link);
    redis_link_start(&l->core.fence_links[0]);
    if (l->core.stage == STAGE_RUNNING && l->core.config.serves) cleaner_begin(&l->cleaner);
}

static void name_refused(struct name *n)
{
    struct lane *l = CONTAINER_OF(n, struct lane, core.name);
    char why[REDIS_WHY_BYTES];
    snprintf(why, sizeof why, "MASTERDOWN %.*s", (int)sizeof why - 12, n->error.text);
    coalesce_cut(l->core.coalesce, why);
}

/* --- where Redis is --- */

static void place_moved(struct redis_place *p, const struct redis_move *m)
{
    struct lane *l = p->arg;
    log_event(LOG_WARN, "redis_moved",
              "from=%s to=%s run_id=%.8s ms=%llu in_doubt_hits=%u in_doubt_claims=%u why=%s", m->from, m->to,
              m->to_run_id, (unsigned long long)m->ms, l->doubt_answers, l->doubt_claims, LOGQ(m->why));
    l->doubt_answers = l->doubt_claims = 0;
}

static void place_held(struct redis_place *p, bool hold)
{
    coalesce_hold(((struct lane *)p->arg)->core.coalesce, hold);
}

static void place_doubted(struct redis_place *p, const char *why)
{
    (void)why;
    scouts_send(&((struct lane *)p->arg)->core.scouts);
}

static void link_init(struct lane *l, struct redis_link *link, const char *role)
{
    core_link_init(&l->core, link, role);
    link->arg = l;
}

static void links_init(struct lane *l)
{
    static const char *const fence_roles[FENCE_LINKS] = {"fence", "fence2", "fence3", "fence4"};
    struct core *c = &l->core;
    link_init(l, &c->frame_link, "frame");
    link_init(l, &c->sync_link, "sync");
    c->frame_link.up = frame_up;
    c->frame_link.down = frame_down;
    c->sync_link.up = sync_up;
    c->sync_link.down = sync_down;
    redis_frames_init(&c->frames, &c->frame_link, c->config.life);
    for (uint32_t i = 0; i < FENCE_LINKS; i++) {
        struct redis_fences *fs = &c->fences[i];
        link_init(l, &c->fence_links[i], fence_roles[i]);
        redis_fences_init(fs, &c->fence_links[i], c->config.life, &c->aof, i);
        fs->replicas = c->config.replicas;
        fs->keeps = c->config.keeps;
        fs->next = i + 1 < FENCE_LINKS ? fs + 1 : NULL;
    }
    c->fence_links[0].up = fence_up;
    c->fence_links[0].down = fence_down;
    redis_scans_init(&c->scans, &c->sync_link);
    core_link_init(c, &c->wait_link, "wait");
    core_link_init(c, &c->waitaof_link, "waitaof");
    redis_waits_init(&c->waits, &c->wait_link, c->config.life, false);
    redis_waits_init(&c->waitaofs, &c->waitaof_link, c->config.life, true);
}

void lane_init(struct lane *l, uv_loop_t *loop, const struct lane_config *config,
               const struct lane_ports *ports, void *arg)
{
    *l = (struct lane){.core = {.config = *config, .loop = loop}, .ports = *ports, .arg = arg};
    struct core *c = &l->core;
    struct redis_place *p = &l->core.place;
    place_init_lane(p, l->core.config.redis, l->core.config.lane, l->core.config.lanes);
    scouts_init(&l->core.scouts, l->core.loop, l->core.config.life, p);
    if (l->core.config.redis->cluster) p->hold_most_ms = l->core.config.coalesce.busy_ms;
    p->moved = place_moved;
    p->held = place_held;
    p->doubted = place_doubted;
    p->arg = l;
    links_init(l);
    wire_coalesce(l);
    wire_sync(c);
    wire_gate(c);
    wire_totals(c, &l->totals);
    asks_init(c);
    cleaner_init(&l->cleaner, c);
    c->name = (struct name){
        .link = &c->sync_link, .host = c->config.host, .taken = name_taken, .refused = name_refused};
    l->upkeep.core = c;
    wire_ledger(&l->upkeep);
}

/* --- start --- */

enum err lane_start(struct lane *l, struct error *e)
{
    struct core *c = &l->core;
    if (c->config.sentinels->n > 0) {
        c->sentinels = sentinels_create(c->loop, c->config.sentinels, &c->place);
        if (sentinels_wait(c->sentinels, SENTINELS_MS, e) != ERR_NONE) return e->code;
    }
    redis_link_start(&c->sync_link);
    return ERR_NONE;
}

bool lane_free(const struct lane *l)
{
    return l->core.name.free;
}

void lane_take(struct lane *l)
{
    name_take(&l->core.name, mono_ms());
}

/* The error that clients would get, worded for an operator who starts tallyd. */
static enum err link_why(const struct redis_link *link, struct error *e)
{
    *e = link->refusal;
    if (e->code != ERR_NONE || link->why[0] == '\0') return e->code;
    const struct redis_target *t = &link->target;
    const char *text = strncmp(link->why, "MASTERDOWN ", 11) == 0 ? link->why + 11 : link->why;
    char where[200];
    if (t->port == 0)
        snprintf(where, sizeof where, "unix://%.190s", t->host);
    else
        snprintf(where, sizeof where, "%s://%.170s:%d", link->config.place->url->secure ? "rediss" : "redis",
                 t->host, t->port);
    return error_set(e, ERR_UNAVAILABLE, "%s (%s). Start Redis, or correct `redis:` in the configuration",
                     text, where);
}

enum err lane_why(const struct lane *l, struct error *e)
{
    const struct core *c = &l->core;
    bool frame = c->name.ours && !redis_link_is_up(&c->frame_link);
    bool fence = c->name.ours && !redis_link_is_up(&c->fence_links[0]);
    if (!redis_link_is_up(&c->sync_link)) return link_why(&c->sync_link, e);
    if (frame || fence) return link_why(frame ? &c->frame_link : &c->fence_links[0], e);
    *e = c->name.error;
    return e->code;
}

void lane_pool(struct lane *l, struct writer_pool *pool)
{
    l->core.pool = pool;
}

void lane_mysql(struct lane *l, bool up)
{
    gate_mysql(&l->core.gate, up);
}

void lane_look_first(struct lane *l, uint64_t until_ms, const bool *stop)
{
    const struct gate *g = &l->core.gate;
    while (l->core.name.ours && !gate_open(g) && !g->rolled_back && !g->asks && mono_ms() < until_ms &&
           !*stop)
        core_pause(l->core.loop, 5);
}

void lane_begin(struct lane *l)
{
    l->core.stage = STAGE_RUNNING;
    sync_start(l->core.sync);
    links_changed(l);
    upkeep_walk(&l->upkeep);
    if (l->core.name.ours && l->core.config.serves) cleaner_begin(&l->cleaner);
}

/* --- while it runs --- */

/* What answers of this turn made possible begins, before what was collected is sent. */
bool lane_turn(struct lane *l)
{
    sync_turn(l->core.sync);
    l->core.scans.gentle = sync_hits_come(l->core.sync);
    bool gives = asks_turn(&l->core);
    return coalesce_turn(l->core.coalesce) || gives;
}

void lane_tick(struct lane *l, uint64_t now_ms)
{
    place_tick(&l->core.place, now_ms);
    if (l->core.stage <= STAGE_RUNNING) name_tick(&l->core.name, now_ms);
    coalesce_tick(l->core.coalesce);
    sync_tick(l->core.sync);
    if (l->core.stage == STAGE_RUNNING) gate_tick(&l->core.gate);
    totals_tick(&l->totals);
    upkeep_tick(&l->upkeep, now_ms);
    if (l->core.stage == STAGE_RUNNING && core_up(&l->core)) takeover_tick(&l->takeover);
    if (l->core.stage == STAGE_DRAINING) coalesce_flush(l->core.coalesce);
}

bool lane_up(const struct lane *l)
{
    return core_up(&l->core);
}

/* --- stop --- */

void lane_stop(struct lane *l)
{
    l->core.stage = STAGE_DRAINING;
    sync_stop(l->core.sync);
    gate_stop(&l->core.gate);
    totals_stop(&l->totals);
    takeover_stop(&l->takeover);
    redis_waits_stop(&l->core.waits);
    redis_waits_stop(&l->core.waitaofs);
    upkeep_stop(&l->upkeep);
    recovery_stop(&l->core);
    coalesce_flush(l->core.coalesce);
}

bool lane_quiet(const struct lane *l)
{
    const struct core *c = &l->core;
    return coalesce_idle(c->coalesce) && sync_quiet(c->sync) && c->recovery == NULL &&
           upkeep_quiet(&l->upkeep) && !l->takeover.busy && cleaner_quiet(&l->cleaner);
}

void lane_abandon(struct lane *l)
{
    l->core.stage = STAGE_CLOSING;
    sync_abandon(l->core.sync);
}

static void maybe_closed(void *lane)
{
    struct lane *l = lane;
    if (--l->open > 0) return;
    sync_tick(l->core.sync); /* abandoned, sync asks for nothing more: its waits are answered */
    l->closed(l);
}

static void lane_scouts_closed(struct redis_scouts *s)
{
    maybe_closed(CONTAINER_OF(s, struct lane, core.scouts));
}

static void scans_closed(struct redis_scans *scans)
{
    maybe_closed(CONTAINER_OF(scans, struct lane, core.scans));
}

static void sync_closed(struct redis_link *link)
{
    redis_scans_close(&((struct lane *)link->arg)->core.scans, scans_closed);
}

static void frame_closed(struct redis_link *link)
{
    struct lane *l = link->arg;
    coalesce_abandon(l->core.coalesce, "ERR tallyd is stopping");
    maybe_closed(l);
}

static void fences_closed(struct redis_fences *fences)
{
    maybe_closed(fences->link->arg);
}

static void fence_closed(struct redis_link *link)
{
    struct core *c = &((struct lane *)link->arg)->core;
    redis_fences_close(&c->fences[link - c->fence_links], fences_closed);
}

static void waits_closed(struct redis_waits *ws)
{
    maybe_closed(CONTAINER_OF(ws, struct lane, core.waits));
}

static void waitaofs_closed(struct redis_waits *ws)
{
    maybe_closed(CONTAINER_OF(ws, struct lane, core.waitaofs));
}

static void wait_closed(struct redis_link *link)
{
    redis_waits_close(link->arg, waits_closed);
}

static void waitaof_closed(struct redis_link *link)
{
    redis_waits_close(link->arg, waitaofs_closed);
}

static void cleaner_closed(struct cleaner *c)
{
    maybe_closed(CONTAINER_OF(c, struct lane, cleaner));
}

static void asks_closed(uv_handle_t *timer)
{
    maybe_closed(CONTAINER_OF(timer, struct lane, core.rests));
}

void lane_close(struct lane *l, void (*closed)(struct lane *l))
{
    l->closed = closed;
    l->open = 8 + FENCE_LINKS;
    asks_close(&l->core, asks_closed);
    if (l->core.sentinels != NULL)
        sentinels_close(l->core.sentinels, maybe_closed, l);
    else
        l->open--;
    l->core.sentinels = NULL;
    cleaner_close(&l->cleaner, cleaner_closed);
    scouts_close(&l->core.scouts, lane_scouts_closed);
    redis_link_close(&l->core.sync_link, sync_closed);
    redis_link_close(&l->core.frame_link, frame_closed);
    for (size_t i = 0; i < FENCE_LINKS; i++)
        redis_link_close(&l->core.fence_links[i], fence_closed);
    redis_link_close(&l->core.wait_link, wait_closed);
    redis_link_close(&l->core.waitaof_link, waitaof_closed);
}

void lane_destroy(struct lane *l)
{
    sync_destroy(&l->core.sync);
    coalesce_destroy(&l->core.coalesce);
    redis_frames_close(&l->core.frames);
}
