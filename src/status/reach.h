/* status/reach.h - blocking connections to all lanes of one Redis or cluster at once; several may share a loop. */
#ifndef STATUS_REACH_H
#define STATUS_REACH_H

#include "redis/link.h"
#include "status/source.h"

struct reach {
    struct redis_place *places; /* one a lane */
    struct redis_link *links;   /* likewise */
    uint32_t lanes, open;       /* open: links that are */
    struct sentinels *sentinels;
    struct cluster *cluster;
};

/* Connected, not checked; a link that is lost is not made again, so what is asked there later is lost, too.
 * where's parts and life are borrowed until reach_close(), which an error needs, too. */
enum err reach_open(struct reach *r, uv_loop_t *loop, const struct life *life, const struct source *where,
                    struct error *e) MUST_CHECK;
void reach_close(struct reach *r);

#endif
