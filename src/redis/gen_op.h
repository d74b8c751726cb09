/* redis/gen_op.h - what Redis says of itself to the tallyds that merge: tally:gen, tally:gens, tally:realm and its
 * history. */
#ifndef REDIS_GEN_OP_H
#define REDIS_GEN_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_gen(struct redis_link *l, struct gen_read *g);
void redis_history(struct redis_link *l, struct history_read *h);

#endif
