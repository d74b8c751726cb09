/* setup/secure.h - warnings about TLS and doors in a valid configuration, for `check` and for the log of `run`. */
#ifndef SETUP_SECURE_H
#define SETUP_SECURE_H

#include "setup/setup.h"
#include "tls/context.h"

#define SECURE_SOON_S (14 * 24 * 3600) /* a warning comes this long before the end */

enum secure_level { SECURE_GOOD, SECURE_WARN, SECURE_BAD };

/* "is good until 2027-01-01 00:00 UTC (40 days)", and what to do when that is soon, or over. Of one with a certificate. */
enum secure_level secure_certificate(struct tls_context *c, char *out, size_t size);

/* Calls warn for each setting that a careful operator would change. */
void secure_warnings(const struct setup *s, void (*warn)(void *arg, const char *text), void *arg);

#endif
