/* series/batches.h - requests to Redis: claims, about batches, to take over journals, and for a live total. The asker
 * owns a request and its memory. Each is answered exactly once through done(), on the loop, never from inside the call
 * that asked; a lost link is an answer, too. */
#ifndef SERIES_BATCHES_H
#define SERIES_BATCHES_H

#include "base/list.h"
#include "base/slice.h"
#include "series/batch.h"
#include "series/counter.h"
#include "series/names.h"

/* Renaming due pending hashes of one counter to names under one random id. Sent once, never again. */

#define CLAIM_HASHES_MAX 1000
#define CLAIM_FIELDS_MAX 100000 /* a bigger hash goes alone */
#define CLAIMS_OUT_MAX 2        /* on the frame link at once: hits go between them */

enum due_why {
    DUE_TIME, /* lock granted, older than `every`, or asked for: claim it now */
    DUE_HITS, /* only `hits` was reached: it may wait, at most for `every` */
};

enum claim_outcome {
    CLAIM_STANDS,  /* there is a batch: go on at SCAN */
    CLAIM_EMPTY,   /* none of the hashes existed: no batch */
    CLAIM_REFUSED, /* Redis answered an error (text), nothing ran: the hashes are still due */
    CLAIM_GONE,    /* reply lost, and no registry: forget the id; the hashes may still be due */
};

struct claim {
    struct batch_id id;
    const struct counter *counter;
    struct slice *keys; /* pending hashes; the asker's until done */
    uint32_t keys_n;    /* <= CLAIM_HASHES_MAX */
    bool *fresh;        /* as keys; coalesce says whose lock is fresh and is left alone. NULL: none's */
    enum claim_outcome outcome;
    uint32_t renamed;              /* hashes; as all figures, known only when the reply came */
    uint32_t left;                 /* the last `left` keys are still due: the bound of fields was reached */
    uint64_t fields;               /* in the renamed hashes */
    uint64_t sent_us, took_us;     /* until its answer, less what was in front of it on its link */
    char text[200];                /* Redis' error */
    struct list link;              /* coalesce: sent and not answered */
    void (*done)(struct claim *c); /* once */
    void *arg;
};

struct due_poll { /* names in tally:dirty with scores <= before_ms (Redis' time), lowest first */
    bool highest; /* instead: all, highest first */
    int64_t before_ms;
    uint32_t skip, limit; /* as ZRANGEBYSCORE's LIMIT */
    struct buf names;     /* out: bytes of them */
    struct slice *keys;   /* out: into names; all three heap, the asker frees */
    int64_t *scores;      /* out: ms, one a key */
    uint32_t keys_n;
    bool lost;
    void (*done)(struct due_poll *p);
    void *arg;
};

/* What the look on a new link asks for, apart from tally:seq. */
struct link_look {
    struct claim *const *claims; /* does the registry of each exist? */
    uint32_t claims_n;
    const struct slice *journals; /* is each still ours in tally:journals? */
    uint32_t journals_n;
};

#define SCAN_HASHES_AT_ONCE 32

struct redis_scans;

enum scan_outcome {
    SCAN_SEALED,  /* registry and rows are in the batch, batch_seal() said yes */
    SCAN_GONE,    /* it has no registry: it is finished */
    SCAN_LOST,    /* link lost, or an error: start again later from cursor 0 */
    SCAN_SHORT,   /* its registry exists, but not the registered number of fields: hold, alarm */
    SCAN_UNKNOWN, /* this tallyd does not know its format or its counter: leave it */
};

struct scan {
    struct batch *batch; /* in: its id; out: all else. Cleared first; the scan's until done */
    const struct counters *counters;
    bool raw; /* reads what would be SCAN_UNKNOWN, with counter NULL (recover --reject-unknown) */
    enum scan_outcome outcome;
    char run_id[RUN_ID_BYTES]; /* of the server that gave the rows ... */
    char replid[RUN_ID_BYTES]; /* ... and its history behind the last one; "-": not told */
    char text[200];
    void (*done)(struct scan *s);
    void *arg;
    struct { /* redis/scan.c's */
        struct redis_scans *of;
        struct list link; /* of->resting */
        struct buf name;
        uint32_t next, out;                                /* next hash to begin; requests under way */
        uint32_t asked[SCAN_HASHES_AT_ONCE], asked_oldest; /* their hashes; answers come in this order */
        struct {
            uint32_t hash;
            uint64_t cursor;
        } begun[SCAN_HASHES_AT_ONCE]; /* to be asked again: there is more */
        uint32_t begun_n;
        int64_t exists;    /* the registry, behind the last row */
        int64_t client_id; /* (!) a cursor is of this connection's server */
        uint64_t asked_us;
        bool failed;
    } reading;
};

struct aof_wait { /* redis/aof_watch.c's, of one write; zero before its first look */
    int step;
    bool looked;
    int64_t first_rewrites, rewrites, forks; /* at its first look, at look 1, at the newest */
    int64_t due_us;                          /* look 2, by Redis' clock */
    uint64_t again_ms;                       /* when to look again, mono */
    const char *why; /* what it waits for beside a second and an fsync; NULL: nothing */
};

