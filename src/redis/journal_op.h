/* redis/journal_op.h - journals (series/journal.h) whose service is dead: found, taken over, read. */
#ifndef REDIS_JOURNAL_OP_H
#define REDIS_JOURNAL_OP_H

#include "redis/link.h"
#include "series/names.h"

struct redis_journal { /* in the list's texts */
    struct slice name, owner;
    bool linked; /* a link of the owner's life stands */
};

struct redis_journals {        /* all of tally:journals */
    struct redis_journal *all; /* valid until redis_journals_free */
    size_t n;
    bool lost;
    void (*done)(struct redis_journals *l); /* once */
    void *arg;
    /* private */
    struct buf texts;
};
void redis_journals(struct redis_link *l, struct redis_journals *list);
void redis_journals_free(struct redis_journals *list);

/* (!) On the frame link, and in this order: the journal is ours in tally:journals, if its owner is still the one named; every link of his life
 * is ended, so that nothing which he sent runs later; then it is read. When he comes back he looks there first. */
struct redis_journal_take {
    struct slice name, owner; /* the asker's until done */
    const struct life *life;  /* ours */
    bool taken;               /* false: another one was faster, or it is gone */
    bool lost;                /* the link was cut, or Redis refused: why; ask again */
    struct buf bytes;         /* when taken; the asker frees */
    char why[200];
    void (*done)(struct redis_journal_take *t); /* once */
    void *arg;
    /* private */
    struct redis_link *link;
    uint32_t killing;
};
void redis_journal_take(struct redis_link *l, struct redis_journal_take *t);

#endif
