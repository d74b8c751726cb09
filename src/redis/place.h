/* redis/place.h - where Redis is. */
#ifndef REDIS_PLACE_H
#define REDIS_PLACE_H

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/slice.h"
#include "series/names.h"

/* --- where Redis is: redis://[user:password@]host[:port][,host[:port]...][/db], the same with TLS as rediss://, or
 * unix:///path[?db=n]. Of several hosts tallyd uses the primary. redis+cluster:// and rediss+cluster:// name nodes of a
 * Redis Cluster: any of them says where the lane's slot is (seek.h). --- */

#define REDIS_PORT_DEFAULT 6379
#define REDIS_HOSTS_MAX 8

struct redis_host {
    char *name; /* or address */
    int port;
};

/* Owns its strings (heap, NUL-terminated); redis_url_close frees them. */
struct tls_context;
struct redis_url {
    struct redis_host hosts[REDIS_HOSTS_MAX];
    unsigned hosts_n;
    char *path;            /* of the unix socket; NULL: TCP */
    char *user, *password; /* NULL: none */
    int db;
    bool secure;  /* rediss:// */
    bool cluster; /* redis+cluster:// */
    struct tls_context
        *tls; /* of secure: how; set by the owner before the first link, destroyed by redis_url_close */
};

/* User, password, host and path are percent-decoded. On failure out is empty and e names what was expected,
 * without repeating any part that may be a secret. */
enum err redis_url_parse(struct slice text, struct redis_url *out, struct error *e);
void redis_url_set_password(struct redis_url *url,
                            struct slice password); /* from a file or the environment */
void redis_url_close(struct redis_url *url);

/* --- where one Redis lives now. All links to it share one place. It names the target of each try, and (!) lets links be up
 * together only on one server process (run_id): a link that comes up on another one is cut. One loop. --- */

#define REDIS_WHERE_BYTES 280
#define REDIS_REPLICAS_MAX 8

struct redis_target {
    char host[256]; /* a name or an address; of a unix socket the path */
    int port;       /* 0: a unix socket */
};

bool target_is(const struct redis_target *a, const struct redis_target *b);
/* False: no host of visible ASCII characters, or no port. */
bool target_parse(struct slice host, struct slice port, struct redis_target *out);

struct redis_role { /* what ROLE or INFO replication said of the primary last */
    uint64_t at_ms; /* mono; 0: never */
    int64_t offset; /* of its replication stream */
    unsigned replicas_n;
    struct redis_replica {
        char where[64]; /* host:port as the primary knows it */
        int64_t offset; /* acknowledged */
    } replicas[REDIS_REPLICAS_MAX];
};

struct redis_move { /* borrowed for the call */
    char from[REDIS_WHERE_BYTES], to[REDIS_WHERE_BYTES];
    char from_run_id[RUN_ID_BYTES], to_run_id[RUN_ID_BYTES];
    const char *why; /* the first reason to leave */
    uint64_t ms;     /* from the first link that left until all were up again */
};

struct redis_place {
    const struct redis_url *url; /* borrowed */
    /* set by the owner after init; each may be NULL. */
    /* There is reason to doubt which server is primary (a try failed, NOREPLICAS, an answer is late): find out now. why
     * is an error line, borrowed for the call. It may be called many times a second. */
    void (*doubted)(struct redis_place *p, const char *why);
    void (*moved)(struct redis_place *p, const struct redis_move *m);
    void (*held)(struct redis_place *p, bool hold); /* send no frame from now on; or: go on */
    void (*redirected)(struct redis_place *p, const struct redis_target *to, const char *why); /* MOVED */
    void *arg, *finder; /* of the owner; of the finder that set doubted */
    bool
        told_only; /* the URL names no primary (but a Sentinel's name of it, or a cluster's nodes): links wait for place_move() */
    uint32_t hold_most_ms; /* 3,000 */
    /* read-only */
    struct tag tag;                /* of its lane's keys, when the URL is a cluster's */
    unsigned slot;                 /* of that tag */
    char run_id[RUN_ID_BYTES];     /* of the server that links are up on, or were last; empty: none was yet */
    char where[REDIS_WHERE_BYTES]; /* its numeric address and port, or its socket */
    char replid[RUN_ID_BYTES];     /* its replication id, when a link last came up */
    struct redis_role role;
    uint64_t moved_ms; /* mono, when the first link came up on another one than before; 0: never */
    uint64_t number;   /* of our last frame that its server is known to have; 0: none, or not known */
    unsigned changes;  /* so often it was found with other data, though its links lived */
    /* private */
    struct list links;
    struct redis_target told;              /* by place_move; host empty: nothing yet */
    unsigned home;                         /* which host of the URL had a primary last */
    uint64_t odd_ms;                       /* mono, since when a link comes up elsewhere only; 0: none does */
    uint64_t doubted_ms, hold_ms, left_ms; /* mono; 0: not */
    uint64_t
        stray_ms; /* mono, since when the cluster takes no frame for its slot is on its way; 0: it does */
    bool leaving; /* a link left the server of run_id, and not all are up again */
    struct redis_move move; /* while leaving */
    char why[300];
};

void place_init(struct redis_place *p,
                const struct redis_url *url); /* of a Redis with one lane, or of no lane at all */
void place_init_lane(struct redis_place *p, const struct redis_url *url, unsigned lane, unsigned lanes);

/* All links leave for target at once, and go nowhere else until the next move. A frame in flight is in doubt as after
 * any cut. Links that are on target already stay. why is an error line for clients. */
void place_move(struct redis_place *p, const struct redis_target *target, const char *why);
/* While it holds, frames are not sent: hits wait. It ends by itself after hold_most_ms. */
void place_hold(struct redis_place *p, bool hold);
static inline bool place_is_held(const struct redis_place *p)
{
    return p->hold_ms != 0;
}
/* Our slot is moving to another node (MOVED, ASK, TRYAGAIN), so a frame did not run: holds until place_found(), and for
 * hold_most_ms at most, however often this is called meanwhile. */
void place_stray(struct redis_place *p);
void place_found(struct redis_place *p);                 /* the frame link has all that it asked for */
void place_served(struct redis_place *p);                /* a frame was applied */
void place_tick(struct redis_place *p, uint64_t now_ms); /* every 20 ms or so */
bool place_is_up(const struct redis_place *p);           /* some link is up */
bool place_is_whole(const struct redis_place *p);        /* all that were started are */
/* Every link asks ROLE now, and `doubted` is called; at most every 200 ms. */
void place_doubt(struct redis_place *p, const char *why);

#endif
