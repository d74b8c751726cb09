/* redis/client_list.h - CLIENT LIST, a line for each link: "id=7 addr=... name=tallyd:shop:<life>:frame ...". Only
 * tallyd's own links matter here. */
#ifndef REDIS_CLIENT_LIST_H
#define REDIS_CLIENT_LIST_H

#include "base/slice.h"

struct redis_client {   /* into the list */
    struct slice id;    /* digits */
    struct slice owner; /* <instance>:<life> */
};

/* The next link of a tallyd; *rest then begins after its line. False: no more links. */
bool client_next(struct slice *rest, struct redis_client *c);
bool client_is_of(const struct redis_client *c,
                  struct slice owner); /* owner: <instance>:<life>, or <instance> */
void client_kill_put(struct buf *out, const struct redis_client *c); /* CLIENT KILL ID */

#endif
