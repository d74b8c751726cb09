/* series/epoch.h - which primary tallyd merges for, and what a Redis says of itself (sync/README.md, "Epochs"). A realm
 * is one Redis with all servers that it fails over to. An epoch of a realm belongs to one primary: a server process and
 * its history. */
#ifndef SERIES_EPOCH_H
#define SERIES_EPOCH_H

#include "series/names.h"

#define REALM_WAIT_MS 6000 /* for an answer; who has the epoch looks three times as often */
#define GENS_KEPT 1000     /* claims whose batch is in tally:gens; more than ever exist at once */

struct epoch {
    struct batch_id realm, id; /* random both; id zero: no epoch */
    char run_id[RUN_ID_BYTES]; /* of the primary */
    char replid[RUN_ID_BYTES]; /* its history: another one begins with each start and each promotion */
};

struct claim_gen {
    uint64_t gen;
    struct batch_id id; /* of the batch that got it */
};

struct history_read { /* of one moment */
    struct batch_id
        realm; /* in: given to a Redis that has none, unless it is zero. Out: tally:realm; zero: it has none */
    char run_id[RUN_ID_BYTES], replid[RUN_ID_BYTES]; /* out */
    uint64_t gen;                                    /* out: tally:gen, which counts claims */
    struct claim_gen *gens;                          /* out: heap, the asker frees */
    uint32_t gens_n;
    bool fenced; /* in, of a look: it cannot be lost any more */
    bool lost;   /* link lost or an error; text */
    char text[200];
    void (*done)(struct history_read *h);
    void *arg;
};

/* Did this Redis give that gen to that batch? True also where it does not remember: gens from before an older tallyd
 * was replaced, and from before an operator accepted a rollback. */
bool history_has(const struct history_read *h, const struct claim_gen *claim);

enum realm_outcome {
    REALM_OURS,        /* the epoch is the answer, joined or taken */
    REALM_ASKED,       /* another server's tallyd may live that has the epoch: it was asked */
    REALM_LIVES,       /* it lives */
    REALM_UNFENCED,    /* it would be the realm's first epoch: a fence must cover what Redis said */
    REALM_GIVEN,       /* this Redis has none: epoch.realm was free, and must be written into it */
    REALM_BEHIND,      /* the ledger has a claim that this Redis does not know */
    REALM_STRANGER,    /* this Redis has none, and none is free */
    REALM_UNKNOWN,     /* this MySQL does not know its realm */
    REALM_OTHER_LANES, /* it counts for this Redis with another number of lanes */
};

struct realm_look { /* at MySQL, after one at Redis */
    enum realm_outcome outcome;
    bool taken;               /* OURS: a new epoch */
    struct epoch epoch;       /* OURS, GIVEN */
    struct claim_gen highest; /* of the realm's ledger; gen 0: it is empty */
    char by[65];              /* LIVES: who took the epoch */
    int64_t lanes;            /* of the realm; 0: not known yet */
};

#endif
