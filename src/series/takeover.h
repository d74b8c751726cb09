/* series/takeover.h - requests to Redis that take over journals (series/journal.h) of a dead process. The rules are
 * those of batches.h. */
#ifndef SERIES_TAKEOVER_H
#define SERIES_TAKEOVER_H

#include "base/slice.h"
#include "series/names.h"

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

#endif
