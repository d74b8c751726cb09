/* redis/scan_op.h - reads a batch: its registry, then each claimed hash with HSCAN from cursor 0, many hashes
 * in one pipeline. A cut ends it (SCANNED_LOST); whoever asked begins again from nothing (a cursor
 * is only good inside one Redis process). batch_seal runs on a thread of libuv's pool. */
#ifndef REDIS_SCAN_OP_H
#define REDIS_SCAN_OP_H

#include "redis/link.h"
#include "series/batch.h"

#define SCAN_HASHES_AT_ONCE 32

/* in the order of sync/ports.h: enum scan_outcome */
enum redis_scanned {
    SCANNED_SEALED,
    SCANNED_GONE,    /* no registry */
    SCANNED_LOST,    /* link lost, or Redis answered an error */
    SCANNED_SHORT,   /* fewer (or more) fields than registered while the registry stands */
    SCANNED_UNKNOWN, /* format or counter not known here */
};

struct redis_scan {
    struct batch *batch; /* in: its id; cleared, then filled. The scan's until done */
    const struct counters *counters;
    bool raw; /* also read what would be SCANNED_UNKNOWN (recover --reject-unknown); counter is NULL */
    enum redis_scanned outcome;
    char run_id[REDIS_RUN_ID_BYTES]; /* of the server that gave the rows */
    char text[200];
    void (*done)(struct redis_scan *s); /* once */
    void *arg;
    /* private */
    struct redis_link *link;
    uv_work_t work;
    uint32_t next, out; /* next hash to begin; requests under way */
    bool failed, sealed;
    size_t short_hash;
    struct buf name;
    struct redis_scan_slot {
        struct redis_scan *scan;
        uint32_t hash;
    } slots[SCAN_HASHES_AT_ONCE];
};

void redis_scan(struct redis_link *l, struct redis_scan *s);

#endif
