/* redis/wire.c - requests and answers of one connection, and TLS between them and the socket. */
#include "base/heap.h"
#include "redis/link_in.h"
#include <stdio.h>

/* --- requests and answers of one connection. Pending requests are in a ring in the order of sending; nothing is allocated once
 * ring, buffers and arena have grown. An unexpected answer, and bytes that are no RESP, end the connection, never the process. --- */

#define RING_FIRST 64

static struct redis_expect *ring_slot(struct redis_link *l, uint32_t i)
{
    return &l->ring[(l->ring_at + i) & (l->ring_cap - 1)];
}

static void ring_push(struct redis_link *l, const struct redis_expect *e)
{
    if (l->ring_n == l->ring_cap) {
        uint32_t cap = l->ring_cap == 0 ? RING_FIRST : 2 * l->ring_cap;
        struct redis_expect *bigger = heap_alloc(cap * sizeof *bigger);
        for (uint32_t i = 0; i < l->ring_n; i++)
            bigger[i] = *ring_slot(l, i);
        heap_free(l->ring);
        l->ring = bigger;
        l->ring_cap = cap;
        l->ring_at = 0;
    }
    *ring_slot(l, l->ring_n) = *e;
    l->ring_n++;
}

static struct redis_expect ring_pop(struct redis_link *l)
{
    struct redis_expect e = *ring_slot(l, 0);
    l->ring_at = (l->ring_at + 1) & (l->ring_cap - 1);
    l->ring_n--;
    return e;
}

void wire_expect(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    struct redis_expect e = {.cb = cb, .arg = arg, .replies = replies, .sent_ms = mono_ms()};
    ring_push(l, &e);
    if (l->ring_n > l->config.pending_max) link_doom_io(l, "too many requests are pending");
}

struct buf *redis_link_begin(struct redis_link *l)
{
    if (redis_link_is_up(l)) return &l->out;
    buf_reset(&l->dropped);
    return &l->dropped;
}

void redis_link_expect(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    PRE(replies > 0 && cb != NULL);
    if (redis_link_is_up(l)) {
        wire_expect(l, replies, cb, arg);
        return;
    }
    HEAP_GROW(l->refused, l->refused_n, l->refused_cap, RING_FIRST);
    l->refused[l->refused_n++] = (struct redis_expect){.cb = cb, .arg = arg, .replies = replies};
    link_soon(l);
}

void redis_link_expect_transaction(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    redis_link_expect(l, replies, cb, arg);
    if (redis_link_is_up(l)) ring_slot(l, l->ring_n - 1)->transaction = true;
}

/* Every request has its NULL before this returns; what the callbacks then ask is refused, not pending. */
void wire_answer_pending(struct redis_link *l)
{
    while (l->ring_n > 0) {
        struct redis_expect e = ring_pop(l);
        e.cb(l, e.arg, NULL, e.at);
    }
}

void wire_answer_refused(struct redis_link *l)
{
    uint32_t n = l->refused_n;
    for (uint32_t i = 0; i < n; i++) { /* the callbacks may add more, which moves the array */
        struct redis_expect e = l->refused[i];
        e.cb(l, e.arg, NULL, 0);
    }
    l->refused_n -= n;
    if (l->refused_n == 0) return;
    memmove(l->refused, l->refused + n, l->refused_n * sizeof *l->refused);
    link_soon(l);
}

uint64_t wire_silent_ms(const struct redis_link *l, uint64_t now_ms)
{
    if (l->ring_n == 0) return 0;
    uint64_t since_ms = l->ring[l->ring_at].sent_ms;
    if (since_ms < l->read_ms) since_ms = l->read_ms;
    return now_ms > since_ms ? now_ms - since_ms : 0;
}

_Static_assert(CRASH_COUNT <= 32, "crash_after is a set in 32 bits");

void redis_link_crash_after(struct redis_link *l, enum crash_point p)
{
    if (__builtin_expect(crash_armed, 0)) l->crash_after |= UINT32_C(1) << p;
}

/* --- TLS between the link and its socket. The RESP handshake waits in out until the TLS handshake is done, so the link needs no
 * further state. The reader bounds the bytes of a reply, tls/ those of TLS. --- */

