/* tls/relay.c - see relay.h. "Far" is the side with TLS, "near" the plain one. When one side ends, the relay ends the
 * other once all bytes are passed on. A connection is over when near has ended and all of it was written, or when
 * either side breaks. */
#include "tls/relay.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "tls/refused.h"
#include "tls/session.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#define AREA_BYTES (64 * 1024)
#define STALL_MS 30000
#define LAST_WORDS_MS 1000
#define TICK_MS 500

struct relay {
    struct relay_door door;
    _Atomic bool quiet, ending; /* wanted, by other threads; all below is the relay's own thread's */
    pthread_t thread;
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t news; /* quiet or ending was set */
    uv_timer_t tick;
    uv_sem_t quiet_now;
    struct list open; /* struct passage */
    unsigned n;
    bool waiting; /* libuv holds one connection too many */
    bool listens, closed;
    uint64_t end_by_ms; /* 0: not known yet that it ends */
    char area[AREA_BYTES], text[AREA_BYTES + TLS_HELD_MAX];
};

struct side {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } s;
    uv_write_t write;
    struct buf writing; /* libuv's while busy */
    bool open, reading, busy, ended;
};

struct passage {
    struct relay *r;
    struct list place;
    struct tls_session *tls;
    struct side far, near;
    struct buf text; /* for near, not yet given to libuv */
    uv_shutdown_t shutdown;
    bool shut; /* near was told that far ended */
    unsigned handles;
    uint64_t until_ms; /* for the handshake, or for a write to progress */
    size_t queued;
};

static void passage_go(struct passage *p);

/* --- its end --- */

/* This decision uses the thread's own state, not the flags of others: if `news` were closed while the listener is open,
 * the loop would never end. */
static void relay_maybe_over(struct relay *r)
{
    if (r->n > 0 || r->closed || r->end_by_ms == 0) return;
    INVARIANT(!r->listens);
    r->closed = true;
    uv_close((uv_handle_t *)&r->news, NULL);
    uv_close((uv_handle_t *)&r->tick, NULL);
}

static void next_accept(struct relay *r);

static void on_side_closed(uv_handle_t *handle)
{
    struct passage *p = handle->data;
    struct relay *r = p->r;
    if (--p->handles > 0) return;
    tls_session_destroy(&p->tls);
    buf_free(&p->far.writing);
    buf_free(&p->near.writing);
    buf_free(&p->text);
    heap_free(p);
    r->n--;
    if (r->waiting && !r->quiet) next_accept(r);
    relay_maybe_over(r);
}

static void passage_close(struct passage *p)
{
    list_remove(&p->place);
    if (p->far.open) uv_close(&p->far.s.handle, on_side_closed);
    if (p->near.open) uv_close(&p->near.s.handle, on_side_closed);
    p->far.open = p->near.open = false;
}

static bool is_over(const struct passage *p)
{
    return !p->far.open;
}

/* --- out --- */

static void on_far_written(uv_write_t *req, int status);
static void on_near_written(uv_write_t *req, int status);

static void side_write(struct passage *p, struct side *to, struct buf *from, uv_write_cb done)
{
    if (to->busy || from->n == 0) return;
    struct buf spare = to->writing;
    to->writing = *from;
    *from = spare;
    buf_reset(from);
    uv_buf_t all = uv_buf_init(to->writing.p, (unsigned)to->writing.n);
    to->write.data = p;
    to->busy = uv_write(&to->write, &to->s.stream, &all, 1, done) == 0;
    p->queued = SIZE_MAX; /* unlike any queue: it progressed */
    if (!to->busy) passage_close(p);
}

static void side_written(struct passage *p, struct side *to, int status)
{
    to->busy = false;
    buf_reset(&to->writing);
    if (is_over(p)) return;
    if (status < 0)
        passage_close(p);
    else
        passage_go(p);
}

static void on_far_written(uv_write_t *req, int status)
{
    struct passage *p = req->data;
    side_written(p, &p->far, status);
}

static void on_near_written(uv_write_t *req, int status)
{
    struct passage *p = req->data;
    side_written(p, &p->near, status);
}

static void on_shut(uv_shutdown_t *req, int status)
{
    (void)req, (void)status;
}

