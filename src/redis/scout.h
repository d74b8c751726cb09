/* redis/scout.h - asks the other hosts of redis.url when there is reason to doubt where the primary is. So links leave
 * a primary that answers nothing before redis.timeout is over. */
#ifndef REDIS_SCOUT_H
#define REDIS_SCOUT_H

#include "redis/link.h"

struct redis_scouts {
    struct redis_place *place;
    uv_loop_t *loop;
    const struct life *life;
    struct redis_scout {
        struct redis_scouts *of;
        struct redis_url url; /* of this host alone; its strings are the place's */
        struct redis_place place;
        struct redis_link link;
        uint64_t sent_ms;
        bool out;
    } all[REDIS_HOSTS_MAX];
    unsigned out;
    bool closing;
    void (*closed)(struct redis_scouts *s);
};

void scouts_init(struct redis_scouts *s, uv_loop_t *loop, const struct life *life, struct redis_place *place);
/* Asks every host except the one that links are on, each at most every half second. Links move (place_move) to the
 * first that is a primary: while a link is up, only to one that replicated from that server until it was promoted. */
void scouts_send(struct redis_scouts *s);
void scouts_close(struct redis_scouts *s, void (*closed)(struct redis_scouts *s)); /* closed: maybe at once */

#endif
