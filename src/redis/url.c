/* redis/url.c - reads a Redis URL in place, decoding into heap strings. */
#include "redis/url.h"
#include "base/heap.h"
#include "base/num.h"
#include "base/percent.h"
#include "tls/context.h"

/* Cuts s at the first (or last) c; false: no c in it, *before is all of s. */
static bool cut_at(struct slice s, char c, bool last, struct slice *before, struct slice *after)
{
    const char *at = s.n == 0 ? NULL : last ? memrchr(s.p, c, s.n) : memchr(s.p, c, s.n);
    *before = s;
    *after = slice_of(s.p + s.n, 0);
    if (at == NULL) return false;
    *before = slice_of(s.p, (size_t)(at - s.p));
    *after = slice_of(at + 1, s.n - before->n - 1);
    return true;
}

static bool small_number(struct slice s, int64_t most, int *out)
{
    int64_t v;
    if (!num_parse(s, &v) || v < 0 || v > most) return false;
    *out = (int)v;
    return true;
}

static const char *credentials_read(struct slice s, struct redis_url *out)
{
    struct slice user, password;
    if (!cut_at(s, ':', false, &user, &password)) return "user:password before the '@'";
    out->password = percent_string(password);
    out->user = user.n > 0 ? percent_string(user) : NULL;
    if (out->password == NULL || (user.n > 0 && out->user == NULL)) return "%XX escapes in user and password";
    return NULL;
}

static const char *address_read(struct slice s, struct redis_url *out)
{
    struct slice host, port, rest;
    if (s.n > 0 && s.p[0] == '[') {
        if (!cut_at(slice_of(s.p + 1, s.n - 1), ']', false, &host, &rest)) return "']' after an IPv6 address";
        if (rest.n > 0 && rest.p[0] != ':') return "':port' after the IPv6 address";
        port = rest.n > 0 ? slice_of(rest.p + 1, rest.n - 1) : rest;
    } else {
        cut_at(s, ':', true, &host, &port);
    }
    if (host.n == 0) return "a host";
    bool has_port = host.p + host.n < s.p + s.n && s.p[s.n - 1] != ']';
    if (has_port && (!small_number(port, 65535, &out->port) || out->port == 0))
        return "a port from 1 to 65535";
    out->host = percent_string(host);
    return out->host == NULL ? "%XX escapes in the host" : NULL;
}

/* What follows redis://; a '@' inside a password must be escaped, so the last one ends the credentials. */
static const char *tcp_read(struct slice s, struct redis_url *out)
{
    struct slice address, db, credentials;
    const char *expected = NULL;
    struct slice head, tail;
    if (cut_at(s, '@', true, &head, &tail)) {
        credentials = head;
        expected = credentials_read(credentials, out);
        s = tail;
    }
    if (expected != NULL) return expected;
    if (cut_at(s, '/', false, &address, &db) && db.n > 0 && !small_number(db, 1 << 20, &out->db))
        return "a database number after the '/'";
    return address_read(address, out);
}

static const char *unix_read(struct slice s, struct redis_url *out)
{
    struct slice path, query;
    if (cut_at(s, '?', false, &path, &query)) {
        if (!slice_starts(query, SLICE("db="))) return "only db=<number> after the '?'";
        if (!small_number(slice_of(query.p + 3, query.n - 3), 1 << 20, &out->db)) return "a database number";
    }
    if (path.n == 0 || path.p[0] != '/') return "an absolute path: unix:///run/redis/redis.sock";
    out->path = percent_string(path);
    if (out->path == NULL) return "%XX escapes in the path";
    return strlen(out->path) > REDIS_UNIX_PATH_MAX ? "a socket path of at most 107 bytes" : NULL;
}

enum err redis_url_parse(struct slice text, struct redis_url *out, struct error *e)
{
    const char *expected = "redis://[user:password@]host:port/db (rediss:// with TLS) or unix:///path?db=n";
    struct slice tcp = SLICE("redis://"), tls = SLICE("rediss://"), local = SLICE("unix://");
    *out = (struct redis_url){.port = REDIS_PORT_DEFAULT};
    if (slice_starts(text, tcp)) expected = tcp_read(slice_of(text.p + tcp.n, text.n - tcp.n), out);
    if (slice_starts(text, tls)) {
        expected = tcp_read(slice_of(text.p + tls.n, text.n - tls.n), out);
        out->secure = true;
    }
    if (slice_starts(text, local)) expected = unix_read(slice_of(text.p + local.n, text.n - local.n), out);
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
