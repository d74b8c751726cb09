/* app/wire_command.c - what clients ask for beyond increments, given by the lane; sessions on connections. */
#include "app/service.h"
#include "base/stats.h"
#include "engine/asks.h"
#include "redis/seek.h"
#include <stdio.h>

static struct core *core_of(void *arg, uint32_t lane)
{
    return &((struct service *)arg)->lanes[lane].core;
}

static void port_pending(void *arg, uint32_t lane, struct pending_request *q)
{
    ask_pending(core_of(arg, lane), q);
}
static void port_sync(void *arg, uint32_t lane, struct sync_request *q)
{
    ask_sync(core_of(arg, lane), q);
}
static void port_recover(void *arg, uint32_t lane, struct recover_request *q)
{
    ask_recover(core_of(arg, lane), q);
}
static void port_total(void *arg, uint32_t lane, struct total_request *q)
{
    totals_ask(&((struct service *)arg)->lanes[lane].totals, q);
}
static void port_wait(void *arg, uint32_t lane, struct wait_request *q)
{
    ask_wait(core_of(arg, lane), q);
}
static void port_read(void *arg, uint32_t lane, struct read_request *q)
{
    ask_read(core_of(arg, lane), q);
}
static int64_t port_redis_ms(void *arg)
{
    return redis_time_ms(&((struct service *)arg)->lanes[0].core.frame_link);
}

/* --- INFO --- */

#define HELD_TOLD 64

struct held_list {
    struct buf *out;
    unsigned n;
};

static void held_put(void *arg, const struct batch_id *id, const char *why, const char *text)
{
    struct held_list *list = arg;
    char hex[33], shown[300];
    batch_id_hex(id, hex);
    slice_show(slice_str(text), sizeof shown - 4, shown, sizeof shown);
    if (list->n++ < HELD_TOLD) buf_printf(list->out, "held_%s:%s: %s\r\n", hex, why, shown);
}

struct stores { /* of one counter that wait, and the one with most rejects */
    struct slice counter;
    uint32_t n;
    int64_t rows;
    char name[80], why[300];
};

static void store_add(void *arg, struct slice counter, struct slice store, int64_t rows, const char *why)
{
    struct stores *all = arg;
    if (!slice_eq(counter, all->counter)) return;
    all->n++;
    if (all->n > 1 && rows <= all->rows) return;
    all->rows = rows;
    slice_show(store, 60, all->name, sizeof all->name);
    slice_show(slice_str(why), sizeof all->why - 4, all->why, sizeof all->why);
}

static void stores_put(const struct service *s, struct buf *out)
{
    const struct counters *counters = &s->settings->setup.counters;
    if (STAT_GET(stores_waiting) == 0) return;
    for (size_t i = 0; i < counters->n; i++) {
        struct stores all = {.counter = counters->all[i].name};
        EACH_LANE (l, s)
            sync_stores_waiting(l->core.sync, store_add, &all);
        if (all.n > 0)
            buf_printf(out, "stores_wait_" SLICE_FMT ":%u; %s (%lld rows refused): %s\r\n",
                       SLICE_ARG(all.counter), all.n, all.name, (long long)all.rows, all.why);
    }
}

/* All links are up on one server only, or not at all (redis/place.h). */
static void redis_put(const struct core *c, struct buf *out)
{
    const struct redis_place *p = &c->place;
    buf_printf(out, "redis_server:%s\r\nredis_run_id:%s\r\n", p->where, p->run_id);
    buf_printf(out, "redis_links:frame=%d,sync=%d,fence=%d\r\n", redis_link_is_up(&c->frame_link),
               redis_link_is_up(&c->sync_link), redis_link_is_up(&c->fence_link));
    if (p->moved_ms > 0)
        buf_printf(out, "redis_moved_s:%llu\r\n", (unsigned long long)((mono_ms() - p->moved_ms) / 1000));
}

static void sentinels_put(const struct sentinels *s, struct buf *out)
{
    struct sentinel_seen seen[SENTINELS_MAX];
    if (s == NULL) return;
    struct sentinels_count count = sentinels_count(s);
    buf_printf(out, "redis_sentinels:%u\r\nredis_sentinels_up:%u\r\nredis_sentinels_majority:%u\r\n",
               count.known, count.answering, count.majority);
    uint32_t n = sentinels_seen(s, seen);
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, "redis_sentinel%u:state=%s,heard=%d,at=%s:%d\r\n", i,
                   sentinel_state_name(seen[i].state), seen[i].heard, seen[i].at.host, seen[i].at.port);
}

static void stalled_put(void *arg, struct slice counter, const char *why)
{
    buf_printf(arg, "stalled_" SLICE_FMT ":%s\r\n", SLICE_ARG(counter), why);
}

