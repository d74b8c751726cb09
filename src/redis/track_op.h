/* redis/track_op.h - names of the keys that anybody changes on one Redis, as the server tells them: CLIENT TRACKING, to all that
 * subscribe (BCAST). On a connection of its own, which is not made again: what changed meanwhile would be missing. */
#ifndef REDIS_TRACK_OP_H
#define REDIS_TRACK_OP_H

#include "base/map.h"
#include "redis/link.h"

struct redis_track {
    struct map
        changed; /* names, of any database of that server; whoever takes them puts an empty map there */
    bool on;     /* each later change is told */
    bool seen;   /* the change that redis_track_mark() makes was told, and so was each earlier one */
    bool lost;   /* no longer: text */
    char text[300];
    /* private */
    struct redis_link link;
    char mark[sizeof KEY_MARK_PREFIX + 16];
    bool closed;
};

/* place is borrowed until the close. Then redis_track_await() with `on`. */
void redis_track_open(struct redis_track *t, uv_loop_t *loop, struct redis_place *place);
/* Changes a key of its own on `l`, a link to the same server. */
void redis_track_mark(struct redis_track *t, struct redis_link *l);
/* Runs the loop until *what, which is t->on or t->seen. False: it is lost, as it is after wait_ms. */
bool redis_track_await(struct redis_track *t, const bool *what, uint64_t wait_ms);
void redis_track_close(struct redis_track *t); /* runs the loop until it is closed */

#endif
