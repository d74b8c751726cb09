/* status/service.h - the running tallyd as a client sees it: a blocking RESP connection through hiredis, with time
 * limits. */
#ifndef STATUS_SERVICE_H
#define STATUS_SERVICE_H

#include "base/buf.h"
#include "conf/conf.h"

#include <hiredis/hiredis.h>

/* Connects to the first of the configuration's addresses where a server answers PING. NULL: nobody listens at
 * any. */
redisContext *service_connect(const struct conf *conf);
bool service_answers(const char *unix_path); /* PING is answered with PONG there, at once */

/* The text of INFO, into out (reset first). False: it did not answer, or not as a tallyd does. */
bool service_info(redisContext *link, struct buf *out) MUST_CHECK;

/* The number, or the text (cut to size, what is not printable as '?'), behind `name:` in it. False: there is none. */
bool service_number(const struct buf *info, const char *name, int64_t *out);
bool service_text(const struct buf *info, const char *name, char *out, size_t size);

#endif
