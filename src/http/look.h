/* http/look.h - how it stands in Redis and MySQL, as status/ sees it, kept for a moment: however many ask, one looks at a
 * time, and not more often than a look is worth. Workers only: a look waits for servers. Private to the room. */
#ifndef HTTP_LOOK_H
#define HTTP_LOOK_H

#include "status/status.h"

#include <pthread.h>

struct looked {
    struct figure dirty;        /* hashes in the dirty index */
    struct figure oldest_ms;    /* age of the oldest hit that is not in MySQL; 0: there is none */
    struct figure batches;      /* standing */
    struct figure rejects;      /* rows that wait */
    struct figure balanced;     /* 1 or 0, when the books were looked at last */
    struct figure *differences; /* likewise; one a counter, in the order of the configuration */
};

struct look {
    pthread_mutex_t lock; /* of all below; held while looking */
    const struct source *where;
    struct looked last;
    uint64_t at_ms, took_ms, books_at_ms; /* 0: never */
};

void look_init(struct look *l, const struct source *where);
void look_close(struct look *l);

/* What was seen at most age_ms ago, or a little more when looking takes long; use is called with it before this returns. */
void look_use(struct look *l, struct redisContext *service, uint32_t age_ms,
              void (*use)(void *arg, const struct looked *seen), void *arg);

#endif
