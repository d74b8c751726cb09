/* redis/seek.h - who says where Redis is now: other hosts, sentinels, the nodes of a cluster. */
#ifndef REDIS_SEEK_H
#define REDIS_SEEK_H

#include "redis/link.h"
#include "redis/place.h"

/* --- decides, from what sentinels say, where the primary is, and when frames wait. No I/O and no clock: sentinel.c asks sentinels
 * and servers, and carries out what is decided here. A majority of the sentinels that names another server moves us there. The
 * leader of a failover speaks about a second before the others do. tallyd believes it alone when the server proves itself: a
 * primary of ours listed it among its replicas, and it now says that it is a primary and continues our primary's history (its
 * master_replid2 is our primary's master_replid). Frames wait from the first event of a failover on. A sentinel that has held
 * frames may hold again only after twenty times as long. --- */

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

/* --- asks the other hosts of redis.url when there is reason to doubt where the primary is. So links leave a primary that answers
 * nothing before redis.timeout is over. --- */

struct redis_scouts {
    struct redis_place *place;
    uv_loop_t *loop;
    const struct life *life;
    struct redis_scout {
        struct redis_scouts *of;
        struct redis_url url; /* of this host alone; its strings are the place's */
        struct redis_place place;
        struct redis_link link;
        uint64_t sent_ms;
        bool out;
    } all[REDIS_HOSTS_MAX];
    unsigned out;
    bool closing;
    void (*closed)(struct redis_scouts *s);
};

void scouts_init(struct redis_scouts *s, uv_loop_t *loop, const struct life *life, struct redis_place *place);
/* Asks every host except the one that links are on, each at most every half second. Links move (place_move) to the
 * first that is a primary: while a link is up, only to one that replicated from that server until it was promoted. */
void scouts_send(struct redis_scouts *s);
void scouts_close(struct redis_scouts *s, void (*closed)(struct redis_scouts *s)); /* closed: maybe at once */

/* --- asks sentinels where a primary is, listens to them, and tells its place (place.h). It asks each once a second on one
 * connection, all at the same time, and subscribes on another. quorum.c decides what follows; for that, it also asks the primary,
 * and the server that may become it, for their replication. One loop. --- */

#define SENTINEL_PORT_DEFAULT 26379

struct sentinels_config {
    const char *name;        /* of the primary, as the sentinels have it; NULL: there are no sentinels */
    struct redis_url access; /* user, password and TLS of the sentinels; it names no host */
    struct redis_target at[SENTINELS_MAX];
    uint32_t n;
};

enum sentinel_state {
    SENTINEL_SILENT,  /* cannot be reached, or does not answer */
    SENTINEL_REFUSES, /* TLS, a password, a right */
    SENTINEL_UNKNOWN, /* knows no primary of that name */
    SENTINEL_NAMES    /* names a primary */
};

struct sentinel_seen { /* of one */
    struct redis_target at, primary;
    enum sentinel_state state;
    bool found;     /* by the others; not configured */
    bool heard;     /* it has confirmed the subscription to its events, which is open */
    char text[240]; /* of SILENT and REFUSES: why */
};

struct sentinels;
/* Asks at once. place: its links wait for what the sentinels say from now on. All is borrowed until closed. */
struct sentinels *sentinels_create(uv_loop_t *loop, const struct sentinels_config *config,
                                   struct redis_place *place);
/* Closes everything, then calls closed, if not NULL. */
void sentinels_close(struct sentinels *s, void (*closed)(void *arg), void *arg);

/* What each asked sentinel says, the configured ones first; out has room for SENTINELS_MAX. Returns how many. */
uint32_t sentinels_seen(const struct sentinels *s, struct sentinel_seen *out);
const char *sentinel_state_name(enum sentinel_state state); /* "answers", for one that names a primary */

struct sentinels_count {
    uint32_t known, answering, majority; /* as quorum.c counts */
};
struct sentinels_count sentinels_count(const struct sentinels *s);
/* At a start: runs the loop until they have named a primary, or for wait_ms. ERR_UNAVAILABLE: none answers; ERR_CONFIG:
 * one refuses, or knows no such name. e says what to do. */
enum err sentinels_wait(struct sentinels *s, uint64_t wait_ms, struct error *e) MUST_CHECK;
/* Runs the loop until each configured sentinel has answered or cannot be reached, at most for wait_ms. */
void sentinels_hear_all(struct sentinels *s, uint64_t wait_ms);

/* "host:port", or a host alone. NULL, or what was expected. */
const char *sentinel_parse(struct slice text, struct redis_target *out);

/* --- asks the nodes of a Redis Cluster which of them serves each lane's slot, and tells its place (place.h). It asks the nodes of
 * redis.url and those that they name, each once a second on a connection of its own. While the owner is in doubt it asks more
 * often. tallyd believes the owner with the highest config epoch: that is the cluster's own rule. It believes only nodes that know
 * a master of its cluster, since a node may have left for another one. It follows a MOVED at once. One loop. --- */

#define CLUSTER_NODES_MAX 32 /* that are asked */
#define CLUSTER_ID_BYTES 41  /* a node's id, and a NUL */

enum cluster_state {
    CLUSTER_SILENT,  /* cannot be reached, or does not answer */
    CLUSTER_REFUSES, /* TLS, a password, a right; or it is no node of a cluster */
    CLUSTER_OTHER,   /* is in another cluster than those that were asked before */
    CLUSTER_UNOWNED, /* knows of no node that serves one of the slots */
    CLUSTER_NAMES    /* names one for each */
};

struct cluster_seen {              /* of one node */
    struct redis_target at, owner; /* owner: of the first slot */
    uint32_t own;                  /* slots that it says are its own */
    enum cluster_state state;
    bool found;     /* by the others; not configured */
    char text[240]; /* of SILENT and REFUSES: why */
};

/* What CLUSTER SLOTS says of a slot. asked: the node that says it, for an owner without a host of its own. False: no
 * node serves the slot, or r is another kind of answer. id: borrowed from r. */
bool cluster_owner(const struct redis_answer *r, unsigned slot, const struct redis_target *asked,
                   struct redis_target *owner, struct slice *id);
/* The config epoch of a node in CLUSTER NODES; 0: not found. */
uint64_t cluster_epoch(struct slice nodes, struct slice id);

struct cluster;
/* Asks at once. places, of one cluster: their links wait for the nodes' answers from now on, and go to the owner of
 * their slot. Borrowed until closed, except the array. */
struct cluster *cluster_create(uv_loop_t *loop, struct redis_place *const *places, uint32_t n_places);
/* Closes everything, then calls closed. */
void cluster_close(struct cluster *c, void (*closed)(void *arg), void *arg);

/* What each asked node says, the configured ones first; out has room for CLUSTER_NODES_MAX. Returns how many. */
uint32_t cluster_look(const struct cluster *c, struct cluster_seen *out);
/* At a start: runs the loop until the nodes have named each slot's owner, or for wait_ms; then, for a second at most,
 * until each configured node has answered or cannot be reached. ERR_UNAVAILABLE: no node answers, or none serves the
 * slot; ERR_CONFIG: one refuses, or they are of two clusters. e says what to do. */
enum err cluster_wait(struct cluster *c, uint64_t wait_ms, struct error *e) MUST_CHECK;

#endif
