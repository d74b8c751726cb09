/* lib/sql_proxy.h - sits between a client and mariadbd's unix socket, one connection after the other, on a
 * thread of its own, and interferes once with a COMMIT: the reply is cut, the command is cut, or the server
 * is stopped, and has it unread. Or it holds an UPDATE of rows until it is told to let it go. Header only. */
#ifndef LIB_SQL_PROXY_H
#define LIB_SQL_PROXY_H

#include "lib/child.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum sql_proxy_trick {
    PROXY_PASS,
    PROXY_CUT_COMMIT,
    PROXY_CUT_REPLY,
    PROXY_STOP_SERVER,
    PROXY_HOLD_UPDATE,
    PROXY_HOLDS
};

struct sql_proxy { /* of a server that is a child of this process */
    char path[100];
    const char *server; /* its socket */
    pid_t server_pid;
    atomic_int trick;           /* enum sql_proxy_trick; back to PROXY_PASS once it was played */
    atomic_bool ending, looked; /* looked: for rows that are there */
    int fd;
    pthread_t thread;
};

static inline int sql_proxy_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

static inline bool sql_proxy_send(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Of rows that are there (mysql/text.c), behind the look for them. */
static inline void sql_proxy_hold(struct sql_proxy *x, const char *p, size_t n)
{
    if (memmem(p, n, "\3SELECT d.s", 11) != NULL) atomic_store(&x->looked, true);
    if (!atomic_load(&x->looked) || atomic_load(&x->trick) != PROXY_HOLD_UPDATE ||
        memmem(p, n, "\3UPDATE (", 9) == NULL)
        return;
    atomic_store(&x->trick, PROXY_HOLDS);
    while (atomic_load(&x->trick) == PROXY_HOLDS && !atomic_load(&x->ending))
        usleep(1000);
}

/* Bytes of the client, on their way. False: the link is to be cut. 3 is COM_QUERY: not the COMMIT in READ
 * COMMITTED. */
static inline bool sql_proxy_forward(struct sql_proxy *x, int server, const char *p, size_t n)
{
    char reply[4096];
    sql_proxy_hold(x, p, n);
    int trick = memmem(p, n, "\3COMMIT", 7) != NULL ? atomic_exchange(&x->trick, PROXY_PASS) : PROXY_PASS;
    if (trick == PROXY_CUT_COMMIT) return false;
    if (trick == PROXY_STOP_SERVER) child_pause(x->server_pid);
    if (!sql_proxy_send(server, p, n)) return false;
    if (trick == PROXY_CUT_REPLY) return (void)!recv(server, reply, sizeof reply, 0), false;
    return true;
}

static inline void sql_proxy_serve(struct sql_proxy *x, int client, int server)
{
    static _Thread_local char bytes[1 << 16];
    struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    while (!atomic_load(&x->ending)) {
        if (poll(fds, 2, 50) <= 0) continue;
        if (fds[0].revents != 0) {
            ssize_t n = recv(client, bytes, sizeof bytes, 0);
            if (n <= 0 || !sql_proxy_forward(x, server, bytes, (size_t)n)) return;
        }
        if (fds[1].revents != 0) {
            ssize_t n = recv(server, bytes, sizeof bytes, 0);
            if (n <= 0 || !sql_proxy_send(client, bytes, (size_t)n)) return;
        }
    }
}

static inline void *sql_proxy_main(void *arg)
{
    struct sql_proxy *x = arg;
    while (!atomic_load(&x->ending)) {
        struct pollfd waiting = {.fd = x->fd, .events = POLLIN};
        if (poll(&waiting, 1, 50) <= 0) continue;
        int client = accept(x->fd, NULL, NULL), server = sql_proxy_connect(x->server);
        if (client >= 0 && server >= 0) sql_proxy_serve(x, client, server);
        if (client >= 0) close(client);
        if (server >= 0) close(server);
    }
    return NULL;
}

static inline void sql_proxy_start(struct sql_proxy *x, const char *dir, const char *server, pid_t server_pid)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    *x = (struct sql_proxy){.server = server, .server_pid = server_pid};
    snprintf(x->path, sizeof x->path, "%s/p", dir);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", x->path);
    x->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(x->fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(x->fd, 8) != 0) abort();
    if (pthread_create(&x->thread, NULL, sql_proxy_main, x) != 0) abort();
}

static inline void sql_proxy_stop(struct sql_proxy *x)
{
    atomic_store(&x->ending, true);
    pthread_join(x->thread, NULL);
    close(x->fd);
    unlink(x->path);
}

#endif
