/* redis/query_in.h - what the files of the reads share; query_op.h is the outside. */
#ifndef REDIS_QUERY_IN_H
#define REDIS_QUERY_IN_H

#include "redis/lua.h"
#include "redis/query_op.h"
#include "redis/request.h"

/* Each ends the read: r may be gone after it. */
void query_finish(struct redis_query *r);
void query_fail(struct redis_query *r,
                const struct redis_answer *reply); /* NULL: lost; else no answer to go on with */
void query_refuse(struct redis_query *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void query_refuse_key(struct redis_query *r, struct slice key,
                      struct slice held); /* it holds what is not ours */

/* There is more: ask() asks for it. Last line, as the others. */
void query_more(struct redis_query *r, void (*ask)(struct redis_query *r));

/* A score as text: its whole seconds, or hits. False: none. */
bool query_score(const struct redis_answer *reply, int64_t *out);

/* Begins an empty key in r->key, for a name_...() to fill. */
struct buf *query_key(struct redis_query *r);

/* query_series.c, query_timebox.c, query_events.c, query_windows.c, query_visitors.c: the first request of each */
void query_samples(struct redis_query *r);
void query_names(struct redis_query *r);
void query_timebox(struct redis_query *r);
void query_events(struct redis_query *r);
void query_windows(struct redis_query *r);
void query_visitors(struct redis_query *r);

#endif
