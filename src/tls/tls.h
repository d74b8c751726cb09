/* tls/tls.h - TLS as contexts (files) and sessions (one connection each), without sockets. */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include "base/log.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* What the TLS sessions of one address, or to one server, share: certificate, key, authorities, and what is required of
 * the other side. TLS 1.2 and 1.3, forward secrecy and AEAD ciphers only, no renegotiation, no compression. The files
 * are read when it is made and at each reload; a session keeps those it began with. Any thread may make sessions while
 * another reloads. */

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

/* One connection with TLS, without a socket: bytes of the wire go in, text comes out, and the other way
 * round. Bytes to send collect in tls_session_out(); the socket's owner sends them and removes what it sent.
 *   GREETING -> READY -> ENDED    the other side sends no more
 *        \---------\---> FAILED   for good; there may be an alert to send
 * One thread at a time. Holds at most TLS_HELD_MAX bytes of what was taken, apart from OpenSSL's own. */

#define TLS_HELD_MAX (20 * 1024) /* of a record that is not whole yet: 16 KiB and its seal */
#define TLS_WHY_BYTES 560

enum tls_state { TLS_GREETING, TLS_READY, TLS_ENDED, TLS_FAILED };

struct tls_session;

/* host: of a client, the name or address that the server's certificate must have; a server: NULL. c is borrowed. A
 * client's hello is in tls_session_out() at once. */
struct tls_session *tls_session_create(struct tls_context *c, const char *host);
void tls_session_destroy(struct tls_session **s);

/* Takes all n bytes. Text goes to `text`, which has room for n + TLS_HELD_MAX; returns how much. In FAILED and ENDED
 * the bytes are dropped. */
size_t tls_session_take(struct tls_session *s, const char *wire, size_t n, char *text) MUST_CHECK;
/* Encrypts text into tls_session_out(). Not before READY; in FAILED it is dropped. */
void tls_session_put(struct tls_session *s, struct slice text);
/* Tells the other side, once, that nothing more comes. */
void tls_session_end(struct tls_session *s);

struct buf *tls_session_out(struct tls_session *s);
enum tls_state tls_session_state(const struct tls_session *s);
/* Why it is FAILED, and how to correct it. `refused`: a certificate of either side was, so another try would fail,
 * too. */
const char *tls_session_why(const struct tls_session *s);
bool tls_session_refused(const struct tls_session *s);

/* Handshakes that failed at a door: counted, and logged once in ten seconds with how many there were. Any thread. */

void tls_refused(const char *door, const char *peer, const char *why);

#endif
