/* app/start.c - the order of start (service.h). Redis must be there and fit: nothing can be counted without
 * it. MySQL may be away: hits add up in Redis and are merged when it comes; when it is there, it must fit. */
#include "app/certificates.h"
#include "app/privileges.h"
#include "app/service.h"
#include "base/log.h"
#include "mysql/schema.h"
#include <stdio.h>

#define CONNECT_MS 5000
#define HOLDER_MS 35000 /* a sign of life in tally:instance lasts 30 s */
#define HOLDER_GAP_MS 3000
#define HOLDER_POLL_MS 50
#define LOOK_FIRST_MS 3000

bool service_links_up(const struct service *s)
{
    return redis_link_is_up(&s->frame_link) && redis_link_is_up(&s->sync_link) &&
           redis_link_is_up(&s->fence_link);
}

/* Until service_begin() sync sees no Redis: it must not begin before all is there. */
static void links_changed(struct service *s)
{
    if (s->stage != STAGE_STARTING) sync_redis(s->sync, service_links_up(s));
}

static void frame_up(struct redis_link *l)
{
    struct service *s = l->arg;
    coalesce_up(s->coalesce, l->facts.run_id, l->client_id);
    if (s->stage == STAGE_RUNNING) upkeep_walk(s);
    gate_redis(&s->gate);
    links_changed(s);
}

static void frame_down(struct redis_link *l, const char *why)
{
    struct service *s = l->arg;
    coalesce_cut(s->coalesce, why);
    links_changed(s);
}

static void sync_up(struct redis_link *l)
{
    struct service *s = l->arg;
    gate_redis(&s->gate);
    links_changed(s);
}

static void plain_up(struct redis_link *l)
{
    links_changed(l->arg);
}

static void plain_down(struct redis_link *l, const char *why)
{
    (void)why;
    links_changed(l->arg);
}

static void link_init(struct service *s, struct redis_link *l, const char *role)
{
    const struct conf *conf = s->settings->conf;
    struct redis_link_config config = {
        .url = &s->settings->setup.redis,
        .life = &s->settings->life,
        .role = role,
        .check = true,
        .volatile_accept = conf->redis_volatile == CONF_ACCEPT,
        .connect_ms = (uint32_t)conf->redis_timeout_ms,
        .answer_ms = (uint32_t)conf->redis_timeout_ms,
    };
    redis_link_init(l, &s->loop, &config);
    l->arg = s;
    l->up = plain_up;
    l->down = plain_down;
}

void service_init(struct service *s)
{
    link_init(s, &s->frame_link, "frame");
    link_init(s, &s->sync_link, "sync");
    link_init(s, &s->fence_link, "fence");
    link_init(s, &s->clean_link, "clean");
    s->frame_link.up = frame_up;
    s->frame_link.down = frame_down;
    s->sync_link.up = sync_up;
    redis_frames_init(&s->frames, &s->frame_link, &s->settings->life);
    redis_fences_init(&s->fences, &s->fence_link, &s->settings->life);
    s->fences.replicas = (uint32_t)s->settings->conf->redis_replicas;
    s->fences.volatile_accept = s->settings->conf->redis_volatile == CONF_ACCEPT;
    wire_coalesce(s);
    wire_sync(s);
    wire_gate(s);
    wire_ledger(s);
    wire_users_init(s);
    wire_command(s);
    wire_http_init(s);
    cleaner_init(s);
}

/* What clients would hear, in the words of somebody who starts it. */
static enum err link_begin(struct service *s, struct redis_link *l, struct error *e)
{
    enum err code = redis_link_connect(l, CONNECT_MS, e);
    if (code != ERR_UNAVAILABLE) return code;
    const char *text = strncmp(l->why, "MASTERDOWN ", 11) == 0 ? l->why + 11 : l->why;
    char where[200];
    if (s->settings->setup.redis.path != NULL)
        snprintf(where, sizeof where, "unix://%s", s->settings->setup.redis.path);
    else
        snprintf(where, sizeof where, "%s://%s:%d", s->settings->setup.redis.secure ? "rediss" : "redis",
                 s->settings->setup.redis.host, s->settings->setup.redis.port);
    return error_set(e, code, "%s (%s). Start Redis, or correct `redis:` in the configuration", text, where);
}

