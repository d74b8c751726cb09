/* redis/scan_op.h - reads a batch: its registry, then each claimed hash with HSCAN from cursor 0, many hashes
 * in one pipeline. A cut ends it (SCAN_LOST); the asker begins again from nothing (a cursor is only good inside
 * one Redis process). batch_seal runs on a thread of libuv's pool. */
#ifndef REDIS_SCAN_OP_H
#define REDIS_SCAN_OP_H

#include "redis/link.h"
#include "series/batches.h"

void redis_scan(struct redis_link *l, struct scan *s);

#endif
