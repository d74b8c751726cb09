/* redis/info.h - texts that Redis answers: INFO, CLIENT LIST. */
#ifndef REDIS_INFO_H
#define REDIS_INFO_H

#include "base/buf.h"
#include "redis/link.h"

/* --- reads the text that INFO answers. --- */

/* The value of `key:value` in INFO's text. False: no such line. */
bool info_get(struct slice info, const char *key, struct slice *value);
bool info_is(struct slice info, const char *key, const char *value);
/* Fills all of f but appendfsync. False: it is no INFO text of a Redis server. */
bool info_facts(struct slice info, struct redis_facts *f);

/* --- CLIENT LIST, a line for each link: "id=7 addr=... name=tallyd:shop:<life>:frame ...". Only tallyd's own links matter here. --- */

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
