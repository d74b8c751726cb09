/* base/bind.c - an address becomes a listening socket. Sources: unix(7), umask(2), getgrnam(3). */
#include "base/address.h"

#include "base/buf.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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
    int rc =
        is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof v4) : bind(fd, (struct sockaddr *)&v6, sizeof v6);
    if (rc == 0) return ERR_NONE;
    return error_set(e, ERR_CONFIG, "%s: bind: %s%s", a->text, strerror(errno),
                     errno == EADDRINUSE ? ": is another process there?" : "");
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

static int group_find(const char *name, gid_t *out)
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
    int rc = group_find(a->group, &group);
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