/* What is to be written: all of out in it, once the handshake is through. */
static struct buf *link_tls_out(struct redis_link *l)
{
    if (tls_session_state(l->tls) != TLS_GREETING && l->out.n > 0) {
        tls_session_put(l->tls, buf_slice(&l->out));
        buf_reset(&l->out);
    }
    return tls_session_out(l->tls);
}

/* Decrypts what came: its text is in *p; returns how much of it. A session that is over dooms the link. */
static size_t link_tls_take(struct redis_link *l, const char **p, size_t n)
{
    size_t got = tls_session_take(l->tls, *p, n, l->opened);
    *p = l->opened;
    if (tls_session_state(l->tls) == TLS_FAILED) {
        /* A certificate that is refused now will be refused at the next try, so a starting tallyd reports it at once. */
        char what[TLS_WHY_BYTES + 8];
        snprintf(what, sizeof what, "TLS: %s", tls_session_why(l->tls));
        if (tls_session_refused(l->tls))
            error_set(&l->refusal, ERR_CONFIG, "no TLS with Redis at %s:%d: %s", l->target.host,
                      l->target.port, tls_session_why(l->tls));
        link_doom_io(l, what);
    }
    if (tls_session_state(l->tls) == TLS_ENDED) link_doom_io(l, uv_strerror(UV_EOF));
    return got;
}

const char *link_tls_end_why(const struct redis_link *l, const char *why)
{
    if (tls_session_state(l->tls) != TLS_GREETING) return why;
    return "it does not complete the TLS handshake: is this its port for TLS?";
}

static void wire_written(uv_write_t *req, int status)
{
    struct redis_link *l = req->data;
    l->write_busy = false;
    buf_reset(&l->writing);
    if (status == UV_ECANCELED) return; /* the connection is being closed */
    if (status < 0) {
        link_doom_io(l, uv_strerror(status));
        link_end(l);
        return;
    }
    wire_write(l);
}

/* The socket took `done` bytes of out; libuv has the rest until on_written. */
static void rest_write(struct redis_link *l, struct buf *out, size_t done)
{
    struct buf full = *out;
    *out = l->writing;
    l->writing = full;
    uv_buf_t rest = uv_buf_init(full.p + done, (unsigned)(full.n - done));
    l->write.data = l;
    int status = uv_write(&l->write, &l->io.stream, &rest, 1, wire_written);
    if (status < 0)
        link_doom_io(l, uv_strerror(status));
    else
        l->write_busy = true;
}

void wire_write(struct redis_link *l)
{
    if (l->out.n > l->config.write_max) link_doom_io(l, "it does not read what tallyd sends");
    if (l->doomed || l->write_busy) return;
    struct buf *out = l->tls == NULL ? &l->out : link_tls_out(l);
    if (out->n > 0) {
        uv_buf_t all = uv_buf_init(out->p, (unsigned)out->n);
        int done = uv_try_write(&l->io.stream, &all, 1);
        if (done < 0 && done != UV_EAGAIN) {
            link_doom_io(l, uv_strerror(done));
            return;
        }
        if (done < 0) done = 0;
        if ((size_t)done < out->n) {
            rest_write(l, out, (size_t)done);
            return;
        }
        buf_reset(out);
    }
    uint32_t points = l->crash_after;
    l->crash_after = 0;
    for (int p = 0; p < CRASH_COUNT; p++)
        if (points & UINT32_C(1) << p) crash_hit((enum crash_point)p);
}

void redis_link_flush(struct redis_link *l)
{
    if (redis_link_is_up(l) && !l->reading) wire_write(l);
}

void redis_link_ask(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    redis_link_expect(l, replies, cb, arg);
    redis_link_flush(l);
}

void redis_link_flush_now(struct redis_link *l)
{
    if (redis_link_is_up(l)) wire_write(l);
}

/* Hands out every whole reply. A callback may doom the connection: then the rest is skipped. */
static void replies_hand_out(struct redis_link *l)
{
    const struct redis_answer *r;
    enum redis_read got = READ_MORE;
    while (!l->doomed && (got = redis_reader_next(l->reader, &r)) == READ_REPLY) {
        if (l->ring_n == 0 && l->push != NULL)
            l->push(l, r);
        else if (l->ring_n == 0)
            link_doom_io(l, "it sent an answer without a request");
        else {
            struct redis_expect *head = ring_slot(l, 0);
            uint32_t at = head->at++;
            struct redis_expect e = *head; /* the callback may move the ring */
            if (e.at == e.replies) (void)ring_pop(l);
            e.cb(l, e.arg, r, at);
        }
    }
    if (got == READ_GARBAGE) link_doom_io(l, "it answered garbage");
}

