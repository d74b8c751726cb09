/* tests/sim/client.h - a client of one daemon: sends hits, reads the replies that the frames write into its outlet, and knows
 * of each what it was told. Over several lanes command/order.c puts their replies in order, as for a session; its last client
 * has hits of one lane alone. */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "command/order.h"
#include "sim/model.h"

#define CLIENT_EXPECTS 256
#define EXPECT_LITERAL -1
#define EXPECT_OP -2

struct expect {      /* an answer that is owed */
    int hash, field; /* hash EXPECT_LITERAL: a reply of another kind; EXPECT_OP: field is the op's target */
    unsigned k;
    bool token, again; /* has one; was sent before */
};

struct client {
    struct outlet outlet;
    struct order *order;                   /* NULL: one lane, or nothing was sent yet */
    struct expect expects[CLIENT_EXPECTS]; /* a ring */
    unsigned first, n;
    bool parked, may_go_on; /* waits for room with `again`, at that lane */
    unsigned parked_at;
    uint64_t parked_ms;
    struct expect again;
};

struct process;
struct daemon;
struct world;

void client_init(struct client *c);
void client_hit(struct process *life, struct client *c); /* a new hit, or the one that found no room */
bool client_can_hit(const struct process *life, const struct client *c);
void client_answered(struct process *life, struct outlet *o); /* a lane wrote: reads what it may */
struct client *client_of(const struct process *life, struct outlet *o);
bool client_is_behind(const struct client *c); /* what is the next answer is there, and not read */
/* An answer is owed, and the next one is not of a lane that is away. */
bool client_waits(const struct world *w, const struct client *c);
void client_leave(struct daemon *d, struct client *c); /* closes its connection */
void client_close(struct daemon *d, struct client *c); /* of a daemon that ends: nothing is owed */
void client_recycle(struct client *c); /* gone and owed nothing: a new one connects in its place */
void client_crashed(struct world *w, struct client *c); /* its daemon is gone */

#endif
