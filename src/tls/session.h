/* tls/session.h - one connection with TLS, without a socket: bytes of the wire go in, text comes out, and the other way
 * round. Bytes to send collect in tls_session_out(); the socket's owner sends them and removes what it sent.
 *   GREETING -> READY -> ENDED    the other side sends no more
 *        \---------\---> FAILED   for good; there may be an alert to send
 * One thread at a time. Holds at most TLS_HELD_MAX bytes of what was taken, apart from OpenSSL's own. */
#ifndef TLS_SESSION_H
#define TLS_SESSION_H

#include "base/slice.h"
#include "tls/context.h"

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

#endif
