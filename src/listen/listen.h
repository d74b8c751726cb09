/* listen/listen.h - sockets and connections on a libuv loop: TCP and unix listeners, what clients sent to a
 * handler, what stands in their outlets to the clients. Knows no protocol: the handler is given per listener.
 *
 * One loop turn: bytes() of whoever sent something; then the owner of the loop, at its end, calls
 * listen_turn() (what was resumed is offered again), does its own work, and calls listen_flush_all() (one
 * write a connection). SIGPIPE must be ignored by the process. One loop, no locks.
 *
 * Memory of a connection (and of its session, in the same block) stays until its socket is closed, nothing
 * holds it (conn_hold) and outlet.waiting is 0. An idle connection costs less than 2 KiB. */
#ifndef LISTEN_LISTEN_H
#define LISTEN_LISTEN_H

#include "base/error.h"
#include "base/outlet.h"

struct uv_loop_s;
struct listen;
struct conn;

struct listen_handler {
    size_t session_size; /* of the session that lives beside each connection, zeroed before open() */
    /* A client is here. Replies go into conn_outlet(conn)->out at any time, followed by conn_answered(). */
    void (*open)(void *session, struct conn *conn, void *arg);
    /* Bytes from the client; returns how many were used up. The rest is offered again with more behind it, or
     * after conn_resume(). With OUTLET_FULL bytes in the outlet a session should use up nothing more: it is
     * offered the rest when they are sent. Not called again after conn_finish() or conn_drop(). */
    size_t (*bytes)(void *session, struct slice in);
    /* The client is gone: nothing more is read or written. Once; the memory stays as said above. */
    void (*close)(void *session);
    void *arg;
};

struct listen_limits {
    uint32_t clients_max; /* over that: -ERR max number of clients reached, and closed; 10,000 */
    uint32_t backlog;     /* of listen(2), 511 */
    uint32_t in_max;      /* bytes kept of an unfinished request; more and the client is closed, 1 MiB */
    uint32_t out_max;     /* unsent bytes of a client; more and it is closed, 32 MiB */
    uint32_t stall_ms; /* a client that reads nothing for so long while bytes wait for it is closed, 60,000 */
    uint32_t keepalive_s; /* TCP keepalive, 0: none, 300 */
    uint32_t unix_mode;   /* of unix sockets, 0660 */
};
extern const struct listen_limits listen_limits_default;

struct listen *listen_create(struct uv_loop_s *loop, const struct listen_limits *limits);

/* Binds and listens on `tcp://host:port` (port 0: any; host in [] for IPv6) or `unix:///path`. A unix socket
 * that another process serves is refused, a dead one is replaced. handler is copied. Accepting begins when
 * the loop runs. */
enum err listen_add(struct listen *l, struct slice url, const struct listen_handler *handler,
                    struct error *e);

/* Where the index-th listener really is: `tcp://127.0.0.1:41234`. Valid until listen_stop. */
const char *listen_url(const struct listen *l, size_t index);

void listen_turn(struct listen *l);      /* offers kept bytes of resumed connections to their sessions */
void listen_flush_all(struct listen *l); /* writes what stands in the outlets of answered connections */

/* Takes no more: listeners close (unix sockets are removed), nothing more is read; each connection is closed
 * when its answers are out: outlet.waiting 0, not held, all written. cb fires once, from the loop, when all
 * is closed; the memory of connections that somebody still holds or answers may outlive it, but no handle
 * does. */
void listen_stop(struct listen *l, void (*cb)(void *arg), void *arg);
void listen_drop_all(
    struct listen *l); /* after listen_stop, when its patience ends: closes every connection now */
void listen_destroy(struct listen **l); /* after cb, and when no connection is left in memory */

struct outlet *conn_outlet(struct conn *c);
struct conn *conn_of(struct outlet *o);
void *conn_session(struct conn *c);
void conn_peer(const struct conn *c, char *out,
               size_t size); /* "127.0.0.1:4711", or the unix socket's path and ":0" */

void conn_pause(struct conn *c); /* not read from, no bytes() */
void conn_resume(
    struct conn *c); /* read from again; kept bytes are offered by the next listen_turn(), never from here */
void conn_answered(
    struct conn *c); /* outlet.out grew or outlet.waiting fell; last line: c may be gone after it */
void conn_flush(struct conn *c);  /* writes now, without waiting for listen_flush_all() */
void conn_finish(struct conn *c); /* reads no more; closed when outlet.waiting is 0 and all is written */
void conn_drop(struct conn *c);   /* closed now; close() is called before this returns */
void conn_hold(
    struct conn *c); /* memory stays until as many conn_release(); also keeps listen_stop() waiting */
void conn_release(struct conn *c); /* last line: c may be gone after it */

#endif
