/* bench/null.c - a RESP server that does nothing: `:1` for every request, whatever it says. What is measured
 * against it is the cost of sockets alone. One thread, epoll; prints "port=N" once it listens on 127.0.0.1;
 * ends by a signal. */
#include "clock.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY ":1\r\n"
#define REPLY_BYTES 4u
#define REPLIES_AT_ONCE 16384u

struct client {
    int fd;
    uint32_t args_left; /* of the request that is being read */
    uint64_t number;    /* of the header line that is being read */
    uint64_t skip;      /* bytes of an argument, and its end, that are still to come */
    bool header;        /* the line is `*n`, not `$n` */
    uint64_t owed;      /* bytes of replies not written yet */
    bool wants_out;
};

static char replies[REPLY_BYTES * REPLIES_AT_ONCE];
static int epoll;

/* The requests that end in these bytes. */
static uint64_t requests_in(struct client *c, const char *p, const char *end)
{
    uint64_t whole = 0;
    while (p < end) {
        if (c->skip > 0) {
            uint64_t n = c->skip < (uint64_t)(end - p) ? c->skip : (uint64_t)(end - p);
            p += n;
            c->skip -= n;
            whole += c->skip == 0 && c->args_left == 0;
            continue;
        }
        char byte = *p++;
        if (byte == '*' || byte == '$') {
            c->header = byte == '*';
            c->number = 0;
        } else if (byte >= '0' && byte <= '9') {
            c->number = c->number * 10 + (uint64_t)(byte - '0');
        } else if (byte == '\n' && c->header) {
            c->args_left = (uint32_t)c->number;
        } else if (byte == '\n') {
            c->args_left--;
            c->skip = c->number + 2;
        }
    }
    return whole;
}

static void client_close(struct client *c)
{
    close(c->fd);
    free(c);
}

static void client_watch(struct client *c)
{
    bool wants_out = c->owed > 0;
    struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0u), .data.ptr = c};
    if (c->wants_out == wants_out) return;
    c->wants_out = wants_out;
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e) != 0) die("epoll_ctl");
}

static bool client_write(struct client *c)
{
    while (c->owed > 0) {
        size_t begin = (REPLY_BYTES - c->owed % REPLY_BYTES) % REPLY_BYTES;
        size_t n = c->owed < sizeof replies - begin ? c->owed : sizeof replies - begin;
        ssize_t sent = send(c->fd, replies + begin, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return false;
        if (sent < 0) break;
        c->owed -= (uint64_t)sent;
    }
    client_watch(c);
    return true;
}

static bool client_read(struct client *c)
{
    static char bytes[65536];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    c->owed += requests_in(c, bytes, bytes + n) * REPLY_BYTES;
    return client_write(c);
}

static void accept_one(int listener)
{
    int fd = accept(listener, NULL, NULL), one = 1;
    struct client *c = calloc(1, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (fd < 0 || c == NULL) die("accept");
    c->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) die("epoll_ctl");
}

static int listener_open(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) != 0 || listen(fd, 511) != 0) die("listen");
    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0) die("getsockname");
    printf("port=%d\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void client_serve(struct client *c, uint32_t events)
{
    bool stays = true;
    if ((events & EPOLLOUT) != 0) stays = client_write(c);
    if (stays && (events & ~(uint32_t)EPOLLOUT) != 0) stays = client_read(c);
    if (!stays) client_close(c);
}

int main(void)
{
    struct epoll_event events[256], e = {.events = EPOLLIN, .data.ptr = NULL};
    for (size_t i = 0; i < REPLIES_AT_ONCE; i++)
        memcpy(replies + i * REPLY_BYTES, REPLY, REPLY_BYTES);
    epoll = epoll_create1(0);
    int listener = listener_open();
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0) die("epoll");
    for (;;) {
        int n = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL)
                accept_one(listener);
            else
                client_serve(events[i].data.ptr, events[i].events);
        }
    }
}
