/* redis/clean_op.h - what the cleaner of series and events does to Redis, on a link that no hit waits for. Each request
 * is one script of about a millisecond of Redis' time. It works when Redis is full, and a repeated one does nothing
 * more. No progress is stored: a lost link costs the rest of a pass. */
#ifndef REDIS_CLEAN_OP_H
#define REDIS_CLEAN_OP_H

#include "redis/link.h"
#include "series/op.h"

/* The members of `known:` or `tally:events` in the order of their bytes, a page at a time. A page begins after the last
 * member of the previous one, whether or not that still exists. With the book's index, a member that another client
 * removes meanwhile moves others over the border of a page; here it does not. All scores must be equal, and all writers
 * write them so. */
struct redis_page {
    struct slice key;   /* KEY_KNOWN or KEY_EVENTS */
    struct slice after; /* n = 0: from the first. Both borrowed for the call only */
    uint32_t limit;
    struct buf names;  /* out: bytes of them */
    struct slice *all; /* out: into names; both heap, the asker frees */
    uint32_t n;
    bool at_end;    /* no more members after them */
    bool lost;      /* the link was */
    char text[200]; /* why there are no names, also when Redis said an error; empty: all went well */
    void (*done)(struct redis_page *p); /* once */
    void *arg;
};
void redis_page(struct redis_link *l, struct redis_page *p);

enum redis_clean_kind {
    REDIS_CLEAN_SERIES, /* samples at or before now - samples * precision; a series without any leaves known: */
    /* Events before now - events_keep_s; an empty log leaves tally:events, once nothing of it is cached. */
    REDIS_CLEAN_EVENTS,
    /* Cached windows that began at or before now - their tier's keep_s. In a hash small enough to be read at once, also
     * the list of sizes of a name that has no windows left. */
    REDIS_CLEAN_WINDOWS,
};

/* `now` is the lesser of two: Redis' own time when it deletes, and now_most_s, the asker's, which no leap of a clock
 * moves (base/clock.h). So a clock that leaps ahead, Redis' or ours, deletes nothing too early, and one that falls
 * back deletes late. The newest sample does not serve as `now`: a series without further hits would remain forever. */
#define REDIS_CLEAN_NAMES_MAX 100
struct redis_clean {
    enum redis_clean_kind kind;
    const struct op_limits *limits;
    const struct slice
        *names;       /* of known:, of tally:events, or types of events; the asker's until the call returns */
    uint32_t names_n; /* 1..REDIS_CLEAN_NAMES_MAX */
    int64_t now_most_s;
    char cursor[24];   /* in and out: how far names[0] is done, then names[finished]; empty: not begun */
    uint32_t finished; /* out: how many are finished, from the first; ask again with the rest */
    uint64_t removed;  /* samples, events, windows */
    uint32_t gone;     /* left known: or tally:events */
    uint32_t odd;      /* passed over: keys of another type, a name without a precision */
    int64_t now_s;     /* the time that it used */
    bool lost; /* link lost or an error; text. The rest of out is not filled, part of it may be done */
    char text[200];
    void (*done)(struct redis_clean *c); /* once */
    void *arg;
};
void redis_clean(struct redis_link *l, struct redis_clean *c);

#endif
