/* tls/context.h - what the TLS sessions of one address, or to one server, share: certificate, key, authorities, and what
 * is required of the other side. TLS 1.2 and 1.3, forward secrecy and AEAD ciphers only, no renegotiation, no compression.
 * The files are read when it is made and at each reload; a session keeps those it began with. Any thread may make sessions
 * while another reloads. */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>

enum tls_side { TLS_SERVER, TLS_CLIENT };

enum tls_trust {
    TLS_TRUST_CA, /* a chain to `ca`, and of a server a certificate of its name. A server without `ca` asks clients for none */
    TLS_TRUST_ANYBODY /* the other side's certificate is not checked */
};

struct tls_files {
    const char *
        cert; /* PEM: the certificate, then those between it and its authority. A client: NULL, or with key */
    const char *key; /* PEM, without a passphrase; only owner and group may be able to read it */
    const char *ca;  /* PEM; a client without it: the system's authorities */
};

enum tls_file { TLS_FILE_CERT, TLS_FILE_KEY, TLS_FILE_CA };
struct tls_context;

/* Copies the files' names. ERR_CONFIG: *which (may be NULL) is the bad file, e says what is wrong and how to correct
 * it, without the file's name: it might be a key pasted by mistake. */
enum err tls_context_create(enum tls_side side, const struct tls_files *files, enum tls_trust trust,
                            struct tls_context **out, enum tls_file *which, struct error *e) MUST_CHECK;
/* Reads the files again, for sessions from now on. On an error, such as an expired certificate, the old files remain in
 * use. */
enum err tls_context_reload(struct tls_context *c, struct error *e) MUST_CHECK;
void tls_context_destroy(struct tls_context **c); /* after all its sessions */

/* When its certificate expires, in s since 1970. INT64_MAX: it has none. */
int64_t tls_context_expires_s(struct tls_context *c);
struct tls_files tls_context_files(const struct tls_context *c);
unsigned
tls_context_read_n(const struct tls_context *c); /* how often it has read them; the reloader's thread */

#endif