struct fence {                 /* the barrier: once passed, what Redis knew before it cannot be rolled back */
    bool passed;               /* false: link lost, refused, or not confirmed in time */
    char run_id[RUN_ID_BYTES]; /* of the server that passed it, and its history meanwhile */
    char replid[RUN_ID_BYTES];
    char text[200];
    void (*done)(struct fence *f);
    void *arg;
    bool background;  /* it may take longer, and makes no other fence wait */
    struct list link; /* this and the following: redis/durable.c's */
    uint64_t asked_us;
    uint64_t until_ms; /* gives up */
    struct aof_wait sync;
    int64_t client_id; /* the connection that wrote for it */
};

struct discard {
    const struct batch *batch; /* its id and the names of its hashes; rows are not needed */
    bool done_ok;              /* false: outcome unknown; send it again, it is idempotent */
    char text[200];
    void (*done)(struct discard *d);
    void *arg;
};

enum adopt_mode {
    ADOPT_INSTANCE, /* those of this instance's other lives */
    ADOPT_OWN,      /* those of this life: discarded ones that exist again */
    ADOPT_STALE,    /* those without a sign of life for stale_ms */
    ADOPT_DEAD,     /* stale ones, and those whose owner has no link to Redis */
};

struct adopt { /* atomically makes this life the owner of batches and refreshes their scores */
    enum adopt_mode mode;
    int64_t stale_ms;
    uint32_t limit;                  /* adopts at most */
    bool dry_run;                    /* only names them */
    const struct counters *counters; /* batches of others are left, and counted in unknown */
    struct batch_id *ids;            /* out: heap, the asker frees */
    uint32_t ids_n;
    uint32_t unknown; /* out: batches left because their counter or format is unknown here */
    bool lost;
    char text[200]; /* out: why */
    void (*done)(struct adopt *a);
    void *arg;
};

struct standing {         /* which batches exist */
    struct slice key;     /* only those that hold this pending hash; n = 0: all */
    struct batch_id *ids; /* out: heap, the asker frees */
    uint32_t ids_n;
    char replid[RUN_ID_BYTES]; /* out: Redis' history, of the same moment */
    bool lost;                 /* also: Redis took over data that lack frames which it had */
    uint64_t number;           /* redis/'s: of the last frame that Redis had when it was asked */
    void (*done)(struct standing *s);
    void *arg;
};

struct
    gen_read { /* tally:gen, which counts the claims of this Redis, and tally:realm, which says what Redis it is */
    bool
        accept; /* recover --accept-rollback: raises a lower one to `least`, and gives this Redis its realm */
    uint64_t least;
    struct batch_id realm; /* out; in with `accept`; zero: it has none */
    uint64_t gen;          /* out; 0: none */
    bool lost;             /* link lost or an error; text */
    char text[200];
    void (*done)(struct gen_read *g);
    void *arg;
};

struct batch_seen { /* slices for the call only; a number that cannot be read is -1 */
    struct slice id, counter, owner;
    int64_t format, beat_ms, gen, lowest_ms;
    uint32_t hashes;
};
struct batch_list { /* every standing batch, with what its registry says */
    void (*batch)(void *arg, const struct batch_seen *b); /* called for each, before done */
    char replid[RUN_ID_BYTES];                            /* Redis' history, read last */
    bool lost;
    void (*done)(struct batch_list *b);
    void *arg;
};

struct dirty_state {
    int64_t dirty, held, batches; /* how many */
    int64_t lowest_ms;            /* lowest score in tally:dirty; INT64_MAX: none */
    bool lost;
    void (*done)(struct dirty_state *d);
    void *arg;
};

/* Requests to Redis that take over journals (series/frame.h) of a dead process. The rules are as above. */

struct listed_journal {       /* in the list's texts */
    struct slice name, owner; /* owner: name_owner() of a life */
    bool linked;              /* a link of that life exists */
};

struct journal_list {           /* all of tally:journals */
    struct listed_journal *all; /* out: heap, as the texts; the asker frees both */
    size_t n;
    struct buf texts;
    char run_id[RUN_ID_BYTES]; /* of the server that gave it */
    bool lost;                 /* nothing is known */
    void (*done)(struct journal_list *l);
    void *arg;
};

/* (!) In this order: tally:journals is changed to name us, if the owner is still the one named here. All links of that
 * life are ended, so that nothing it sent runs later; so are those of earlier owners, when a process that took over
 * from them died before it had done so. Then the journal is read. When an owner's link comes back, it looks there
 * first. */
struct journal_take {
    struct slice name, owner; /* the asker's until done */
    bool taken;               /* false: another one was faster, or it is gone */
    bool lost;                /* the link was cut, or Redis refused: why; ask again */
    struct buf bytes;         /* when taken; the asker frees, as the owners */
    struct buf owners;        /* owners whose links must be ended, a space after each */
    char why[200];
    void (*done)(struct journal_take *t);
    void *arg;
    uint32_t killing; /* redis/journal_op.c's */
};

/* The request to Redis for a live total. */

/* The Redis side, for at most TOTAL_FIELDS_MAX (which Lua's stack bounds) fields, at one moment. */
#define TOTAL_FIELDS_MAX 1000
struct total_read {
    struct slice key;
    const struct slice *fields;
    uint32_t fields_n;
    /* value n = 0: the field is not there */
    void (*pending)(void *arg, uint32_t field, struct slice value);
    void (*claimed)(void *arg, const struct batch_id *id, uint32_t field, struct slice value);
    int64_t gen;
    bool lost; /* text says why; */
    bool cut;  /* ... the link was cut or not up, it was no answer of Redis' */
    char text[200];
    uint64_t number; /* redis/pending.c's: of the last frame that Redis had when it was asked */
    void (*done)(struct total_read *t);
    void *arg;
};

#endif
