/* redis/quorum.h - decides, from what sentinels say, where the primary is, and when frames wait. No I/O and no clock:
 * sentinel.c asks sentinels and servers, and carries out what is decided here.
 *
 * A majority of the sentinels that names another server moves us there. The leader of a failover speaks about a second
 * before the others do. tallyd believes it alone when the server proves itself: a primary of ours listed it among its
 * replicas, and it now says that it is a primary and continues our primary's history (its master_replid2 is our
 * primary's master_replid). Frames wait from the first event of a failover on. A sentinel that has held frames may hold
 * again only after twenty times as long. */
#ifndef REDIS_QUORUM_H
#define REDIS_QUORUM_H

#include "redis/place.h"

#define SENTINELS_MAX 16 /* that are asked: configured ones and those found */
#define REPLICAS_MAX 16
#define REPLID_BYTES 41 /* with its NUL; also of the id of a sentinel */

#define QUORUM_FIRST_MS 500  /* the first choice waits this long for a majority */
#define QUORUM_FRESH_MS 3000 /* what a sentinel said counts for this long */
#define QUORUM_HOLD_MS 3000
#define QUORUM_HOLD_SHARE 20
#define QUORUM_PROVEN_MS 10000 /* after a proof: for this long the others may still name the old primary */

struct quorum_ports {
    void *arg;
    void (*move)(void *arg, const struct redis_target *to, const char *why);
    void (*hold)(void *arg, bool on, const char *why);
    void (*look)(void *arg, const struct redis_target *at); /* asks it repeatedly; NULL: stop asking */
};

struct sentinel_word {              /* of one sentinel */
    char id[REPLID_BYTES];          /* empty: not known */
    struct redis_target named;      /* as the primary */
    bool old;                       /* it has named no other primary since we left one by a proof */
    uint64_t named_ms;              /* 0: it does not answer */
    uint64_t others[SENTINELS_MAX]; /* that it knows apart from itself: a hash of id and address of each */
    uint32_t others_n;
    uint64_t hold_again_ms; /* it may not hold before */
};

struct replication { /* what a server says of it */
    bool master;
    char replid[REPLID_BYTES], replid2[REPLID_BYTES];
    struct redis_target replicas[REPLICAS_MAX];
    uint32_t replicas_n;
};

struct quorum {
    struct quorum_ports ports;
    const char *name; /* of the primary; borrowed */
    struct sentinel_word words[SENTINELS_MAX];
    uint32_t words_n, configured_n; /* the configured ones come first */
    struct redis_target now;        /* where we are */
    bool seen;                      /* the primary there has answered */
    uint64_t began_ms;
    struct redis_target left; /* by a proof, at left_ms */
    uint64_t left_ms;
    struct replication primary;              /* as it said last */
    struct redis_target known[REPLICAS_MAX]; /* primaries where we were, and replicas that they named */
    uint32_t known_n;                        /* ever: the newest of them are kept */
    struct redis_target candidate;           /* looked at, until: */
    uint64_t candidate_ms;
    bool holding, moved; /* moved: since the hold began */
    uint32_t holder;
    uint64_t hold_ms; /* since */
};

void quorum_init(struct quorum *q, const struct quorum_ports *ports, const char *name, uint32_t configured_n,
                 uint64_t now_ms);
/* Of sentinel i. Two with one id are the same one, and count once. */
void quorum_id(struct quorum *q, uint32_t i, struct slice id);
void quorum_others(struct quorum *q, uint32_t i, const uint64_t *others, uint32_t n);
/* A found sentinel is asked when a majority answers and most of those list it: a sentinel that lies cannot add one. */
bool quorum_believes(const struct quorum *q, uint64_t other, uint64_t now_ms);
uint32_t quorum_add(struct quorum *q);            /* its index; SENTINELS_MAX: there is no room */
void quorum_silent(struct quorum *q, uint32_t i); /* it does not answer */
/* at NULL: it does not know the name. */
void quorum_named(struct quorum *q, uint32_t i, const struct redis_target *at, uint64_t now_ms);
/* A message of its pub/sub. */
void quorum_heard(struct quorum *q, uint32_t i, struct slice channel, struct slice text, uint64_t now_ms);

void quorum_primary(struct quorum *q, const struct replication *r); /* of the server at `now` */
void quorum_looked(struct quorum *q, const struct replication *r, uint64_t now_ms); /* of the candidate */
void quorum_up(struct quorum *q, uint64_t now_ms); /* links are up where we are: what waits goes on */
void quorum_tick(struct quorum *q, uint64_t now_ms);

uint32_t quorum_size(const struct quorum *q, uint64_t now_ms);     /* how many sentinels there are */
uint32_t quorum_majority(const struct quorum *q, uint64_t now_ms); /* how many that is */
uint32_t quorum_answering(const struct quorum *q, uint64_t now_ms);

#endif
