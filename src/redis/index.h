/* redis/index.h - the dirty index, and the walk that mends it. */
#ifndef REDIS_INDEX_H
#define REDIS_INDEX_H

#include "redis/link.h"
#include "series/batches.h"
#include "series/counter.h"
#include "series/op.h"

/* --- the dirty index: what is due, and names that no counter claims. --- */

void redis_due(struct redis_link *l, struct due_poll *d);

/* Fire and forget: from tally:dirty to tally:held, with their scores. */
void redis_hold_names(struct redis_link *l, const struct slice *names, uint32_t n);

/* Held names that a counter matches (again) go back to tally:dirty, with their scores. */
struct redis_restore {
    const struct counters *counters;
    uint32_t restored;
    bool lost;
    void (*done)(struct redis_restore *r); /* once */
    void *arg;
    /* private */
    uint32_t scripts;
};
void redis_restore(struct redis_link *l, struct redis_restore *r);

void redis_dirty_state(struct redis_link *l, struct dirty_state *d);

/* --- the walk of the key space (coalesce/README.md, rule C8), in SCAN steps with a pause in between. Pending hashes that are
 * missing in tally:dirty are put back, with Redis' time as their score; hashes with a claimed name and without a registry are
 * reported. --- */

struct redis_walk {
    const struct counters *counters;
    uint32_t step;     /* SCAN's COUNT; 0: 500 */
    uint32_t pause_ms; /* between two steps */
    bool read_only;    /* puts nothing back */
    /* A `<pending>_<anything>` without registry; slices for the call only. id: the batch id in its name, NULL if that
     * is not 32 hex digits. SCAN may show a key twice. */
    void (*leftover)(struct redis_walk *w, const struct counter *c, struct slice key, struct slice pending,
                     const struct batch_id *id);
    uint64_t keys, restored; /* out: hashes seen; put back into tally:dirty */
    bool lost;               /* out: link lost or an error: begin again */
    char text[200];
    void (*done)(struct redis_walk *w); /* once */
    void *arg;
    /* private */
    struct redis_link *link;
    uv_timer_t timer;
    struct buf cursor, names; /* of the suspects of this step */
    struct redis_suspect *suspects;
    uint32_t suspects_n, suspects_cap;
    bool at_end, stopping;
};

void redis_walk(struct redis_link *l, struct redis_walk *w);
/* Ends a walk under way at its next step, or at once if it pauses: done() with lost. Call it before the link is
 * closed. */
void redis_walk_stop(struct redis_walk *w);

/* --- what the cleaner of series and events does to Redis, on a link that no hit waits for. Each request is one script of about a
 * millisecond of Redis' time. It works when Redis is full, and a repeated one does nothing more. No progress is stored: a lost link
 * costs the rest of a pass. --- */

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
