/* redis/url.c - see url.h. */
#include "redis/url.h"
#include "base/heap.h"
#include "base/slice.h"
#include "base/url.h"
#include "tls/tls.h"

static bool db_read(struct slice s, int *out)
{
    int64_t v;
    if (!num_parse(s, &v) || v < 0 || v > 1 << 20) return false;
    *out = (int)v;
    return true;
}

static const char *user_read(const struct url *u, struct redis_url *out)
{
    if (u->user.p == NULL) return NULL;
    if (u->password.p == NULL) return "user:password before the '@'";
    out->password = percent_string(u->password);
    out->user = u->user.n > 0 ? percent_string(u->user) : NULL;
    if (out->password == NULL || (u->user.n > 0 && out->user == NULL))
        return "%XX escapes in user and password";
    return NULL;
}

static const char *host_read(const struct url *u, struct redis_url *out)
{
    struct redis_host *host = &out->hosts[out->hosts_n];
    host->port = REDIS_PORT_DEFAULT;
    if (u->host.n == 0) return "a host";
    if (u->port.p != NULL && !url_port(u->port, &host->port)) return "a port from 1 to 65535";
    host->name = percent_string(u->host);
    if (host->name == NULL) return "%XX escapes in the host";
    out->hosts_n++;
    return NULL;
}

static const char *tcp_read(const struct url *u, struct redis_url *out)
{
    const char *expected = user_read(u, out);
    if (expected != NULL) return expected;
    if (u->query.p != NULL || (u->path.n > 1 && !db_read(slice_of(u->path.p + 1, u->path.n - 1), &out->db)))
        return "a database number after the '/'";
    if (out->cluster && out->db != 0) return "no database number: a Redis Cluster has only 0";
    expected = host_read(u, out);
    for (struct url next = *u; expected == NULL && next.more.p != NULL;) {
        if (out->hosts_n == REDIS_HOSTS_MAX) return "at most 8 hosts";
        expected = url_host_next(&next);
        if (expected == NULL) expected = host_read(&next, out);
    }
    return expected;
}

static const char *unix_read(const struct url *u, struct redis_url *out)
{
    const struct slice db = SLICE("db=");
    if (u->query.p != NULL && !slice_starts(u->query, db)) return "only db=<number> after the '?'";
    if (u->query.p != NULL && !db_read(slice_of(u->query.p + db.n, u->query.n - db.n), &out->db))
        return "a database number";
    if (u->path.n == 0 || u->path.p[0] != '/') return "an absolute path: unix:///run/redis/redis.sock";
    out->path = percent_string(u->path);
    if (out->path == NULL) return "%XX escapes in the path";
    return strlen(out->path) > UNIX_PATH_MAX ? "a socket path of at most 107 bytes" : NULL;
}

enum err redis_url_parse(struct slice text, struct redis_url *out, struct error *e)
{
    struct url u;
    const char *expected = url_split(text, &u);
    bool secure_cluster = slice_eq(u.scheme, SLICE("rediss+cluster"));
    *out = (struct redis_url){.secure = secure_cluster || slice_eq(u.scheme, SLICE("rediss")),
                              .cluster = secure_cluster || slice_eq(u.scheme, SLICE("redis+cluster"))};
    if (slice_eq(u.scheme, SLICE("unix")))
        expected = unix_read(&u, out);
    else if (!out->secure && !out->cluster && !slice_eq(u.scheme, SLICE("redis")))
        expected = "redis://[user:password@]host:port[,host:port...]/db (rediss:// with TLS), "
                   "redis+cluster://host:port[,host:port...]/ (rediss+cluster:// with TLS) or "
                   "unix:///path?db=n";
    else if (expected == NULL)
        expected = tcp_read(&u, out);
    if (expected == NULL) return ERR_NONE;
    redis_url_close(out);
    return error_set(e, ERR_CONFIG, "the Redis URL cannot be read: expected %s", expected);
}

static void password_free(struct redis_url *url)
{
    if (url->password != NULL) explicit_bzero(url->password, strlen(url->password));
    heap_free(url->password);
}

void redis_url_set_password(struct redis_url *url, struct slice password)
{
    password_free(url);
    url->password = heap_strndup(password.p, password.n);
}

void redis_url_close(struct redis_url *url)
{
    for (unsigned i = 0; i < url->hosts_n; i++)
        heap_free(url->hosts[i].name);
    heap_free(url->path);
    heap_free(url->user);
    password_free(url);
    tls_context_destroy(&url->tls);
    *url = (struct redis_url){0};
}
