/* listen/listen.c - the set of listeners on one loop: accept, what happens once a turn, the end of all. */
#include "listen/listen.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "listen/inside.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES_RESERVED 64 /* descriptors for everything but clients */
#define ACCEPTS_A_TURN 16
#define OWN_HANDLES 3

const struct listen_limits listen_limits_default = {
    .clients_max = 10000,
    .backlog = 511, /* as Redis; the kernel caps it at net.core.somaxconn */
    .unread = 128 << 20,
    .unread_all = 256 << 20,
    .stall_ms = 60000,
    .keepalive_s = 300, /* as Redis */
    .greeting_ms = 10000,
    .linger_ms = 5000, /* as nginx' lingering_timeout */
    /* No option: a quarter is some 400 handshakes a second with RSA, 600 with P-256; an app that needs more should keep its
     * connections, and with less hits gain little. */
    .handshakes_percent = 25,
};

/* So that a client over the limit gets an error reply, instead of a failing accept(2). */
static void clients_fit_files(struct listen_limits *limits)
{
    struct rlimit files;
    rlim_t want = (rlim_t)limits->clients_max + FILES_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= want) return;
    struct rlimit more = files;
    more.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
    if (setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
    if (files.rlim_cur >= want) return;
    rlim_t fit = files.rlim_cur > 2 * FILES_RESERVED ? files.rlim_cur - FILES_RESERVED : files.rlim_cur / 2;
    log_event(LOG_WARN, "clients_limited",
              "wanted=%u now=%u next=\"raise the limit of open files (ulimit -n)\"", limits->clients_max,
              (unsigned)fit);
    limits->clients_max = (uint32_t)fit;
}

/* For what came up between turns, in a timer for example. */
static void listen_turn_again(uv_idle_t *idle)
{
    listen_turn(idle->data);
    listen_flush_all(idle->data);
}

static void on_stalls(uv_timer_t *timer)
{
    struct listen *l = timer->data;
    uint64_t now_ms = uv_now(l->loop);
    for (struct list *at = l->writing.next, *next; at != &l->writing; at = next) {
        next = at->next;
        conn_stall_check(CONTAINER_OF(at, struct conn, in_writing), now_ms);
    }
    secure_handshakes_check(l, now_ms);
    linger_check(l, now_ms);
    if (list_empty(&l->writing) && list_empty(&l->handshakes) && list_empty(&l->lingering[false]) &&
        list_empty(&l->lingering[true]))
        uv_timer_stop(&l->stalls);
}

static void turn_begin(struct listen *l)
{
    uint32_t share = l->busy == 0 ? READ_BYTES : TURN_BYTES / l->busy;
    l->read_bytes = share > READ_BYTES ? READ_BYTES : share < READ_LEAST ? READ_LEAST : share;
    l->busy = 0;
    l->turn++;
}

struct listen *listen_create(uv_loop_t *loop, const struct listen_limits *limits)
{
    struct listen *l = heap_zalloc(sizeof(*l));
    l->loop = loop;
    l->limits = *limits;
    turn_begin(l);
    clients_fit_files(&l->limits);
    list_init(&l->open);
    list_init(&l->closing);
    list_init(&l->answered);
    list_init(&l->resumed);
    list_init(&l->writing);
    list_init(&l->handshakes);
    list_init(&l->lingering[false]);
    list_init(&l->lingering[true]);
    l->area = heap_alloc(JOIN_BYTES + READ_BYTES);
    uv_idle_init(loop, &l->again);
    uv_timer_init(loop, &l->stalls);
    greeting_init(l);
    l->again.data = l->stalls.data = l;
    l->handles = OWN_HANDLES;
    return l;
}

void listen_secure(struct listen *l, struct tls_context *tls)
{
    PRE(l->tls == NULL);
    l->tls = tls;
    l->opened = heap_alloc(JOIN_BYTES + READ_BYTES + TLS_HELD_MAX);
}

/* ---- accept ---- */

void listen_stream_open(struct listen *l, union stream *s, bool is_unix, void *data)
{
    if (is_unix)
        uv_pipe_init(l->loop, &s->pipe, 0);
    else
        uv_tcp_init(l->loop, &s->tcp);
    s->handle.data = data;
    l->handles++;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *ls = handle->data;
    listen_handle_closed(ls->listen);
}

