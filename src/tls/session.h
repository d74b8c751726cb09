/* tls/session.h - one connection with TLS, without a socket: bytes of the wire go in, text comes out, and the other way
 * round. What has to be sent adds up in tls_session_out(); whoever owns the socket sends it, and forgets what it sent.
 *   GREETING -> READY -> ENDED    the other side said that it sends no more
 *        \---------\---> FAILED   for good; an alert that says so may stand in the way out
 * One thread at a time. Holds at most TLS_HELD_MAX bytes of what was taken, besides OpenSSL's own. */
#ifndef TLS_SESSION_H
#define TLS_SESSION_H

#include "base/buf.h"
#include "tls/context.h"

#define TLS_HELD_MAX (20 * 1024) /* of a record that is not whole yet: 16 KiB and its seal */
#define TLS_WHY_BYTES 560

enum tls_state { TLS_GREETING, TLS_READY, TLS_ENDED, TLS_FAILED };

struct tls_session;

/* host: of a client, the name or address that the server's certificate must have; a server: NULL. c is borrowed. A
 * client's first words stand in the way out at once. */
struct tls_session *tls_session_create(struct tls_context *c, const char *host);
void tls_session_destroy(struct tls_session **s);

/* All n bytes are taken. Text goes to `text`, which has room for n + TLS_HELD_MAX; returns how much. In FAILED and ENDED
 * they are thrown away. */
size_t tls_session_take(struct tls_session *s, const char *wire, size_t n, char *text) MUST_CHECK;
/* Seals text into the way out. Not before READY; in FAILED it is thrown away. */
void tls_session_put(struct tls_session *s, struct slice text);
/* Says that nothing more is sent, once. */
void tls_session_end(struct tls_session *s);

struct buf *tls_session_out(struct tls_session *s);
enum tls_state tls_session_state(const struct tls_session *s);
/* Why it is FAILED: what is wrong, and what mends it. `refused`: the certificate of either side was, so that the next
 * try would end as this one did. */
const char *tls_session_why(const struct tls_session *s);
bool tls_session_refused(const struct tls_session *s);

#endif
