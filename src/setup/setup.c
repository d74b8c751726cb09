/* setup/setup.c - see setup.h. */
#include "setup/setup.h"

#include "base/heap.h"
#include "base/zone.h"
#include "conf/conf.h"
#include "series/moved.h"
#include "tls/tls.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WHERE_BYTES 512
#define AHEAD_S                                                                                              \
    60 /* how far ahead of Redis' clock AT may be: clocks that are kept by NTP differ by less than a second */
#define READ_MAX 100000 /* events or windows of one reply: some 100 ms of Redis */
#define READ_DAYS 366   /* that one UNIQ.COUNT unites: a year; each may be 2 MiB in Redis */
#define USER_MULTI                                                                                           \
    500 /* commands in a user's MULTI: it goes to Redis in one piece, and other users wait for it */
#define HASH_BYTES 130 /* of the cache of hashes, for each */
#define NAME_BYTES 88  /* of the caches of series, buckets and logs, for one of each: 24, 24 and 40 */
#define LANES_DEFAULT                                                                                        \
    16 /* with more, frames get small: 25 cells of one cost Redis 4 to 16 % more, 5 cells half as much again */
#define LEDGER_KEEP_TIMES                                                                                    \
    10 /* a third of it is the age at which a batch is let go (sync/README.md, rule S17) */

void setup_counter_problem(const struct conf *conf, size_t counter, enum conf_option option,
                           const struct error *e, struct buf *problems)
{
    char where[WHERE_BYTES];
    buf_printf(problems, "%s: ", conf_where(conf, counter, option, where, sizeof(where)));
    if (counter == CONF_GLOBAL)
        buf_printf(problems, "%s: ", conf_option_path(option));
    else
        buf_printf(problems, "counters.%s%s: ", conf->counters[counter].name,
                   conf_option_path(option) + strlen("counters.*"));
    buf_printf(problems, "%s\n", e->text);
}

void setup_problem(const struct conf *conf, enum conf_option option, const struct error *e,
                   struct buf *problems)
{
    setup_counter_problem(conf, CONF_GLOBAL, option, e, problems);
}

_Static_assert(CONF_COUNTER_FEED_BOX - CONF_COUNTER_FEED_SERIES == FEED_TIMEBOX &&
                   CONF_COUNTER_FEED_EVENT - CONF_COUNTER_FEED_SERIES == FEED_EVENT,
               "conf and series name the feeds in one order");

static enum conf_option feed_option(enum feed feed)
{
    return (enum conf_option)(CONF_COUNTER_FEED_SERIES + (int)feed);
}

static bool feeds_init(struct setup *s, size_t i, struct buf *problems)
{
    const struct conf_counter *from = &s->conf->counters[i];
    const char *const texts[FEEDS] = {from->feed_series, from->feed_box, from->feed_event};
    bool good = true;
    struct error e;
    for (int k = 0; k < FEEDS; k++) {
        if (texts[k] == NULL ||
            pattern_parse(slice_str(texts[k]), &s->counters.all[i].feeds[k], &e) == ERR_NONE)
            continue;
        setup_counter_problem(s->conf, i, feed_option((enum feed)k), &e, problems);
        good = false;
    }
    return good;
}

static struct lookup lookup_of(const struct conf_lookup *from)
{
    if (from->names[0] == NULL) return (struct lookup){.table = {NULL, 0}};
    return (struct lookup){slice_str(from->names[0]), slice_str(from->names[1]), slice_str(from->names[2])};
}

static bool counter_init(struct setup *s, size_t i, struct buf *problems)
{
    const struct conf_counter *from = &s->conf->counters[i];
    struct counter *to = &s->counters.all[i];
    *to = (struct counter){
        .name = slice_str(from->name),
        .store = (enum store_kind)from->store,
        .missing = (enum missing)from->missing,
        .hits = from->hits,
        .every_s = (uint32_t)from->every_s,
        .table = slice_str(from->table),
        .column_store = from->column_store == NULL ? slice_of(NULL, 0) : slice_str(from->column_store),
        .column_count = from->column_count == NULL ? slice_of(NULL, 0) : slice_str(from->column_count),
        .labels = lookup_of(&from->labels),
        .labels_of = from->labels_of == NULL ? slice_of(NULL, 0) : slice_str(from->labels_of)};
    bool shape = setup_shape(s, i, problems);
    return feeds_init(s, i, problems) && shape;
}

