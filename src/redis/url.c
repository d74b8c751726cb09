/* redis/url.c - see url.h. */
#include "redis/url.h"
#include "base/heap.h"
#include "base/num.h"
#include "base/percent.h"
#include "base/url.h"
#include "tls/context.h"

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

static const char *tcp_read(const struct url *u, struct redis_url *out)
{
    const char *expected = user_read(u, out);
    if (expected != NULL) return expected;
    if (u->query.p != NULL || (u->path.n > 1 && !db_read(slice_of(u->path.p + 1, u->path.n - 1), &out->db)))
        return "a database number after the '/'";
    if (u->host.n == 0 || u->more.p != NULL) return "a host";
    if (u->port.p != NULL && !url_port(u->port, &out->port)) return "a port from 1 to 65535";
    out->host = percent_string(u->host);
    return out->host == NULL ? "%XX escapes in the host" : NULL;
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
    *out = (struct redis_url){.port = REDIS_PORT_DEFAULT, .secure = slice_eq(u.scheme, SLICE("rediss"))};
    if (slice_eq(u.scheme, SLICE("unix")))
        expected = unix_read(&u, out);
    else if (!out->secure && !slice_eq(u.scheme, SLICE("redis")))
        expected = "redis://[user:password@]host:port/db (rediss:// with TLS) or unix:///path?db=n";
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
    heap_free(url->host);
    heap_free(url->path);
    heap_free(url->user);
    password_free(url);
    tls_context_destroy(&url->tls);
    *url = (struct redis_url){0};
}
