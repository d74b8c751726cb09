/* base/address.c - see address.h. */
#include "base/address.h"

#include "base/heap.h"
#include "base/slice.h"
#include "base/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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

static bool gid_text_read(struct slice text, char *out, size_t size)
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

static const char *of_tcp(struct slice one, struct address *out)
{
    const struct slice from = SLICE("from=");
    if (slice_eq(one, SLICE("proxy=on"))) return networks_read(SLICE("127.0.0.0/8,::1"), &out->proxies);
    if (out->proxies.n > 0 && slice_starts(one, from))
        return networks_read(slice_of(one.p + from.n, one.n - from.n), &out->proxies);
    out->shared = slice_eq(one, SLICE("reuseport=1"));
    return out->shared ? NULL
                       : "an address with something other than proxy=on&from= and reuseport=1 behind its '?'";
}

static const char *of_unix(struct slice one, struct address *out)
{
    const struct slice mode = SLICE("mode="), group = SLICE("group=");
    if (slice_starts(one, mode))
        return mode_read(slice_of(one.p + mode.n, one.n - mode.n), &out->mode)
                   ? NULL
                   : "an address whose mode is not that of a socket (an octal number such as 0600, 0660 or "
                     "0666)";
    if (slice_starts(one, group))
        return gid_text_read(slice_of(one.p + group.n, one.n - group.n), out->group, sizeof out->group)
                   ? NULL
                   : "an address whose group is not the name of a group";
    return "an address with something other than mode= and group= behind its '?'";
}

static const char *options_read(struct slice query, const char *(*one_read)(struct slice, struct address *),
                                struct address *out)
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
    const char *wrong = options_read(u->query, of_unix, out);
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
    if (wrong == NULL) wrong = options_read(u->query, of_tcp, out);
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

/* An address becomes a listening socket. Sources: unix(7), umask(2), getgrnam(3). */

#define ENTRY_BYTES_MAX (16 << 20) /* of a group with all its members */
#define UNIX_MODE_DEFAULT 0660

/* --- TCP --- */

static enum err tcp_bind(const struct address *a, int fd, struct error *e)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)a->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)a->port)};
    bool is_v4 = inet_pton(AF_INET, a->host, &v4.sin_addr) == 1;
    const int on = 1;
    inet_pton(AF_INET6, a->host, &v6.sin6_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
        return error_set(e, ERR_CONFIG,
                         "%s: this kernel lets no processes share a port (SO_REUSEPORT: %s): take "
                         "?reuseport=1 away",
                         a->text, strerror(errno));
    int rc =
        is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof v4) : bind(fd, (struct sockaddr *)&v6, sizeof v6);
    if (rc == 0) return ERR_NONE;
    return error_set(e, ERR_CONFIG, "%s: bind: %s%s", a->text, strerror(errno),
                     errno != EADDRINUSE ? ""
                     : a->shared ? ": who is there must run as the same user, with ?reuseport=1 as well"
                                 : ": is another process there?");
}

/* --- unix sockets --- */

/* 0: a process answers; else the errno of connect(2). */
static int unix_probe(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    int rc = connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 ? 0 : errno;
    close(fd);
    return rc;
}

/* Removes a dead socket from the path. */
static enum err unix_clear(const struct sockaddr_un *at, struct error *e)
{
    struct stat st;
    if (lstat(at->sun_path, &st) != 0) return ERR_NONE; /* bind(2) gives any other error */
    if (!S_ISSOCK(st.st_mode))
        return error_set(e, ERR_CONFIG, "unix://%s: exists and is no socket: move it away", at->sun_path);
    int rc = unix_probe(at);
    if (rc == 0 || rc == EAGAIN)
        return error_set(e, ERR_CONFIG, "unix://%s: another process serves this socket: stop it first",
                         at->sun_path);
    if (rc != ECONNREFUSED && rc != ENOENT)
        return error_set(e, ERR_CONFIG, "unix://%s: is it in use? %s", at->sun_path, strerror(rc));
    if (unlink(at->sun_path) != 0 && errno != ENOENT)
        return error_set(e, ERR_CONFIG, "unix://%s: remove dead socket: %s", at->sun_path, strerror(errno));
    return ERR_NONE;
}

/* 0, ENOENT, or why the look-up failed. A group with many members needs a large buffer. */
static int group_lookup(const char *name, gid_t *out)
{
    struct group entry, *found = NULL;
    struct buf room = {0};
    int rc = ERANGE;
    for (size_t n = 4096; rc == ERANGE && n <= ENTRY_BYTES_MAX; n *= 4)
        rc = getgrnam_r(name, &entry, buf_reserve(&room, n), n, &found);
    if (found != NULL) *out = found->gr_gid;
    buf_free(&room);
    return rc == 0 && found == NULL ? ENOENT : rc;
}

static int gid_find(const char *name, gid_t *out)
{
    uint64_t number;
    if (!num_parse_u64(slice_str(name), &number) || number >= UINT32_MAX) return group_lookup(name, out);
    *out = (gid_t)number;
    return 0;
}

static enum err group_set(const struct address *a, struct error *e)
{
    gid_t group = (gid_t)-1;
    if (a->group[0] == '\0') return ERR_NONE;
    int rc = gid_find(a->group, &group);
    if (rc == ENOENT)
        return error_set(e, ERR_CONFIG, "unix://%s: there is no group %s on this machine", a->path, a->group);
    if (rc != 0)
        return error_set(e, ERR_CONFIG, "unix://%s: the group %s cannot be looked up (%s)", a->path, a->group,
                         strerror(rc));
    if (lchown(a->path, (uid_t)-1, group) == 0) return ERR_NONE;
    return error_set(
        e, ERR_CONFIG,
        "unix://%s: it cannot be given to the group %s (%s): tallyd's user must be in that group, and "
        "systemd's unit must allow it; otherwise put the clients' users into tallyd's group",
        a->path, a->group, strerror(errno));
}

static enum err unix_bind(const struct address *a, int fd, struct error *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, a->path, strlen(a->path) + 1);
    enum err code = unix_clear(&at, e);
    if (code != ERR_NONE) return code;
    /* By umask, so that there is no moment in which the socket is more open than it should be. */
    mode_t before = umask(0777 & ~(a->mode != 0 ? a->mode : UNIX_MODE_DEFAULT));
    int rc = bind(fd, (struct sockaddr *)&at, sizeof at) == 0 ? 0 : errno;
    umask(before);
    if (rc != 0)
        return error_set(e, ERR_CONFIG,
                         "unix://%s: bind: %s: does its directory exist, and may tallyd write there?",
                         a->path, strerror(rc));
    code = group_set(a, e);
    if (code != ERR_NONE) address_unlink(a);
    return code;
}

int address_listen(const struct address *a, int backlog, struct error *e)
{
    int family = a->path != NULL ? AF_UNIX : strchr(a->host, ':') != NULL ? AF_INET6 : AF_INET;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        error_set(e, ERR_CONFIG, "%s: socket: %s", a->text, strerror(errno));
        return -1;
    }
    enum err code = a->path != NULL ? unix_bind(a, fd, e) : tcp_bind(a, fd, e);
    if (code == ERR_NONE && listen(fd, backlog) == 0) return fd;
    if (code == ERR_NONE) {
        error_set(e, ERR_CONFIG, "%s: listen: %s: is another process there?", a->text, strerror(errno));
        address_unlink(a);
    }
    close(fd);
    return -1;
}

void address_unlink(const struct address *a)
{
    if (a->path != NULL) unlink(a->path);
}