/* --- who else is here? --- */

static void on_holder(struct redis_instance *i)
{
    *(bool *)i->arg = true;
}

static enum err ask_holder(struct service *s, struct redis_instance *i, struct error *e)
{
    bool done = false;
    *i = (struct redis_instance){.life = &s->settings->life, .done = on_holder, .arg = &done};
    redis_instance(&s->sync_link, i);
    redis_run_until(&s->sync_link, &done);
    if (i->lost)
        return error_set(e, ERR_UNAVAILABLE, "the link to Redis was lost while starting: %s",
                         s->sync_link.why);
    return ERR_NONE;
}

static bool holder_is_here(const struct service *s, const struct redis_instance *i)
{
    const char *host = strchr(i->holder, '|'); /* '<life>|<host>' */
    return host != NULL && strcmp(host + 1, s->settings->host) == 0;
}

static void on_pause(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}
static void on_pause_closed(uv_handle_t *handle)
{
    *(bool *)handle->data = true;
}

static void pause_ms(struct service *s, uint64_t ms)
{
    uv_timer_t timer;
    bool over = false;
    uv_timer_init(&s->loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, on_pause, ms, 0);
    redis_run_until(&s->sync_link, &over);
    over = false;
    uv_close((uv_handle_t *)&timer, on_pause_closed);
    redis_run_until(&s->sync_link, &over);
}

/* A living holder has links, but for the moment of a reconnect; a dead one of this machine has none at once, a dead one
 * of another until Redis notices, but then its sign of life runs out. */
static bool holder_lives(struct service *s, const struct redis_instance *i, uint64_t *unlinked_ms,
                         uint64_t now_ms)
{
    if (!i->taken) return false;
    if (i->linked) *unlinked_ms = now_ms;
    return i->linked || (!holder_is_here(s, i) && now_ms - *unlinked_ms < HOLDER_GAP_MS);
}

static enum err name_is_free(struct service *s, struct error *e)
{
    struct redis_instance now;
    uint64_t began_ms = mono_ms(), unlinked_ms = began_ms;
    for (;;) {
        if (ask_holder(s, &now, e) != ERR_NONE) return e->code;
        uint64_t now_ms = mono_ms();
        if (s->stop_asked || !holder_lives(s, &now, &unlinked_ms, now_ms)) return ERR_NONE;
        if (now_ms - began_ms >= (holder_is_here(s, &now) ? HOLDER_GAP_MS : HOLDER_MS)) break;
        pause_ms(s, HOLDER_POLL_MS);
    }
    return error_set(
        e, ERR_CONFIG,
        "another tallyd with the instance name '%s' lives on this Redis; stop it, or give this one a name of "
        "its own (option `instance`)",
        s->settings->instance);
}

static void on_killed(struct redis_kill *k)
{
    *(bool *)k->arg = true;
}

/* (!) Before the first claim: what an earlier life sent and Redis has not read yet must never run. */
static enum err kill_earlier(struct service *s, struct error *e)
{
    bool done = false;
    struct redis_kill kill = {.life = &s->settings->life, .done = on_killed, .arg = &done};
    redis_kill_lives(&s->sync_link, &kill);
    redis_run_until(&s->sync_link, &done);
    if (kill.lost)
        return error_set(e, ERR_UNAVAILABLE, "cannot end links of an earlier start: %s", kill.text);
    if (kill.killed > 0) log_event(LOG_INFO, "killed_links", "n=%u", kill.killed);
    return ERR_NONE;
}

