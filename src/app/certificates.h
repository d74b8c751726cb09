/* app/certificates.h - the life of certificates in a running service: logged at the start, checked once a day, read again
 * at a SIGHUP. */
#ifndef APP_CERTIFICATES_H
#define APP_CERTIFICATES_H

#include "app/settings.h"

/* Those of the tls:// addresses. e names file, line and column of what is wrong. */
enum err certificates_load(struct settings *s, struct error *e) MUST_CHECK;
/* Logs connections without TLS, or without proof. */
void certificates_begin(const struct settings *s);
/* Reads every file again, for connections from now on; if one is not valid, the old certificates remain. */
void certificates_reload(struct settings *s);
/* Logs how long they last, at the first call and once a day; *due_ms begins with 0. */
void certificates_tick(struct settings *s, uint64_t now_ms, uint64_t *due_ms);

#endif
