/* http/pool.h - the workers: threads that may wait. Each has a connection to the service's RESP door and one to MySQL,
 * for its job alone. Askers take turns, each with its jobs in the order of arrival, and one worker is left for others: many slow
 * jobs of a token delay no other. Private to the room. */
#ifndef HTTP_POOL_H
#define HTTP_POOL_H

#include "base/turns.h"
#include "http/door.h"
#include "mysql/panel.h"

#include <pthread.h>

#define POOL_WORKERS 4
#define POOL_OF_ONE (POOL_WORKERS - 1) /* workers that one asker may have */

struct worker {
    struct pool *pool;
    pthread_t thread;
    struct door door;
    struct panel panel;
    bool busy;       /* with a job ... */
    const void *who; /* ... of this asker */
};

/* Embedded in the asker's struct; the pool's from pool_submit until run() is called, which may free it. */
struct job {
    struct turn turn; /* turn.who: the token, NULL: this machine, and tallyd itself */
    void (*run)(struct job *job, struct worker *w); /* w NULL: the pool stops, refuse */
};

struct pool {
    pthread_mutex_t lock; /* of queue and stopping */
    pthread_cond_t more;
    struct turns queue; /* of struct job */
    bool stopping;
    struct worker workers[POOL_WORKERS];
    size_t started;
};

void pool_init(struct pool *p, const struct http_ports *ports, const struct source *where);
bool pool_start(struct pool *p) MUST_CHECK; /* false: no more threads; pool_stop ends those that began */
/* False: it stops, the job is the caller's. */
bool pool_submit(struct pool *p, struct job *job) MUST_CHECK;
/* Waits for the jobs under way, answers those that wait, and returns when the threads have ended. */
void pool_stop(struct pool *p);
void pool_close(struct pool *p);

#endif
