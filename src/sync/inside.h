/* sync/inside.h - what the files of sync/ share: the state, and what each does for the others.
 *   run.c    the machine of one batch           queue.c  what is due       due.c      when it is claimed
 *   adopt.c  dead owners' batches, sign of life wait.c   CTR.SYNC          recover.c  CTR.RECOVER
 *   sync.c   the public face and the tick       keep.c   merged batches that are kept for a while
 *   pace.c   claims for hits alone, how many hashes a claim takes, pauses between chunks
 *   stall.c  merging without progress           refused.c  stores whose rows MySQL refuses
 * What gate.h and total.h have are machines of their own. */
#ifndef SYNC_INSIDE_H
#define SYNC_INSIDE_H

#include "base/sm.h"
#include "base/turns.h"
#include "sync/sync.h"

#ifdef TALLYD_RULES
#define HOLDS(rule) RULE(sync_rules_off, rule)
#else
#define HOLDS(rule) 1
#endif

enum run_state { RUN_CLAIM, RUN_SCAN, RUN_FENCE, RUN_MERGE, RUN_DISCARD, RUN_WAIT, RUN_DONE };

struct run { /* one batch on its way; freed in RUN_DONE, when no request of it is out */
    struct sync *sync;
    struct sm sm;
    struct list link;      /* sync->runs */
    struct family *family; /* NULL until the counter of an adopted batch is known */
    struct batch batch;
    struct epoch epoch; /* as its scan began */
    struct claim claim;
    struct buf key_bytes; /* of claim.keys */
    struct scan scan;
    struct fence fence;
    bool fence_out;
    struct discard discard;
    struct chunk *chunks;
    uint32_t chunks_n, chunks_next, chunks_out;
    struct list rests; /* sync->rest.waiting: it has chunks to be sent later */
    enum merge_outcome worst;
    uint32_t worst_chunk;
    uint64_t merge_ms; /* its chunks were sent to MySQL no earlier ... */
    uint32_t era;      /* and of this sync->mysql_era */
    uint32_t kept_era; /* it was kept as merged in that one; 0: it was not */
    int resume;        /* RUN_WAIT: the state to go on in */
    uint64_t resume_ms;
    unsigned attempts;
    uint32_t claim_no;              /* of sync->claim_marks, from 1 */
    uint32_t rows_paid;             /* paced claim: rows taken off for it when it was sent; else 0 */
    bool held, refused, in_recover; /* refused: counted in family->refused */
    bool none_passed, by_value;     /* MySQL took no row of a chunk, first and last at; for values alone */
    uint64_t refused_ms, refused_last_ms;
    bool again; /* tried again at once */
    struct buf left,
        left_now;         /* hashes that the last merge left, see put_measured(); so far, those of this one */
    uint32_t left_era;    /* all others are merged, of that era; 0: the merge is not over */
    char locked_by[160];  /* what the first of them waits for, if MySQL told */
    struct map stores;    /* of these chunks, as in family->stores */
    const char *held_why; /* while it is held */
    char held_text[300];
    uint64_t born_ms; /* since when this process works on the batch */
    uint64_t fields;  /* counted in sync->fields */
    int64_t rows_merged, rows_already;
};

struct due_name { /* one name in a family's queue or in its paced, value in its set */
    struct list link;
    bool paced;
    size_t n;
    char name[];
};

struct stall {                  /* see stall.c; times are mono, 0: never */
    uint64_t due_ms, merged_ms; /* oldest hit that is known to wait; last merge */
    uint64_t for_s;             /* for how long nothing was merged, when that is too long; else 0 */
    const char *why;
    bool waits, told; /* something was due since the last look; the log said so */
};

struct family { /* a counter and its due hashes */
    const struct counter *counter;
    struct map names;
    struct list queue; /* due by time: claimed as soon as possible */
    struct list paced; /* due by hits alone: claimed when there are rows for them */
    uint32_t paced_n;
    uint64_t next_ms;  /* no claim of the queue before, unless in a hurry */
    uint64_t paced_ms; /* last claim of what is paced */
    uint64_t pause_ms; /* none at all before: Redis refused one */
    bool hurry;        /* CTR.SYNC: now, also of less than a full claim */
    uint32_t holds;    /* sync_counter_hold() without their release */
    bool unfit;        /* sync_counter_fit() */
    uint32_t refused;  /* runs held since a table is not as it must be */
    /* See refused.c. */
    struct map stores;
    uint32_t refused_runs; /* MySQL took no row of theirs */
    uint32_t refusals;     /* since a chunk passed, of other stores each time; at most 2 */
    unsigned tries;
    uint64_t passed_ms; /* when MySQL took rows of it last */
    bool rests;         /* no try before try_ms */
    uint64_t try_ms, rejects, rejects_told_ms;
    struct stall stall;
    uint32_t runs;              /* at its last look */
    bool index_due, index_seen; /* due, and left in the dirty index: in the last pass over it, in this one */
};

