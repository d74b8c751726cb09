/* listen/secure.c - a connection with TLS between the socket and the session. Bytes from the socket are decrypted into
 * an area that all connections share, and taken from there like plain bytes. The outlet is encrypted whole, just before
 * it is written. This file bounds a handshake's time, tls/ its bytes, limits.clients their number, greeting.c their
 * share of the loop. */
#include "listen/inside.h"

#include "base/heap.h"
#include "tls/tls.h"

#include <stdio.h>

void secure_open(struct conn *c)
{
    struct listen *l = c->listen;
    c->secure = heap_zalloc(sizeof *c->secure);
    c->secure->conn = c;
    list_init(&c->secure->in_put_off);
    greeting_begin(l);
    c->secure->tls = tls_session_create(l->tls, NULL);
    greeting_end(l);
    c->secure->until_ms = uv_now(l->loop) + l->limits.greeting_ms;
    list_push(&l->handshakes, &c->secure->in_handshakes);
    listen_watch(l);
}

void secure_close(struct conn *c)
{
    if (c->secure == NULL) return;
    tls_session_destroy(&c->secure->tls);
    heap_free(c->secure);
    c->secure = NULL;
}

void secure_gone(struct conn *c)
{
    list_remove(&c->secure->in_put_off);
    greeting_heard(c->secure);
    list_remove(&c->secure->in_handshakes);
}

static void refused(struct conn *c, const char *why)
{
    char peer[80];
    conn_peer(c, peer, sizeof peer);
    tls_refused(c->from->url, peer, why);
}

static void write_once(struct conn *c)
{
    struct buf *out = tls_session_out(c->secure->tls);
    uv_buf_t all = uv_buf_init(out->p, (unsigned)out->n);
    if (out->n > 0 && list_empty(&c->unsent)) uv_try_write(&c->s.stream, &all, 1);
    buf_reset(out);
}

/* The alert says why. It is tried once. In a handshake nothing else is on its way, so a client that sends on can read it:
 * with TLS 1.3 a client sends requests before it hears that its certificate is refused. */
static void secure_failed(struct conn *c)
{
    bool greets = secure_greets(c->secure);
    if (greets) refused(c, tls_session_why(c->secure->tls));
    write_once(c);
    c->finishing = true;
    if (greets && list_empty(&c->unsent))
        linger_begin(c);
    else
        conn_drop(c);
}

void secure_bytes(struct conn *c, const char *in, size_t n)
{
    struct tls_session *tls = c->secure->tls;
    char *text = c->listen->opened + JOIN_BYTES;
    bool greets = secure_greets(c->secure);
    if (greets) greeting_begin(c->listen);
    size_t got = tls_session_take(tls, in, n, text);
    if (greets) greeting_end(c->listen);
    c->secure->spoke = true;
    if (tls_session_out(tls)->n > 0) conn_answered(c);
    if (tls_session_state(tls) != TLS_GREETING && tls_session_state(tls) != TLS_FAILED)
        list_remove(&c->secure->in_handshakes);
    if (got > 0) conn_take(c, text, got);
    if (c->outlet.gone) return;
    if (tls_session_state(tls) == TLS_FAILED)
        secure_failed(c);
    else if (tls_session_state(tls) == TLS_ENDED)
        conn_take_end(c);
}

struct buf *secure_out(struct conn *c)
{
    struct tls_session *tls = c->secure->tls;
    if (tls_session_state(tls) != TLS_GREETING && c->outlet.out.n > 0) {
        tls_session_put(tls, buf_slice(&c->outlet.out));
        out_empty(&c->outlet.out);
    }
    return tls_session_out(tls);
}

void secure_end(struct conn *c)
{
    tls_session_end(c->secure->tls);
    write_once(c);
}

void secure_left(struct conn *c)
{
    if (c->secure->spoke && secure_greets(c->secure)) refused(c, "the client went away in the handshake");
}

void secure_handshakes_check(struct listen *l, uint64_t now_ms)
{
    for (struct list *at = l->handshakes.next, *next; at != &l->handshakes; at = next) {
        struct secure *s = CONTAINER_OF(at, struct secure, in_handshakes);
        next = at->next;
        if (s->conn->put_off || now_ms < s->until_ms) continue;
        refused(s->conn, "the handshake took too long");
        conn_drop(s->conn);
    }
}
