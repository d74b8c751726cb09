/* fake_uv.h - the part of libuv that redis/ uses, without sockets and without waiting: the target says when a connection is
 * made, what comes down it, what a name resolves to, and how time passes (the linker's --wrap of clock_gettime). What
 * is written is taken, and forgotten. Callbacks come as libuv's do: never from inside the call that asked. */
#ifndef FAKE_UV_H
#define FAKE_UV_H

#include "fuzz.h"

#include "base/clock.h"

#include <time.h>
#include <uv.h>

#define SOCKETS_MAX 64
#define TIMERS_MAX (2 * SOCKETS_MAX + 1)
#define HANDLE_CLOSING 1
#define TURNS_MAX 1000

struct socket {
    uv_stream_t *stream;
    uv_connect_t *connect; /* asked for, not answered */
    uv_connect_cb connected;
    uv_alloc_cb alloc; /* NULL: nothing is read */
    uv_read_cb read;
};

struct look_up {
    uv_getaddrinfo_t *req;
    uv_getaddrinfo_cb done;
    bool cancelled;
};

struct alarm {
    uv_timer_t *timer;
    uv_timer_cb ring;
    uint64_t due_ms, repeat_ms;
    bool active;
};

struct closing {
    uv_handle_t *handle;
    uv_close_cb closed;
};

static struct socket sockets[SOCKETS_MAX];
static struct look_up look_ups[SOCKETS_MAX];
static struct alarm alarms[TIMERS_MAX];
static struct closing closings[TIMERS_MAX + SOCKETS_MAX];
static unsigned sockets_n, look_ups_n, alarms_n, closings_n;
static uint64_t now_ms;

int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    (void)which;
    *out =
        (struct timespec){.tv_sec = (time_t)(now_ms / 1000), .tv_nsec = (long)(now_ms % 1000) * 1000 * 1000};
    return 0;
}

/* ---- handles ---- */

static struct socket *socket_of(const void *stream)
{
    for (unsigned i = 0; i < sockets_n; i++)
        if ((const void *)sockets[i].stream == stream) return &sockets[i];
    return NULL;
}

static struct alarm *alarm_of(const void *timer)
{
    for (unsigned i = 0; i < alarms_n; i++)
        if ((const void *)alarms[i].timer == timer) return &alarms[i];
    return NULL;
}

int uv_is_closing(const uv_handle_t *handle)
{
    return (handle->flags & HANDLE_CLOSING) != 0;
}

int uv_is_active(const uv_handle_t *handle)
{
    const struct alarm *a = alarm_of(handle);
    return a != NULL && a->active;
}

void uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    MUST(!uv_is_closing(handle) && (socket_of(handle) != NULL || alarm_of(handle) != NULL));
    handle->flags |= HANDLE_CLOSING;
    if (alarm_of(handle) != NULL) alarm_of(handle)->active = false;
    closings[closings_n++] = (struct closing){handle, closed};
}

static void handle_forget(uv_handle_t *handle)
{
    struct socket *s = socket_of(handle);
    struct alarm *a = alarm_of(handle);
    if (s != NULL && s->connect != NULL) s->connected(s->connect, UV_ECANCELED);
    if (s != NULL) *s = sockets[--sockets_n];
    if (a != NULL) *a = alarms[--alarms_n];
}

static void closings_run(void)
{
    while (closings_n > 0) {
        struct closing c = closings[0];
        memmove(closings, closings + 1, --closings_n * sizeof closings[0]);
        handle_forget(c.handle);
        c.closed(c.handle);
    }
}

/* ---- timers ---- */

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    (void)loop;
    MUST(alarms_n < TIMERS_MAX);
    timer->flags = 0;
    alarms[alarms_n++] = (struct alarm){.timer = timer};
    return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb ring, uint64_t timeout_ms, uint64_t repeat_ms)
{
    struct alarm *a = alarm_of(timer);
    MUST(a != NULL && !uv_is_closing((uv_handle_t *)timer));
    *a = (struct alarm){timer, ring, now_ms + timeout_ms, repeat_ms, true};
    return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
    alarm_of(timer)->active = false;
    return 0;
}

/* Of those that are due, the first that was. */
static struct alarm *alarm_due(void)
{
    struct alarm *first = NULL;
    for (struct alarm *a = alarms; a < alarms + alarms_n; a++)
        if (a->active && a->due_ms <= now_ms && (first == NULL || a->due_ms < first->due_ms)) first = a;
    return first;
}

