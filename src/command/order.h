/* command/order.h - one client over several lanes, each of which answers at its own time: replies keep the order of
 * requests all the same. Each lane answers into an outlet of its own, a way. A ring says what is owed to the client, in
 * the order of its requests. What is complete at the head of the ring goes into the client's own outlet, whose
 * `waiting` counts all that is owed. With one lane all this does not exist. Nothing is allocated per hit once ring and
 * buffers have grown. */
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
    uint32_t what; /* lane, and kind << OWED_KIND */
    uint32_t n;
};
#define OWED_KIND 16
#define OWED_NOTHING UINT32_MAX

struct way {
    struct outlet outlet; /* the lane's; its bytes from `taken` on are not yet the client's */
    struct session *session;
    size_t taken;
    uint32_t owed;  /* answers of this lane in the ring; outlet.waiting of them have not come */
    bool used;      /* it has answered before */
    uint64_t space; /* of 128 bytes, so that a way is found by a shift */
};

/* The ring's slots are first to end - 1, each in its place & mask; the slot before first is OWED_NOTHING. */
struct order {
    struct owed *ring;
    uint32_t mask, first, end;
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
    struct owed *last = &o->ring[(o->end - 1) & o->mask];
    o->ways[lane].owed++;
    if (last->what == lane) {
        last->n++;
        return;
    }
    if (__builtin_expect(o->end - o->first == o->mask, 0)) order_grow(o);
    o->ring[o->end++ & o->mask] = (struct owed){lane, 1};
}

void order_local(struct order *o, struct outlet *client, struct slice reply); /* something is owed */
/* The last n answers expected, all of one lane, send nothing. */
void order_hush(struct order *o, uint32_t n);
/* Gives the client what is complete. */
void order_take(struct order *o, struct outlet *client);
size_t order_ahead(const struct order *o); /* bytes that wait for earlier answers */

#endif
