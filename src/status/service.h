/* status/service.h - the running tallyd as a client sees it: a blocking RESP connection through hiredis, with time
 * limits. */
#ifndef STATUS_SERVICE_H
#define STATUS_SERVICE_H

#include "base/buf.h"
#include "conf/conf.h"

#include <hiredis/hiredis.h>

/* What mends it when service_connect() came to nothing but TLS. */
#define SERVICE_SECURE_NEXT                                                                                  \
    "give listen.control, a unix socket such as unix:///run/tallyd/control.sock, and restart tallyd"

/* Connects to the first of the configuration's addresses where a server answers PING. NULL: none does; *secure: somebody
 * is there, but only at tls:// addresses, where verbs do not go. */
redisContext *service_connect(const struct conf *conf, bool *secure);
bool service_answers(const char *unix_path); /* PING is answered with PONG there, at once */

/* The text of INFO, into out (reset first). False: it did not answer, or not as a tallyd does. */
bool service_info(redisContext *link, struct buf *out) MUST_CHECK;

/* The number, or the text (cut to size, what is not printable as '?'), behind `name:` in it. False: there is none. */
bool service_number(const struct buf *info, const char *name, int64_t *out);
bool service_text(const struct buf *info, const char *name, char *out, size_t size);

#endif
