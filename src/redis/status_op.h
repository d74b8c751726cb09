/* redis/status_op.h - requests that only `status` makes: the state of the server, names in tally:held, the size of a
 * batch. */
#ifndef REDIS_STATUS_OP_H
#define REDIS_STATUS_OP_H

#include "redis/link.h"

struct redis_self { /* INFO, and the first names of tally:held */
    uint32_t names_most;
    void (*info)(void *arg, struct slice text); /* for info_get(); each for the call only */
    void (*held)(void *arg, struct slice name);
    bool lost;
    char text[200];
    void (*done)(struct redis_self *s); /* once */
    void *arg;
};
void redis_self(struct redis_link *l, struct redis_self *s);

struct redis_batch_size { /* fields of a standing batch, as its registry counts them */
    struct batch_id id;
    int64_t fields; /* out */
    bool lost;
    void (*done)(struct redis_batch_size *b); /* once */
    void *arg;
};
void redis_batch_size(struct redis_link *l, struct redis_batch_size *b);

#endif
