/* http/pulse.h - a thread that asks the service for its state twice a second, and waits only for it. Private to the room. */
#ifndef HTTP_PULSE_H
#define HTTP_PULSE_H

#include "http/pool.h"
#include "status/status.h"

struct beat {   /* what the service said of itself last */
    bool asked; /* else nothing of the rest is known but turns */
    bool turns; /* it answered not long ago, or was not asked for long */
    bool redis_up, mysql_up;
    char held[STATUS_WHY_BYTES]; /* why it merges nothing; empty: it does */
};

struct pulse {
    struct http *http;
    pthread_t thread;
    struct door door;       /* the thread's */
    pthread_mutex_t lock;   /* of all below */
    pthread_cond_t changed; /* stopping, asked */
    bool running, stopping;
    bool asked; /* for the first time: the service answered, or did not */
    struct beat beat;
    uint64_t answered_ms; /* mono; when this was made, until there is an answer */
    int64_t started_s;    /* wall, of this room; any thread */
};

void pulse_init(struct pulse *p, struct http *h);
bool pulse_start(struct pulse *p) MUST_CHECK;
void pulse_stop(struct pulse *p); /* waits for the thread */
void pulse_close(struct pulse *p);

struct beat pulse_beat(struct pulse *p);
/* A worker: waits until the service was asked once. An earlier answer would say that Redis and MySQL are down. */
void pulse_await(struct pulse *p);

#endif
