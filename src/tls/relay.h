/* tls/relay.h - TLS for HTTP: a thread that speaks TLS on one socket, and passes what it says on to a plain one, in the same
 * process. libmicrohttpd has TLS of its own, by GnuTLS, but a certificate that is renewed, client certificates, the time
 * that a handshake may take, and who was refused and why would all have to be done for GnuTLS a second time, and differ from
 * what the RESP door does with the same options.
 * One write in flight each way, so a slow side is waited for, and of a connection at most some 64 KiB are held each way. */
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

#endif
