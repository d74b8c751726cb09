/* lib/fake_client.h - a connection of command/ that keeps what its client is sent, and what is done to it. What a session is
 * given is a heap block of exactly the bytes that have come. */
#ifndef LIB_FAKE_CLIENT_H
#define LIB_FAKE_CLIENT_H

#include "base/heap.h"
#include "base/log.h"
#include "command/command.h"

#include <stdio.h>

struct conn {
    struct outlet outlet;
    struct session session;
    struct buf kept;
    struct buf said;                              /* all that the client was sent */
    bool paused, finished, dropped, taking, left; /* left: it shut its side down */
    int holds;
};

static inline void conn_flush(struct conn *c)
{
    buf_put_slice(&c->said, buf_slice(&c->outlet.out));
    buf_reset(&c->outlet.out);
}

static inline void conn_take(struct conn *c)
{
    PRE(!c->taking);
    if (c->paused || c->finished || c->dropped || c->kept.n == 0) return;
    char *exact = heap_alloc(c->kept.n);
    memcpy(exact, c->kept.p, c->kept.n);
    c->taking = true;
    size_t used = session_bytes(&c->session, slice_of(exact, c->kept.n));
    c->taking = false;
    INVARIANT(used <= c->kept.n);
    heap_free(exact);
    if (!c->dropped) buf_drop(&c->kept, used);
}

static inline void on_pause(struct conn *c)
{
    INVARIANT(!c->dropped);
    c->paused = true;
}
static inline void on_resume(struct conn *c)
{
    INVARIANT(!c->dropped);
    c->paused = false;
}
static inline void on_answered(struct conn *c)
{
    INVARIANT(!c->dropped);
}
static inline void on_finish(struct conn *c)
{
    INVARIANT(!c->dropped);
    c->finished = true;
}
static inline void on_hold(struct conn *c)
{
    c->holds++;
}
static inline void on_release(struct conn *c)
{
    c->holds--;
}
static inline void on_drop(struct conn *c)
{
    if (c->dropped) return;
    c->dropped = c->outlet.gone = true;
    session_close(&c->session);
}
/* Where every client comes from. */
static const char *conn_peer_text = "127.0.0.1:4711";

static inline void on_peer(const struct conn *c, char *out, size_t size)
{
    (void)c;
    snprintf(out, size, "%s", conn_peer_text);
}

/* The same whatever it was sent so far. */
static inline void on_info(const struct conn *c, struct conn_info *info)
{
    *info = (struct conn_info){.local = "127.0.0.1:6380", .fd = 8, .reads = true, .memory = 1000};
    on_peer(c, info->peer, sizeof(info->peer));
}

static inline bool on_left(const struct conn *c)
{
    return c->left;
}

static inline void on_promise(struct conn *c, size_t bytes)
{
    INVARIANT(!c->dropped);
    (void)bytes;
}

static inline size_t on_unread(const struct conn *c)
{
    return c->outlet.out.n;
}

static const struct client_ports fake_client_ports = {
    on_pause,   on_resume, conn_take, on_answered, on_finish,  on_drop,  on_hold,
    on_release, on_peer,   on_info,   on_left,     on_promise, on_unread};

/* When nothing of it is out any more. */
static inline void fake_client_close(struct conn *c)
{
    on_drop(c);
    INVARIANT(c->holds == 0);
    buf_free(&c->outlet.out);
    buf_free(&c->kept);
    buf_free(&c->said);
}

#endif
