/* base/address.c - see address.h. */
#include "base/address.h"

#include "base/heap.h"
#include "base/num.h"
#include "base/url.h"

#include <arpa/inet.h>
#include <stdio.h>

static bool mode_read(struct slice text, mode_t *out)
{
    unsigned mode = 0;
    if (text.n < 3 || text.n > 4) return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7') return false;
        mode = mode * 8 + (unsigned)(text.p[i] - '0');
    }
    *out = mode;
    return mode <= 0777 && (mode & 0600) == 0600 && (mode & 0111) == 0;
}

static bool group_read(struct slice text, char *out, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (text.n == 0 || text.n >= size || text.p[0] == '-') return false;
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
    return strspn(out, letters) == text.n;
}

/* --- networks --- */

static bool network_read(struct slice text, struct network *out)
{
    char host[INET6_ADDRSTRLEN];
    const char *slash = memchr(text.p, '/', text.n);
    size_t n = slash == NULL ? text.n : (size_t)(slash - text.p);
    int64_t bits = -1;
    if (n >= sizeof host) return false;
    snprintf(host, sizeof host, "%.*s", (int)n, text.p);
    *out = (struct network){.of = {[10] = 0xff, [11] = 0xff}};
    bool four = inet_pton(AF_INET, host, out->of + 12) == 1;
    if (!four && inet_pton(AF_INET6, host, out->of) != 1) return false;
    int64_t most = four ? 32 : 128;
    if (slash != NULL && !num_parse(slice_of(slash + 1, text.n - n - 1), &bits)) return false;
    if (slash == NULL) bits = most;
    out->bits = (unsigned)(bits + 128 - most);
    return bits >= 0 && bits <= most;
}

static const char *networks_read(struct slice text, struct networks *out)
{
    out->n = 0;
    for (struct slice rest = text; rest.p != NULL;) {
        const char *comma = rest.n == 0 ? NULL : memchr(rest.p, ',', rest.n);
        size_t n = comma == NULL ? rest.n : (size_t)(comma - rest.p);
        if (out->n == NETWORKS_MAX || n == 0 || !network_read(slice_of(rest.p, n), &out->all[out->n++]))
            return "an address whose from= is not a list of up to 8 IP addresses or networks "
                   "(10.0.0.0/8,::1)";
        rest = comma == NULL ? slice_of(NULL, 0) : slice_of(comma + 1, rest.n - n - 1);
    }
    return NULL;
}

static bool network_has(const struct network *n, const unsigned char bytes[16])
{
    unsigned whole = n->bits / 8, rest = n->bits % 8;
    return memcmp(n->of, bytes, whole) == 0 &&
           (rest == 0 || (n->of[whole] ^ bytes[whole]) >> (8 - rest) == 0);
}

bool networks_have(const struct networks *n, const struct sockaddr *peer)
{
    unsigned char bytes[16] = {[10] = 0xff, [11] = 0xff};
    if (peer->sa_family == AF_INET)
        memcpy(bytes + 12, &((const struct sockaddr_in *)peer)->sin_addr, 4);
    else
        memcpy(bytes, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
    for (size_t i = 0; i < n->n; i++)
        if (network_has(&n->all[i], bytes)) return true;
    return false;
}

/* --- what is behind the '?' --- */

static const char *proxy_read(struct slice query, struct address *out)
{
    const struct slice on = SLICE("proxy=on"), from = SLICE("&from=");
    struct slice rest = slice_of(query.p + on.n, query.n < on.n ? 0 : query.n - on.n);
    if (!slice_starts(query, on) || (rest.n > 0 && !slice_starts(rest, from)))
        return "an address with something other than proxy=on&from= behind its '?'";
    struct slice networks =
        rest.n > 0 ? slice_of(rest.p + from.n, rest.n - from.n) : SLICE("127.0.0.0/8,::1");
    return networks_read(networks, &out->proxies);
}

static const char *one_read(struct slice one, struct address *out)
{
    const struct slice mode = SLICE("mode="), group = SLICE("group=");
    if (slice_starts(one, mode))
        return mode_read(slice_of(one.p + mode.n, one.n - mode.n), &out->mode)
                   ? NULL
                   : "an address whose mode is not that of a socket (an octal number such as 0600, 0660 or "
                     "0666)";
    if (slice_starts(one, group))
        return group_read(slice_of(one.p + group.n, one.n - group.n), out->group, sizeof out->group)
                   ? NULL
                   : "an address whose group is not the name of a group";
    return "an address with something other than mode= and group= behind its '?'";
}

static const char *options_read(struct slice query, struct address *out)
{
    const char *wrong = NULL;
    for (struct slice rest = query; wrong == NULL && rest.p != NULL;) {
        const char *next = rest.n == 0 ? NULL : memchr(rest.p, '&', rest.n);
        size_t n = next == NULL ? rest.n : (size_t)(next - rest.p);
        wrong = one_read(slice_of(rest.p, n), out);
        rest = next == NULL ? slice_of(NULL, 0) : slice_of(next + 1, rest.n - n - 1);
    }
    return wrong;
}

static const char *unix_read(const struct url *u, struct address *out)
{
    const char *wrong = options_read(u->query, out);
    if (wrong != NULL) return wrong;
    if (u->path.n < 2 || u->path.p[0] != '/') return "a unix socket without an absolute path";
    if (u->path.n > UNIX_PATH_MAX) return "a unix socket's path of more than 107 bytes";
    for (size_t i = 0; i < u->path.n; i++)
        if ((unsigned char)u->path.p[i] < ' ' || u->path.p[i] == 0x7f)
            return "a unix socket's path with control bytes";
    out->path = heap_strndup(u->path.p, u->path.n);
    return NULL;
}

static const char *tcp_read(const struct url *u, const char *wrong, struct address *out)
{
    unsigned char bytes[16];
    if (wrong == NULL && u->port.p == NULL) return "an address without a port";
    if (wrong == NULL && (!url_port(u->port, &out->port) || u->path.p != NULL))
        return "an address whose port is not a number from 1 to 65535";
    if (wrong == NULL && u->query.p != NULL) wrong = proxy_read(u->query, out);
    if (wrong != NULL) return wrong;
    out->host = heap_strndup(u->host.p, u->host.n);
    if (u->user.p == NULL && u->more.p == NULL &&
        inet_pton(u->bracketed ? AF_INET6 : AF_INET, out->host, bytes) == 1)
        return NULL;
    return "an address without an IP address (127.0.0.1, 0.0.0.0, [::1])";
}

const char *address_parse(struct slice text, struct address *out)
{
    struct url u;
    const char *wrong = url_split(text, &u);
    *out = (struct address){.text = heap_strndup(text.p, text.n), .tls = slice_eq(u.scheme, SLICE("tls"))};
    if (slice_eq(u.scheme, SLICE("unix")) && wrong == NULL)
        wrong = unix_read(&u, out);
    else if (out->tls || slice_eq(u.scheme, SLICE("tcp")))
        wrong = tcp_read(&u, wrong, out);
    else
        wrong = "an address that is neither tcp:// nor tls:// nor unix://";
    if (wrong != NULL) address_free(out);
    return wrong;
}

void address_free(struct address *a)
{
    heap_free(a->text);
    heap_free(a->host);
    heap_free(a->path);
    *a = (struct address){0};
}
