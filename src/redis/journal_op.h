/* redis/journal_op.h - journals whose service is dead (series/batches.h): found, taken over, read. */
#ifndef REDIS_JOURNAL_OP_H
#define REDIS_JOURNAL_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_journals(struct redis_link *l, struct journal_list *list);
void redis_journal_take(struct redis_link *l, struct journal_take *t); /* of a frame link */

#endif
