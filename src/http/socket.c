#include "http/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static int refuse(const struct conf_address *a, const char *what, int fd, struct error *e)
{
    error_set(e, ERR_CONFIG, "%s: %s: %s", a->text, what, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

static int tcp_listen(const struct conf_address *a, struct error *e)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)a->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)a->port)};
    bool is_v4 = inet_pton(AF_INET, a->host, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, a->host, &v6.sin6_addr) != 1) {
        errno = EINVAL;
        return refuse(a, "no IP address", -1, e);
    }
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0) return refuse(a, "socket", fd, e);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int rc =
        is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof v4) : bind(fd, (struct sockaddr *)&v6, sizeof v6);
    if (rc != 0) return refuse(a, "bind", fd, e);
    return listen(fd, BACKLOG) == 0 ? fd : refuse(a, "listen", fd, e);
}

/* Is it a socket at which nobody answers? */
static bool is_dead(const struct sockaddr_un *at)
{
    struct stat st;
    if (lstat(at->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return dead;
}

static int unix_listen(const struct conf_address *a, struct error *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", a->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return refuse(a, "socket", fd, e);
    if (is_dead(&at)) unlink(at.sun_path);
    mode_t before = umask(
        unix_options_umask(&a->options)); /* there is no moment in which it is more open than it should be */
    int rc = bind(fd, (struct sockaddr *)&at, sizeof at);
    umask(before);
    if (rc != 0) return refuse(a, "bind", fd, e);
    if (unix_options_apply(&a->options, a->path, e) != ERR_NONE) {
        socket_close(a, fd);
        return -1;
    }
    return listen(fd, BACKLOG) == 0 ? fd : refuse(a, "listen", fd, e);
}

int socket_listen(const struct conf_address *a, struct error *e)
{
    return a->path != NULL ? unix_listen(a, e) : tcp_listen(a, e);
}

void socket_quiet(const struct conf_address *a, int fd)
{
    if (fd < 0) return;
    if (a->path != NULL) unlink(a->path);
    shutdown(fd, SHUT_RDWR);
}

void socket_close(const struct conf_address *a, int fd)
{
    socket_quiet(a, fd);
    if (fd >= 0) close(fd);
}
