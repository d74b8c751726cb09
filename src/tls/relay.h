/* tls/relay.h - TLS for HTTP: a thread that speaks TLS on one socket and passes the text to a plain one, in the same process.
 * libmicrohttpd has TLS of its own, by GnuTLS; but reloads, client certificates, time limits of handshakes and their log would
 * then exist twice, and differ from RESP with the same options.
 * One write in flight each way, so a slow side holds back the other, with about 64 KiB in memory each way. */
#ifndef TLS_RELAY_H
#define TLS_RELAY_H

#include "tls/context.h"

#include <sys/socket.h>

struct relay_door {
    const char *url; /* for the log; borrowed, as c, until relay_destroy */
    struct tls_context *c;
    int fd;               /* listens; the relay's from relay_start on */
    unsigned most;        /* connections; more wait to be accepted */
    unsigned greeting_ms; /* a handshake may take */
    /* A handshake is done: fd is plain, and the callee's. From the relay's thread. */
    void (*given)(void *arg, int fd, const struct sockaddr *peer, socklen_t peer_n);
    void *arg;
};

struct relay;

/* NULL: no thread or descriptors; fd is closed. */
struct relay *relay_start(const struct relay_door *door);
/* Accepts and gives no more connections, not even those in a handshake; the socket is closed when this returns. */
void relay_quiet(struct relay *r);
/* Closes what is left after a second, then ends the thread. */
void relay_destroy(struct relay **r);

#endif
