/* series/claim.h - renaming due pending hashes of one counter to names under one random id. Sent once, never again. */
#ifndef SERIES_CLAIM_H
#define SERIES_CLAIM_H

#include "base/list.h"
#include "series/counter.h"
#include "series/names.h"

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

#endif
