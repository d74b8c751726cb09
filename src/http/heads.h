/* http/heads.h - connections of an address from which a request is awaited. Half of the connections that it may have, and
 * each for HEAD_TIMEOUT_MS: beyond that the oldest is closed when a new one comes, so there is room for another client. */
#ifndef HTTP_HEADS_H
#define HTTP_HEADS_H

#include "base/list.h"
#include "http/https.h"

#include <pthread.h>

#define IDLE_TIMEOUT_S 10U /* a connection on which nothing moves is closed */

struct heads {
    pthread_mutex_t lock;
    struct list awaited; /* the oldest first */
    unsigned n, most;
    const char *door;          /* its address */
    const struct https *https; /* NULL: without TLS */
};

void heads_init(struct heads *h, unsigned most, const char *door, const struct https *https);
void heads_close(struct heads *h);
/* libmicrohttpd's, of each connection: its begin and end. */
void heads_notify(void *heads, struct MHD_Connection *connection, void **context,
                  enum MHD_ConnectionNotificationCode what);
void heads_got(struct MHD_Connection *connection);   /* a request is here, whole, */
void heads_await(struct MHD_Connection *connection); /* and answered */

#endif