static inline uint32_t family_queued(const struct family *f)
{
    return (uint32_t)f->names.n - f->paced_n;
}

/* An operator must look. Meanwhile nothing is claimed, and nothing queued: the dirty index has the names, and other
 * counters get the room in the queue, whose bound all share. */
static inline bool family_held(const struct family *f)
{
    return f->unfit || f->refused > 0 || f->rests;
}

/* MySQL takes no rows of it, whosever they are. */
static inline bool family_refuses(const struct family *f)
{
    return f->refusals > 1;
}

struct adopted { /* standing batches that wait for a free run */
    struct batch_id id;
    bool in_recover;
    uint32_t kept_era; /* as of struct run */
};

#define DISCARDED_MAX 4096
struct discarded {
    uint64_t gen;
    int64_t hits;
};

struct pace {                      /* see pace.c */
    int64_t rows;                  /* that paced claims may cost; below 0: they cost more than there was */
    uint64_t hits, mono_ms;        /* up to which rows were added ... */
    uint64_t hits_left, time_left; /* ... except these: parts of a row, of hits_a_row and of 1,000 */
};

struct claim_size {          /* see pace.c */
    struct piece piece;      /* while hits come */
    uint64_t hits, until_ms; /* hits: so far; hits count as coming until until_ms */
    bool hits_come;
};

struct rest {                   /* see pace.c */
    struct list waiting;        /* runs with chunks to be sent */
    uint32_t out;               /* chunks, of all runs */
    uint32_t eighths;           /* of a chunk's time: the rest after it */
    uint64_t sent_ms, until_ms; /* when the first of them was sent; no chunk before */
    uint64_t hits, felt_us;     /* as of the last look */
    uint64_t beside_us,
        without_us; /* what a hit waits while a chunk is out, and while none is; 0: not known */
};

struct sync {
    struct sync_ports ports;
    struct sync_config config;
    const struct counters *counters;
    struct epoch epoch;
    struct family *families;
    size_t claim_at; /* the family that is asked first for the next claim */
    struct list runs;
    uint32_t runs_n, apart_n, claims_out,
        requests_out;        /* apart_n: wait for locks, or MySQL takes none of their rows */
    uint32_t due_n, paced_n; /* names of all families; of them, paced */
    struct pace pace;
    struct claim_size size;
    struct rest rest;
    uint32_t claim_marks; /* claims begun so far */
    uint64_t fields;
    struct list kept;
    struct map kept_ids;
    uint32_t mysql_era;     /* so often MySQL came (back) */
    uint64_t mysql_seen_ms; /* MySQL merged something in this era that was sent to it then */
    uint64_t kept_ask_ms;
    struct discarded *discarded; /* the last DISCARDED_MAX of discarded_n */
    size_t discarded_n;
    struct adopted *queue;
    uint32_t queue_n, queue_cap;
    uint32_t unknown; /* batches that remain because no counter of theirs is known here, as last told */
    bool redis_up, mysql_up, mysql_unchecked, started, stopping, abandoned, hold;
    bool own_due;       /* Redis may have batches of ours that we no longer know */
    bool eager;         /* sync_turn() has something to do */
    struct stall stall; /* of batches whose counter is not known yet */
    uint64_t stall_at_ms, stalled_s, stores_at_ms;
    struct adopt adopt;
    struct due_poll poll;
    bool adopting, polling;
    bool behind; /* the last page was full: the index has more that is due */
    uint64_t poll_at_ms, adopt_at_ms, beat_at_ms;
    struct list waits;
    struct sync_recover *recover;
    int64_t recover_total, recover_done; /* of it, or of the last one: its part of those in base/stats.h */
};

static inline struct slice id_slice(const struct batch_id *id)
{
    return slice_of((const char *)id->bytes, sizeof id->bytes);
}

/* Those apart are beside the others, as long as they are no more. */
static inline bool sync_runs_full(const struct sync *s)
{
    uint32_t apart = s->apart_n < s->config.runs_max ? s->apart_n : s->config.runs_max;
    return s->runs_n - apart >= s->config.runs_max;
}

static inline uint64_t sync_now(const struct sync *s)
{
    return s->ports.mono_ms(s->ports.arg);
}
static inline bool sync_may_merge(const struct sync *s)
{
    return s->redis_up && s->mysql_up && s->started && !s->stopping && !s->hold;
}

/* run.c */
struct run *run_create(struct sync *s, const struct batch_id *id);
void run_claim(struct run *r, struct family *f, struct list *from, uint32_t n); /* f's queue or paced */
void run_adopted(struct run *r, const struct adopted *a);
void run_resume_if_due(struct run *r, uint64_t now_ms);
void runs_merge_on(struct sync *s); /* those whose chunks rest */
void run_free(struct run *r);