/* (!) Only here does an answer show that this is the wrong server: all links leave it. Not in the middle of a request's
 * replies: a frame whose EXEC is refused as well is refused, not in doubt. */
static void answers_judge(struct redis_link *l)
{
    const char *line = redis_reader_unfit(l->reader);
    if (l->ring_n > 0 && ring_slot(l, 0)->at > 0) return;
    if (redis_reader_moved(l->reader) != NULL) {
        place_redirect(l->config.place, l, redis_reader_moved(l->reader));
        place_unfit(l->config.place, l->facts.run_id, CLUSTER_ASTRAY);
        redis_link_cut(l, CLUSTER_ASTRAY);
    } else if (line != NULL) {
        place_unfit(l->config.place, l->facts.run_id, line);
        redis_link_cut(l, line);
    } else if (redis_reader_lonely(l->reader)) {
        place_doubt(l->config.place, "NOREPLICAS");
    }
}

static void wire_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct redis_link *l = stream->data;
    if (n == 0) return;
    if (n < 0) {
        link_doom_io(l, l->tls == NULL ? uv_strerror((int)n) : link_tls_end_why(l, uv_strerror((int)n)));
        link_end(l);
        return;
    }
    const char *text = buf->base;
    size_t got = l->tls == NULL ? (size_t)n : link_tls_take(l, &text, (size_t)n);
    l->read_ms = mono_ms();
    l->reading = true;
    /* Half of a frame's replies say only that a command was queued. They are skipped here as long as they are exactly that
     * and whole; the reader takes over with the first that is not. */
    size_t skipped = 0;
    while (l->ring_n > 0 && redis_reader_is_empty(l->reader)) {
        struct redis_expect *e = ring_slot(l, 0);
        struct slice want = e->at == 0 ? SLICE("+OK\r\n") : SLICE("+QUEUED\r\n");
        bool due = e->transaction && e->at + 1 < e->replies;
        if (!due || got - skipped < want.n || memcmp(text + skipped, want.p, want.n) != 0) break;
        skipped += want.n;
        e->at++;
    }
    if (redis_reader_feed(l->reader, text + skipped, got - skipped))
        replies_hand_out(l);
    else
        link_doom_io(l, "its answer is too big or is not RESP");
    answers_judge(l);
    l->reading = false;
    if (!l->doomed) wire_write(l);
    if (l->doomed) link_end(l);
}

static void on_room_needed(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct redis_link *l = handle->data;
    (void)suggested;
    *buf = uv_buf_init(l->inbox, INBOX_BYTES);
}

bool wire_start(struct redis_link *l)
{
    if (l->reader == NULL)
        l->reader = redis_reader_create();
    else
        redis_reader_reset(l->reader);
    if (l->config.place->redirected != NULL) redis_reader_of_cluster(l->reader);
    if (l->inbox == NULL) l->inbox = heap_alloc(INBOX_BYTES);
    buf_reset(&l->out);
    l->crash_after = 0;
    l->read_ms = mono_ms();
    const struct redis_url *url = l->config.place->url;
    tls_session_destroy(&l->tls);
    if (url->secure) {
        PRE(url->tls != NULL);
        if (l->opened == NULL) l->opened = heap_alloc(INBOX_BYTES + TLS_HELD_MAX);
        l->tls = tls_session_create(url->tls, l->target.host);
    }
    int status = uv_read_start(&l->io.stream, on_room_needed, wire_heard);
    if (status < 0) link_doom_io(l, uv_strerror(status));
    return status == 0;
}

void wire_close(struct redis_link *l)
{
    redis_reader_destroy(&l->reader);
    heap_free(l->inbox);
    heap_free(l->ring);
    heap_free(l->refused);
    buf_free(&l->out);
    buf_free(&l->writing);
    buf_free(&l->dropped);
    tls_session_destroy(&l->tls);
    heap_free(l->opened);
}
