/* http/stream.h - server-sent events. A stream is a connection whose answer does not end. While there is nothing to send
 * libmicrohttpd has it suspended, so it costs no thread. A slow reader misses events: events that it does not read are not
 * kept. A store that streams ask for is watched once, however many ask. Private to the room. */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/bearers.h"
#include "http/pool.h"

struct MHD_Connection;
struct MHD_Response;
struct watch;

struct hub {
    pthread_mutex_t lock; /* of all below and of every stream; not held while the service is asked */
    const struct counters *counters;
    const struct bearers *bearers;
    struct list streams, watches;
    size_t streams_n, streams_most;
    size_t unread_most; /* bytes of a stream; more is not said */
    bool stopping;
    bool mysql_up;   /* at the last hub_watch; its alone */
    int64_t batches; /* claimed and merged so far, likewise */
};

void hub_init(struct hub *h, const struct counters *counters, const struct bearers *bearers,
              size_t streams_most, size_t unread_most);
void hub_close(struct hub *h); /* no stream is left */
bool hub_empty(struct hub *h);
void hub_stop(struct hub *h);    /* every stream ends; none begins */
void hub_bearers(struct hub *h); /* were taken over: streams of those that hold no more end */

struct stream;
/* all: it gets events of the whole service. store: watched; p NULL: none. bearer: borrowed from hub.bearers; NULL: it
 * needs none. Returns NULL when there are too many, or when the hub stops. */
struct stream *stream_open(struct hub *h, bool all, struct slice store, const struct conf_bearer *bearer);
/* Its answer, which owns it from here on. */
struct MHD_Response *stream_response(struct stream *s, struct MHD_Connection *connection);

/* By the pulse: sends this JSON as an event `status` to streams of the whole service, a sign of life to the others. */
void hub_tell(struct hub *h, struct slice status);
/* On a worker: asks whether figures of watched stores moved, and tells their streams. One at a time. */
void hub_watch(struct hub *h, struct worker *w, bool mysql_up);

#endif
