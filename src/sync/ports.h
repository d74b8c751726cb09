/* sync/ports.h - the world as the sync machine sees it. The service gives Redis and MySQL (app/), the
 * simulator gives an in-memory twin. Every request is a struct that the machine owns; the port answers it
 * exactly once through done(), on the loop, never from inside the call that asked (the simulator and the
 * links both queue). While a request is under way its memory stays; nothing is cancelled: a lost link is an
 * answer, too. */
#ifndef SYNC_PORTS_H
#define SYNC_PORTS_H

#include "series/batch.h"
#include "series/claim.h"

#define RUN_ID_BYTES 41 /* Redis' run_id, NUL-terminated: which server process a connection talks to */

enum scan_outcome {
    SCAN_SEALED,  /* registry and rows are in the batch, batch_seal() said yes */
    SCAN_GONE,    /* no registry stands (any more): somebody finished it */
    SCAN_LOST,    /* link lost or Redis answered an error: start again later from cursor 0 */
    SCAN_SHORT,   /* fewer fields than registered while the batch still stands: hold, alarm */
    SCAN_UNKNOWN, /* a format version or a counter that this tallyd does not know: leave it standing */
};

struct scan {
    struct batch *batch; /* in: its id; out: all else. Cleared by the port before it begins. */
    enum scan_outcome outcome;
    char run_id[RUN_ID_BYTES]; /* of the server that gave the rows */
    char text[200];
    void (*done)(struct scan *s);
    void *arg;
};

struct fence {   /* the barrier: what Redis knew before this request cannot be rolled back once it passed */
    bool passed; /* false: link lost or refused: back to SCAN */
    char run_id[RUN_ID_BYTES]; /* of the server that passed it */
    char text[200];
    void (*done)(struct fence *f);
    void *arg;
};

struct discard {
    const struct batch *batch; /* names of its hashes are needed, rows are not */
    bool done_ok; /* false: link lost or error: outcome unknown, send again later (it is idempotent) */
    void (*done)(struct discard *d);
    void *arg;
};

enum adopt_mode {
    ADOPT_INSTANCE, /* at start: all of this instance's earlier lives */
    ADOPT_STALE,    /* by timer: no sign of life for stale_ms */
    ADOPT_DEAD,     /* on demand: all whose owner has no link to Redis any more, and all stale ones */
};

struct adopt { /* atomically makes this life the owner of batches, refreshes their scores, and names them */
    enum adopt_mode mode;
    int64_t stale_ms;
    uint32_t limit;
    struct batch_id *ids; /* out: the port allocates (heap), the asker frees */
    uint32_t ids_n;
    uint32_t unknown; /* out: batches left standing since their counter or format is not known here */
    bool lost;
    char text[200]; /* out: why */
    void (*done)(struct adopt *a);
    void *arg;
};

struct due_poll { /* names in tally:dirty with a score at or below before_ms (Redis' time), lowest first */
    bool highest; /* highest first, and whatever its score: before_ms is not looked at */
    int64_t before_ms;
    uint32_t skip, limit; /* as ZRANGEBYSCORE's LIMIT */
    struct buf names;     /* out: bytes of them */
    struct slice *keys;   /* out: into names; the port allocates all three (heap), the asker frees */
    int64_t *scores;      /* out: ms, one a key */
    uint32_t keys_n;
    bool lost;
    void (*done)(struct due_poll *p);
    void *arg;
};

struct standing {         /* which of these batches still stand? For CTR.SYNC */
    struct slice key;     /* n > 0: out holds only those that hold this pending hash; n = 0: all */
    struct batch_id *ids; /* out: heap, the asker frees */
    uint32_t ids_n;
    bool lost;
    void (*done)(struct standing *s);
    void *arg;
};

struct sync_ports {
    void *arg;
    void (*claim)(void *arg, struct claim *c); /* down the frame link */
    void (*scan)(void *arg, struct scan *s);
    void (*fence)(void *arg, struct fence *f);
    void (*merge)(void *arg, struct chunk *c);
    void (*discard)(void *arg, struct discard *d);
    void (*adopt)(void *arg, struct adopt *a);
    void (*due_poll)(void *arg, struct due_poll *p);
    void (*standing)(void *arg, struct standing *s);
    /* Fire and forget: sign of life of these batches (and of this instance, with n = 0 too). */
    void (*beat)(void *arg, const struct batch_id *ids, uint32_t n);
    /* Fire and forget: dirty names that no counter claims go from tally:dirty to tally:held. */
    void (*hold_names)(void *arg, const struct slice *names, uint32_t n);
    uint64_t (*mono_ms)(void *arg);
    int64_t (*redis_ms)(void *arg); /* Redis' own time */
    void (*draw_id)(void *arg, struct batch_id *id);
    uint64_t (*hits)(void *arg); /* applied so far, of all counters; only grows */
};

#endif
