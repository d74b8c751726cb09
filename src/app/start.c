/* app/start.c - the order of start (service.h). Redis must be reachable and fit: without it tallyd can count nothing.
 * Of several lanes one at least must be reachable, and each that is must be fit.
 * MySQL may be away: hits add up in Redis and are merged when it comes. If it is reachable, it must fit. */
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "mysql/schema.h"
#include "redis/check_op.h"
#include "status/ask.h"
#include <stdio.h>

#define LANES_POLL_MS 100
#define CONNECT_MS 5000
#define LOOK_FIRST_MS 3000
#define LOOK_CLUSTER_MS 5000

static struct conn *client_of(const struct lane *l, struct outlet *o)
{
    const struct service *s = l->arg;
    return conn_of(command_outlet(s->command, o));
}

static void answered(void *lane, struct outlet *o)
{
    struct conn *conn = client_of(lane, o);
    session_answered(conn_session(conn));
    conn_answered(conn);
}

static void lane_room(void *lane, struct outlet *o)
{
    session_room(conn_session(client_of(lane, o)));
}

static void lane_failed(void *lane, const char *text)
{
    service_fail(((struct lane *)lane)->arg, ERR_FAILED, text);
}

void service_init(struct service *s)
{
    static const struct lane_ports ports = {.answered = answered, .room = lane_room, .failed = lane_failed};
    s->lanes_n = s->settings->setup.lanes;
    s->lanes = heap_zalloc(s->lanes_n * sizeof *s->lanes);
    s->coalesces = heap_zalloc(s->lanes_n * sizeof *s->coalesces);
    for (uint32_t i = 0; i < s->lanes_n; i++) {
        struct lane_config config = settings_lane(s->settings, i);
        config.serves = s->serves;
        lane_init(&s->lanes[i], &s->loop, &config, &ports, s);
        s->coalesces[i] = s->lanes[i].core.coalesce;
    }
    wire_users_init(s);
    wire_zones_init(s);
    wire_command(s);
    wire_http_init(s);
}

static bool move_wait(void *arg, const struct error *why)
{
    struct service *s = arg;
    if (!s->waiting) log_event(LOG_WARN, "waiting", "why=%s", LOGQ(why->text));
    s->waiting = true;
    notify_waiting(&s->notify, "waits for the end of `tallyd move`");
    core_pause(&s->loop, LANES_POLL_MS);
    return !s->stop_asked;
}

/* With another number of lanes existing counts would not be found, so the number is checked first. Where a move is under
 * way it is waited for: then clients miss tallyd for as short as can be. */
static enum err lanes_begin(struct service *s, struct error *e)
{
    const struct source where = setup_source(&s->settings->setup);
    enum err code = lanes_agree_after(&where, move_wait, s, e);
    return s->stop_asked ? ERR_NONE : code;
}

/* Once MySQL has not refused it, and before anything is counted. */
static enum err lanes_keep(struct service *s, struct error *e)
{
    const struct source where = setup_source(&s->settings->setup);
    return lanes_agree(&where, true, e);
}

static enum err cluster_begin(struct service *s, struct error *e)
{
    struct redis_place **places = heap_alloc(s->lanes_n * sizeof(*places));
    for (uint32_t i = 0; i < s->lanes_n; i++)
        places[i] = &s->lanes[i].core.place;
    s->cluster = cluster_create(&s->loop, places, s->lanes_n);
    heap_free(places);
    enum err code = cluster_wait(s->cluster, LOOK_CLUSTER_MS, e);
    bool some = code == ERR_UNAVAILABLE && s->lanes_n > 1; /* a slot without a node is a lane that is away */
    return some ? ERR_NONE : code;
}