/* --- in --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *into)
{
    struct passage *p = handle->data;
    (void)suggested;
    *into = uv_buf_init(p->r->area, AREA_BYTES);
}

static void peer_show(const struct passage *p, char *out, size_t size)
{
    struct sockaddr_storage peer;
    int n = sizeof peer;
    char host[64], port[8];
    snprintf(out, size, "?");
    if (uv_tcp_getpeername(&p->far.s.tcp, (struct sockaddr *)&peer, &n) == 0 &&
        getnameinfo((struct sockaddr *)&peer, (socklen_t)n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, size, peer.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static void refused(const struct passage *p, const char *why)
{
    char peer[80];
    if (p->near.open) return; /* its handshake was through */
    peer_show(p, peer, sizeof peer);
    tls_refused(p->r->door.url, peer, why);
}

static bool near_make(struct passage *p)
{
    struct sockaddr_storage peer;
    int n = sizeof peer, ends[2];
    if (p->r->quiet) return false;
    if (uv_tcp_getpeername(&p->far.s.tcp, (struct sockaddr *)&peer, &n) != 0) return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    uv_pipe_init(&p->r->loop, &p->near.s.pipe, 0);
    p->near.s.handle.data = p;
    p->near.open = true;
    p->handles++;
    if (uv_pipe_open(&p->near.s.pipe, ends[0]) != 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    p->r->door.given(p->r->door.arg, ends[1], (struct sockaddr *)&peer, (socklen_t)n);
    return true;
}

static void far_failed(struct passage *p)
{
    struct buf *out = tls_session_out(p->tls);
    uv_buf_t alert = uv_buf_init(out->p, (unsigned)out->n);
    refused(p, tls_session_why(p->tls));
    if (out->n > 0 && !p->far.busy) uv_try_write(&p->far.s.stream, &alert, 1);
    passage_close(p);
}

static void far_taken(struct passage *p, const char *bytes, size_t n)
{
    size_t got = tls_session_take(p->tls, bytes, n, p->r->text);
    enum tls_state state = tls_session_state(p->tls);
    buf_put(&p->text, p->r->text, got);
    p->far.ended |= state == TLS_ENDED;
    if (state == TLS_FAILED)
        far_failed(p);
    else if (state != TLS_GREETING && !p->near.open && !near_make(p))
        passage_close(p);
    else
        passage_go(p);
}

static void on_far_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *into)
{
    struct passage *p = stream->data;
    if (n > 0) {
        far_taken(p, into->base, (size_t)n);
    } else if (n == UV_EOF && p->near.open) {
        p->far.ended = true;
        passage_go(p);
    } else if (n < 0) {
        passage_close(p);
    }
}

static void on_near_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *into)
{
    struct passage *p = stream->data;
    if (n == 0) return;
    if (n > 0) {
        tls_session_put(p->tls, slice_of(into->base, (size_t)n));
    } else {
        p->near.ended = true;
        tls_session_end(p->tls);
    }
    passage_go(p);
}

/* --- the next step --- */

static void side_read(struct passage *p, struct side *of, bool want, uv_read_cb on_read)
{
    if (!of->open || want == of->reading) return;
    of->reading = want;
    if (!want)
        uv_read_stop(&of->s.stream);
    else if (uv_read_start(&of->s.stream, on_alloc, on_read) != 0)
        passage_close(p);
}

static void passage_go(struct passage *p)
{
    side_write(p, &p->far, tls_session_out(p->tls), on_far_written);
    if (!is_over(p) && p->near.open) side_write(p, &p->near, &p->text, on_near_written);
    if (is_over(p)) return;
    if (p->near.ended && !p->far.busy) {
        passage_close(p);
        return;
    }
    if (p->far.ended && p->near.open && !p->near.busy && !p->shut) {
        p->shut = true;
        uv_shutdown(&p->shutdown, &p->near.s.stream, on_shut);
    }
    side_read(p, &p->far, !p->far.ended && !p->near.busy, on_far_read);
    side_read(p, &p->near, !p->near.ended && !p->far.busy, on_near_read);
}

/* --- its beginning --- */