/* Without descriptors libuv uses a spare one to accept and close what waits, so this does not spin. */
static void accept_failed(struct listen *l, int status)
{
    uint64_t now_ms = uv_now(l->loop);
    STAT_ADD(connections_refused, 1);
    if (l->accept_logged_ms != 0 && now_ms - l->accept_logged_ms < 1000) return;
    l->accept_logged_ms = now_ms;
    log_event(LOG_ERROR, "accept_failed",
              "why=%s clients=%u next=\"raise the limit of open files (ulimit -n)\"",
              LOGQ(uv_strerror(status)), l->clients);
}

static void listener_take(struct listener *ls, int fd)
{
    ls->listen->accepted++;
    linger_make_room(ls->listen);
    if (ls->listen->clients >= ls->listen->limits.clients_max)
        conn_refuse(ls, fd);
    else
        conn_accept(ls, fd);
}

static void held_take(struct listener *ls)
{
    if (!ls->held) return;
    ls->held = false;
    ls->listen->held--;
    listener_take(ls, -1);
}

/* libuv accepts as long as clients wait, so a flood would keep it there. It stops while a client is not taken from
 * it. */
static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *ls = stream->data;
    struct listen *l = ls->listen;
    if (status != 0) {
        accept_failed(l, status);
    } else if (l->accepted < ACCEPTS_A_TURN) {
        listener_take(ls, -1);
    } else {
        ls->held = true;
        l->held++;
    }
}

static struct listener *listener_new(struct listen *l, bool is_unix, const struct listen_handler *handler)
{
    struct listener *ls = heap_zalloc(sizeof(*ls));
    ls->listen = l;
    ls->handler = *handler;
    ls->is_unix = is_unix;
    listen_stream_open(l, &ls->s, is_unix, ls);
    l->listeners = heap_realloc(l->listeners, (l->listeners_n + 1) * sizeof(struct listener *));
    l->listeners[l->listeners_n++] = ls;
    return ls;
}

/* A unix socket's file is not libuv's, which did not bind it. */
static void listener_close(struct listener *ls)
{
    if (ls->bound && ls->is_unix) unlink(ls->url + strlen("unix://"));
    ls->bound = false;
    uv_close(&ls->s.handle, on_listener_closed);
}

static void url_write(struct listener *ls, const struct address *a, int fd)
{
    struct sockaddr_in sin; /* the port has the same place in that of IPv6 */
    socklen_t n = sizeof sin;
    snprintf(ls->url, sizeof ls->url, "%.*s", (int)strcspn(a->text, "?"), a->text);
    if (ls->is_unix || a->port != 0 || getsockname(fd, (struct sockaddr *)&sin, &n) != 0) return;
    snprintf(strrchr(ls->url, ':'), 7, ":%u", (unsigned)ntohs(sin.sin_port));
}

/* A listener that failed stays in the set, closed, so that its memory has one place to go. */
enum err listen_add(struct listen *l, const struct address *a, const struct listen_handler *handler,
                    struct error *e)
{
    PRE(handler->full != NULL);
    PRE(!a->tls || l->tls != NULL);
    int fd = address_listen(a, (int)l->limits.backlog, e);
    if (fd < 0) return ERR_CONFIG;
    struct listener *ls = listener_new(l, a->path != NULL, handler);
    ls->is_tls = a->tls;
    ls->proxies = a->proxies;
    ls->shared = a->shared;
    ls->bound = true;
    url_write(ls, a, fd);
    int rc = ls->is_unix ? uv_pipe_open(&ls->s.pipe, fd) : uv_tcp_open(&ls->s.tcp, fd);
    if (rc != 0) close(fd);
    if (rc == 0) rc = uv_listen(&ls->s.stream, (int)l->limits.backlog, on_connection);
    if (rc == 0) return ERR_NONE;
    listener_close(ls);
    return error_set(e, ERR_CONFIG, "%s: listen: %s", ls->url, uv_strerror(rc));
}

const char *listen_url(const struct listen *l, size_t index)
{
    PRE(index < l->listeners_n);
    return l->listeners[index]->url;
}

bool listen_adopt(struct listen *l, int fd, const struct listen_handler *handler)
{
    if (l->stopping) return false;
    if (l->inside == NULL) { /* it listens nowhere */
        l->inside = listener_new(l, true, handler);
        snprintf(l->inside->url, sizeof l->inside->url, "unix://tallyd");
    }
    return conn_adopt(l->inside, fd) != NULL;
}

/* ---- once a turn ---- */

