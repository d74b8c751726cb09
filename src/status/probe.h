/* status/probe.h - the parts of status_probe; private to the room. */
#ifndef STATUS_PROBE_H
#define STATUS_PROBE_H

#include "status/ask.h"
#include "status/status.h"

#include <hiredis/hiredis.h>

#define PROBE_WAIT_MS 1500 /* for Redis, to connect and for each answer */
#define PROBE_MYSQL_S 3

void probe_service(redisContext *link, struct buf *info, struct status *s); /* link NULL: no answer */
void probe_service_again(redisContext *link, struct status *s);             /* the rate */
void probe_stands(const struct buf *info, struct status *s); /* what it says is held, or makes no progress */

void probe_redis(struct ask *a, const struct counters *counters, bool brief, struct status *s);
int batches_order(const void *a, const void *b); /* of two struct status_batch: the oldest first */

/* The first runs before probe_redis, so that the ledger's gen is not newer than Redis'; the rest runs after it. */
void probe_mysql_first(struct db *db, const struct batch_id *realm, struct status *s);
void probe_mysql_lane(struct db *db, const struct source *where, const struct batch_id *realm, bool brief,
                      struct status *s);
void probe_mysql(struct db *db, const struct source *where, bool brief,
                 struct status *s); /* what is of no lane */

#endif
