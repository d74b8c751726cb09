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
    DUE_TIME, /* its lock was granted, or it is older than `every`, or somebody asks for it: to be claimed now */
    DUE_HITS, /* nothing but its hits were reached: may wait, at most for `every` */
};

enum claim_outcome {
    CLAIM_STANDS,  /* tally:batch:<id> stands: go on at SCAN */
    CLAIM_EMPTY,   /* nothing of it was there to be renamed: no batch */
    CLAIM_REFUSED, /* Redis answered an error, nothing ran: the hashes are still due; text says why */
    CLAIM_GONE,    /* the reply was lost and no registry stands: forget the id; what was due may still be */
};

struct claim {
    struct batch_id id;
    const struct counter *counter;
    struct slice
        *keys; /* keys_n <= CLAIM_HASHES_MAX pending hashes; the owner of the claim owns them till done */
    uint32_t keys_n;
    enum claim_outcome outcome;
    uint32_t renamed; /* hashes renamed; known only when the reply came */
    uint32_t left; /* keys that the field bound left for the next claim: the last `left` of keys, still due */
    uint64_t fields;               /* fields renamed, likewise */
    char text[200];                /* Redis' error */
    struct list link;              /* coalesce: sent and not answered */
    void (*done)(struct claim *c); /* once */
    void *arg;
};

struct due_poll { /* names in tally:dirty with a score at or below before_ms (Redis' time), lowest first */
    bool highest; /* highest first, and whatever its score: before_ms is not looked at */
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

/* What is looked for on a new link, besides tally:seq. */
struct link_look {
    struct claim *const *claims; /* does the registry of each stand? */
    uint32_t claims_n;
    const struct slice *journals; /* is each still ours in tally:journals? */
    uint32_t journals_n;
};

#endif