static bool counters_init(struct setup *s, struct buf *problems)
{
    bool good = true;
    size_t which = 0;
    struct error e;
    s->counters.n = s->conf->counters_n;
    s->counters.all = heap_zalloc(s->counters.n * sizeof(*s->counters.all));
    s->counters.ops = &s->ops;
    for (size_t i = 0; i < s->counters.n; i++)
        good = counter_init(s, i, problems) && good;
    if (!good || counters_validate(&s->counters, &which, &e) == ERR_NONE) return good;
    setup_counter_problem(s->conf, which, CONF_COUNTER_KEY, &e, problems);
    return false;
}

static int ascending(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

_Static_assert(CONF_NUMBERS_MAX == OP_PRECISIONS_MAX && CONF_TIERS_MAX == OP_TIERS_MAX,
               "conf reads as many as series takes");

static void ops_init(struct op_limits *to, const struct conf *from)
{
    to->precisions_n = (uint32_t)from->series_precisions.n;
    for (uint32_t i = 0; i < to->precisions_n; i++)
        to->precisions[i] = (uint32_t)from->series_precisions.all[i];
    qsort(to->precisions, to->precisions_n, sizeof(to->precisions[0]), ascending);
    to->samples = (uint32_t)from->series_samples;
    to->timebox_width_s = (uint32_t)from->boxes_width_s;
    to->timebox_keep = (uint32_t)from->boxes_keep;
    to->uniq_limit = (uint32_t)from->uniques_exact_below;
    to->uniq_days = from->uniques_days;
    to->uniq_growth = from->uniques_growth_bytes;
    to->ahead_s = AHEAD_S;
    to->token_keep_s = from->tokens_keep_s;
    to->tokens_most = from->tokens_max;
    to->events_keep_s = from->events_keep_s;
    to->tiers_n = (uint32_t)from->events_windows.n;
    for (uint32_t i = 0; i < to->tiers_n; i++)
        to->tiers[i] = (struct op_tier){.window_s = (uint32_t)from->events_windows.all[i].window_s,
                                        .keep_s = from->events_windows.all[i].keep_s};
    to->read = (struct query_limits){
        .most = READ_MAX, .days = READ_DAYS, .texts_max = setup_shares(from).read_bytes};
}

/* The counter of uniques.feeds.counter; NULL: no such counter. */
static const struct counter *uniq_counter(struct setup *s, struct error *e)
{
    const struct conf *conf = s->conf;
    const struct counter *c = counters_find(&s->counters, slice_str(conf->uniques_counter));
    if (c != NULL) return c;
    const char **names = heap_alloc(conf->counters_n * sizeof(*names));
    for (size_t i = 0; i < conf->counters_n; i++)
        names[i] = conf->counters[i].name;
    const char *nearest = near_name(slice_str(conf->uniques_counter), names, conf->counters_n);
    error_set(e, ERR_CONFIG, "there is no counter %s%s%s%s", conf->uniques_counter,
              nearest != NULL ? ", expected " : "; name one of those under counters",
              nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
    heap_free(names);
    return NULL;
}

static bool uniq_feed_init(struct setup *s, struct buf *problems)
{
    const struct conf *conf = s->conf;
    enum conf_option at = CONF_UNIQUES_COUNTER;
    struct error e;
    if (conf->uniques_name == NULL && conf->uniques_counter == NULL) return true;
    if (conf->uniques_name == NULL) {
        error_set(&e, ERR_CONFIG, "uniques.name is missing: it says which visitors move that counter");
    } else if (conf->uniques_counter == NULL) {
        at = CONF_UNIQUES_NAME;
        error_set(&e, ERR_CONFIG, "uniques.feeds.counter is missing: without it this name has no use");
    } else if (pattern_parse(slice_str(conf->uniques_name), &s->ops.uniq_name, &e) != ERR_NONE) {
        at = CONF_UNIQUES_NAME;
    } else {
        s->ops.uniq_counter = uniq_counter(s, &e);
        if (s->ops.uniq_counter != NULL && uniq_feed_validate(&s->counters, &e) == ERR_NONE) return true;
    }
    setup_counter_problem(conf, CONF_GLOBAL, at, &e, problems);
    return false;
}

/* Hits of a counter's stores are counted in several lanes, and a name without a store is in one. */
static bool feeds_lanes_check(struct setup *s, struct buf *problems)
{
    struct error e;
    bool good = true;
    for (size_t i = 0; s->lanes > 1 && i < s->counters.n; i++) {
        const struct counter *c = &s->counters.all[i];
        for (int k = 0; k < FEEDS; k++) {
            if (!counter_feeds(c, (enum feed)k) ||
                feed_lane_validate(&s->counters, c, (enum feed)k, &e) == ERR_NONE)
                continue;
            setup_counter_problem(s->conf, i, feed_option((enum feed)k), &e, problems);
            good = false;
        }
    }
    return good;
}

/* Once the counters are good: what feeds make must not be theirs. */
static bool feeds_check(struct setup *s, struct buf *problems)
{
    size_t which;
    enum feed feed;
    struct error e;
    if (!feeds_lanes_check(s, problems)) return false;
    if (feeds_validate(&s->counters, &which, &feed, &e) == ERR_NONE) return true;
    setup_counter_problem(s->conf, which, feed_option(feed), &e, problems);
    return false;
}

static bool setup_lanes_init(struct setup *s, struct buf *problems)
{
    int64_t given = s->conf->redis_lanes;
    struct error e;
    s->lanes = !s->redis.cluster ? 1 : given == 0 ? LANES_DEFAULT : (uint32_t)given;
    if (s->redis.cluster || given <= 1) return true;
    error_set(&e, ERR_CONFIG, "is for a Redis Cluster (redis+cluster://); a Redis of its own has one lane");
    setup_counter_problem(s->conf, CONF_GLOBAL, CONF_REDIS_LANES, &e, problems);
    return false;
}

static bool redis_init(struct setup *s, struct buf *problems)
{
    struct error e;
    if (redis_url_parse(slice_str(s->conf->redis_url), &s->redis, &e) != ERR_NONE) {
        setup_counter_problem(s->conf, CONF_GLOBAL, CONF_REDIS_URL, &e, problems);
        return false;
    }
    if (s->conf->redis_password != NULL)
        redis_url_set_password(&s->redis, slice_str(s->conf->redis_password));
    if (s->redis.user != NULL && s->redis.password == NULL) {
        error_set(&e, ERR_CONFIG,
                  "has a user and no password: write it into a file, and name that in redis.password_file");
        setup_counter_problem(s->conf, CONF_GLOBAL, CONF_REDIS_URL, &e, problems);
        return false;
    }
    if (s->conf->redis_durability == CONF_DURABILITY_REPLICAS && s->conf->redis_replicas == 0) {
        error_set(&e, ERR_CONFIG,
                  "replicas protects nothing while redis.replicas is 0: set that to how many replicas must "
                  "have a batch before tallyd merges it");
        setup_counter_problem(s->conf, CONF_GLOBAL, CONF_REDIS_DURABILITY, &e, problems);
        return false;
    }
    return setup_redis_tls(s, problems) && setup_lanes_init(s, problems);
}

static bool sentinel_add(struct setup *s, const char *text, struct buf *problems)
{
    struct sentinels_config *to = &s->sentinels;
    struct error e;
    const char *expected = to->n == SENTINELS_MAX ? "at most 16 sentinels" : NULL;
    if (expected == NULL) expected = sentinel_parse(slice_str(text), &to->at[to->n]);
    for (uint32_t i = 0; i < to->n && expected == NULL; i++)
        if (target_is(&to->at[i], &to->at[to->n])) expected = "each sentinel once";
    if (expected == NULL) {
        to->n++;
        return true;
    }
    error_set(&e, ERR_CONFIG, "has '%.200s', expected %s", text, expected);
    setup_problem(s->conf, CONF_REDIS_SENTINELS, &e, problems);
    return false;
}

/* The host of redis.url is a name that sentinels have, so that it has no port and is not one of several. */
static const char *sentinels_wrong(const struct setup *s, enum conf_option *at)
{
    const struct conf *c = s->conf;
    const struct redis_url *url = &s->redis;
    *at = CONF_REDIS_URL;
    if (c->redis_sentinels.n > 0)
        return url->path != NULL || url->cluster || url->hosts_n != 1 ||
                       url->hosts[0].port != REDIS_PORT_DEFAULT
                   ? "with redis.sentinels the URL's host is the primary's name, without a port: "
                     "redis://user@shop/0"
                   : NULL;
    *at = c->redis_sentinel_user != NULL ? CONF_REDIS_SENTINEL_USER : CONF_REDIS_SENTINEL_PASSWORD_FILE;
    if (c->redis_sentinel_user != NULL || c->redis_sentinel_password_file != NULL)
        return "has no effect without redis.sentinels";
    *at = CONF_REDIS_SENTINEL_TLS_USE;
    return c->redis_sentinel_tls_use == CONF_ON ? "has no effect without redis.sentinels" : NULL;
}

static bool sentinels_init(struct setup *s, struct buf *problems)
{
    const struct conf *c = s->conf;
    struct redis_url *access = &s->sentinels.access;
    enum conf_option at;
    struct error e;
    bool good = true;
    const char *wrong = sentinels_wrong(s, &at);
    if (wrong == NULL && c->redis_sentinel_user != NULL && c->sentinel_password == NULL) {
        at = CONF_REDIS_SENTINEL_USER;
        wrong = "needs a password: redis.sentinel.password_file";
    }
    if (wrong != NULL) {
        error_set(&e, ERR_CONFIG, "%s", wrong);
        setup_problem(c, at, &e, problems);
        return false;
    }
    for (size_t i = 0; i < c->redis_sentinels.n; i++)
        good = sentinel_add(s, c->redis_sentinels.all[i], problems) && good;
    if (s->sentinels.n > 0) s->sentinels.name = s->redis.hosts[0].name;
    if (c->redis_sentinel_user != NULL) access->user = heap_strdup(c->redis_sentinel_user);
    if (c->sentinel_password != NULL) redis_url_set_password(access, slice_str(c->sentinel_password));
    return setup_sentinel_tls(s, problems) && good;
}

static bool mysql_init(struct setup *s, struct buf *problems)
{
    struct error e;
    db_config_init(&s->mysql);
    if (db_config_parse(slice_str(s->conf->mysql_url), &s->mysql, &e) != ERR_NONE) {
        setup_counter_problem(s->conf, CONF_GLOBAL, CONF_MYSQL_URL, &e, problems);
        return false;
    }
    if (s->conf->mysql_password != NULL)
        db_config_set_password(&s->mysql, slice_str(s->conf->mysql_password));
    if (s->conf->mysql_keep_ms > s->conf->ledger_keep_ms / LEDGER_KEEP_TIMES) {
        error_set(&e, ERR_CONFIG,
                  "must not be longer than a tenth of ledger.keep, which knows what is merged");
        setup_problem(s->conf, CONF_MYSQL_KEEP, &e, problems);
        return false;
    }
    const char *zone = s->conf->mysql_time_zone;
    if (zone != NULL &&
        zone[strspn(zone, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/+:-")] != 0) {
        error_set(&e, ERR_CONFIG, "is no time zone, expected one such as Europe/Berlin or +02:00");
        setup_problem(s->conf, CONF_MYSQL_TIME_ZONE, &e, problems);
        return false;
    }
    if (zone != NULL) s->mysql.time_zone = heap_strdup(zone);
    s->mysql.read_timeout_s = (uint32_t)((s->conf->mysql_timeout_ms + 999) / 1000);
    s->mysql.write_timeout_s = s->mysql.read_timeout_s;
    return setup_mysql_tls(s, problems);
}

static bool zones_check(struct setup *s, struct buf *problems)
{
    struct zone zone;
    struct error e;
    s->store_zone = lookup_of(&s->conf->store_zone);
    s->store_names = lookup_of(&s->conf->store_names);
    if (s->conf->zone == NULL) return true;
    if (zone_load(slice_str(s->conf->zone), &zone, &e) == ERR_NONE) {
        zone_free(&zone);
        return true;
    }
    setup_problem(s->conf, CONF_ZONE, &e, problems);
    return false;
}

static struct slice *slices_of(const struct conf_texts *texts)
{
    struct slice *out = heap_alloc((texts->n + 1) * sizeof(*out));
    for (size_t i = 0; i < texts->n; i++)
        out[i] = slice_str(texts->all[i]);
    return out;
}

static bool user_init(struct users *out, const struct conf *conf, size_t i, struct buf *problems)
{
    const struct conf_user *from = &conf->users[i];
    struct slice *keys = slices_of(&from->keys), *commands = slices_of(&from->commands);
    const struct user_spec spec = {.name = slice_str(from->name),
                                   .hash = from->password,
                                   .keys = keys,
                                   .keys_n = from->keys.n,
                                   .commands = commands,
                                   .commands_n = from->commands.n,
                                   .rate = (uint32_t)from->rate,
                                   .multi = USER_MULTI,
                                   .connections = (uint32_t)from->connections};
    enum user_field which;
    struct error e;
    bool good = users_add(out, &spec, &which, &e) == ERR_NONE;
    if (!good) {
        char where[WHERE_BYTES];
        enum conf_option option = which == USER_PASSWORD ? CONF_USER_PASSWORD : CONF_USER_COMMANDS;
        buf_printf(problems, "%s: users.%s%s: %s\n", conf_where_user(conf, i, option, where, sizeof(where)),
                   conf->users[i].name, conf_option_path(option) + strlen("users.*"), e.text);
    }
    heap_free(keys);
    heap_free(commands);
    return good;
}

bool setup_users(struct users *out, const struct conf *conf, struct buf *problems)
{
    bool good = true;
    users_init(out, &users_limits_default);
    for (size_t i = 0; i < conf->users_n; i++)
        good = user_init(out, conf, i, problems) && good;
    users_sort(out);
    if (!good) users_close(out);
    return good;
}

/* Its clients may do everything, so it is a unix socket with a mode, and no port. */
static bool control_check(const struct conf *conf, struct buf *problems)
{
    struct error e;
    for (size_t i = 0; i < conf->listen_control.n; i++) {
        if (conf->listen_control.all[i].path != NULL) continue;
        error_set(&e, ERR_CONFIG, "is no unix socket, expected one such as unix:///run/tallyd/control.sock");
        setup_counter_problem(conf, CONF_GLOBAL, CONF_LISTEN_CONTROL, &e, problems);
        return false;
    }
    return true;
}

/* A proxy in front of HTTP adds a header of HTTP; and who asks for figures wants those of one tallyd. */
static bool http_check(const struct conf *conf, struct buf *problems)
{
    struct error e;
    for (size_t i = 0; i < conf->listen_http.n; i++) {
        const struct address *a = &conf->listen_http.all[i];
        if (a->proxies.n == 0 && !a->shared) continue;
        error_set(
            &e, ERR_CONFIG,
            a->shared
                ? "has reuseport=, which is for listen.resp: give each tallyd an address of its own, such as "
                  "unix:///run/tallyd-<instance>/http.sock"
                : "has proxy=, which is for listen.resp: take it away, and let the proxy add "
                  "X-Forwarded-For");
        setup_counter_problem(conf, CONF_GLOBAL, CONF_LISTEN_HTTP, &e, problems);
        return false;
    }
    return true;
}

bool setup_init(struct setup *out, const struct conf *conf, struct buf *problems)
{
    *out = (struct setup){.conf = conf};
    bool redis = redis_init(out, problems) && sentinels_init(out, problems);
    bool mysql = mysql_init(out, problems);
    ops_init(&out->ops, conf);
    bool counters = counters_init(out, problems);
    bool feeds = counters && feeds_check(out, problems);
    bool uniques = counters && uniq_feed_init(out, problems);
    bool users = setup_users(&out->users, conf, problems);
    bool control = control_check(conf, problems) && http_check(conf, problems);
    bool zones = zones_check(out, problems);
    if (redis && mysql && feeds && uniques && users && control && zones) return true;
    setup_close(out);
    return false;
}

void setup_close(struct setup *s)
{
    redis_url_close(&s->redis);
    redis_url_close(&s->sentinels.access);
    db_config_close(&s->mysql);
    tls_context_destroy(&s->doors);
    for (size_t i = 0; i < s->counters.n; i++) {
        heap_free(s->counters.all[i].key.places);
        heap_free(s->counters.all[i].lock.places);
        heap_free((void *)s->counters.all[i].field_places);
        heap_free((void *)s->counters.all[i].more);
        heap_free((void *)s->counters.all[i].sets);
        heap_free((void *)s->counters.all[i].counts);
    }
    heap_free(s->counters.all);
    users_close(&s->users);
    *s = (struct setup){0};
}

struct shares setup_shares(const struct conf *conf)
{
    int64_t all = conf->limits_memory_bytes;
    return (struct shares){.unread_bytes = (size_t)(all / 4),
                           .answers_bytes = (size_t)(all / 4),
                           .halves_bytes = (size_t)(all / 16),
                           .unread_all_bytes = (size_t)(all / 2),
                           .replay_bytes = (size_t)(all / 8),
                           .lasts_bytes = (size_t)(all / 64),
                           .read_bytes = (uint32_t)(all / 32),
                           .hashes = (uint32_t)(all / 4 / HASH_BYTES),
                           .names = (uint32_t)(all / 64 * 3 / NAME_BYTES)};
}

struct source setup_source(const struct setup *s)
{
    return (struct source){.conf = s->conf,
                           .counters = &s->counters,
                           .store_names = &s->store_names,
                           .redis = &s->redis,
                           .lanes = s->lanes,
                           .sentinels = &s->sentinels,
                           .mysql = &s->mysql};
}

/* It is a name in the abstract socket space: it needs no directory and no rights, and is gone with the process, however that
 * ends. */
enum err setup_hold_name(const struct setup *s, const char *instance, int *fd, struct error *e)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const struct redis_url *redis = &s->redis;
    const struct redis_host *host = &redis->hosts[0];
    const struct sentinels_config *sentinels = &s->sentinels; /* many call their primary the same */
    const struct redis_target none = {0}, *by = sentinels->n > 0 ? &sentinels->at[0] : &none;
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tallyd:%s:%d:%d:%s%s%s", instance,
                     sentinels->n > 0 ? by->port : host->port, redis->db,
                     redis->path != NULL ? redis->path : host->name, sentinels->n > 0 ? "@" : "", by->host);
    size_t most = sizeof name.sun_path - 2;
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + ((size_t)n < most ? (size_t)n : most));
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && bind(*fd, (const struct sockaddr *)&name, length) == 0) return ERR_NONE;
    bool taken = errno == EADDRINUSE;
    if (*fd >= 0) close(*fd);
    *fd = -1;
    if (taken)
        return error_set(
            e, ERR_CONFIG,
            "another tallyd runs on this machine under the instance name '%s' with the same Redis; stop it, "
            "or give this one a name of its own (option `instance`, or " CONF_INSTANCE_ENVIRONMENT
            " in the environment)",
            instance);
    return error_set(e, ERR_FAILED, "cannot hold the instance name '%s': %s", instance, strerror(errno));
}
