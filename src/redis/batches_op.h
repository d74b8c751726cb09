/* redis/batches_op.h - the batches in Redis: adopting them, signs of life, their list. */
#ifndef REDIS_BATCHES_OP_H
#define REDIS_BATCHES_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_adopt(struct redis_link *l, struct adopt *a); /* the new owner is the life of the link */
void redis_standing(struct redis_link *l, struct standing *s);

/* Fire and forget: refreshes the scores of these batches, and tally:instance:<instance> -> '<life>|<host>', EX 30.
 * Works when Redis is full. ids_n may be 0. */
void redis_beat(struct redis_link *l, const struct life *life, struct slice host, const struct batch_id *ids,
                uint32_t ids_n);

/* Does another process run under this instance's name? Reads tally:instance:<instance>, then CLIENT LIST. */
struct redis_instance {
    const struct life *life;
    bool lost, taken;                       /* taken: another life, and its sign of life has not run out */
    bool linked;                            /* and that life has links to Redis */
    char holder[200];                       /* '<life>|<host>' */
    char text[200];                         /* why, when lost */
    void (*done)(struct redis_instance *i); /* once */
    void *arg;
};
void redis_instance(struct redis_link *l, struct redis_instance *i);

void redis_batch_list(struct redis_link *l, struct batch_list *b);

#endif
