/* redis/cluster.h - asks the nodes of a Redis Cluster which of them serves each lane's slot, and tells its place
 * (place.h). It asks the nodes of redis.url and those that they name, each once a second on a connection of its own.
 * While the owner is in doubt it asks more often. tallyd believes the owner with the highest config epoch: that is the
 * cluster's own rule. It believes only nodes that know a master of its cluster, since a node may have left for another
 * one. It follows a MOVED at once. One loop. */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "redis/link.h"

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
