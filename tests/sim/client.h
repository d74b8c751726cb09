/* tests/sim/client.h - a client of one daemon: sends hits, reads the replies that the frames write into its
 * outlet, and knows of each what it was told. */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "base/outlet.h"
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
    struct expect expects[CLIENT_EXPECTS]; /* a ring */
    unsigned first, n;
    bool parked, may_go_on; /* waits for room with `again` */
    struct expect again;
};

struct process;

void client_init(struct client *c);
void client_hit(struct process *life, struct client *c); /* a new hit, or the one that found no room */
bool client_can_hit(const struct process *life, const struct client *c);
void client_read(struct process *life, struct client *c);  /* reads all that was written */
void client_leave(struct process *life, struct client *c); /* closes its connection */
void client_recycle(struct client *c); /* gone and owed nothing: a new one connects in its place */
void client_crashed(struct process *life, struct client *c); /* its daemon is gone */

#endif
