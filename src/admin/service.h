/* admin/service.h - the running tallyd as a client sees it: a blocking RESP connection through hiredis;
 * private to the room. */
#ifndef ADMIN_SERVICE_H
#define ADMIN_SERVICE_H

#include "conf/conf.h"

#include <hiredis/hiredis.h>

/* Connects to the first of the configuration's addresses where a server answers PING. NULL: nobody listens at
 * any. */
redisContext *service_connect(const struct conf *conf);
bool service_answers(const char *unix_path); /* PING is answered with PONG there, at once */

#endif
