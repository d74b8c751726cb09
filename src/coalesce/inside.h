/* coalesce/inside.h - what the files of coalesce/ share: the state, and what each does for the others.
 *   coalesce.c    takes hits and literals, parks clients
 *   flight.c      sends frames and handles their answers
 *   doubt.c       settles frames and claims after a cut
 *   claims.c      claims, in one order with the frames
 *   tokens.c      increments with a token
 *   ops.c         takes ops on series, timeboxes, events, visitors; those that hits feed
 *   kinds.c       what each kind of op does as its frame goes, and what is owed
 *   checkpoint.c  what a frame puts into a journal, and what it brings home
 *   journals.c    the open journal, the closed ones, and who owns them
 *   takeover.c    journals of dead processes
 *   settle.c      reads that wait for journals
 *   buckets.c     which buckets of timeboxes exist
 *   replay.c      answered frames that Redis could lose */
#ifndef COALESCE_INSIDE_H
#define COALESCE_INSIDE_H

#include "base/sm.h"
#include "coalesce/coalesce.h"
#include "coalesce/group.h"
#include "coalesce/hash_cache.h"
#include "coalesce/journal.h"
#include "series/batches.h"

#include <stdlib.h>

#define GROUPS                                                                                               \
    4 /* one collects, one in flight, one being answered; one more for the simulator's two in flight */
#define BEHIND_WHY "BUSY Redis does not take back the hits that it lost"
#define JOURNAL_FULL (UINT64_C(1) << 20)
#define FLIGHT_MAX 2 /* (!) 1 in the service; the simulator may take the rule out */

/* DOWN -> KILL (the old link, when something sent on it is in doubt) -> LOOK (seq, registries) -> READY */
enum link_state { LINK_DOWN, LINK_KILL, LINK_LOOK, LINK_READY };

#ifdef TALLYD_RULES
#define HOLDS(rule) RULE(coalesce_rules_off, rule)
#else
#define HOLDS(rule) 1
#endif

struct owed_op {
    enum op_kind kind;
    uint32_t name_at, name_n, type_n; /* in owed_names, the type after the name */
    int64_t which;
};

struct replay {
    struct list kept;      /* struct kept_frame: answered, and no fence has passed since; oldest first */
    size_t bytes;          /* of them */
    uint64_t answered;     /* the last frame that was */
    uint64_t gone, fenced; /* the last that is not kept any more; of those, the last that a fence passed on */
    uint64_t named_from, named; /* frames after the first, up to the second, were lost and are logged */
    struct kept_frame *next;    /* to be sent again; NULL: Redis has all of them */
    bool sent, in_doubt;        /* it is on the link; it was when that was cut */
    uint32_t frames;            /* sent again since the look; hits: theirs */
    uint64_t hits, begun_ms, again_ms; /* again_ms: not before, after a refusal */
    struct fence fence;
    bool fencing; /* it is under way */
    uint64_t fence_upto,
        fence_ms; /* releases frames up to this one, 0: none; the next is not asked for before */
};

struct coalesce {
    struct coalesce_ports ports;
    struct coalesce_config config;
    const struct counters *counters;
    struct hash_cache hash_cache;
    struct group groups[GROUPS];
    struct group *now;                /* collects */
    struct group *flight[FLIGHT_MAX]; /* sent or in doubt, in the order of sending */
    uint32_t flight_n;
    struct group *answering; /* out of the flight, its answers being written while the next is under way */
    char date[8];            /* the last field that was seen to be a date */
    struct buf raw;          /* scratch of coalesce_add */
    uint64_t hits;           /* applied so far */
    uint64_t epoch;          /* of the group used last */
    uint64_t seq;            /* of the frame sent last */
    uint64_t seq_known;      /* highest known to be applied */
    struct replay replay;
    struct hash_entry **owed; /* ZADDs for frames to come, each entry once */
    uint32_t owed_n, owed_cap;
    bool held;          /* coalesce_hold() */
    bool releases;      /* held until the link, which is up, is ready */
    bool feeds;         /* some counter feeds something */
    bool transaction;   /* coalesce_transaction() */
    struct known known; /* of the series, by the order of sending */
    struct leases leases;
    int64_t events_gone; /* the last that a frame answered */
    /* ZADDs of `known:` and tally:events and entries in `tb.` for frames to come; taken from the end, as their names
     * are */
    struct owed_op *ops_owed;
    uint32_t ops_owed_n, ops_owed_cap;
    struct buf owed_names;
    /* oldest first: those that are in Redis or will be by a frame under way */
    struct list journals;
    struct journal *journal;       /* of them, the one that takes ops; NULL: none yet */
    struct journal *spare_journal; /* the memory of the next */
    uint64_t journals_n;           /* begun so far */
    uint32_t homed;       /* ops that the last frame brought home that had more to bring than it may */
    struct list settles;  /* reads that wait for a checkpoint */
    struct slice *looked; /* names of journals, for the look */
    struct known buckets; /* of timeboxes: in both sets, by Redis' answers */
    uint32_t gathered_n, gathered_turns; /* answers at the last turn, and turns waited for more */
    struct list claims;                  /* sent, no answer yet; in doubt when the link was cut meanwhile */
    struct list refused; /* claims that came while the link was not ready: answered on the next turn */
    struct list parked;  /* outlets that wait for room, first come first served */
    uint64_t turn_us;    /* mono: when the first request of this turn was taken; 0: none yet */
    int64_t turn_s;      /* Redis' now for ops of this turn of the loop; 0: not asked yet */
    struct sm link;
    char run_id[41];
    int64_t client_id;
    char suspect_run_id[41];            /* of the server that may still run what an old link sent */
    int64_t suspect_id;                 /* that link, 0: none */
    uint64_t looked_seq;                /* only in the simulator, which may kill after the look */
    char down_why[256], down_text[280]; /* down_text: what a hit is told */
    uint64_t
        refusal_logged_ms; /* a full Redis refuses thousands of frames a second: one line in 10 s says so */
    uint64_t side_at_ms;   /* no frame without hits before; set by a refusal */
};