void listen_again(struct listen *l)
{
    if (!uv_is_active((uv_handle_t *)&l->again)) uv_idle_start(&l->again, listen_turn_again);
}

void listen_watch(struct listen *l)
{
    uint64_t every_ms = l->limits.stall_ms / 4 + 1;
    if (every_ms > 1000) every_ms = 1000;
    if (!uv_is_active((uv_handle_t *)&l->stalls)) uv_timer_start(&l->stalls, on_stalls, every_ms, every_ms);
}

void listen_turn(struct listen *l)
{
    struct list now;
    turn_begin(l);
    if (!l->stopping) l->accepted = 0;
    for (size_t i = 0; !l->stopping && i < l->listeners_n && l->held > 0; i++)
        held_take(l->listeners[i]);
    greeting_turn(l);
    list_init(&now);
    list_move_all(&now, &l->resumed); /* those resumed meanwhile come next time */
    for (struct list *at; (at = list_pop(&now)) != NULL;)
        conn_offer_kept(CONTAINER_OF(at, struct conn, resumed));
}

void listen_flush_all(struct listen *l)
{
    for (struct list *at; (at = list_pop(&l->answered)) != NULL;)
        conn_flush(CONTAINER_OF(at, struct conn, answered));
    if (list_empty(&l->resumed) && !l->ending) uv_idle_stop(&l->again);
}

/* ---- the end ---- */

/* The kernel resets clients that have not been accepted when their listener closes, so all that wait are taken first. One whose
 * handshake is under way is still reset, unless net.ipv4.tcp_migrate_req gives it to another listener of that port. A filter that keeps
 * SYNs out for a round trip was tried: each of them came again a second later, some a restart, where 13 of 400 restarts reset one. */
static void listener_leave(struct listener *ls, int fd)
{
    held_take(ls);
    uint32_t most = ls->listen->limits.backlog + 1; /* the queue has no more, however fast others come */
    for (int next; most > 0 && (next = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; most--)
        listener_take(ls, next);
    listener_close(ls);
}

bool listen_hand_over(struct listen *l)
{
    bool any = false;
    for (size_t i = 0; i < l->listeners_n; i++) {
        uv_os_fd_t fd;
        if (!l->listeners[i]->shared || uv_fileno(&l->listeners[i]->s.handle, &fd) != 0) continue;
        listener_leave(l->listeners[i], fd);
        any = true;
    }
    return any;
}

static void on_own_closed(uv_handle_t *handle)
{
    listen_handle_closed(handle->data);
}

/* First all sockets, then our own handles, then stopped(). */
static void stop_if_over(struct listen *l)
{
    if (!l->stopping || l->handles > (l->ending ? 0 : OWN_HANDLES)) return;
    if (l->ending) {
        l->stopped(l->stopped_arg);
        return;
    }
    l->ending = true;
    uv_close((uv_handle_t *)&l->again, on_own_closed);
    uv_close((uv_handle_t *)&l->stalls, on_own_closed);
    uv_close((uv_handle_t *)&l->greeting.pause, on_own_closed);
}

void listen_handle_closed(struct listen *l)
{
    l->handles--;
    stop_if_over(l);
}

void listen_stop(struct listen *l, void (*cb)(void *arg), void *arg)
{
    PRE(!l->stopping);
    l->stopped = cb;
    l->stopped_arg = arg;
    l->stopping = true;
    for (size_t i = 0; i < l->listeners_n; i++)
        if (!uv_is_closing(&l->listeners[i]->s.handle)) listener_close(l->listeners[i]);
    linger_check(l, UINT64_MAX);
    list_for_each (at, &l->open)
        conn_finish(CONTAINER_OF(at, struct conn, place));
    stop_if_over(l);
}

void listen_drop_all(struct listen *l)
{
    while (!list_empty(&l->open))
        conn_drop(CONTAINER_OF(l->open.next, struct conn, place));
}

void listen_destroy(struct listen **l)
{
    PRE((*l)->ending && (*l)->handles == 0);
    while (!list_empty(&(*l)->closing))
        conn_free(CONTAINER_OF((*l)->closing.next, struct conn, place));
    for (size_t i = 0; i < (*l)->listeners_n; i++)
        heap_free((*l)->listeners[i]);
    heap_free((*l)->listeners);
    heap_free((*l)->area);
    heap_free((*l)->opened);
    heap_free(*l);
    *l = NULL;
}
