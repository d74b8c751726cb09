/* redis/aof_watch.h - is what Redis answered on its disk? From looks at it (INFO, CONFIG GET), by the rules of its aof.c, for
 * servers without a WAITAOF that can be believed. It asks nothing itself.
 *
 * Between turns of its loop Redis writes what it collected, unless an fsync is running. Then it begins an fsync if a second
 * is over since the last one began: the next whole second of its clock (7.0, 7.2), or 1,000 ms (7.4, Valkey). Replies go
 * out after that. So, once a write is answered:
 *   look 1  shows no fsync: what was written before it is in the file before any later fsync begins
 *   look 2  a second of Redis' clock later: when it is answered, such an fsync has begun, or nothing was left to sync
 *   look 3  asked behind that answer, shows no fsync: it has ended
 * A look after look 1 that shows an fsync stands for look 2. With appendfsync always an answer to a look is enough.
 * (!) What breaks that, and is looked at:
 *   - no-appendfsync-on-rewrite yes while a child of Redis runs: no fsync begins, with always neither. Before 7.0.11, with
 *     always, none begins after the child either until something is written.
 *   - a rewrite of the AOF begins: a job that nothing shows syncs and closes the old file. Since 7.2 fsyncs of the new file
 *     queue behind it, in 7.0 they do not. But a rewrite that began after the write and ended well has it, synced.
 *   - Redis' clock is put back: no fsync begins until it is where it was, or the file is rewritten.
 *   - the AOF was turned on: until its first rewrite has ended, a start does not load what it has.
 * WAITAOF of Redis 8 has the second one, too: it takes "the new file has nothing to sync" for "all is synced". So a look that is
 * asked behind its answer must vouch for it, or the wait goes on by looks. */
#ifndef REDIS_AOF_WATCH_H
#define REDIS_AOF_WATCH_H

#include "redis/link.h"
#include "series/batches.h"

struct aof_look {
    uint64_t asked_ms, answered_ms; /* mono */
    struct redis_facts facts;       /* run_id, aof_on, version, appendfsync, lax_fsync */
    int64_t time_us;                /* Redis' wall clock */
    int64_t rewrites, forks;        /* begun since Redis started */
    bool rewriting, rewritten_ok;   /* one runs; the last one that ended did so well */
    bool at_rest;                   /* none runs or is due */
    bool written_ok;                /* neither a write nor an fsync failed */
    bool syncing, child;
    bool valkey, pushed; /* the latter: the look ended in a write, so that there is something to sync */
};

struct aof_watch { /* what looks at one server process add up to; zero before the first */
    char run_id[RUN_ID_BYTES];
    bool loadable;                   /* the AOF was seen at rest: a start loads it */
    int64_t rewrites;                /* the newest number, */
    uint64_t rewrites_ms;            /* and when it was seen first, mono */
    int64_t ahead_us, ahead_most_us; /* Redis' clock less ours: at least, at most */
    int64_t clock_us;                /* no fsync begins before Redis' clock is here */
};

/* Nothing else would make Redis sync for long: its clock was put back. */
bool aof_watch_wants_rewrite(const struct aof_watch *w, const struct aof_look *l);
/* WAITAOF, answered before it was asked, is to be believed: no AOF file is being closed unseen. */
bool aof_look_vouches(const struct aof_look *l);
/* The next look must end in a write. */
bool aof_look_wants_push(const struct aof_look *l);

/* INFO's text, which has at least the sections server, persistence, stats; CONFIG GET's answer goes to redis_fsync_file.
 * False: it is no such text. */
bool aof_look_read(struct aof_look *l, struct slice info);
void aof_watch_look(struct aof_watch *w, const struct aof_look *l);

enum aof_verdict { AOF_WAITS, AOF_SYNCED, AOF_OFF };
/* A look that was asked after the write and the previous look were answered; w has seen it. */
enum aof_verdict aof_wait_look(struct aof_wait *a, const struct aof_watch *w, const struct aof_look *l);

#endif
