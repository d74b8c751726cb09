/* status/service.h - asks the running tallyd over RESP: blocking, through hiredis, with time limits. */
#ifndef STATUS_SERVICE_H
#define STATUS_SERVICE_H

#include "base/slice.h"
#include "conf/conf.h"

#include <hiredis/hiredis.h>

/* The next step when service_connect() found only TLS. */
#define SERVICE_SECURE_NEXT                                                                                  \
    "give listen.control, a unix socket such as unix:///run/tallyd/control.sock, and restart tallyd"

/* Connects to the first configured address whose server answers PING. NULL: none does; *secure: one listens at a tls://
 * address, or for proxies, where verbs cannot go. */
redisContext *service_connect(const struct conf *conf, bool *secure);

/* Puts INFO's text into out, which it resets first. False: no answer, or not a tallyd's. */
bool service_info(redisContext *link, struct buf *out) MUST_CHECK;

/* The number, or the text (cut to size, unprintable bytes as '?'), of INFO's line `name:`. False: no such line. */
bool service_number(const struct buf *info, const char *name, int64_t *out);
bool service_text(const struct buf *info, const char *name, char *out, size_t size);

#endif
