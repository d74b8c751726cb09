/* listen/world.h - a set of listeners on a loop, and a toy protocol of lines:
 *   say <text>   answers the text           big <n>   answers n bytes of 'x'
 *   wait         pauses the session         owe       one more answer is owed (outlet.waiting)
 *   hold         holds the connection       finish    the last word
 *   drop         closes at once
 * Client and server are one thread: `until` turns the loop, a client's socket does not block. */
#ifndef UNIT_LISTEN_WORLD_H
#define UNIT_LISTEN_WORLD_H

#include "lib/unit.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"
#include "base/stats.h"
#include "listen/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

struct toy {
    struct conn *conn;
    size_t lines;
    bool paused;
};

static uv_loop_t loop;
static uv_check_t turn_end;
static struct listen *set;
static struct conn *last; /* opened last */
static unsigned opened, closed_n;
static bool stopped, unwelcome; /* a session drops its connection as it opens */

static inline void toy_open(void *session, struct conn *conn, void *arg)
{
    struct toy *t = session;
    assert_ptr_equal(arg, &loop);
    assert_null(t->conn);
    t->conn = last = conn;
    opened++;
    if (unwelcome) conn_drop(conn);
}

static inline void toy_close(void *session)
{
    closed_n++;
}

static inline void toy_line(struct toy *t, struct slice line)
{
    struct outlet *o = conn_outlet(t->conn);
    uint64_t n;
    t->lines++;
    if (slice_starts(line, SLICE("say "))) {
        buf_put(&o->out, line.p + 4, line.n - 4);
    } else if (slice_starts(line, SLICE("big "))) {
        assert_true(num_parse_u64(slice_of(line.p + 4, line.n - 4), &n));
        memset(buf_reserve(&o->out, n), 'x', n);
        o->out.n += n;
    } else if (slice_eq(line, SLICE("wait"))) {
        t->paused = true;
        conn_pause(t->conn);
    } else if (slice_eq(line, SLICE("owe"))) {
        o->waiting++;
    } else if (slice_eq(line, SLICE("hold"))) {
        conn_hold(t->conn);
    } else if (slice_eq(line, SLICE("finish"))) {
        t->paused = true; /* takes no more of what it was offered */
        conn_finish(t->conn);
    } else {
        assert_true(slice_eq(line, SLICE("drop")));
        t->paused = true;
        conn_drop(t->conn);
    }
}

static inline size_t toy_bytes(void *session, struct slice in)
{
    struct toy *t = session;
    size_t used = 0;
    while (!t->paused && used < in.n && conn_outlet(t->conn)->out.n < OUTLET_FULL) {
        const char *lf = memchr(in.p + used, '\n', in.n - used);
        if (lf == NULL) break;
        struct slice line = slice_of(in.p + used, (size_t)(lf - in.p) - used);
        used += line.n + 1;
        toy_line(t, line);
    }
    return used;
}

static inline void toy_resume(struct conn *c)
{
    ((struct toy *)conn_session(c))->paused = false;
    conn_resume(c);
}

static const struct listen_handler handler = {sizeof(struct toy), toy_open,     toy_bytes,
                                              toy_close,          "too many\n", &loop};

static inline void on_turn_end(uv_check_t *check)
{
    listen_turn(set);
    listen_flush_all(set);
}

static inline void world_begin(const struct listen_limits *limits)
{
    opened = closed_n = 0;
    last = NULL;
    stopped = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_check_init(&loop, &turn_end);
    uv_check_start(&turn_end, on_turn_end);
    set = listen_create(&loop, limits);
}

static inline bool turn(uint64_t until_ms)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    return mono_ms() < until_ms;
}

#define until(condition)                                                                                     \
    do {                                                                                                     \
        uint64_t until_ms_ = mono_ms() + 600000;                                                             \
        while (!(condition))                                                                                 \
            assert_true(turn(until_ms_));                                                                    \
    } while (0)

static inline void on_stopped(void *arg)
{
    assert_ptr_equal(arg, &stopped);
    stopped = true;
}

static inline void world_end(void)
{
    if (!stopped) listen_stop(set, on_stopped, &stopped);
    listen_drop_all(set);
    until(stopped);
    uv_close((uv_handle_t *)&turn_end, NULL);
    listen_destroy(&set);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(opened, closed_n);
}

/* To the port of this URL. */
static inline int client_at(const char *url)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sin.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof sin), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

#endif
