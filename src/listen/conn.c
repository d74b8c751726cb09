/* listen/conn.c - one connection.
 * In: libuv reads into an area that all connections share, the session takes bytes from there, and the connection keeps
 * only what the session leaves. It does not read while the session is paused, while it has kept bytes to look at, or
 * while the client leaves too many answers unread.
 * Out: uv_try_write of the outlet. What the socket does not take becomes a chunk, which libuv writes when there is room, a
 * part a turn; answers made meanwhile become further chunks, up to unread_most().
 * End: linger.c after the last answer, then conn_drop closes the handle. on_closed, conn_release or conn_answered frees,
 * whichever comes last. */
#include "listen/inside.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHUNK_LEAST (OUTLET_FULL / 2) /* fewer bytes are not made a chunk while there is one */
#define PART_MOST OUTLET_FULL /* libuv writes up to 9 a turn: longer ones would delay the answers of others */

struct outlet *conn_outlet(struct conn *c)
{
    return &c->outlet;
}
struct conn *conn_of(struct outlet *o)
{
    return CONTAINER_OF(o, struct conn, outlet);
}
void *conn_session(struct conn *c)
{
    return c->session;
}

/* Nothing else shows it while the connection is not read. */
bool conn_left(const struct conn *c)
{
    struct pollfd p = {.events = POLLRDHUP};
    if (c->outlet.gone || uv_fileno((const uv_handle_t *)&c->s.stream, &p.fd) != 0) return true;
    return poll(&p, 1, 0) > 0;
}

static bool is_closing(const struct conn *c)
{
    return c->outlet.gone;
}
static bool may_read(const struct conn *c)
{
    return !c->paused && !c->put_off && !c->slow && !c->finishing && !is_closing(c);
}

size_t conn_unread(const struct conn *c)
{
    return c->outlet.out.n + c->behind + uv_stream_get_write_queue_size(&c->s.stream);
}

static int client_address(const uv_tcp_t *tcp, struct sockaddr *out, int *n)
{
    const struct conn *c = tcp->data;
    if (c->client.sa.sa_family == 0) return uv_tcp_getpeername(tcp, out, n);
    *n = sizeof c->client;
    memcpy(out, &c->client, sizeof c->client);
    return 0;
}

