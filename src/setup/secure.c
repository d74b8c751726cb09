/* setup/secure.c - TLS as configured: which options go together, which files, and what tallyd says of certificates.
 * Options that would have no effect are refused: otherwise an operator may believe that a connection has TLS when it
 * has none. */
#include "setup/setup.h"

#include "base/clock.h"
#include "base/heap.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <time.h>

#define DAY_S (24 * 3600)

struct given { /* files as they are configured; NULL: not */
    const char *cert, *key, *ca;
};

static bool any_given(const struct given *g)
{
    return g->cert != NULL || g->key != NULL || g->ca != NULL;
}

static bool start_refuse(const struct setup *s, enum conf_option at, struct buf *problems, const char *text)
{
    struct error e;
    error_set(&e, ERR_CONFIG, "%s", text);
    setup_problem(s->conf, at, &e, problems);
    return false;
}

static char *beside(const struct conf *conf, const char *path)
{
    return path == NULL ? NULL : conf_beside(conf, path);
}

static struct tls_context *context_make(const struct setup *s, enum tls_side side, enum tls_trust trust,
                                        const struct given *g, const enum conf_option at[3],
                                        struct buf *problems)
{
    char *cert = beside(s->conf, g->cert), *key = beside(s->conf, g->key), *ca = beside(s->conf, g->ca);
    const struct tls_files files = {.cert = cert, .key = key, .ca = ca};
    struct tls_context *made = NULL;
    enum tls_file which;
    struct error e;
    if (tls_context_create(side, &files, trust, &made, &which, &e) != ERR_NONE)
        setup_problem(s->conf, at[which], &e, problems);
    heap_free(cert);
    heap_free(key);
    heap_free(ca);
    return made;
}

/* --- Redis --- */

bool setup_redis_tls(struct setup *s, struct buf *problems)
{
    static const enum conf_option at[] = {CONF_REDIS_TLS_CERT, CONF_REDIS_TLS_KEY, CONF_REDIS_TLS_CA};
    const struct conf *c = s->conf;
    const struct given g = {.cert = c->redis_tls_cert, .key = c->redis_tls_key, .ca = c->redis_tls_ca};
    if (!s->redis.secure) {
        if (!any_given(&g) && c->redis_tls_verify == CONF_VERIFY_ON) return true;
        return start_refuse(
            s, CONF_REDIS_URL, problems,
            "redis.tls is given, but this URL speaks no TLS: write rediss:// with the port of Redis' TLS");
    }
    if ((g.cert == NULL) != (g.key == NULL))
        return start_refuse(s, g.cert == NULL ? CONF_REDIS_TLS_KEY : CONF_REDIS_TLS_CERT, problems,
                            "redis.tls.cert and redis.tls.key are given together or not at all");
    enum tls_trust trust = c->redis_tls_verify == CONF_VERIFY_ON ? TLS_TRUST_CA : TLS_TRUST_ANYBODY;
    s->redis.tls = context_make(s, TLS_CLIENT, trust, &g, at, problems);
    return s->redis.tls != NULL;
}

bool setup_sentinel_tls(struct setup *s, struct buf *problems)
{
    static const enum conf_option at[] = {CONF_REDIS_SENTINEL_TLS_CERT, CONF_REDIS_SENTINEL_TLS_KEY,
                                          CONF_REDIS_SENTINEL_TLS_CA};
    const struct conf *c = s->conf;
    const struct given g = {
        .cert = c->redis_sentinel_tls_cert, .key = c->redis_sentinel_tls_key, .ca = c->redis_sentinel_tls_ca};
    bool verify = c->redis_sentinel_tls_verify == CONF_VERIFY_ON;
    if (c->redis_sentinel_tls_use == CONF_OFF)
        return (!any_given(&g) && verify) ||
               start_refuse(s, CONF_REDIS_SENTINEL_TLS_USE, problems,
                            "redis.sentinel.tls is given, but not used: write redis.sentinel.tls.use: on");
    if ((g.cert == NULL) != (g.key == NULL))
        return start_refuse(
            s, g.cert == NULL ? CONF_REDIS_SENTINEL_TLS_KEY : CONF_REDIS_SENTINEL_TLS_CERT, problems,
            "redis.sentinel.tls.cert and redis.sentinel.tls.key are given together or not at all");
    s->sentinels.access.secure = true;
    s->sentinels.access.tls =
        context_make(s, TLS_CLIENT, verify ? TLS_TRUST_CA : TLS_TRUST_ANYBODY, &g, at, problems);
    return s->sentinels.access.tls != NULL;
}

/* --- MySQL: its library reads the files at each connect --- */

static const char *mysql_wrong(const struct setup *s, const struct given *g, enum conf_option *at)
{
    const struct conf *c = s->conf;
    bool verify = c->mysql_tls_verify == CONF_VERIFY_ON;
    *at = CONF_MYSQL_TLS_USE;
    if (c->mysql_tls_use == CONF_OFF)
        return any_given(g) || !verify ? "mysql.tls is given, but not used: write mysql.tls.use: on" : NULL;
    if (db_config_is_socket(&s->mysql))
        return "this mysql.url is a unix socket, which has no TLS: leave mysql.tls out";
    if (verify && g->ca == NULL)
        return "mysql.tls.ca is missing: name the file of the authorities of MySQL's certificate, such as "
               "/etc/ssl/certs/ca-certificates.crt";
    *at = g->cert == NULL ? CONF_MYSQL_TLS_KEY : CONF_MYSQL_TLS_CERT;
    return (g->cert == NULL) != (g->key == NULL)
               ? "mysql.tls.cert and mysql.tls.key are given together or not at all"
               : NULL;
}

