/* redis/check_op.h - what a server says of itself, and whether tallyd can run on it. */
#ifndef REDIS_CHECK_OP_H
#define REDIS_CHECK_OP_H

#include "base/slice.h"
#include "redis/durable.h"
#include "redis/link.h"

/* --- reads the text that INFO answers. --- */

/* slave0:ip=127.0.0.1,port=6380,state=online,offset=42,lag=1. False: there are fewer. */
struct info_replica {
    struct slice ip, port;
    int64_t offset; /* acknowledged */
    bool online;
};
bool info_replica(struct slice info, uint32_t at, struct info_replica *out);
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
void client_kill_put(struct redis_link *l, const struct redis_client *c); /* CLIENT KILL ID */

/* --- checks whether tallyd can run on this Redis, and that no link of an earlier life is left when this one begins. --- */

#define REDIS_WAITAOF 70200 /* the first version that has it */
/* The first version whose WAITAOF can be believed about its own disk. Earlier ones, and Valkey, which reports 7.2.4,
 * may answer with everysec while nothing is fsynced yet (redis/redis, pull request 13793). */
#define REDIS_WAITAOF_TRUE 80000

/* ERR_CONFIG, with the exact reason and the correction in e: version below 7.0; a cluster where the URL has none, or
 * the other way round; not a master; an evicting maxmemory-policy, unless nothing is kept. For the disk also: AOF off,
 * appendfsync no, or unreadable where WAITAOF cannot be believed. */
enum err redis_check_facts(const struct redis_facts *f, enum redis_keeps keeps, struct error *e);
/* What a power cut or a failover may cost here, for `check` and the log: one sentence. */
const char *redis_check_promise(const struct redis_facts *f, enum redis_keeps keeps);
/* The setting that is recommended, and why; NULL: none. */
const char *redis_check_advice(const struct redis_facts *f, enum redis_keeps keeps);

#define REDIS_FSYNC_ASK "CONFIG GET *appendfsync*" /* appendfsync, no-appendfsync-on-rewrite */
void redis_fsync_file(struct redis_facts *f, const struct redis_answer *r); /* the answer */

struct redis_fit { /* what CONFIG SET may have changed since the link came up: is this Redis still fit? */
    enum redis_keeps keeps;
    bool lost;          /* link lost, or no such answer */
    struct error error; /* else, ERR_NONE: it is */
    void (*done)(struct redis_fit *f);
    void *arg;
    struct aof_look look; /* out, when not lost */
};
void redis_fit(struct redis_link *l, struct redis_fit *f);

struct redis_kill { /* ends every link named tallyd:<instance>:<another life>:... */
    const struct life *life;
    bool everybody; /* links of all other tallyds, too */
    uint32_t killed;
    bool lost;
    char text[200];
    void (*done)(struct redis_kill *k); /* once; when it was not lost, none of them can write any more */
    void *arg;
    /* private */
    uint32_t asked;
};
void redis_kill_lives(struct redis_link *l, struct redis_kill *k);

#endif
