/* status/service_tls.h - TLS to the running tallyd; private to service.c. */
#ifndef STATUS_SERVICE_TLS_H
#define STATUS_SERVICE_TLS_H

#include "conf/conf.h"

#include <hiredis/hiredis.h>

/* plain is connected to a, and taken; the same with TLS comes back. NULL: the log says why. */
redisContext *service_secure(const struct conf *conf, const struct address *a, redisContext *plain);

#endif
