/* redis/frame_op.h - sends frames and claims down the frame link, in one order. The callbacks have the shape of
 * coalesce's own functions, so that each is connected with one line. None is called when the link is cut before the
 * answer: the link's down() covers all of them. */
#ifndef REDIS_FRAME_OP_H
#define REDIS_FRAME_OP_H

#include "redis/link.h"
#include "series/batches.h"
#include "series/frame.h"

#define FRAME_PARTS 17

struct redis_frames {
    /* set by the owner after init */
    void (*on_frame)(void *arg, struct frame *f, enum frame_outcome outcome);
    void (*on_claim)(void *arg, struct claim *c);
    void (*on_killed)(void *arg);
    void (*on_look)(void *arg, int64_t seq, const bool *stands,
                    /* seq -1: no key; stands (each claim's registry exists) and ours for the call only */
                    const bool *ours);
    void (*on_values)(void *arg, struct frame *f);
    void (*on_kept)(void *arg, struct kept_frame *k, enum frame_outcome outcome);
    void *arg;
    const struct op_limits *limits; /* NULL: no frame has ops or tokens */
    bool keeps;                     /* frames are sent again: frame.again is filled */
    /* private */
    struct redis_link *link;
    const struct life *life;
    struct slice tag; /* of all keys */
    struct buf seq_key, owner, scratch;
    struct frame *frame;        /* in flight */
    uint64_t heard_us;          /* the last answer of a frame or a claim */
    uint32_t lines;             /* of it: replies before EXEC's */
    uint32_t sent[FRAME_PARTS]; /* of it: commands of each part */
    size_t ends[FRAME_PARTS];   /* ... and where they end in what is written */
    int64_t tokens_standing;    /* as Redis said last */
    bool again;                 /* written to be kept: what was answered is refused for no bound ... */
    bool bounded;               /* ... as tokens are, and visitors that have users */
    bool wraps;                 /* sums in tally:accepted are near their end: a script adds to them */
    const char *trouble_key;    /* of the answers being filed: a key that was not written or read ... */
    const struct redis_answer *trouble;   /* ... as its answer says; NULL: none */
    bool told;                            /* trouble outside the cells was logged once */
    uint64_t feeds_failed, feeds_told_ms; /* ops of feeds that failed since that was last logged; and when */
    struct claim **claims;                /* in flight, in the order they were sent */
    uint32_t claims_n, claims_cap;
    bool *stands; /* of the look under way */
    int64_t look_seq;
    uint32_t look_n, look_claims, stands_cap;
    struct kept_frame *kept; /* in flight */
    struct frame lost;       /* its ops; errors: why Redis refuses it */
    uint64_t refusal_told_ms;
    bool kept_events;     /* some have numbers: they are the last in front of seq */
    struct frame *values; /* whose values are being read */
};

void redis_frames_init(struct redis_frames *fr, struct redis_link *link, const struct life *life);
void redis_frames_close(struct redis_frames *fr);

/* Writes f (series/frame.h has the order of the wire) and files the answers into it: value or error of each cell;
 * fresh, lock_granted and lock_pttl_ms of each hash; for ops see frame_parts.h. One at a time. f is the link's until
 * on_frame or down(). FRAME_REFUSED: f->errors is the first error, one whole line without '-'. */
void redis_frames_send(struct redis_frames *fr, struct frame *f);

/* A frame that Redis lost is sent again. Ends in on_kept or down(); FRAME_REFUSED: send it later. */
void redis_frames_replay(struct redis_frames *fr, struct kept_frame *k);

/* The claim script (claim.c). c is the link's until on_claim or down(). coalesce ends it, and calls c->done. */
void redis_frames_claim(struct redis_frames *fr, struct claim *c);

void redis_frames_kill(struct redis_frames *fr, int64_t client_id); /* gone already is fine, too */
void redis_frames_look(struct redis_frames *fr, const struct link_look *l);
/* HGET of each cell into its value; one that cannot be read gets an error text instead. The same for each token, by its
 * own key. Ops do not change. */
void redis_frames_values(struct redis_frames *fr, struct frame *f);

#endif