bool setup_mysql_tls(struct setup *s, struct buf *problems)
{
    static const enum conf_option at[] = {CONF_MYSQL_TLS_CERT, CONF_MYSQL_TLS_KEY, CONF_MYSQL_TLS_CA};
    const struct conf *c = s->conf;
    const struct given g = {.cert = c->mysql_tls_cert, .key = c->mysql_tls_key, .ca = c->mysql_tls_ca};
    enum conf_option where;
    const char *wrong = mysql_wrong(s, &g, &where);
    if (wrong != NULL) return start_refuse(s, where, problems, wrong);
    if (c->mysql_tls_use == CONF_OFF) return true;
    enum tls_trust trust = c->mysql_tls_verify == CONF_VERIFY_ON ? TLS_TRUST_CA : TLS_TRUST_ANYBODY;
    struct tls_context *tried = context_make(s, TLS_CLIENT, trust, &g, at, problems); /* are the files fit? */
    if (tried == NULL) return false;
    tls_context_destroy(&tried);
    s->mysql.tls = c->mysql_tls_verify == CONF_VERIFY_ON ? DB_TLS_VERIFIED : DB_TLS_ANYBODY;
    s->mysql.tls_ca = beside(c, g.ca);
    s->mysql.tls_cert = beside(c, g.cert);
    s->mysql.tls_key = beside(c, g.key);
    return true;
}

/* --- doors --- */

static bool has_tls(const struct conf_addresses *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->all[i].tls) return true;
    return false;
}

bool setup_doors(struct setup *s, struct buf *problems)
{
    static const enum conf_option at[] = {CONF_LISTEN_TLS_CERT, CONF_LISTEN_TLS_KEY, CONF_LISTEN_TLS_CA};
    const struct conf *c = s->conf;
    const struct given g = {.cert = c->listen_tls_cert, .key = c->listen_tls_key, .ca = c->listen_tls_ca};
    bool resp = has_tls(&c->listen_resp), wanted = resp || has_tls(&c->listen_http);
    if (!wanted && any_given(&g))
        return start_refuse(
            s, CONF_LISTEN_RESP, problems,
            "listen.tls is given, but no address speaks TLS: write one as tls://0.0.0.0:7380");
    if (!wanted) return true;
    if (g.cert == NULL || g.key == NULL)
        return start_refuse(s, resp ? CONF_LISTEN_RESP : CONF_LISTEN_HTTP, problems,
                            "a tls:// address needs listen.tls.cert and listen.tls.key");
    s->doors = context_make(s, TLS_SERVER, TLS_TRUST_CA, &g, at, problems);
    return s->doors != NULL;
}

/* --- what is said --- */

enum secure_level secure_certificate(struct tls_context *c, char *out, size_t size)
{
    int64_t ends_s = tls_context_expires_s(c), left_s = ends_s - wall_ms() / 1000;
    char day[32];
    struct tm tm;
    time_t at = (time_t)ends_s;
    gmtime_r(&at, &tm);
    strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &tm);
    if (left_s <= 0) {
        snprintf(out, size, "has expired at %s: put a renewed one in its place", day);
        return SECURE_BAD;
    }
    snprintf(out, size, "is good until %s (%lld days)%s", day, (long long)(left_s / DAY_S),
             left_s < SECURE_SOON_S ? ": renew it, put it in its place, and send tallyd a SIGHUP" : "");
    return left_s < SECURE_SOON_S ? SECURE_WARN : SECURE_GOOD;
}

/* Host names are not resolved here: only names and addresses that clearly mean this machine count. */
static bool is_here(const char *host)
{
    struct in_addr v4;
    if (host == NULL || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0) return true;
    return inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

static bool mysql_is_far(const struct db_config *c)
{
    bool far = false;
    for (size_t i = 0; c->socket == NULL && i < c->hosts_n; i++)
        far |= !is_here(c->hosts[i].name);
    return far;
}

static bool has_port(const struct conf_addresses *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->all[i].path == NULL) return true;
    return false;
}

void secure_warnings(const struct setup *s, void (*warn)(const char *text))
{
    bool away = false;
    for (unsigned i = 0; i < s->redis.hosts_n && s->sentinels.n == 0; i++)
        away |= !is_here(s->redis.hosts[i].name);
    for (uint32_t i = 0; i < s->sentinels.n; i++) /* what they name is where they are, as a rule */
        away |= !is_here(s->sentinels.at[i].host);
    if (away && !s->redis.secure)
        warn("tallyd connects to Redis on another machine without TLS: anyone on the network between "
             "can read the password and change counts. Use rediss://, or a tunnel");
    if (s->redis.secure && s->conf->redis_tls_verify == CONF_VERIFY_OFF)
        warn(
            "redis.tls.verify is off: anyone on the network between can pose as Redis. Name its authority in "
            "redis.tls.ca");
    if (s->sentinels.access.secure && s->conf->redis_sentinel_tls_verify == CONF_VERIFY_OFF)
        warn("redis.sentinel.tls.verify is off: anyone on the network between can say where Redis is. Name "
             "the "
             "sentinels' authority in redis.sentinel.tls.ca");
    if (s->mysql.tls == DB_TLS_NONE && mysql_is_far(&s->mysql))
        warn("tallyd connects to MySQL on another machine without TLS: anyone on the network between "
             "can read and change counts. Use mysql.tls, or a tunnel");
    if (s->mysql.tls == DB_TLS_ANYBODY)
        warn(
            "mysql.tls.verify is off: anyone on the network between can pose as MySQL. Name its authority in "
            "mysql.tls.ca");
    if (s->conf->users_n > 0 && has_port(&s->conf->listen_http) && s->conf->http_local == CONF_LOCAL_OPEN)
        warn("there are users, but anyone on this machine can read all stores at listen.http without a "
             "token. Set http.local: token, or use a unix socket there, with a mode");
}
