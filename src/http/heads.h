/* http/heads.h - connections of an address from which a request is awaited. Half of the connections that it may have, and
 * each for HEAD_TIMEOUT_MS: beyond that the oldest is closed when a new one comes, so there is room for another client. */
#ifndef HTTP_HEADS_H
#define HTTP_HEADS_H

#include "base/list.h"

#include <microhttpd.h>
#include <pthread.h>

struct heads {
    pthread_mutex_t lock;
    struct list awaited; /* the oldest first */
    unsigned n, most;
};

void heads_init(struct heads *h, unsigned most);
void heads_close(struct heads *h);
/* libmicrohttpd's, of each connection: its begin and end. */
void heads_notify(void *heads, struct MHD_Connection *connection, void **context,
                  enum MHD_ConnectionNotificationCode what);
void heads_got(struct MHD_Connection *connection);   /* a request is here, whole, */
void heads_await(struct MHD_Connection *connection); /* and answered */

#endif
