/* listen/bind.c - an address becomes a listening socket. Blocks for a moment (names, probing a unix socket):
 * at start only. Source for unix sockets: unix(7). */
#include "listen/inside.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err tcp_bind(struct listener *ls, const struct address *a, struct error *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    int rc = getaddrinfo(a->host, a->port, &hints, &found);
    if (rc != 0) return error_set(e, ERR_CONFIG, "tcp://%s:%s: host: %s", a->host, a->port, gai_strerror(rc));
    rc = uv_tcp_bind(&ls->s.tcp, found->ai_addr, 0);
    freeaddrinfo(found);
    if (rc == 0) return ERR_NONE;
    return error_set(e, ERR_CONFIG, "tcp://%s:%s: bind: %s", a->host, a->port, uv_strerror(rc));
}

/* 0: somebody answers; else the errno of connect(2). */
static int unix_probe(const struct address *a)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    memcpy(sun.sun_path, a->path, sizeof(sun.sun_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    int rc = connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 ? 0 : errno;
    close(fd);
    return rc;
}

/* Makes the path free, unless somebody lives there. */
static enum err unix_clear(const struct address *a, struct error *e)
{
    struct stat st;
    if (lstat(a->path, &st) != 0) return ERR_NONE; /* whatever is wrong, bind says it */
    if (!S_ISSOCK(st.st_mode))
        return error_set(e, ERR_CONFIG, "unix://%s: exists and is no socket: move it away", a->path);
    int rc = unix_probe(a);
    if (rc == 0 || rc == EAGAIN)
        return error_set(e, ERR_CONFIG, "unix://%s: another process serves this socket: stop it first",
                         a->path);
    if (rc != ECONNREFUSED && rc != ENOENT)
        return error_set(e, ERR_CONFIG, "unix://%s: is it in use? %s", a->path, strerror(rc));
    if (unlink(a->path) != 0 && errno != ENOENT)
        return error_set(e, ERR_CONFIG, "unix://%s: remove dead socket: %s", a->path, strerror(errno));
    return ERR_NONE;
}

static enum err unix_bind(struct listener *ls, const struct address *a, struct error *e)
{
    enum err err = unix_clear(a, e);
    if (err != ERR_NONE) return err;
    /* By umask, so that there is no moment in which the socket is more open than it should be. */
    mode_t before = umask(unix_options_umask(&a->options));
    int rc = uv_pipe_bind(&ls->s.pipe, a->path);
    umask(before);
    if (rc == 0) return unix_options_apply(&a->options, a->path, e);
    return error_set(e, ERR_CONFIG,
                     "unix://%s: bind: %s: does its directory exist, and may tallyd write there?", a->path,
                     uv_strerror(rc));
}

static void tcp_url(struct listener *ls, const struct address *a)
{
    struct sockaddr_storage ss;
    int n = sizeof(ss);
    char port[6];
    memcpy(port, a->port,
           sizeof(port)); /* stays when the socket has none: libuv says EADDRINUSE only at listen */
    if (uv_tcp_getsockname(&ls->s.tcp, (struct sockaddr *)&ss, &n) == 0)
        getnameinfo((struct sockaddr *)&ss, (socklen_t)n, NULL, 0, port, sizeof(port), NI_NUMERICSERV);
    const char *fmt = strchr(a->host, ':') != NULL ? "%s://[%s]:%s" : "%s://%s:%s";
    snprintf(ls->url, sizeof(ls->url), fmt, a->is_tls ? "tls" : "tcp", a->host, port);
}

enum err listener_bind(struct listener *ls, const struct address *a, struct error *e)
{
    if (!a->is_unix) {
        enum err err = tcp_bind(ls, a, e);
        if (err == ERR_NONE) tcp_url(ls, a);
        return err;
    }
    snprintf(ls->url, sizeof(ls->url), "unix://%s", a->path);
    return unix_bind(ls, a, e);
}