/* Of several, those that do not count or do not merge. */
static void lanes_put(const struct service *s, struct buf *out)
{
    if (s->lanes_n == 1) return;
    buf_printf(out, "lanes:%u\r\nlanes_up:%u\r\n", s->lanes_n, service_lanes_up(s));
    EACH_LANE (l, s) {
        const struct core *c = &l->core;
        bool up = lane_up(l), merges = gate_open(&c->gate) || !c->gate.mysql_up;
        if (up && merges) continue;
        buf_printf(out, "lane%u:slot=%u,up=%d,merges=%d,at=%s,why=%s\r\n", c->config.lane, c->place.slot, up,
                   merges, c->place.where, up ? c->gate.text : coalesce_down_why(c->coalesce));
    }
}

static void leftovers_put(const struct service *s, struct buf *out)
{
    uint64_t n = 0;
    bool walked = true;
    EACH_LANE (l, s) {
        n += l->upkeep.leftovers;
        walked &= l->upkeep.walked;
    }
    if (walked) buf_printf(out, "leftovers:%llu\r\n", (unsigned long long)n);
}

/* The first of them, in whose text is what to do. */
static void merges_held_put(const struct service *s, struct buf *out)
{
    EACH_LANE (l, s) {
        const struct gate *gate = &l->core.gate;
        if (!gate->rolled_back) continue;
        buf_printf(out, "merges_held:%s\r\n", gate->text);
        return;
    }
}

static bool is_recovering(const struct service *s)
{
    EACH_LANE (l, s)
        if (l->core.recovery != NULL) return true;
    return false;
}

static void port_info(void *arg, const struct info_asked *asked, struct buf *out)
{
    const struct service *s = arg;
    const struct core *first = &s->lanes[0].core;
    struct held_list held = {.out = out};
    if (!info_begins(asked, "Tallyd", out)) return;
    buf_printf(out, "instance:%s\r\nlife:%s\r\n", s->settings->instance, s->settings->life.id);
    buf_printf(out, "redis_up:%d\r\nmysql_up:%d\r\n", service_lanes_up(s) > 0, first->gate.mysql_up);
    buf_printf(out, "stopping:%d\r\nrecovering:%d\r\n", s->stage >= STAGE_DRAINING, is_recovering(s));
    merges_held_put(s, out);
    leftovers_put(s, out);
    redis_put(first, out);
    lanes_put(s, out);
    sentinels_put(first->sentinels, out);
    EACH_LANE (l, s) {
        sync_stalled(l->core.sync, stalled_put, out);
        sync_held(l->core.sync, held_put, &held);
    }
    stores_put(s, out);
}

/* --- sessions --- */

static void on_open(void *session, struct conn *conn, void *arg)
{
    session_open(session, ((struct service *)arg)->command, conn, conn_outlet(conn), false);
}

static void on_open_inside(void *session, struct conn *conn, void *arg)
{
    session_open(session, ((struct service *)arg)->command, conn, conn_outlet(conn), true);
}

static size_t on_bytes(void *session, struct slice in)
{
    return session_bytes(session, in);
}
static void on_close(void *session)
{
    session_close(session);
}

struct listen_handler wire_listen_handler(struct service *s)
{
    return (struct listen_handler){.session_size = sizeof(struct session),
                                   .open = on_open,
                                   .bytes = on_bytes,
                                   .close = on_close,
                                   .full = "-ERR max number of clients reached\r\n",
                                   .arg = s};
}

struct listen_handler wire_inside_handler(struct service *s)
{
    struct listen_handler handler = wire_listen_handler(s);
    handler.open = on_open_inside;
    return handler;
}

void wire_command(struct service *s)
{
    const struct conf *conf = s->settings->conf;
    struct command_config config = {
        .lanes = s->coalesces,
        .lanes_n = s->lanes_n,
        .counters = &s->settings->setup.counters,
        .client = {.pause = conn_pause,
                   .resume = conn_resume,
                   .offer = conn_offer,
                   .answered = conn_answered,
                   .finish = conn_finish,
                   .drop = conn_drop,
                   .hold = conn_hold,
                   .release = conn_release,
                   .peer = conn_peer,
                   .info = conn_info,
                   .left = conn_left,
                   .promise = conn_promise,
                   .unread = conn_unread},
        .ports = {.arg = s,
                  .pending = port_pending,
                  .sync = port_sync,
                  .recover = port_recover,
                  .info = port_info,
                  .total = port_total,
                  .read = port_read,
                  .wait = port_wait,
                  .redis_ms = port_redis_ms,
                  .pace = wire_users_pace},
        .limits = request_limits_default,
        .clients_max = (uint32_t)conf->limits_clients,
        .multi_max = COMMAND_MULTI_MAX,
        .multi_bytes_max = COMMAND_MULTI_BYTES_MAX,
        .busy_ms = (uint32_t)conf->limits_busy_timeout_ms,
        .shares_max = {setup_shares(conf).answers_bytes, setup_shares(conf).halves_bytes},
        .half_ms = (uint32_t)conf->limits_send_timeout_ms,
        .zones = &s->zone_view,
        .users = s->users.now,
        .prover = s->users.prover,
        .stranger_ms = (uint32_t)conf->limits_auth_timeout_ms,
    };
    s->command = command_create(&config);
}
