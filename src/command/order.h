/* command/order.h - one client over several lanes, each of which answers when it may: replies keep the order of requests all the
 * same. Each lane answers into an outlet of its own, a way; a ring says what is owed to the client, in the order of its
 * requests. What is complete at the head of the ring goes into the client's own outlet, whose `waiting` counts all that is owed.
 * With one lane there is none of this. Nothing is allocated per hit once ring and buffers have grown. */
#ifndef COMMAND_ORDER_H
#define COMMAND_ORDER_H

#include "base/outlet.h"

struct session;

enum owed_kind {
    OWED_REPLIES, /* n replies of a lane */
    OWED_SILENT,  /* n answers of a lane that say nothing */
    OWED_LOCAL,   /* n bytes of order.local, there already */
};

struct owed {
    uint16_t lane;
    uint16_t kind;
    uint32_t n;
};

struct way {
    struct outlet outlet; /* the lane's; its bytes from `taken` on are not yet the client's */
    struct session *session;
    size_t taken;
    uint32_t owed; /* answers of this lane in the ring; outlet.waiting of them have not come */
    bool used;     /* it has answered before */
};

struct order {
    struct owed *ring;
    uint32_t cap, first, n; /* cap: a power of two */
    uint32_t lanes;
    struct buf local;
    size_t local_taken;
    struct way ways[];
};

struct order *order_create(struct session *s, uint32_t lanes);
/* The client is gone: what lanes still owe is dropped when it comes. Frees o and says true when they owe nothing. */
bool order_gone(struct order *o, struct outlet *client);

void order_grow(struct order *o);
/* One more answer of the lane; the caller counts client->waiting. */
static inline void order_expect(struct order *o, uint32_t lane)
{
    struct owed *last = &o->ring[(o->first + o->n - 1) & (o->cap - 1)];
    o->ways[lane].owed++;
    if (o->n > 0 && last->lane == lane && last->kind == OWED_REPLIES) {
        last->n++;
        return;
    }
    if (__builtin_expect(o->n == o->cap, 0)) order_grow(o);
    o->ring[(o->first + o->n++) & (o->cap - 1)] = (struct owed){(uint16_t)lane, OWED_REPLIES, 1};
}

void order_local(struct order *o, struct outlet *client, struct slice reply); /* something is owed */
/* The last n answers expected, all of one lane, say nothing. */
void order_hush(struct order *o, uint32_t n);
/* Gives the client what is complete. */
void order_take(struct order *o, struct outlet *client);
size_t order_ahead(const struct order *o); /* bytes that wait for earlier answers */

#endif
