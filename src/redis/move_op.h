/* redis/move_op.h - ends counting while a Redis' counts move to a cluster: on that Redis from the mark on, for ever (the
 * handshake refuses); in the cluster until the move ends. */
#ifndef REDIS_MOVE_OP_H
#define REDIS_MOVE_OP_H

#include "redis/link.h"

enum redis_move_step {
    MOVE_LOOK, /* on the old Redis: whose mark is there? Lost, too, when a right is missing: here DUMP, ... */
    MOVE_MARK, /* sets ours, be one there already or not */
    MOVE_STATE,  /* in the cluster's home slot (lanes_op.h), as the others that follow; ... here RESTORE */
    MOVE_BEGIN,  /* no tallyd begins to count there */
    MOVE_COPIED, /* all is: no mover begins there any more; refused when another has begun since */
    MOVE_END     /* then tallyds may */
};

/* Done, or all is copied: by the mover that is asked about, or by another. */
enum redis_move_state { MOVE_FREE, MOVE_UNDER_WAY, MOVE_DONE, MOVE_IN_USE, MOVE_DONE_BY_ANOTHER };

struct redis_moving {
    enum redis_move_step step;
    uint32_t lanes;    /* of the cluster, for what is asked in its home slot */
    uint32_t replicas; /* this many must have what is written */
    /* A mover's life; empty: none. Out of MOVE_LOOK; in, for the home slot: whose move it is. */
    char mark[20];
    int64_t told; /* out: from MOVE_STATE on, the redis_move_state as it is then */
    bool lost;
    char text[200];
    void (*done)(struct redis_moving *m); /* once */
    void *arg;
};
void redis_move(struct redis_link *l, struct redis_moving *m);

#endif
