/* app/wire.c - the ports between the rooms and the service: commands, HTTP, users, zones of stores. */
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "engine/core.h"
#include "http/http.h"
#include "redis/seek.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* What clients ask for beyond increments, given by the lane; sessions on connections. */

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

static void refusals_put(struct buf *out)
{
    const struct refused *r;
    for (uint32_t i = 0; (r = refusals_at(i)) != NULL; i++)
        buf_printf(out, "refused%u:reason=%s,minute=%llu,all=%llu,why=%s\r\n", i, r->reason,
                   (unsigned long long)refusal_minute(r), (unsigned long long)r->all, r->text);
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
    uint64_t n = 0;
    bool walked = true;
    EACH_LANE (l, s) {
        n += l->upkeep.leftovers;
        walked &= l->upkeep.walked;
    }
    if (walked) buf_printf(out, "leftovers:%llu\r\n", (unsigned long long)n);
    refusals_put(out);
    /* All links are up on one server only, or not at all (redis/place.h). */
    const struct redis_place *p = &first->place;
    buf_printf(out, "redis_server:%s\r\nredis_run_id:%s\r\n", p->where, p->run_id);
    buf_printf(out, "redis_links:frame=%d,sync=%d,fence=%d\r\n", redis_link_is_up(&first->frame_link),
               redis_link_is_up(&first->sync_link), redis_link_is_up(&first->fence_links[0]));
    if (p->moved_ms > 0)
        buf_printf(out, "redis_moved_s:%llu\r\n", (unsigned long long)((mono_ms() - p->moved_ms) / 1000));
    lanes_put(s, out);
    sentinels_put(first->sentinels, out);
    EACH_LANE (l, s) {
        sync_stalled(l->core.sync, stalled_put, out);
        sync_held(l->core.sync, held_put, &held);
    }
    const struct counters *counters = &s->settings->setup.counters;
    if (STAT_GET(stores_waiting) != 0) {
        for (size_t i = 0; i < counters->n; i++) {
            struct stores all = {.counter = counters->all[i].name};
            EACH_LANE (l, s)
                sync_stores_waiting(l->core.sync, store_add, &all);
            if (all.n > 0)
                buf_printf(out, "stores_wait_" SLICE_FMT ":%u; %s (%lld rows refused): %s\r\n",
                           SLICE_ARG(all.counter), all.n, all.name, (long long)all.rows, all.why);
        }
    }
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

/* Of clients that may do everything */
static struct listen_handler wire_inside_handler(struct service *s)
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
        .lasts_max = setup_shares(conf).lasts_bytes,
        .half_ms = (uint32_t)conf->limits_send_timeout_ms,
        .zones = &s->zone_view,
        .users = s->users.now,
        .prover = s->users.prover,
        .stranger_ms = (uint32_t)conf->limits_auth_timeout_ms,
    };
    s->command = command_create(&config);
}

/* Connects http/ to the loop: it gets connections to the RESP door, whatever listen.resp says, and the loop waits for it at the
 * end. Its threads call http_connect and http_stopped; the rest is the loop's. */

/* Any thread: one end is theirs, the other is adopted at the loop's next turn. */
static int http_connect(void *arg)
{
    struct http_side *web = &((struct service *)arg)->web;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    uv_mutex_lock(&web->lock);
    web->wanted = heap_realloc(web->wanted, (web->wanted_n + 1) * sizeof *web->wanted);
    web->wanted[web->wanted_n++] = ends[1];
    uv_mutex_unlock(&web->lock);
    uv_async_send(&web->news);
    return ends[0];
}

static void http_stopped(void *arg)
{
    struct http_side *web = &((struct service *)arg)->web;
    uv_mutex_lock(&web->lock);
    web->ended = true;
    uv_mutex_unlock(&web->lock);
    uv_async_send(&web->news);
}

static void on_news(uv_async_t *news)
{
    struct service *s = news->data;
    struct http_side *web = &s->web;
    struct listen_handler handler = wire_inside_handler(s);
    uv_mutex_lock(&web->lock);
    int *wanted = web->wanted;
    size_t n = web->wanted_n;
    bool ended = web->ended;
    web->wanted = NULL;
    web->wanted_n = 0;
    uv_mutex_unlock(&web->lock);
    for (size_t i = 0; i < n; i++)
        if (s->listen == NULL || !listen_adopt(s->listen, wanted[i], &handler)) close(wanted[i]);
    heap_free(wanted);
    if (ended && web->http != NULL) http_destroy(&web->http);
}

void wire_http_init(struct service *s)
{
    int rc = uv_mutex_init(&s->web.lock);
    INVARIANT(rc == 0);
    rc = uv_async_init(&s->loop, &s->web.news, on_news);
    INVARIANT(rc == 0);
    s->web.news.data = s;
}

enum err wire_http_begin(struct service *s, struct error *e)
{
    struct http_ports ports = {.arg = s,
                               .connect = http_connect,
                               .stopped = http_stopped,
                               .tls = s->settings->setup.doors,
                               .zones = &s->zones};
    if (!s->serves || s->settings->conf->listen_http.n == 0) return ERR_NONE;
    s->web.where = setup_source(&s->settings->setup);
    s->web.http = http_create(&s->web.where, &ports);
    if (http_start(s->web.http, e) == ERR_NONE) return ERR_NONE;
    http_destroy(&s->web.http);
    return e->code;
}

void wire_http_reload(struct service *s, struct conf *wanted)
{
    struct error e;
    if (s->web.http == NULL) return;
    http_bearers(s->web.http, &wanted->bearers);
    if (http_certificates(s->web.http, &e) != ERR_NONE)
        log_event(LOG_ERROR, "certificates", "of=listen.http outcome=kept error=%s", LOGQ(e.text));
}