uint64_t coalesce_epoch(struct coalesce *c); /* a new one */
void coalesce_down(struct coalesce *c, const char *why);

#define WEIGHT_MAX (UINT64_C(1) << 60)

static inline bool coalesce_delta_fits(const struct coalesce *c, int64_t delta)
{
    return delta <= c->config.hit_max && delta >= -c->config.hit_max;
}
/* The limit of weight: with the corrections of the previous frame, which has the same limit, all sums fit int64. */
static inline bool coalesce_answers_full(const struct coalesce *c, size_t bytes)
{
    const struct group *g = c->now;
    return g->weight >= WEIGHT_MAX || g->answers_n >= c->config.answers_max ||
           g->frame.bytes.n + g->literals.n + bytes > c->config.bytes_max;
}
static inline bool coalesce_owes(const struct coalesce *c)
{
    return c->owed_n > 0 || c->ops_owed_n > 0;
}

/* coalesce.c */
uint64_t coalesce_name_code(const struct coalesce *c, enum op_kind kind, struct slice name,
                            struct slice type);
uint64_t coalesce_op_code(const struct coalesce *c, uint64_t name_code, int64_t at, bool fed);
struct hash_entry *coalesce_entry(struct coalesce *c, struct slice key); /* NULL: no counter matches it */
enum add_result coalesce_down_or_held(const struct coalesce *c, struct outlet *o); /* the link is not ready */
bool coalesce_send_next(struct coalesce *c); /* what was collected, if it may be sent */

static inline void coalesce_came(struct coalesce *c)
{
    if (c->turn_us == 0) c->turn_us = c->ports.mono_us(c->ports.arg);
}

/* flight.c */
void flight_turn_ends(struct coalesce *c); /* what came in this one has come, for the latencies */
void flight_send(struct coalesce *c, struct group *g);
void flight_finish(struct coalesce *c,
                   struct group *g); /* answered or dropped: out of the flight, group is free */
void flight_answer(struct coalesce *c, struct group *g);
void flight_touch(struct coalesce *c, struct list *touched);
struct group *flight_group_of(struct coalesce *c, const struct frame *f);
void flight_owe(struct coalesce *c, struct hash_entry *e);
void flight_due(struct coalesce *c, struct hash_entry *e, enum due_why why);
void flight_take_back(struct coalesce *c, const struct group *g); /* corrections that a lost frame carried */
void flight_applied(struct coalesce *c, struct group *g);         /* values are filed: books, dues, answers */
uint32_t flight_depth(void);
bool flight_answers_out(const struct coalesce *c); /* some sent group still owes answers */

/* doubt.c */
void doubt_fail_collected(struct coalesce *c); /* nothing of it was counted */
void doubt_settle(struct coalesce *c); /* Redis has all that was answered: frames in doubt, then new ones */

/* replay.c */
void replay_init(struct coalesce *c);
void replay_destroy(struct coalesce *c);
void replay_keep(struct coalesce *c, struct group *g); /* its clients are being answered */
bool replay_look(struct coalesce *c,
                 uint64_t found);     /* Redis has frames up to this one. True: it lost some */
void replay_turn(struct coalesce *c); /* the next is sent, if it may be */
void replay_tick(struct coalesce *c);
void replay_cut(struct coalesce *c);
void replay_abandon(struct coalesce *c);

/* claims.c */
void claims_refuse_all(struct coalesce *c);

/* tokens.c */
void tokens_applied(struct coalesce *c, const struct frame *f);

/* ops.c */
void feeding_on_send(struct coalesce *c, struct group *g); /* its dirty_ms is set */
int64_t ops_precisions(const struct coalesce *c, const struct frame *f,
                       const struct frame_op *op); /* how many keep its second: the reply of a series */
