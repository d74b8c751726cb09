/* tests/sim/moves.h - a Redis that moves. Apart from the primary (world->redis) there is one other process, at first a replica that
 * no daemon is linked to. A failover makes it the primary, with a prefix of what the old one wrote that has all it acknowledged
 * (redis->durable: redis.replicas is 1). The old one is demoted at once, or, as a split brain, some time later. It keeps its
 * links, or ends them, and takes over the new one's data some time later: nothing is acknowledged before.
 *
 * Links go to the new one as redis/place.c has it: one that comes up is cut while others of its life are elsewhere
 * (WORLD_ONE_SERVER); READONLY ends all links of the life to that server; each link notices by itself as well, at the latest
 * role_ms after the demotion. */
#ifndef SIM_MOVES_H
#define SIM_MOVES_H

#include "sim/redis_twin.h"

struct process;

struct other { /* the process that was the primary before */
    bool there;
    bool writes;  /* it takes writes still: a split brain */
    bool follows; /* it has the primary's data, so it may be promoted */
    unsigned run, history;
    uint64_t demoted_ms;
    struct twin_state now;
    struct list links;
};

void moves_init(struct world *w);
void moves_close(struct world *w);
/* While one of the other server's requests runs, world->redis is that server. */
void moves_swap(struct world *w);
bool moves_is_away(const struct world *w, const struct link *l);    /* at the other */
bool moves_refuses(const struct world *w, const struct request *q); /* READONLY */

bool moves_can_fail_over(const struct world *w);
void moves_fail_over(struct world *w);
void moves_announce(struct world *w); /* daemons hold; the copy is chosen that will be promoted */
void moves_demote(struct world *w);
/* Links that watch the number that a frame sets: the data under them were changed. */
void moves_tell(const struct world *w, struct list *links, const struct twin_state *had,
                const struct twin_state *has);
void moves_follow(struct world *w); /* the other takes over the primary's data */
void moves_rest(struct world *w);   /* in the calm: both, all leave it, and nothing is announced */
void moves_clock(struct world *w);

/* NULL: the link is cut at once, since others of the life are at another server. */
struct link *moves_connect(struct process *life, enum role role);
bool moves_lacks(
    const struct process *life); /* the primary, which its links are at, a frame that was there */
bool moves_astray(const struct process *life); /* some link is at a server that is not the primary */
/* Since then a link came up at such a server, next to others: it need not see what they are told meanwhile. */
bool moves_strayed(const struct process *life, unsigned strays);
void moves_tick(struct process *life);

#endif