/* Runs the loop until the lane is there, is refused, or was tried until late_ms. */
static enum err lane_reach(struct service *s, const struct lane *l, bool (*there)(const struct lane *l),
                           uint64_t late_ms, struct error *why)
{
    why->code = ERR_NONE;
    while (!s->stop_asked && !there(l)) {
        if (lane_why(l, why) == ERR_CONFIG || (why->code != ERR_NONE && mono_ms() >= late_ms)) break;
        uv_run(&s->loop, UV_RUN_ONCE);
    }
    return s->stop_asked || there(l) ? ERR_NONE : why->code;
}

/* One of several may be away: it begins by itself when it comes. */
static enum err lanes_reach(struct service *s, bool (*there)(const struct lane *l), uint64_t late_ms,
                            struct error *e)
{
    struct error why;
    uint32_t away = 0;
    EACH_LANE (l, s) {
        enum err code = lane_reach(s, l, there, late_ms, &why);
        if (code == ERR_CONFIG || (code != ERR_NONE && away++ == 0)) *e = why;
        if (code == ERR_CONFIG) return code;
    }
    return away < s->lanes_n ? ERR_NONE : e->code;
}

static void away_tell(const struct service *s)
{
    struct buf lanes = {0};
    const char *why = NULL;
    EACH_LANE (l, s) {
        if (lane_up(l)) continue;
        buf_printf(&lanes, "%s%u", why == NULL ? "" : ",", l->core.config.lane);
        if (why == NULL) why = coalesce_down_why(l->core.coalesce);
    }
    if (why != NULL)
        log_event(LOG_WARN, "lanes_away", "lanes=" SLICE_FMT " of=%u why=%s next=%s",
                  SLICE_ARG(buf_slice(&lanes)), s->lanes_n, LOGQ(why),
                  LOGQ("the others count; each of these begins by itself when its node is back"));
    buf_free(&lanes);
}

static enum err redis_begin(struct service *s, struct error *e)
{
    if (s->settings->setup.redis.cluster && cluster_begin(s, e) != ERR_NONE) return e->code;
    EACH_LANE (l, s)
        if (!s->stop_asked && lane_start(l, e) != ERR_NONE) return e->code;
    uint64_t late_ms = mono_ms() + CONNECT_MS;
    if (lanes_reach(s, lane_free, late_ms, e) != ERR_NONE) return e->code;
    EACH_LANE (l, s)
        if (!s->stop_asked) lane_take(l);
    if (lanes_reach(s, lane_up, late_ms, e) != ERR_NONE) return e->code;
    if (!s->stop_asked) away_tell(s);
    return ERR_NONE;
}

/* --- MySQL --- */

static enum err schema_refusal(const struct schema_report *r, struct error *e)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct schema_finding *f = &r->all[i];
        if (f->level != SCHEMA_REFUSE) continue;
        bool has_mend = f->mend != NULL; /* else the reason says what to do */
        return error_set(e, ERR_CONFIG, "%s%s%s (`tallyd check` lists all)", f->reason,
                         has_mend ? ". To mend it: " : "", has_mend ? f->mend : "");
    }
    UNREACHABLE();
}

static enum err mysql_begin(struct service *s, struct error *e)
{
    const struct setup *setup = &s->settings->setup;
    struct schema_report report = {0};
    struct schema_rules rules = {.accept_flush = s->settings->conf->mysql_durability == CONF_RELAXED,
                                 .lanes = setup->lanes};
    struct db *db = db_create(&setup->mysql);
    enum err code =
        db_open(db) == CODE_OK ? schema_check(db, &setup->counters, &rules, &report, e) : db_error(db, e);
    if (code == ERR_NONE && schema_refusals(&report) > 0) code = schema_refusal(&report, e);
    schema_report_close(&report);
    db_destroy(&db);
    s->mysql_seen = code == ERR_NONE;
    if (code != ERR_UNAVAILABLE || !s->serves) return code;
    log_event(LOG_WARN, "mysql_down", "error=%s next=%s", LOGQ(e->text),
              LOGQ("counting goes on in Redis; tallyd merges when MySQL is back"));
    return ERR_NONE;
}

