/* redis/read_in.h - what the files of the reads share; read_op.h is the outside. */
#ifndef REDIS_READ_IN_H
#define REDIS_READ_IN_H

#include "redis/lua.h"
#include "redis/read_op.h"
#include "redis/resp.h"

/* Each ends the read: r may be gone after it. */
void read_finish(struct redis_read *r);
void read_fail(struct redis_read *r,
               const struct redis_reply *reply); /* NULL: lost; else no answer to go on with */
void read_refuse(struct redis_read *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void read_refuse_key(struct redis_read *r, struct slice key,
                     struct slice held); /* it holds what is not ours */

/* A score as text: its whole seconds, or hits. False: none. */
bool read_score(const struct redis_reply *reply, int64_t *out);

/* Begins an empty key in r->key, for a name_...() to fill. */
struct buf *read_key(struct redis_read *r);

/* read_series.c, read_box.c, read_events.c, read_windows.c, read_visitors.c: the first request of each */
void read_samples(struct redis_read *r);
void read_names(struct redis_read *r);
void read_box(struct redis_read *r);
void read_events(struct redis_read *r);
void read_windows(struct redis_read *r);
void read_visitors(struct redis_read *r);

#endif
