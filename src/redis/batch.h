/* redis/batch.h - the batches in Redis: what a registry has, and how they are claimed, read, deleted, adopted and listed; and
 * journals, which are taken over as batches are. */
#ifndef REDIS_BATCH_H
#define REDIS_BATCH_H

#include "base/map.h"
#include "base/turns.h"
#include "redis/link.h"
#include "series/batch.h"
#include "series/batches.h"

/* --- the fields of tally:batch:<id>: these, and `=<pending hash>` -> HLEN at the claim for each of its renamed hashes. No fixed
 * field begins with '=', so a pending hash may have any name. --- */

#define REGISTRY_FORMAT "format"    /* BATCH_FORMAT of the tallyd that claimed */
#define REGISTRY_COUNTER "counter"  /* the counter's name */
#define REGISTRY_GEN "gen"          /* tally:gen after this claim */
#define REGISTRY_OWNER "owner"      /* <instance>:<life>; the adopter's after an adoption */
#define REGISTRY_LOWEST "lowest_ms" /* lowest score that its hashes had in tally:dirty */
#define REGISTRY_PACKED "packed"    /* the hashes that were packed; none: no such field */
#define REGISTRY_HASH '='

#define PACK_FIELDS_MAX 8  /* a hash with more is renamed: the claim's script reads this many */
#define PACK_BYTES_MAX 512 /* of fields and values */

/* --- claims hashes that other programs left (sync/README.md, rule S16): RENAMENX <leftover> -> <pending>_<id>, registered as a
 * claim is. One counter an id, each pending hash once an id. --- */

struct redis_leftover {
    struct batch_id id; /* fresh */
    const struct counter *counter;
    const struct life *life;
    bool accept; /* adds every integer value to tally:accepted: it never went through this tallyd */
    const struct slice *names, *pendings; /* n <= CLAIM_HASHES_MAX; the asker's until done */
    uint32_t n;
    enum claim_outcome outcome; /* GONE: the link was lost: check whether the registry exists */
    uint32_t renamed;
    uint32_t left; /* the last `left` were left: the bound of fields, or a pending hash that came twice */
    uint64_t fields;
    uint32_t odd; /* values that are no integers: not in tally:accepted */
    char text[200];
    void (*done)(struct redis_leftover *o); /* once */
    void *arg;
};

void redis_leftover(struct redis_link *l, struct redis_leftover *o);

/* --- reads a batch: its registry, then each claimed hash with HSCAN from cursor 0, many hashes in one pipeline. A cut ends it
 * (SCAN_LOST); the asker begins again from nothing (a cursor is only good inside one Redis process). batch_seal runs on a thread
 * of libuv's pool. --- */

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

/* --- deletes a merged batch from Redis: its claimed hashes, its registry, its entry in tally:batches. One script: all or nothing;
 * idempotent; works when Redis is full. --- */

void redis_discard(struct redis_link *l, struct discard *d);

/* --- the batches in Redis: adopting them, signs of life, their list. --- */

void redis_adopt(struct redis_link *l, struct adopt *a); /* the new owner is the life of the link */
void redis_standing(struct redis_link *l, struct standing *s);

/* Fire and forget: refreshes the scores of these batches, and tally:instance:<instance> -> '<life>|<host>', EX 30.
 * Works when Redis is full. ids_n may be 0. */
void redis_beat(struct redis_link *l, const struct life *life, struct slice host, const struct batch_id *ids,
                uint32_t ids_n);

/* Does another process run under this instance's name? Reads tally:instance:<instance>, then CLIENT LIST. */
struct redis_instance {
    const struct life *life;
    bool lost, taken;                       /* taken: another life, and its sign of life has not run out */
    bool linked;                            /* and that life has links to Redis */
    char holder[200];                       /* '<life>|<host>' */
    char text[200];                         /* why, when lost */
    void (*done)(struct redis_instance *i); /* once */
    void *arg;
};
void redis_instance(struct redis_link *l, struct redis_instance *i);

void redis_batch_list(struct redis_link *l, struct batch_list *b);

/* --- what Redis says of itself to the tallyds that merge: tally:gen, tally:gens, tally:realm and its history. --- */

void redis_gen(struct redis_link *l, struct gen_read *g);
void redis_history(struct redis_link *l, struct history_read *h);

/* --- journals whose service is dead (series/batches.h): found, taken over, read (journal_op.c). --- */

void redis_journals(struct redis_link *l, struct journal_list *list);
void redis_journal_take(struct redis_link *l, struct journal_take *t); /* of a frame link */

#endif