static enum err connect_sync(struct service *s, struct error *e)
{
    return link_begin(s, &s->sync_link, e);
}
static enum err connect_frame(struct service *s, struct error *e)
{
    return link_begin(s, &s->frame_link, e);
}
static enum err connect_fence(struct service *s, struct error *e)
{
    return link_begin(s, &s->fence_link, e);
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

static enum err mysql_check(struct service *s, struct db *db, struct error *e)
{
    struct schema_report report = {0};
    struct schema_rules rules = {.accept_flush = s->settings->conf->mysql_volatile == CONF_ACCEPT};
    enum err code = schema_check(db, &s->settings->setup.counters, &rules, &report, e);
    if (code == ERR_NONE && schema_refusals(&report) > 0) code = schema_refusal(&report, e);
    schema_report_close(&report);
    return code;
}

static enum err mysql_begin(struct service *s, struct error *e)
{
    struct db *db = db_create(&s->settings->setup.mysql);
    enum err code = db_open(db) == CODE_OK ? mysql_check(s, db, e) : db_error(db, e);
    db_destroy(&db);
    s->mysql_seen = code == ERR_NONE;
    if (code != ERR_UNAVAILABLE || !s->serves) return code;
    log_event(LOG_WARN, "mysql_down", "error=%s next=%s", LOGQ(e->text),
              LOGQ("counting goes on in Redis; merged when MySQL is back"));
    return ERR_NONE;
}

static void on_mysql(void *arg, bool up, const char *text)
{
    struct service *s = arg;
    log_event(up ? LOG_INFO : LOG_WARN, up ? "mysql_up" : "mysql_down", "detail=%s", LOGQ(text));
    gate_mysql(&s->gate, up);
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
    return rc == 0 ? ERR_NONE : error_set(e, ERR_FAILED, "cannot start writer threads: %s", uv_strerror(rc));
}

/* The gate's first check (sync/gate.h), so that the first client is not told that MySQL is away when it is not. */
static enum err look_first(struct service *s, struct error *e)
{
    (void)e;
    uint64_t until_ms = mono_ms() + LOOK_FIRST_MS;
    while (s->mysql_seen && !gate_open(&s->gate) && !s->gate.rolled_back && mono_ms() < until_ms &&
           !s->stop_asked)
        pause_ms(s, 5);
    return ERR_NONE;
}

/* --- clients --- */

static enum err listen_begin(struct service *s, struct error *e)
{
    if (!s->serves) return ERR_NONE;
    const struct conf *conf = s->settings->conf;
    struct listen_limits limits = listen_limits_default;
    limits.clients_max = (uint32_t)conf->limits_clients;
    limits.unread = (size_t)conf->limits_unread_bytes;
    limits.unread_all = (size_t)conf->limits_unread_all_bytes;
    limits.stall_ms = (uint32_t)conf->limits_stalled_ms;
    limits.greeting_ms = (uint32_t)conf->limits_handshake_within_ms;
    limits.handshakes_percent = (uint32_t)conf->limits_handshakes;
    limits.backlog = (uint32_t)conf->limits_backlog;
    limits.keepalive_s = (uint32_t)conf->limits_keepalive_s;
    s->listen = listen_create(&s->loop, &limits);
    if (s->settings->setup.doors != NULL) listen_secure(s->listen, s->settings->setup.doors);
    struct listen_handler handler = wire_listen_handler(s);
    for (size_t i = 0; i < conf->listen_resp.n; i++)
        if (listen_add(s->listen, &conf->listen_resp.all[i], &handler, e) != ERR_NONE) return e->code;
    return wire_users_listen(s, e);
}

/* Sockets are bound, files of secrets are read. */
static enum err rights_drop(struct service *s, struct error *e)
{
    return s->serves ? privileges_drop(s->settings->conf, e) : ERR_NONE;
}

enum err service_start(struct service *s, struct error *e)
{
    static enum err (*const steps[])(struct service *, struct error *) = {
        connect_sync,  name_is_free, kill_earlier, connect_frame,   connect_fence, mysql_begin,
        writers_begin, look_first,   listen_begin, wire_http_begin, rights_drop,
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !s->stop_asked; i++)
        if (steps[i](s, e) != ERR_NONE) return e->code;
    return ERR_NONE;
}

void service_begin(struct service *s)
{
    certificates_begin(s->settings);
    sync_start(s->sync);
    links_changed(s);
    upkeep_walk(s);
    if (s->serves) cleaner_begin(s);
    for (size_t i = 0; s->serves && i < s->settings->conf->listen_resp.n; i++)
        log_event(LOG_INFO, "listening", "url=%s", listen_url(s->listen, i));
    log_event(LOG_INFO, "ready", "version=%s instance=%s life=%s redis=%s", TALLYD_VERSION,
              s->settings->instance, s->settings->life.id, s->frame_link.facts.version_text);
    notify_ready(&s->notify);
}