static void address_text(const struct conn *c, int (*of)(const uv_tcp_t *, struct sockaddr *, int *),
                         char *out, size_t size)
{
    struct sockaddr_storage ss;
    int n = sizeof(ss);
    char host[64], port[6];
    snprintf(out, size, "?:0");
    if (c->from->is_unix)
        snprintf(out, size, "%s:0", c->from->url + strlen("unix://"));
    else if (of(&c->s.tcp, (struct sockaddr *)&ss, &n) == 0 &&
             getnameinfo((struct sockaddr *)&ss, (socklen_t)n, host, sizeof(host), port, sizeof(port),
                         NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, size, ss.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

void conn_peer(const struct conn *c, char *out, size_t size)
{
    address_text(c, client_address, out, size);
}

void conn_info(const struct conn *c, struct conn_info *info)
{
    uv_os_fd_t fd;
    conn_peer(c, info->peer, sizeof(info->peer));
    address_text(c, uv_tcp_getsockname, info->local, sizeof(info->local));
    info->fd = uv_fileno(&c->s.handle, &fd) == 0 ? fd : -1;
    info->is_unix = c->from->is_unix;
    info->reads = c->reading;
    info->kept_bytes = c->kept.n;
    info->unsent_bytes = c->behind + uv_stream_get_write_queue_size(&c->s.stream);
    info->memory =
        sizeof(*c) + c->from->handler.session_size + c->outlet.out.cap + c->kept.cap + info->unsent_bytes;
}

/* ---- the end ---- */

void conn_free(struct conn *c)
{
    list_remove(&c->place);
    buf_free(&c->outlet.out);
    buf_free(&c->kept);
    heap_free(c);
}

static void free_if_over(struct conn *c)
{
    if (c->closed && c->holds == 0 && c->outlet.waiting == 0 && !list_linked(&c->outlet.touched))
        conn_free(c);
}

static struct unsent *oldest(const struct conn *c)
{
    return CONTAINER_OF(c->unsent.next, struct unsent, place);
}

static void chunk_end(struct unsent *chunk)
{
    struct conn *c = chunk->conn;
    c->behind -= chunk->bytes.n - chunk->at;
    list_remove(&chunk->place);
    if (list_empty(&c->unsent)) list_remove(&c->in_writing);
    buf_free(&chunk->bytes);
    heap_free(chunk);
}

static void conn_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    struct listen *l = c->listen;
    c->closed = true;
    while (!list_empty(&c->unsent))
        chunk_end(oldest(c));
    buf_free(&c->outlet.out); /* no frame writes to a client that is gone */
    buf_free(&c->kept);
    secure_close(c);
    free_if_over(c);
    listen_handle_closed(l);
}

/* Also keeps the sum of all connections'. */
static void unread_set(struct conn *c, size_t unread)
{
    if (unread == c->unread) return;
    c->listen->unread += unread - c->unread;
    c->unread = unread;
    STAT_SET(unread_bytes, c->listen->unread);
}

void conn_promise(struct conn *c, size_t bytes)
{
    c->promised = bytes;
    unread_set(c, conn_unread(c) + bytes);
}

void conn_drop(struct conn *c)
{
    if (is_closing(c)) return;
    c->outlet.gone = true;
    unread_set(c, 0);
    list_remove(&c->answered);
    list_remove(&c->resumed);
    list_remove(&c->in_writing);
    list_remove(&c->in_lingering);
    if (c->secure != NULL) secure_gone(c);
    list_remove(&c->place);
    list_push(&c->listen->closing, &c->place);
    if (c->refused) {
        c->listen->refused_n--;
    } else {
        c->listen->clients--;
        STAT_ADD(connections_open, -1);
        c->from->handler.close(c->session);
    }
    uv_close(&c->s.handle, conn_closed);
}

/* ---- bytes in ---- */

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *into);
static void on_read_secure(uv_stream_t *stream, ssize_t n, const uv_buf_t *into);

/* One read a turn; otherwise libuv would go on reading a busy client while all others wait. Clients that had more to
 * read in the last turn share TURN_BYTES. When it gets no room, libuv reads nothing and reports UV_ENOBUFS. */
void conn_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *into)
{
    (void)suggested;
    struct conn *c = handle->data;
    struct listen *l = c->listen;
    bool had_its_read = c->read_turn == l->turn;
    l->busy += had_its_read; /* libuv asks again, since it filled what it was given */
    c->read_turn = l->turn;
    *into = uv_buf_init(l->area + JOIN_BYTES, had_its_read ? 0 : l->read_bytes);
}

static void on_alloc_secure(uv_handle_t *handle, size_t suggested, uv_buf_t *into)
{
    const struct conn *c = handle->data;
    if (greeting_may_read(c->secure))
        conn_alloc(handle, suggested, into);
    else
        *into = uv_buf_init(NULL, 0);
}

static void reading_update(struct conn *c)
{
    bool want = may_read(c) && !c->yielded && !c->ended;
    bool tls = c->secure != NULL;
    if (want == c->reading) return;
    c->reading = want;
    if (!want)
        uv_read_stop(&c->s.stream);
    else if (uv_read_start(&c->s.stream, tls ? on_alloc_secure : conn_alloc,
                           tls ? on_read_secure : on_read) != 0)
        conn_drop(c);
}

void conn_put_off(struct conn *c, bool put_off)
{
    c->put_off = put_off;
    reading_update(c);
}

/* What was kept and what came now, in one piece. */
static struct slice joined(struct conn *c, char *fresh, size_t n)
{
    if (c->kept.n == 0) return slice_of(fresh, n);
    if (c->kept.n <= JOIN_BYTES) {
        memcpy(fresh - c->kept.n, c->kept.p, c->kept.n);
        return slice_of(fresh - c->kept.n, c->kept.n + n);
    }
    buf_put(&c->kept, fresh, n);
    return buf_slice(&c->kept);
}

static void keep(struct conn *c, struct slice in, size_t used)
{
    if (used == in.n || c->finishing) {
        buf_free(&c->kept);
    } else if (in.p == c->kept.p) {
        buf_drop(&c->kept, used);
    } else {
        buf_reset(&c->kept);
        buf_put(&c->kept, in.p + used, in.n - used);
    }
}

static void answered_push(struct conn *c)
{
    if (list_linked(&c->answered)) return;
    list_push(&c->listen->answered, &c->answered);
    listen_again(c->listen);
}

