/* command/order.h - one client over several lanes, each of which answers at its own time: replies keep the order of
 * requests all the same. Each lane answers into a queue of its own, a way; replies of the session itself have one, too.
 * A ring says in which way each reply is, or will be, in the order of the requests. What is complete at its head goes
 * into the client's own outlet, whose `waiting` counts all that is owed. With one lane all this does not exist. Nothing
 * is allocated per hit once ring and buffers have grown. */
#ifndef COMMAND_ORDER_H
#define COMMAND_ORDER_H

#include "base/outlet.h"

struct session;

struct way {              /* of 128 bytes, so that it is found by a shift */
    struct outlet outlet; /* a queue */
    struct session *session;
    size_t texts_taken; /* bytes of outlet.texts */
};
_Static_assert(sizeof(struct way) == 128, "a way's place is a shift");

#define EXPECT_MAX 16 /* answers that order_expect() takes at once */

struct order {
    uint16_t *ring; /* first to end - 1, each in its place & mask; EXPECT_MAX more to write into */
    uint32_t mask, first, end;
    uint32_t lanes;
    struct buf *texts; /* one a way */
    struct way ways[]; /* one a lane, and the session's */
};

struct order *order_create(struct session *s, uint32_t lanes);
/* The client is gone: what lanes still owe is dropped when it comes. Frees o and says true when they owe nothing. */
bool order_gone(struct order *o, struct outlet *client);

void order_grow(struct order *o);
static inline void order_room(struct order *o)
{
    if (__builtin_expect(o->end - o->first + EXPECT_MAX > o->mask + 1, 0)) order_grow(o);
}
/* n more answers, of these lanes; the caller counts client->waiting. All of lanes is copied: that is one instruction or
 * two. */
static inline void order_expect(struct order *o, const uint16_t lanes[EXPECT_MAX], uint32_t n)
{
    order_room(o);
    uint32_t at = o->end & o->mask, cap = o->mask + 1;
    memcpy(o->ring + at, lanes, EXPECT_MAX * sizeof *lanes);
    if (__builtin_expect(at + n > cap, 0)) memcpy(o->ring, o->ring + cap, (at + n - cap) * sizeof *lanes);
    o->end += n;
}
static inline void order_expect_one(struct order *o, uint32_t lane)
{
    order_room(o);
    o->ring[o->end++ & o->mask] = (uint16_t)lane;
}

void order_local(struct order *o, struct outlet *client, struct slice reply); /* something is owed */
/* Gives the client what is complete. */
void order_take(struct order *o, struct outlet *client);
size_t order_ahead(const struct order *o);            /* bytes that wait for earlier answers */
static inline bool order_ready(const struct order *o) /* the reply at the head is there */
{
    if (o->first == o->end) return false;
    const struct outlet *way = &o->ways[o->ring[o->first & o->mask]].outlet;
    return way->taken != way->out.n;
}

#endif
