/* redis/clean_op.h - what the cleaner of series and the preener of events do to Redis, on a link that no hit waits for.
 * Each request is one script of about a millisecond of Redis' time; it works when Redis is full, and done twice it does
 * nothing more. No step is kept anywhere: a link that is lost costs the rest of a pass. */
#ifndef REDIS_CLEAN_OP_H
#define REDIS_CLEAN_OP_H

#include "redis/link.h"
#include "series/op.h"

/* The members of `known:` or `tally:events` in the order of their bytes, a page at a time. A page begins behind the last
 * member of the one before, whether or not that stands any more: what others take out meanwhile moves nobody over a
 * border, as it does with the book's index. Needs all scores equal, as everybody writes them. */
struct redis_page {
    struct slice key;   /* KEY_KNOWN or KEY_EVENTS */
    struct slice after; /* n = 0: from the first. Both borrowed for the call only */
    uint32_t limit;
    struct buf names;  /* out: bytes of them */
    struct slice *all; /* out: into names; both heap, the asker frees */
    uint32_t n;
    bool at_end;    /* nothing stands behind them */
    bool lost;      /* the link was */
    char text[200]; /* why there are no names, also when Redis said an error; empty: all went well */
    void (*done)(struct redis_page *p); /* once */
    void *arg;
};
void redis_page(struct redis_link *l, struct redis_page *p);

enum redis_clean_kind {
    REDIS_CLEAN_SERIES, /* samples at or before now - samples * precision; a series without any leaves known: */
    REDIS_CLEAN_EVENTS, /* events before now - events_keep_s; a log without any leaves tally:events, once nothing
                            of it is cached */
    REDIS_CLEAN_WINDOWS, /* cached windows that began at or before now - their tier's keep_s; in a hash that is small
                            enough to be seen at once, the list of sizes of a name that has none left */
};

/* The time that it goes by is the lesser of Redis' own, in the moment of deleting, and now_most_s: the asker's, that no
 * leap of a clock moves (base/steady.h). So a clock that leaps ahead, Redis' or ours, deletes nothing that
 * lives, and one that falls back deletes late. Not the newest sample: a series that went quiet would stand for ever. */
#define REDIS_CLEAN_NAMES_MAX 100
struct redis_clean {
    enum redis_clean_kind kind;
    const struct op_limits *limits;
    const struct slice
        *names;       /* of known:, of tally:events, or types of events; the asker's until the call returns */
    uint32_t names_n; /* 1..REDIS_CLEAN_NAMES_MAX */
    int64_t now_most_s;
    char cursor
        [24]; /* in and out: how far names[0] was gone through, then names[finished]; empty: not begun */
    uint32_t finished; /* out: so many, from the first; ask again with the rest */
    uint64_t removed;  /* samples, events, windows */
    uint32_t gone;     /* left known: or tally:events */
    uint32_t odd;      /* passed over: keys of another type, a name without a precision */
    int64_t now_s;     /* what it went by */
    bool lost; /* link lost or an error; text. The rest of out is not filled, part of it may be done */
    char text[200];
    void (*done)(struct redis_clean *c); /* once */
    void *arg;
};
void redis_clean(struct redis_link *l, struct redis_clean *c);

#endif
