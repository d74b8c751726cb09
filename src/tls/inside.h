/* tls/inside.h - inside of tls/. OpenSSL is known in this room and nowhere else.
 *   context.c  certificates, keys and authorities      session.c  one connection, as bytes in and bytes out
 *   relay.c    sockets with TLS to sockets without     refused.c  what is logged of handshakes that failed */
#ifndef TLS_INSIDE_H
#define TLS_INSIDE_H

#include "tls/context.h"

#include <openssl/ssl.h>

enum tls_side tls_context_side(const struct tls_context *c);
enum tls_trust tls_context_trust(const struct tls_context *c);
/* A new SSL by the files as they were read last; the caller's. Never NULL: without memory it aborts. */
SSL *tls_context_ssl(struct tls_context *c);

/* What OpenSSL says of the first of this thread's errors, without its numbers; the queue is empty afterwards. */
void tls_error_text(char *out, size_t size);

#endif