static void next_accept(struct relay *r)
{
    r->waiting = r->n >= r->door.most;
    if (r->waiting) return;
    struct passage *p = heap_zalloc(sizeof *p);
    p->r = r;
    p->tls = tls_session_create(r->door.c, NULL);
    p->until_ms = mono_ms() + r->door.greeting_ms;
    uv_tcp_init(&r->loop, &p->far.s.tcp);
    p->far.s.handle.data = p;
    p->far.open = true;
    p->handles = 1;
    list_push(&r->open, &p->place);
    r->n++;
    if (uv_accept((uv_stream_t *)&r->listener, &p->far.s.stream) != 0) {
        passage_close(p);
        return;
    }
    uv_tcp_nodelay(&p->far.s.tcp, 1);
    passage_go(p);
}

static void on_connection(uv_stream_t *stream, int status)
{
    if (status == 0) next_accept(stream->data);
}

/* Closes a handshake that takes too long, a write without progress. */
static void passage_look(struct passage *p, uint64_t now_ms)
{
    size_t queued = uv_stream_get_write_queue_size(&p->far.s.stream);
    if (p->near.open && (queued == 0 || queued != p->queued)) p->until_ms = now_ms + STALL_MS;
    p->queued = queued;
    if (now_ms < p->until_ms) return;
    refused(p, "the handshake took too long");
    passage_close(p);
}

static void on_tick(uv_timer_t *tick)
{
    struct relay *r = tick->data;
    uint64_t now_ms = mono_ms();
    for (struct list *at = r->open.next, *next; at != &r->open; at = next) {
        struct passage *p = CONTAINER_OF(at, struct passage, place);
        next = at->next;
        if (r->end_by_ms != 0 && now_ms >= r->end_by_ms)
            passage_close(p);
        else
            passage_look(p, now_ms);
    }
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct relay *r = handle->data;
    uv_sem_post(&r->quiet_now);
}

static void on_news(uv_async_t *news)
{
    struct relay *r = news->data;
    bool ending = r->ending; /* before quiet, which is set first */
    if (r->quiet && r->listens) {
        r->listens = false;
        uv_close((uv_handle_t *)&r->listener, on_listener_closed);
    }
    if (!ending) return;
    if (r->end_by_ms == 0) r->end_by_ms = mono_ms() + LAST_WORDS_MS;
    relay_maybe_over(r);
}

static struct relay *relay_create(void)
{
    struct relay *r = heap_zalloc(sizeof *r);
    list_init(&r->open);
    if (uv_loop_init(&r->loop) != 0) {
        heap_free(r);
        return NULL;
    }
    uv_async_init(&r->loop, &r->news, on_news);
    uv_timer_init(&r->loop, &r->tick);
    r->news.data = r->tick.data = r;
    uv_timer_start(&r->tick, on_tick, TICK_MS, TICK_MS);
    uv_sem_init(&r->quiet_now, 0);
    return r;
}

/* All that is open is closed, and the loop with it. */
static void relay_free(struct relay *r)
{
    if (r->listens) uv_close((uv_handle_t *)&r->listener, NULL);
    r->listens = false;
    r->end_by_ms = 1;
    relay_maybe_over(r);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&r->loop);
    INVARIANT(left == 0);
    uv_sem_destroy(&r->quiet_now);
    heap_free(r);
}

static void *relay_main(void *arg)
{
    uv_run(&((struct relay *)arg)->loop, UV_RUN_DEFAULT);
    return NULL;
}

struct relay *relay_start(const struct relay_door *door)
{
    struct relay *r = relay_create();
    if (r == NULL) {
        close(door->fd);
        return NULL;
    }
    r->door = *door;
    uv_tcp_init(&r->loop, &r->listener);
    r->listener.data = r;
    r->listens = true;
    int rc = uv_tcp_open(&r->listener, door->fd);
    if (rc != 0) close(door->fd);
    if (rc == 0) rc = uv_listen((uv_stream_t *)&r->listener, 511, on_connection);
    if (rc == 0) rc = pthread_create(&r->thread, NULL, relay_main, r);
    if (rc == 0) return r;
    relay_free(r);
    return NULL;
}

void relay_quiet(struct relay *r)
{
    r->quiet = true;
    uv_async_send(&r->news);
    uv_sem_wait(&r->quiet_now);
}

void relay_destroy(struct relay **r)
{
    (*r)->quiet = true;
    (*r)->ending = true;
    uv_async_send(&(*r)->news);
    pthread_join((*r)->thread, NULL);
    relay_free(*r);
    *r = NULL;
}
