/* tls/inside.h - what the files of tls/ share.
 *   context.c  certificates, keys and authorities      session.c  one connection, as bytes in and bytes out
 *   context.c  the log of failed handshakes */
#ifndef TLS_INSIDE_H
#define TLS_INSIDE_H

#include "tls/tls.h"

#include <openssl/ssl.h>

enum tls_side tls_context_side(const struct tls_context *c);
enum tls_trust tls_context_trust(const struct tls_context *c);
/* A new SSL with the files as last read; the caller's. Never NULL: without memory it aborts. */
SSL *tls_context_ssl(struct tls_context *c);

/* OpenSSL's text for the first of this thread's errors; empties the queue. */
void tls_error_text(char *out, size_t size);

#endif