static void offer(struct conn *c, struct slice in)
{
    c->offering = true;
    size_t used = c->from->handler.bytes(c->session, in);
    c->offering = false;
    INVARIANT(used <= in.n);
    if (is_closing(c)) return;
    list_remove(&c->resumed);
    keep(c, in, used);
    c->yielded = c->outlet.out.n >= OUTLET_FULL;
    if (c->outlet.out.n > 0 || c->finishing) answered_push(c);
    if (c->ended && may_read(c) && !c->yielded)
        conn_finish(c); /* what is left has no end */
    else
        reading_update(c);
}

void conn_offer_kept(struct conn *c)
{
    if (may_read(c) && c->kept.n > 0 && !c->unproxied) offer(c, buf_slice(&c->kept));
}

void conn_take(struct conn *c, char *text, size_t n)
{
    c->progress_ms = uv_now(c->listen->loop);
    offer(c, joined(c, text, n));
}

/* End of file may be half a close (`printf 'PING\r\n' | nc -N`), so requests are still taken and answers still sent. If
 * the client is gone, the write fails. */
void conn_take_end(struct conn *c)
{
    c->ended = true;
    if (c->yielded || list_linked(&c->resumed))
        reading_update(c);
    else
        conn_finish(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *into)
{
    struct conn *c = stream->data;
    char *text = into->base;
    size_t bytes = n > 0 ? (size_t)n : 0;
    STAT_ADD(net_input_bytes, bytes);
    if (n == UV_EOF)
        conn_take_end(c);
    else if (n < 0 && n != UV_ENOBUFS)
        conn_drop(c);
    else if (bytes > 0 && (!c->unproxied || proxied_take(c, &text, &bytes)))
        conn_take(c, text, bytes);
}

static void on_read_secure(uv_stream_t *stream, ssize_t n, const uv_buf_t *into)
{
    struct conn *c = stream->data;
    if (n == UV_ENOBUFS) {
        if (!greeting_may_read(c->secure)) greeting_put_off(c->secure);
        return;
    }
    greeting_heard(c->secure);
    if (n < 0) secure_left(c);
    if (n <= 0) {
        on_read(stream, n, into);
        return;
    }
    char *text = into->base;
    size_t bytes = (size_t)n;
    STAT_ADD(net_input_bytes, n);
    if (!c->unproxied || proxied_take(c, &text, &bytes)) secure_bytes(c, text, bytes);
}

void conn_pause(struct conn *c)
{
    c->paused = true;
    if (!is_closing(c)) reading_update(c);
}

/* Does not offer kept bytes from here: the caller may be a session that is running. */
static void offer_later(struct conn *c)
{
    if (c->ended && c->kept.n == 0) {
        conn_finish(c);
        return;
    }
    if (may_read(c) && c->kept.n > 0 && !list_linked(&c->resumed)) {
        list_push(&c->listen->resumed, &c->resumed);
        listen_again(c->listen);
    }
    reading_update(c);
}

void conn_resume(struct conn *c)
{
    c->paused = false;
    if (!is_closing(c)) offer_later(c);
}

void conn_offer(struct conn *c)
{
    list_remove(&c->resumed);
    conn_offer_kept(c);
}

void conn_finish(struct conn *c)
{
    if (is_closing(c)) return;
    c->finishing = true;
    if (!c->offering) buf_free(&c->kept);
    list_remove(&c->resumed);
    reading_update(c);
    answered_push(c);
}

/* ---- bytes out ---- */

/* c is not read from with more unread bytes of answers than this: its own limit, and at most what is left of the limit
 * of all. So one client that reads nothing may fill half of that, ten an eleventh each, and others find room. */
static size_t unread_most(const struct conn *c)
{
    const struct listen *l = c->listen;
    size_t left = l->limits.unread_all > l->unread ? l->limits.unread_all - l->unread : 0;
    size_t most = c->outlet.stranger ? OUTLET_FULL : l->limits.unread;
    return left < most ? left : most;
}

static void pace(struct conn *c)
{
    bool was_full = c->slow || c->yielded;
    size_t most = unread_most(c);
    c->slow = c->unread > 0 && (c->slow ? c->unread > most / 2 : c->unread >= most);
    if (!c->slow) c->yielded = false;
    if (was_full && !c->slow)
        offer_later(c);
    else
        reading_update(c);
}

static void on_written(uv_write_t *req, int status);

/* The next part of what is unsent goes to libuv. 0, or libuv's error. */
static int part_write(struct conn *c)
{
    struct unsent *chunk = oldest(c);
    size_t left = chunk->bytes.n - chunk->at;
    uv_buf_t part = uv_buf_init(chunk->bytes.p + chunk->at, (unsigned)(left < PART_MOST ? left : PART_MOST));
    chunk->at += part.len;
    c->behind -= part.len;
    return uv_write(&chunk->write, &c->s.stream, &part, 1, on_written);
}

static void on_written(uv_write_t *req, int status)
{
    struct unsent *chunk = CONTAINER_OF(req, struct unsent, write);
    struct conn *c = chunk->conn;
    if (status == 0 && chunk->at == chunk->bytes.n) {
        c->told = chunk->counted;
        STAT_ADD(net_output_bytes, chunk->bytes.n - chunk->from);
        chunk_end(chunk);
    }
    if (status == 0 && !is_closing(c) && !list_empty(&c->unsent)) status = part_write(c);
    if (is_closing(c)) return; /* on_closed follows and frees */
    if (status != 0)
        conn_drop(c);
    else
        conn_flush(c);
}

/* Puts out, from its byte `from` on, behind what is unsent. 0, or libuv's error. */
static int write_chunk(struct conn *c, struct buf *out, size_t from)
{
    struct unsent *chunk = heap_zalloc(sizeof(*chunk));
    bool first = list_empty(&c->unsent);
    *chunk =
        (struct unsent){.conn = c, .bytes = *out, .from = from, .at = from, .counted = c->outlet.counted};
    *out = (struct buf){0};
    buf_trim(&chunk->bytes);
    list_push(&c->unsent, &chunk->place);
    c->behind += chunk->bytes.n - from;
    c->handed += chunk->bytes.n - from;
    if (!first) return 0;
    c->progress_ms = uv_now(c->listen->loop);
    list_push(&c->listen->writing, &c->in_writing);
    listen_watch(c->listen);
    return part_write(c);
}

/* 0, or what libuv said. */
static int write_now(struct conn *c, struct buf *out)
{
    size_t most = out->n < PART_MOST ? out->n : PART_MOST;
    uv_buf_t all = uv_buf_init(out->p, (unsigned)most);
    int n = uv_try_write(&c->s.stream, &all, 1);
    if (n < 0 && n != UV_EAGAIN) return n;
    size_t done = n > 0 ? (size_t)n : 0;
    STAT_ADD(net_output_bytes, done);
    if (done < out->n) return write_chunk(c, out, done);
    c->told = c->outlet.counted;
    out_empty(out);
    return 0;
}

static int write_out(struct conn *c)
{
    bool waits = !list_empty(&c->unsent);
    if (waits && c->outlet.out.n < CHUNK_LEAST) return 0;
    struct buf *out = c->secure == NULL ? &c->outlet.out : secure_out(c);
    if (out->n == 0) return 0;
    return waits ? write_chunk(c, out, 0) : write_now(c, out);
}

void conn_flush(struct conn *c)
{
    if (is_closing(c)) return;
    list_remove(&c->answered);
    if (conn_lingers(c)) return; /* its side of the connection is ended */
    if (write_out(c) != 0) {
        conn_drop(c);
        return;
    }
    unread_set(c, conn_unread(c) + c->promised);
    pace(c);
    bool said = c->holds == 0 && c->outlet.waiting == 0 && conn_unread(c) == 0;
    if (!c->finishing || !said) return;
    if (c->secure != NULL) secure_end(c);
    linger_begin(c);
}

/* Bytes that the client's kernel has not acknowledged: they are lost with the connection. Bytes of a unix socket are
 * with the client already. */
static size_t kernel_has(const struct conn *c)
{
    uv_os_fd_t fd;
    int n = 0;
    if (c->from->is_unix || uv_fileno(&c->s.handle, &fd) != 0 || ioctl(fd, SIOCOUTQ, &n) != 0 || n < 0)
        return 0;
    return (size_t)n;
}

static void stalled(struct conn *c)
{
    char peer[80];
    /* Hits that were counted and whose answers the client cannot have read. Answers in the kernel are assumed to be as long
     * as those after them. */
    uint64_t untold = c->outlet.counted - c->told, bytes = conn_unread(c);
    if (bytes > 0) untold += untold * kernel_has(c) / bytes;
    conn_peer(c, peer, sizeof(peer));
    log_event(LOG_WARN, "client_closed",
              "why=\"read nothing\" peer=%s stalled_ms=%u unread_bytes=%zu counted_untold=%llu "
              "next=\"counted_untold hits were counted, but their answers were not sent; a client must read "
              "while it writes\"",
              peer, c->listen->limits.stall_ms, conn_unread(c), (unsigned long long)untold);
    STAT_ADD(connections_stalled, 1);
    conn_drop(c);
}

void conn_stall_check(struct conn *c, uint64_t now_ms)
{
    uint64_t taken = c->handed - c->behind - uv_stream_get_write_queue_size(&c->s.stream);
    if (taken != c->taken) {
        c->taken = taken;
        c->progress_ms = now_ms;
    } else if (now_ms - c->progress_ms >= c->listen->limits.stall_ms) {
        stalled(c);
        return;
    }
    unread_set(c, conn_unread(c) + c->promised);
    pace(c); /* others may have left room */
}

void conn_answered(struct conn *c)
{
    if (is_closing(c))
        free_if_over(c);
    else
        answered_push(c);
}

void conn_hold(struct conn *c)
{
    c->holds++;
}

void conn_release(struct conn *c)
{
    PRE(c->holds > 0);
    c->holds--;
    conn_answered(c);
}

/* ---- the beginning ---- */

static struct conn *conn_new(struct listener *ls)
{
    struct conn *c = heap_zalloc(sizeof(*c) + ls->handler.session_size);
    c->listen = ls->listen;
    c->from = ls;
    list_init(&c->outlet.touched);
    list_init(&c->outlet.parked);
    list_init(&c->answered);
    list_init(&c->resumed);
    list_init(&c->in_writing);
    list_init(&c->unsent);
    list_init(&c->in_lingering);
    list_push(&ls->listen->open, &c->place);
    listen_stream_open(ls->listen, &c->s, ls->is_unix, c);
    return c;
}

/* The session may drop it at once. */
static void session_begin(struct conn *c)
{
    c->listen->clients++;
    STAT_ADD(connections_open, 1);
    c->from->handler.open(c->session, c, c->from->handler.arg);
}

static int socket_take(struct listener *ls, struct conn *c, int fd)
{
    if (fd < 0) return uv_accept(&ls->s.stream, &c->s.stream);
    int rc = uv_tcp_open(&c->s.tcp, fd);
    if (rc != 0) close(fd);
    return rc;
}

struct conn *conn_accept(struct listener *ls, int fd)
{
    struct conn *c = conn_new(ls);
    int rc = socket_take(ls, c, fd); /* before it may be dropped, and its socket with it */
    session_begin(c);
    if (rc != 0) conn_drop(c);
    if (is_closing(c)) return NULL;
    if (!ls->is_unix) {
        uint32_t s = c->listen->limits.keepalive_s;
        uv_tcp_nodelay(&c->s.tcp,
                       1); /* replies are written whole once a turn: nothing for Nagle to wait for */
        uv_tcp_keepalive(&c->s.tcp, s > 0, s);
    }
    if (ls->proxies.n > 0 && !proxied_begin(c)) {
        conn_drop(c);
        return NULL;
    }
    if (ls->is_tls) secure_open(c);
    STAT_ADD(connections_accepted, 1);
    reading_update(c);
    return c;
}

/* With TLS nothing can be said before the handshake. */
void conn_refuse(struct listener *ls, int fd)
{
    struct conn *c = conn_new(ls);
    c->refused = true;
    c->listen->refused_n++;
    int rc = socket_take(ls, c, fd);
    if (rc == 0) STAT_ADD(connections_refused, 1);
    if (rc != 0 || ls->is_tls) {
        conn_drop(c);
        return;
    }
    c->finishing = true;
    buf_put_slice(&c->outlet.out, slice_str(ls->handler.full));
    conn_flush(c);
}

struct conn *conn_adopt(struct listener *ls, int fd)
{
    struct conn *c = conn_new(ls);
    session_begin(c);
    if (is_closing(c)) return NULL;
    if (uv_pipe_open(&c->s.pipe, fd) != 0) {
        conn_drop(c);
        return NULL;
    }
    STAT_ADD(connections_accepted, 1);
    reading_update(c);
    return c;
}
