/* redis/scan_op.h - reads a batch: its registry, then each claimed hash with HSCAN from cursor 0, many hashes in one
 * pipeline. A cut ends it (SCAN_LOST); the asker begins again from nothing (a cursor is only good inside one Redis
 * process). batch_seal runs on a thread of libuv's pool. */
#ifndef REDIS_SCAN_OP_H
#define REDIS_SCAN_OP_H

#include "base/turns.h"
#include "redis/link.h"
#include "series/batches.h"

struct redis_scans { /* of one link */
    bool
        gentle; /* its owner's: others wait for this Redis; it gets half a millisecond of work at once, and as long a rest */
    /* private */
    struct redis_link *link;
    uv_timer_t rest;
    struct list resting; /* scans that go on after it */
    struct piece piece;  /* fields asked for at once, while gentle */
    uint32_t fields, out;
    uint64_t asked_us, rest_until_us;
    void (*closed)(struct redis_scans *ss);
};

void redis_scans_init(struct redis_scans *ss, struct redis_link *link);
/* The link is closed. Scans that rest are lost. */
void redis_scans_close(struct redis_scans *ss, void (*closed)(struct redis_scans *ss));
void redis_scan(struct redis_scans *ss, struct scan *s);

#endif
