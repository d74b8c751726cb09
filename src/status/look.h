/* status/look.h - the parts of one look, each filling its part of struct status; private to the room. */
#ifndef STATUS_LOOK_H
#define STATUS_LOOK_H

#include "status/ask.h"
#include "status/status.h"

#include <hiredis/hiredis.h>

#define LOOK_WAIT_MS 1500 /* for Redis, to connect and for each answer */
#define LOOK_MYSQL_S 3

void look_service(redisContext *link, struct buf *info, struct status *s); /* link NULL: nobody answers */
void look_service_again(redisContext *link, struct status *s);             /* the rate */
void look_batches_held(const struct buf *info, struct status *s);

void look_redis(struct ask *a, const struct counters *counters, bool brief, struct status *s);

/* Before Redis is looked at, then after: the ledger's gen, which must not be newer; the rest. */
void look_mysql_first(struct db *db, struct status *s);
void look_mysql(struct db *db, const struct source *where, bool brief, struct status *s);

#endif