void wire_http_close(struct service *s)
{
    PRE(s->web.http == NULL);
    for (size_t i = 0; i < s->web.wanted_n; i++)
        close(s->web.wanted[i]);
    heap_free(s->web.wanted);
    uv_mutex_destroy(&s->web.lock);
}

/* Users on the loop: the prover of their passwords, the timer that lets users go on whose budget was used up, the operator's own
 * socket, and a reload. */

#define PACE_MS 2
#define LOGINS_OF_ALL 5 /* an office behind one address has several users with a wrong password at once */

static void on_pace(uv_timer_t *timer)
{
    struct service *s = timer->data;
    if (!command_pace(s->command)) uv_timer_stop(timer);
}

void wire_users_pace(void *arg)
{
    struct service *s = arg;
    if (!uv_is_active((uv_handle_t *)&s->users.pace))
        uv_timer_start(&s->users.pace, on_pace, PACE_MS, PACE_MS);
}

void wire_users_init(struct service *s)
{
    struct prover_limits limits = prover_limits_default;
    limits.guesses.user.at_once = (uint32_t)s->settings->conf->limits_failed_logins;
    limits.guesses.wide.at_once = LOGINS_OF_ALL * (uint32_t)s->settings->conf->limits_failed_logins;
    s->users.now = &s->settings->setup.users;
    s->users.prover = prover_create(&s->loop, &limits);
    uv_timer_init(&s->loop, &s->users.pace);
    s->users.pace.data = s;
}

/* Unless the address says otherwise only tallyd's own user and root may open it. */
enum err wire_users_listen(struct service *s, struct error *e)
{
    const struct conf_addresses *control = &s->settings->conf->listen_control;
    struct listen_handler handler = wire_inside_handler(s);
    for (size_t i = 0; i < control->n; i++) {
        struct address a = control->all[i];
        if (a.mode == 0) a.mode = 0600;
        if (listen_add(s->listen, &a, &handler, e) != ERR_NONE) return e->code;
    }
    if (s->users.now->n > 0 && control->n == 0)
        log_event(
            LOG_WARN, "no_control", "next=%s",
            LOGQ("there are users, so `tallyd status` and `recover` need listen.control: configure it"));
    return ERR_NONE;
}

static void users_drop(struct service *s)
{
    if (s->users.now == &s->settings->setup.users) return;
    users_close(s->users.now);
    heap_free(s->users.now);
}

bool wire_users_reload(struct service *s, const struct conf *wanted, struct error *e)
{
    struct buf problems = {0};
    struct users *fresh = heap_alloc(sizeof *fresh);
    bool good = setup_users(fresh, wanted, &problems);
    if (good) {
        bool opens = fresh->n == 0 && s->users.now->n > 0;
        command_users(s->command, fresh);
        users_drop(s);
        s->users.now = fresh;
        log_event(opens ? LOG_WARN : LOG_INFO, "users", "n=%zu%s", fresh->n,
                  opens ? " next=\"without users anyone who can connect has full access: restore the section "
                          "users, unless you mean that\""
                        : "");
    } else {
        heap_free(fresh);
        buf_put_char(&problems, '\0');
        error_set(e, ERR_CONFIG, "%.*s", (int)strcspn(problems.p, "\n"), problems.p);
    }
    buf_free(&problems);
    return good;
}

/* The time zones of stores, for CTR.HIT and the panel. */

void wire_zones_init(struct service *s)
{
    const struct conf *conf = s->settings->conf;
    struct error e = {.code = ERR_NONE};
    struct zone_table *first = zone_table_create(conf->zone, &e);
    if (e.code != ERR_NONE) log_event(LOG_WARN, "zone_unread", "why=%s next=UTC", LOGQ(e.text));
    zones_init(&s->zones, first, conf->zone != NULL || s->settings->setup.store_zone.table.n > 0);
    zone_view_init(&s->zone_view, &s->zones);
}

enum err wire_zones_begin(struct service *s, struct error *e)
{
    const struct setup *setup = &s->settings->setup;
    if (!s->serves || setup->store_zone.table.n == 0) return ERR_NONE;
    s->store_zones =
        store_zones_create(&setup->mysql, &setup->store_zone, setup->conf->zone, &s->zones, s->mysql_seen);
    return s->store_zones != NULL
               ? ERR_NONE
               : error_set(e, ERR_FAILED, "cannot start the thread that reads store_zone: %s",
                           strerror(errno));
}

/* The system's tzdata may be another now. With store_zone they are read again each minute. */
void wire_zones_reload(struct service *s)
{
    struct error e = {.code = ERR_NONE};
    if (s->store_zones != NULL) return;
    struct zone_table *t = zone_table_create(s->settings->conf->zone, &e);
    if (e.code == ERR_NONE) {
        zones_publish(&s->zones, t);
        return;
    }
    log_event(LOG_WARN, "zone_unread", "why=%s next=%s", LOGQ(e.text),
              LOGQ("tallyd goes on with the rules that it has"));
    zone_table_drop(t);
}

/* --- the end of all of them --- */

void wire_sides_stop(struct service *s)
{
    if (s->web.http != NULL) http_stop(s->web.http);
    prover_stop(s->users.prover);
    if (s->store_zones != NULL) store_zones_stop(s->store_zones);
}

void wire_sides_close(struct service *s)
{
    users_drop(s);
    prover_destroy(&s->users.prover);
    store_zones_destroy(&s->store_zones);
    zone_view_close(&s->zone_view);
    zones_close(&s->zones);
}
