/* redis/total_op.h - the Redis side of a live total, for some fields of one pending hash (at most TOTAL_FIELDS_MAX, which Lua's stack
 * bounds), by one script. key and fields are not needed any more once redis_total() has returned. */
#ifndef REDIS_TOTAL_OP_H
#define REDIS_TOTAL_OP_H

#include "redis/link.h"
#include "series/total.h"

void redis_total(struct redis_link *l, struct total_read *t);

#endif