void ops_answers_lost(struct coalesce *c, struct group *g);

/* checkpoint.c */
bool checkpoint_waits(const struct coalesce *c); /* there is something to be brought home */
bool checkpoint_takes(const struct coalesce *c, const struct frame_op *op); /* may it go into the journal? */
uint32_t checkpoint_price(
    const struct coalesce *c); /* of an op more that goes into the journal, in quarters of a cell */
/* An op of a journal becomes an op of the frame: all of a sum, of events at most events_most. Returns its cost in
 * lines. */
uint32_t checkpoint_take_out(struct coalesce *c, struct frame *f, struct journal *j, uint32_t number,
                             uint32_t events_most);
void checkpoint_on_send(struct coalesce *c, struct group *g);
void checkpoint_applied(struct coalesce *c, const struct group *g);
void checkpoint_undo(struct coalesce *c, struct group *g); /* what the frame carried did not run ... */
void checkpoint_redo(struct coalesce *c, struct group *g); /* ... and is sent again */

/* journals.c */
struct journal *journals_oldest(const struct coalesce *c); /* NULL: no journal */
struct journal *journals_open(struct coalesce *c);         /* the one that takes ops */
void journals_shut(struct coalesce *c);                    /* it takes no more */
bool journals_full(const struct coalesce *c, const struct journal *j);
uint64_t journals_fullness(const struct coalesce *c,
                           const struct journal *j);       /* at JOURNAL_FULL it is full */
bool journals_wait(const struct coalesce *c);              /* a closed one is to be brought home */
void journals_drop(struct coalesce *c, struct journal *j); /* all of it is home, or it has another owner */
void journals_tick(struct coalesce *c);
uint32_t journals_look(struct coalesce *c); /* how many names are in c->looked */
void journals_looked(struct coalesce *c, const bool *ours, bool tail_lost);
void journals_destroy(struct coalesce *c);

/* settle.c */
bool settles_wait(const struct coalesce *c); /* for a frame to come */
void settles_out(struct coalesce *c, struct frame *f);
void settles_applied(struct coalesce *c, uint64_t seq);
void settles_refused(struct coalesce *c, const struct group *g);
void settles_cut(struct coalesce *c);
void settles_tick(struct coalesce *c);

/* kinds.c: what happened to the frame */
void ops_on_send(struct coalesce *c, struct group *g); /* its dirty_ms is set */
void ops_send_again(struct coalesce *c, struct group *g);
void ops_held(struct coalesce *c,
              struct group *g); /* collected, and held through a cut that forgot what is known */
void ops_applied(struct coalesce *c, struct group *g);
void ops_found_applied(struct coalesce *c, const struct group *g); /* after a cut, before ops_applied */
void ops_not_applied(struct coalesce *c, const struct group *g);   /* refused or given up */

/* buckets.c */
bool buckets_know(const struct coalesce *c, const struct frame_op *op);
/* May a client's op go into a journal? Its answer must be known without Redis. Then it went, or it did not run. */
bool buckets_may_wait(const struct coalesce *c, const struct frame *f, const struct frame_op *op);
void buckets_wait(struct coalesce *c, struct frame_op *op);
void buckets_undo(struct coalesce *c, const struct frame_op *op);
/* The bucket is in both sets, and the script would not refuse the sum n: its hits go as a plain ZINCRBY. */
bool buckets_plain(const struct coalesce *c, const struct frame *f, const struct frame_op *op, int64_t n);
void buckets_learn(struct coalesce *c, const struct frame *f,
                   struct frame_op *op);           /* Redis' answer is filed */
void buckets_came_home(const struct frame_op *op); /* out of a journal, into its keys */

/* --- what coalesce/ has to know of each kind of op (series/op.h), as a table. --- */

#define QUARTERS_PRECISIONS 0 /* one for each precision */

struct op_kind_rules {
    uint8_t quarters,
        item_quarters; /* what an op, and each event or visitor of it, costs a frame, in cells / 4 */
    bool has_items;
    uint32_t owed_rule; /* RULE_..., which lets something be owed to its keys */
    /* Its key has the right type and its answer is known without Redis, so it may go into a journal. NULL: never. */
    bool (*known)(const struct coalesce *c, const struct frame_op *op);
    /* What happens to an op as its frame goes (inside.h, ops_...); NULL: nothing. An op that waits in a journal gets
     * only `applied`; an op that is owed does not get `on_send`. */
    void (*on_send)(struct coalesce *c, const struct frame *f, struct frame_op *op);
    void (*send_again)(struct coalesce *c, struct frame *f, struct frame_op *op);
    void (*applied)(struct coalesce *c, const struct frame *f, struct frame_op *op);
    void (*found_applied)(struct coalesce *c, const struct frame *f, const struct frame_op *op);
    void (*not_applied)(struct coalesce *c, const struct frame_op *op);
};
extern const struct op_kind_rules op_kinds[];

#endif