/* queue.c */
struct family *family_of(struct sync *s, const struct counter *c);
/* DUE_TIME: true when it is in the queue now. */
bool family_add(struct sync *s, struct family *f, struct slice key, enum due_why why);
void family_take(struct sync *s, struct family *f, struct list *from, struct buf *bytes, struct slice *keys,
                 uint32_t n);                          /* the n oldest */
void family_release(struct sync *s, struct family *f); /* paced names go to the queue */
void family_forget(struct sync *s, struct family *f);  /* all its names; they stay in the dirty index */
void family_drop(struct sync *s, struct family *f, struct slice name); /* one of its names, likewise */
void due_close(struct sync *s);
/* Files an answered poll; all: also what its counter's `every` has not reached. */
void due_poll_names(struct sync *s, struct due_poll *p, bool all);
void due_poll_free(struct due_poll *p);

/* due.c */
void due_tick(struct sync *s, uint64_t now_ms);

/* pace.c */
void pace_init(struct sync *s);
void pace_tick(struct sync *s, uint64_t now_ms);
uint32_t pace_ready(const struct sync *s, const struct family *f,
                    uint64_t now_ms);    /* how many paced names are claimed now */
void pace_claimed(struct run *r);        /* sent: r->claim's names are paid for */
void pace_claim_answered(struct run *r); /* what it really cost */
void pace_release(struct sync *s);       /* no claim waits for rows any more */

void rest_init(struct sync *s);
bool rest_over(const struct sync *s); /* a chunk may be sent */
void rest_chunk_sent(struct sync *s);
void rest_chunk_answered(struct sync *s);

void size_init(struct sync *s);
void size_tick(struct sync *s, uint64_t now_ms);
uint32_t size_now(const struct sync *s);
uint32_t size_page(const struct sync *s); /* how many names of the index are asked for at once */
bool size_room(const struct sync *s);     /* for one more claim */
void size_claimed(struct sync *s, const struct claim *c);

/* adopt.c */
void adopt_tick(struct sync *s, uint64_t now_ms);
void adopt_push(struct sync *s, const struct batch_id *id, bool in_recover);
const struct run *run_find(const struct sync *s, const struct batch_id *id); /* NULL: none has it */
bool adopt_known(const struct sync *s, const struct batch_id *id);           /* runs or queues here */

/* keep.c */
bool keep_wanted(const struct run *r); /* it is merged: is it kept now? */
void keep_add(const struct run *r);
bool keep_has(const struct sync *s, const struct batch_id *id);
uint32_t keep_ids(const struct sync *s, struct batch_id *out); /* of kept_ids.n */
void keep_tick(struct sync *s, uint64_t now_ms);
void keep_mysql_back(struct sync *s);
void keep_discarded(struct sync *s, uint64_t gen, int64_t hits); /* a batch is gone from Redis */
void keep_close(struct sync *s);

/* wait.c */
void wait_mysql_down(struct sync *s); /* what was merged may be lost */
void wait_tick(struct sync *s, uint64_t now_ms);
/* At once: a Redis that comes back may have lost the claim of a batch that is waited for. That the batch no longer
 * exists does then not mean that it was merged. */
void wait_redis_down(struct sync *s);
void wait_run_done(struct sync *s, const struct run *r);
/* These keys were in a claim and are due again: a wait for one of them waits for its next claim. */
void wait_names_back(struct sync *s, const struct slice *keys, uint32_t n);

/* stall.c */
void stall_page(struct sync *s, const struct due_poll *p); /* a page of the index, before it is filed */
void stall_tick(struct sync *s, uint64_t now_ms);

/* refused.c */
bool refused_waits(const struct sync *s, const struct family *f, struct slice key,
                   bool seldom_too); /* not claimed; seldom: for its rejects, or for locks */
void refused_whole(struct run *r, const struct chunk *c); /* MySQL took no row of it */
void refused_left(struct run *r);                         /* all its chunks are answered */
void refused_rows(struct run *r, const struct chunk *c);  /* it has rejects */
void refused_passed(struct sync *s, struct family *f);    /* MySQL took rows */
bool refused_values_only(const struct run *r);
bool refused_once_beside(struct run *r);              /* for the first time, and MySQL took rows meanwhile */
void refused_tried(struct sync *s, struct family *f); /* a claim was sent */
void refused_over(struct run *r);
void refused_tick(struct sync *s, uint64_t now_ms);
void refused_close(struct family *f);

/* recover.c */
void recover_tick(struct sync *s);
void recover_run_settled(struct sync *s, struct run *r, bool held);

#endif