static void on_mysql(void *arg, bool up, const char *text)
{
    struct service *s = arg;
    log_event(up ? LOG_INFO : LOG_WARN, up ? "mysql_up" : "mysql_down", "detail=%s", LOGQ(text));
    EACH_LANE (l, s)
        lane_mysql(l, up);
}

static enum err writers_begin(struct service *s, struct error *e)
{
    struct writer_config config = {
        .db = &s->settings->setup.mysql,
        .threads = (uint32_t)s->settings->conf->mysql_writers,
        .probe_ms = 1000,
        .idle_probe_ms = 2000,
        .up = on_mysql,
        .arg = s,
    };
    int rc = writer_pool_start(&s->pool, &s->loop, &config);
    EACH_LANE (l, s)
        lane_pool(l, s->pool);
    return rc == 0 ? ERR_NONE : error_set(e, ERR_FAILED, "cannot start writer threads: %s", uv_strerror(rc));
}

/* The gate's first look, so that the first client is not told that MySQL is away when it is not. */
static enum err look_first(struct service *s, struct error *e)
{
    (void)e;
    uint64_t until_ms = mono_ms() + LOOK_FIRST_MS;
    EACH_LANE (l, s)
        if (s->mysql_seen) lane_look_first(l, until_ms, &s->stop_asked);
    return ERR_NONE;
}

/* --- clients --- */

static enum err listen_begin(struct service *s, struct error *e)
{
    if (!s->serves) return ERR_NONE;
    const struct conf *conf = s->settings->conf;
    struct shares shares = setup_shares(conf);
    struct listen_limits limits = listen_limits_default;
    limits.clients_max = (uint32_t)conf->limits_clients;
    limits.unread = shares.unread_bytes;
    limits.unread_all = shares.unread_all_bytes;
    limits.stall_ms = (uint32_t)conf->limits_send_timeout_ms;
    limits.greeting_ms = (uint32_t)conf->limits_auth_timeout_ms;
    s->listen = listen_create(&s->loop, &limits);
    if (s->settings->setup.doors != NULL) listen_secure(s->listen, s->settings->setup.doors);
    struct listen_handler handler = wire_listen_handler(s);
    for (size_t i = 0; i < conf->listen_resp.n; i++)
        if (listen_add(s->listen, &conf->listen_resp.all[i], &handler, e) != ERR_NONE) return e->code;
    return wire_users_listen(s, e);
}

enum err service_start(struct service *s, struct error *e)
{
    static enum err (*const steps[])(struct service *, struct error *) = {
        lanes_begin,      redis_begin, mysql_begin,  lanes_keep,      writers_begin,
        wire_zones_begin, look_first,  listen_begin, wire_http_begin,
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !s->stop_asked; i++)
        if (steps[i](s, e) != ERR_NONE) return e->code;
    return ERR_NONE;
}

static const struct core *core_there(const struct service *s)
{
    EACH_LANE (l, s)
        if (lane_up(l)) return &l->core;
    return &s->lanes[0].core;
}

void service_begin(struct service *s)
{
    certificates_begin(s->settings);
    EACH_LANE (l, s)
        lane_begin(l);
    for (size_t i = 0; s->serves && i < s->settings->conf->listen_resp.n; i++)
        log_event(LOG_INFO, "listening", "url=%s", listen_url(s->listen, i));
    const struct core *first = core_there(s);
    if (first->config.keeps == REDIS_KEEPS_NOTHING)
        log_event(LOG_WARN, "redis_durability_none", "detail=%s",
                  LOGQ(redis_check_promise(&first->frame_link.facts, REDIS_KEEPS_NOTHING)));
    log_event(LOG_INFO, "ready", "version=%s instance=%s life=%s redis=%s lanes=%u", TALLYD_VERSION,
              s->settings->instance, s->settings->life.id, first->frame_link.facts.version_text, s->lanes_n);
    notify_ready(&s->notify);
}
