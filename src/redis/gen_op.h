/* redis/gen_op.h - reads tally:gen, or raises it. */
#ifndef REDIS_GEN_OP_H
#define REDIS_GEN_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_gen(struct redis_link *l, struct gen_read *g);

#endif
