/* listen/listen.h - sockets and connections on a libuv loop: TCP and unix listeners, bytes from clients to a
 * handler, bytes from outlets to clients. Knows no protocol: each listener has its handler.
 *
 * One loop turn: bytes() for each client that sent something. At its end the owner of the loop calls listen_turn() (offers
 * the bytes of resumed connections), does its own work, and calls listen_flush_all() (one write a connection). The process
 * must ignore SIGPIPE. One loop, no locks.
 *
 * Memory of a connection (and of its session, in the same block) stays until its socket is closed, nothing
 * holds it (conn_hold) and outlet.waiting is 0. An idle connection costs less than 2 KiB. */
#ifndef LISTEN_LISTEN_H
#define LISTEN_LISTEN_H

#include "base/address.h"
#include "base/log.h"
#include "base/outlet.h"

struct uv_loop_s;
struct tls_context;
struct listen;
struct conn;

struct listen_handler {
    size_t session_size; /* of the session that lives beside each connection, zeroed before open() */
    /* A client is here. Replies go into conn_outlet(conn)->out at any time, followed by conn_answered(). */
    void (*open)(void *session, struct conn *conn, void *arg);
    /* Bytes from the client; returns how many were used. The rest is offered again with more after it, or after
     * conn_resume(): the session must refuse a request that never ends. With OUTLET_FULL bytes in the outlet it should
     * use nothing more: it gets the rest when they are flushed. Not called again after conn_finish() or conn_drop(). */
    size_t (*bytes)(void *session, struct slice in);
    /* The client is gone: nothing more is read or written. Once; the memory may stay longer, see above. */
    void (*close)(void *session);
    const char *full; /* sent to a client over the limit; lives as long as the listener */
    void *arg;
};

struct listen_limits {
    uint32_t clients_max; /* over that: handler.full, and closed; 10,000, fewer where file descriptors lack */
    uint32_t backlog;     /* of listen(2), 511 */
    size_t unread; /* bytes of answers that a client leaves unread; with more it is not read from, 128 MiB */
    size_t unread_all; /* the same of all clients together, shared out as they need it, 256 MiB */
    /* A client is closed when for this long it reads no answers, though some wait, and sends nothing that may be read,
     * 60,000. */
    uint32_t stall_ms;
    uint32_t keepalive_s;        /* TCP keepalive, 0: none, 300 */
    uint32_t linger_ms;          /* for which a client may still send after its last answer, 5,000 */
    uint32_t greeting_ms;        /* within which a TLS handshake must be through, 10,000 */
    uint32_t handshakes_percent; /* of the loop's time that TLS handshakes may take, 25 */
};
extern const struct listen_limits listen_limits_default;

struct listen *listen_create(struct uv_loop_s *loop, const struct listen_limits *limits);
/* The TLS of all addresses that have it; once, before the first is added. Borrowed until listen_destroy. */
void listen_secure(struct listen *l, struct tls_context *tls);

/* handler is copied. Accepting begins when the loop runs. */
enum err listen_add(struct listen *l, const struct address *a, const struct listen_handler *handler,
                    struct error *e);

/* Makes a client of one end of a socketpair(AF_UNIX, SOCK_STREAM) of this process, whatever limits.clients_max says.
 * The handler of the first call serves all of them. False: it stops, or the descriptor is no socket; then fd is the
 * caller's, else it is closed with the connection. */
bool listen_adopt(struct listen *l, int fd, const struct listen_handler *handler) MUST_CHECK;

/* Where the index-th listener really is: `tcp://127.0.0.1:41234`. Good until listen_destroy. */
const char *listen_url(const struct listen *l, size_t index);

/* Offers kept bytes of resumed connections to their sessions. */
void listen_turn(struct listen *l);
/* Writes the outlets of answered connections. */
void listen_flush_all(struct listen *l);

/* Before listen_stop: closes the ports that other processes share, which get all new clients from now on. Whoever has come is
 * served as ever. False: none is shared. */
bool listen_hand_over(struct listen *l);
/* Takes no more: listeners close (unix sockets are removed), nothing more is read; each connection is closed
 * when its answers are out: outlet.waiting 0, not held, all written; none lingers. cb fires once, from the loop, when every
 * handle is closed. */
void listen_stop(struct listen *l, void (*cb)(void *arg), void *arg);
/* After listen_stop, when time is up: closes every connection now. */
void listen_drop_all(struct listen *l);
/* After cb. Frees even connections that wait or are held: they must not be touched any more. */
void listen_destroy(struct listen **l);

struct outlet *conn_outlet(struct conn *c);
struct conn *conn_of(struct outlet *o);
void *conn_session(struct conn *c);
/* "127.0.0.1:4711", "[::1]:4711", or the unix socket's path and ":0". */
void conn_peer(const struct conn *c, char *out, size_t size);
/* So many bytes of an answer are being made: they count as unread until it says 0. */
void conn_promise(struct conn *c, size_t bytes);
size_t conn_unread(const struct conn *c); /* bytes of answers that it has not taken */
void conn_info(const struct conn *c, struct conn_info *info);
bool conn_left(const struct conn *c); /* it closed its side: it is gone, or sends no more */

/* Not read from, no bytes(). */
void conn_pause(struct conn *c);
/* Read from again. Kept bytes are offered by the next listen_turn(), never from here. */
void conn_resume(struct conn *c);
/* Offers kept bytes now, if it may be read from. Never from inside bytes(). */
void conn_offer(struct conn *c);
/* outlet.out grew or outlet.waiting fell. Last line: c may be gone after it. */
void conn_answered(struct conn *c);
/* Writes now, without waiting for listen_flush_all(). */
void conn_flush(struct conn *c);
/* The session gets no more. When outlet.waiting is 0, nothing holds it and all is written, the client is told the end of
 * the connection. It is closed when the client closes, or limits.linger_ms later. */
void conn_finish(struct conn *c);
/* Closed now; close() is called before this returns. */
void conn_drop(struct conn *c);
/* The memory stays until as many conn_release(), and listen_stop() waits for them. */
void conn_hold(struct conn *c);
/* Last line: c may be gone after it. */
void conn_release(struct conn *c);

#endif