static void alarms_run(void)
{
    struct alarm *a;
    for (unsigned i = 0; (a = alarm_due()) != NULL; i++) {
        MUST(i < TURNS_MAX); /* it never comes to rest */
        a->active = a->repeat_ms > 0;
        a->due_ms = now_ms + a->repeat_ms;
        a->ring(a->timer);
        closings_run();
    }
}

/* ---- names ---- */

int uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb done, const char *node,
                   const char *service, const struct addrinfo *hints)
{
    (void)loop, (void)hints;
    MUST(look_ups_n < SOCKETS_MAX && node[0] != '\0' && service[0] != '\0');
    look_ups[look_ups_n++] = (struct look_up){req, done, false};
    return 0;
}

int uv_cancel(uv_req_t *req)
{
    for (unsigned i = 0; i < look_ups_n; i++)
        if ((uv_req_t *)look_ups[i].req == req) look_ups[i].cancelled = true;
    return 0;
}

void uv_freeaddrinfo(struct addrinfo *all)
{
    (void)all;
}

static void look_up_answer(unsigned at, bool known)
{
    static struct sockaddr_in address = {.sin_family = AF_INET};
    static struct addrinfo found = {.ai_family = AF_INET, .ai_addr = (struct sockaddr *)&address};
    struct look_up l = look_ups[at];
    memmove(look_ups + at, look_ups + at + 1, (--look_ups_n - at) * sizeof look_ups[0]);
    bool given = known && !l.cancelled;
    l.done(l.req, l.cancelled ? UV_ECANCELED : known ? 0 : UV_EAI_NONAME, given ? &found : NULL);
}

static void look_ups_cancelled(void)
{
    for (unsigned i = look_ups_n; i-- > 0;)
        if (look_ups[i].cancelled) look_up_answer(i, false);
}

/* ---- sockets ---- */

int uv_tcp_init(uv_loop_t *loop, uv_tcp_t *tcp)
{
    (void)loop;
    MUST(sockets_n < SOCKETS_MAX);
    tcp->flags = 0;
    sockets[sockets_n++] = (struct socket){.stream = (uv_stream_t *)tcp};
    return 0;
}

int uv_tcp_connect(uv_connect_t *req, uv_tcp_t *tcp, const struct sockaddr *to, uv_connect_cb connected)
{
    struct socket *s = socket_of(tcp);
    MUST(s != NULL && to != NULL);
    s->connect = req;
    s->connected = connected;
    return 0;
}

int uv_tcp_nodelay(uv_tcp_t *tcp, int on)
{
    (void)tcp, (void)on;
    return 0;
}

int uv_tcp_keepalive(uv_tcp_t *tcp, int on, unsigned delay)
{
    (void)tcp, (void)on, (void)delay;
    return 0;
}

int uv_tcp_getpeername(const uv_tcp_t *tcp, struct sockaddr *name, int *n)
{
    (void)tcp, (void)name, (void)n;
    return UV_ENOTCONN;
}

int uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc, uv_read_cb read)
{
    struct socket *s = socket_of(stream);
    MUST(s != NULL);
    s->alloc = alloc;
    s->read = read;
    return 0;
}

int uv_try_write(uv_stream_t *stream, const uv_buf_t *bufs, unsigned n)
{
    MUST(n == 1 && socket_of(stream) != NULL);
    return (int)bufs[0].len;
}

static void socket_connect(struct socket *s, bool made)
{
    uv_connect_t *req = s->connect;
    if (req == NULL || uv_is_closing((uv_handle_t *)s->stream)) return;
    s->connect = NULL;
    s->connected(req, made ? 0 : UV_ECONNREFUSED);
}

/* n < 0: its end. False: it is not read, or not any more. */
static bool socket_reads(uv_stream_t *stream, const char *p, ssize_t n)
{
    struct socket *s = socket_of(stream);
    uv_buf_t room;
    if (s == NULL || s->alloc == NULL || uv_is_closing((uv_handle_t *)stream)) return false;
    s->alloc((uv_handle_t *)stream, 65536, &room);
    if (n > 0) MUST(room.len >= (size_t)n);
    if (n > 0) memcpy(room.base, p, (size_t)n);
    s->read(stream, n, &room);
    return true;
}

/* A turn of the loop, and ms before it. */
static void loop_turn(uint64_t ms)
{
    now_ms += ms;
    look_ups_cancelled();
    closings_run();
    alarms_run();
}

#endif
