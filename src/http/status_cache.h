/* http/status_cache.h - the state of Redis and MySQL as status/ reads it, kept for a moment. However many clients ask,
 * one probe runs at a time, and none sooner than its cost allows. Workers only: a probe waits for servers. Private to
 * the room. */
#ifndef HTTP_STATUS_CACHE_H
#define HTTP_STATUS_CACHE_H

#include "status/status.h"

#include <pthread.h>

struct lane_figures {
    bool up, held;
    struct figure oldest_ms; /* of its dirty index; not known: nothing waits, or it is away */
};

struct status_figures {
    struct lane_figures *lanes; /* of several; NULL: one, or none was seen yet */
    uint32_t lanes_n;
    struct figure dirty;     /* hashes in the dirty index */
    struct figure oldest_ms; /* age of the oldest hit that is not in MySQL; 0: all are */
    struct figure batches;   /* standing */
    struct figure replicas, behind_bytes, moved_s;  /* Redis', the worst of them; since the links moved */
    struct status_refusal refusal[STATUS_REFUSALS]; /* hits that were refused, by reason */
    size_t refusal_n;
    struct figure sentinels, sentinels_up; /* known, answering; unknown: Redis has none */
    struct figure rejects;                 /* rows that wait */
    struct figure balanced;                /* 1 or 0, when the books were last added up */
    struct figure *differences;            /* likewise; one a counter, in the order of the configuration */
};

struct status_cache {
    pthread_mutex_t lock; /* of all below; held while probing */
    const struct source *where;
    struct status_figures last;
    uint64_t at_ms, took_ms, books_at_ms; /* 0: never */
};

void status_cache_init(struct status_cache *c, const struct source *where);
void status_cache_close(struct status_cache *c);

/* The state read at most age_ms ago, or a little more when a probe takes long; calls use with it before it returns. */
void status_cache_use(struct status_cache *c, struct redisContext *service, uint32_t age_ms,
                      void (*use)(void *arg, const struct status_figures *seen), void *arg);

#endif
