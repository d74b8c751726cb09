/* tls/relay.h - for whoever has no TLS of its own (libmicrohttpd, hiredis): a thread that speaks TLS on one socket, and
 * passes what it says on to a plain one, in the same process. One write in flight each way, so a slow side is waited for,
 * and of a connection at most some 64 KiB are held each way. */
#ifndef TLS_RELAY_H
#define TLS_RELAY_H

#include "tls/context.h"

#include <sys/socket.h>

struct relay_door {
    const char *url; /* as it is called in the log; borrowed, as c, until relay_destroy */
    struct tls_context *c;
    int fd;               /* listens; the relay's from relay_start on */
    unsigned most;        /* connections; more wait to be accepted */
    unsigned greeting_ms; /* a handshake may take */
    /* A handshake is through: fd is plain, and yours. From the relay's thread. */
    void (*given)(void *arg, int fd, const struct sockaddr *peer, socklen_t peer_n);
    void *arg;
};

struct relay;

/* NULL: no thread or descriptors; fd is closed. */
struct relay *relay_start(const struct relay_door *door);
/* Accepts and gives no more, also whose handshake is under way; the socket is closed when this returns. */
void relay_quiet(struct relay *r);
/* Ends what is left after a second in which it may still be said, then the thread. */
void relay_destroy(struct relay **r);

/* One connection that stands already, as a client; the thread ends by itself with either end, and the end of the process waits
 * a second for it. fd is taken, and c, which is destroyed with it. Returns the plain end, when the handshake is through; -1:
 * e says why it is not. */
int relay_connect(struct tls_context *c, int fd, const char *host, unsigned within_ms, struct error *e);

#endif
