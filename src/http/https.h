/* http/https.h - TLS of libmicrohttpd, by GnuTLS, with the files of listen.tls, which a SIGHUP reads again. Each session gets
 * the credentials of that moment when it begins, and keeps them. Private to the room. */
#ifndef HTTP_HTTPS_H
#define HTTP_HTTPS_H

#include "base/log.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#define HTTPS_PRIORITIES                                                                                     \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:"   \
    "-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"

struct https_files;
struct tls_context;

struct https {
    struct tls_context *c; /* names the files, and says which were read; NULL: no address has TLS */
    unsigned read_n;       /* of c's, at the last https_read */
    uint32_t handshake_ms; /* that a handshake may take */
    struct https_files
        *now;  /* atomic; the newest. A session borrows its own, so older ones are kept until the end */
    bool over; /* atomic: handshakes are cut off by tallyd itself */
};

/* The files as c has read them last; the old ones remain when GnuTLS does not take them. */
enum err https_read(struct https *s, struct error *e) MUST_CHECK;
void https_close(struct https *s);

struct handshake { /* of a connection; its daemon's thread's */
    const struct https *of;
    const struct https_files *files;
    struct gnutls_session_int *session;
    uint64_t began_ms;   /* mono */
    bool hello, out, in; /* the client's hello was taken; ours, the client's finished */
};

void handshake_begin(struct handshake *k, const struct https *s, struct MHD_Connection *connection);
/* At the connection's end: logs a handshake that failed. */
void handshake_end(const struct handshake *k, const char *door, struct MHD_Connection *connection);
/* For a daemon that has no certificate but those of its sessions. */
void *https_no_certificate(void);

#endif
