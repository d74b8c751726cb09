/* coalesce/coalesce.h - adds hits up in frames and keeps the frame protocol (coalesce/README.md): one frame in flight,
 * frames in doubt settled by seq after a cut, known dirty in the order of sending. No I/O: the link is a struct of
 * ports, so that the simulator can cut it anywhere. One loop, no locks. A hit allocates nothing once the tables have
 * grown. */
#ifndef COALESCE_COALESCE_H
#define COALESCE_COALESCE_H

#include "base/outlet.h"
#include "series/batches.h"
#include "series/counter.h"
#include "series/frame.h"
#include "series/names.h"
#include "series/zones.h"

struct fence;

struct coalesce_config {
    /* cells of a frame (about 1 ms of Redis time), 1,000; an op counts as several; of a feed's ops only events count */
    uint32_t cells_max;
    uint32_t at_once_cells; /* a frame of this many is sent as soon as the previous one is applied, 100 */
    uint32_t gather_turns;  /* a smaller one waits at most this many turns while each brings more, 10, */
    uint32_t
        gather_answers; /* and while it has fewer answers than that, 1,000: turns that bring many are long */
    int64_t hit_max;    /* of |delta|; at most DELTA_MAX, the default */
    uint32_t answers_max; /* clients' answers of a frame, 65,536 */
    /* Bytes of fields and literal replies of a frame, 4 MiB; even with 16 MiB a frame fits the link's limit. */
    uint32_t bytes_max;
    uint32_t entries_max; /* hashes remembered, 1,000,000 */
    /* how many series are remembered with their last slots, and how many buckets of timeboxes, 262,144: 6 MiB each from
     * the first on; as many event logs, 10 MiB */
    uint32_t series_max;
    uint32_t lease_first, lease_most; /* numbers of a log's first lease, 32; of its largest, 1,000 */
    /* Series and feeds go through a journal (checkpoint.c) when a frame has journal_least of them, 16. tallyd brings it
     * home after journal_ms, 500, when the previous one is home, with about 600 commands (1 ms of Redis) a frame. At
     * journal_ops_max, 262,144, or journal_bytes_max, 16 MiB, it is full. While it fills faster than the previous one
     * empties, frames take fewer ops. */
    uint32_t journal_least, journal_ms, journal_ops_max, journal_bytes_max, checkpoint_lines;
    uint32_t doubt_ms; /* how long clients of a frame in doubt wait, 5,000 */
    uint32_t busy_ms;  /* a client that is not read from for this long gets -BUSY, 5,000 */
    /* Answered frames that Redis could still lose are kept up to this many bytes, 64 MiB. 0: none are kept, no fence
     * will pass. */
    size_t replay_bytes;
};
extern const struct coalesce_config coalesce_config_default;

/* What the link does for coalesce. For each send the link calls the function named here, once, on the loop, never from
 * inside the port call. If the link is cut before that, it calls only coalesce_cut(). */
struct coalesce_ports {
    void *arg;
    void (*send_frame)(void *arg, struct frame *f);     /* coalesce_on_frame */
    void (*send_claim)(void *arg, struct claim *c);     /* coalesce_on_claim */
    void (*send_kept)(void *arg, struct kept_frame *k); /* coalesce_on_kept */
    void (*fence)(void *arg, struct fence *f);  /* of replay_bytes; answered also when links are cut */
    void (*kill)(void *arg, int64_t client_id); /* CLIENT KILL ID: coalesce_on_killed */
    const struct life *life;                    /* whose frames and journals these are */
    /* GET seq, EXISTS of each claim's registry, HGET of each journal: coalesce_on_look. l is valid for the call. */
    void (*look)(void *arg, const struct link_look *l);
    void (*journals_lost)(void *arg); /* read them again from Redis: coalesce_adopt for each that is there */
    void (*read_values)(void *arg,
                        struct frame *f); /* HGET of each cell, GET of each token: coalesce_on_values */
    /* Until it is claimed: once by its hits, and each time it is due by time, even when reported before. */
    void (*due)(void *arg, const struct counter *c, struct slice key, enum due_why why);
    void (*caught_up)(void *arg); /* coalesce_caught_up() is true from now on, until the next cut */
    void (*answered)(void *arg, struct outlet *o); /* o->out grew; called once a frame for an outlet */
    void (*room)(void *arg, struct outlet *o);     /* a parked outlet may go on */
    void (*fatal)(void *arg, const char *text);    /* two processes share a life: stop now */
    uint64_t (*mono_ms)(void *arg);
    uint64_t (*mono_us)(void *arg); /* of arrivals */
    int64_t (*redis_ms)(void *arg);
};

struct coalesce;
struct coalesce *coalesce_create(const struct coalesce_ports *ports, const struct counters *counters,
                                 const struct coalesce_config *config);
void coalesce_destroy(struct coalesce **c); /* outlets still waiting are left alone: close clients first */

enum add_result {
    ADD_OK,         /* the answer comes with the frame */
    ADD_FULL,       /* no room: park (coalesce_park) and come back with the same request on room() */
    ADD_NO_COUNTER, /* no configured counter matches the key */
    ADD_FIELD,      /* not a field of the counter's kind; coalesce_counter() tells which */
    ADD_DELTA,      /* |delta| > hit_max */
    ADD_DOWN,       /* Redis is not there: coalesce_down_text(), nothing counted */
    ADD_BUSY,       /* no room for busy_ms: answer -BUSY, nothing counted */
    ADD_FED,        /* a token, and its counter feeds other counts, which it cannot keep from moving twice */
};

/* One hit as it came, its bytes borrowed for the calls. */
struct coalesce_hit {
    struct hit_bytes bytes;
    uint64_t code; /* coalesce's own */
};

/* Adds a hit. On ADD_OK o->waiting has grown by one. Call coalesce_look() once before it. For several hits do each of
 * the three steps for all of them before the next step, and nothing else in between: their reads of memory then
 * overlap. */
void coalesce_look(struct coalesce *c, struct coalesce_hit *h);
/* The first step in two parts, for callers that find the lane's coalesce by the code. */
uint64_t coalesce_code(const struct coalesce *c, struct slice key);
void coalesce_look_coded(struct coalesce *c, const struct coalesce_hit *h);
/* From now on c uses the other's codes; c has seen no key yet. */
void coalesce_codes_as(struct coalesce *c, const struct coalesce *other);
void coalesce_look_again(struct coalesce *c, const struct coalesce_hit *h); /* may be left out */
enum add_result coalesce_take(struct coalesce *c, struct outlet *o, const struct coalesce_hit *h);
/* Likewise, of which only the key came: one more on the field of that second in the store's zone, which is filled in. v is
 * refreshed. ADD_FIELD: the counter has no such field, or spells it otherwise. */
enum add_result coalesce_take_today(struct coalesce *c, struct outlet *o, struct coalesce_hit *h,
                                    struct zone_view *v, int64_t at_s);

int64_t coalesce_hit_max(const struct coalesce *c); /* the largest |delta| */

/* One hit of which the caller has only key and field. */
enum add_result coalesce_add(struct coalesce *c, struct outlet *o, struct slice key, struct slice field,
                             int64_t delta);
/* Checks what coalesce_add would refuse for good, without counting (for MULTI's queue). */
enum add_result coalesce_try(struct coalesce *c, struct slice key, struct slice field, int64_t delta);
/* Has one frame room for this many hits and ops of one client? Each hit takes a cell; their |delta| sum up to at most
 * COALESCE_ROOM_WEIGHT. *never: they could not fit into an empty frame either. */
#define COALESCE_ROOM_WEIGHT (INT64_C(1) << 59)
bool coalesce_room(struct coalesce *c, uint32_t cells, size_t bytes, bool *never);
/* No room, as ADD_FULL or, for who has waited for busy_ms, ADD_BUSY. */
enum add_result coalesce_full(const struct coalesce *c, struct outlet *o);
/* What is added until it ends was given room: none of it takes more cells than were asked for. */
void coalesce_transaction(struct coalesce *c, bool begins);

/* An increment with a token, which counts once, however often it is sent (tokens.c), of a user (n = 0: none). The bytes are
 * borrowed for the call; the caller checks the id's. Answers as coalesce_add does, and also ADD_FED. */
struct coalesce_token {
    struct slice key, field, id;
    int64_t delta;
    bool today; /* which day field is was not the client's choice: sent again, it is that of the first */
};
enum add_result coalesce_add_token(struct coalesce *c, struct outlet *o, const struct coalesce_token *t,
                                   struct slice user);
enum add_result coalesce_try_token(struct coalesce *c, const struct coalesce_token *t); /* as coalesce_try */
uint32_t coalesce_token_cells(void); /* how many cells it takes, for coalesce_room */

/* One operation on a series, timebox, log or day; its bytes are borrowed for the call. The caller has checked its
 * arguments: lengths, times, names. */
struct coalesce_op {
    enum op_kind kind;
    struct slice name, type; /* type: events */
    int64_t at; /* a second, also of a timebox and an event: COALESCE_NOW for Redis' own; uniq: YYYYMMDD */
    int64_t n;  /* series, timebox */
    struct slice id;   /* the event's own, the visitor in text; n = 0: none */
    int64_t visitor;   /* when there is no id: >= 0 */
    struct slice user; /* uniq: whose share of uniq_growth it takes; n = 0: nobody's */
};
#define COALESCE_NOW INT64_C(-1)
/* ADD_OK, and o->waiting has grown by one, ADD_FULL, ADD_BUSY, ADD_DOWN or ADD_DELTA. */
enum add_result coalesce_op(struct coalesce *c, struct outlet *o, const struct coalesce_op *op);
/* How many cells it takes at most, for coalesce_room. */
uint32_t coalesce_op_cells(const struct coalesce *c, enum op_kind kind);
/* A reply of another kind, placed after the answers that o waits for. With o->waiting = 0 write to o->out instead. */
enum add_result coalesce_literal(struct coalesce *c, struct outlet *o, struct slice bytes);
/* Suppresses the replies of the last n answers that o waits for. All n were added to this frame, without a turn in
 * between. They count as before, and o->waiting does not change until the frame is answered. */
void coalesce_hush(struct coalesce *c, struct outlet *o, uint32_t n);
void coalesce_park(struct coalesce *c, struct outlet *o); /* until room(); the caller stops reading it */
void coalesce_unpark(struct coalesce *c, struct outlet *o);
const struct counter *coalesce_counter(struct coalesce *c, struct slice key);
/* Why Redis is not there: "MASTERDOWN Redis ...", an error line without '-'. */
const char *coalesce_down_why(const struct coalesce *c);
const char *coalesce_down_text(const struct coalesce *c); /* for a hit: and nothing was counted */

uint64_t coalesce_frame(const struct coalesce *c); /* a number of its own for each frame that collects */
bool coalesce_collects(const struct coalesce *c);  /* there is something in it that will be sent */

/* End of a loop turn: sends what was collected, if it may be sent. True: it waits for more in the next turn, so the
 * loop must not block on events before that. */
bool coalesce_turn(struct coalesce *c);
void coalesce_tick(struct coalesce *c); /* every 100 ms or so: time limits */

/* Sends a claim on the frame link, in one order with the frames. c->done() is called from coalesce_on_claim or
 * coalesce_on_look. If the link is down before the claim is sent, done() comes in the next turn, with CLAIM_REFUSED. */
void coalesce_claim(struct coalesce *c, struct claim *claim);

/* From the link. up: connected, checked, named; run_id and client_id are the new link's. */
void coalesce_up(struct coalesce *c, const char *run_id, int64_t client_id);
void coalesce_cut(struct coalesce *c,
                  const char *why); /* why: an error line, prefix first; kept for coalesce_down_why */
/* The link is gone for good, at stop. Claims without an answer end as CLAIM_GONE, even if their registry exists;
 * clients of a frame in doubt get "outcome unknown". Call it after the link's last callback. */
void coalesce_abandon(struct coalesce *c, const char *why);
void coalesce_on_frame(struct coalesce *c, struct frame *f, enum frame_outcome outcome);
void coalesce_on_kept(struct coalesce *c, struct kept_frame *k, enum frame_outcome outcome);
void coalesce_on_claim(struct coalesce *c, struct claim *claim);
void coalesce_on_killed(struct coalesce *c);
void coalesce_on_look(struct coalesce *c, int64_t seq, /* -1: no key */
                      const bool *stands, const bool *ours);
void coalesce_on_values(struct coalesce *c, struct frame *f);

/* A read of a series, timebox or log reads its own keys, so what a journal has for this name (all: for any name) is
 * brought home first. False: there is nothing, read on. True: done() comes, once, on the loop. */
struct coalesce_settle {
    enum op_kind kind;
    struct slice name, type; /* the asker's until done */
    bool all;
    bool failed; /* at done: Redis is away or refuses; why is an error line without '-', for the call */
    const char *why;
    void (*done)(struct coalesce_settle *s);
    /* private */
    struct list link;
    uint64_t seq, age;
    uint32_t events; /* of the log, still to be brought home */
};
bool coalesce_settle(struct coalesce *c, struct coalesce_settle *s);
/* While it holds, no new frame is sent: hits wait. A frame in doubt is sent again all the same. Hits that a cut would
 * refuse wait as well, for busy_ms at most. A hold that ends while a link is coming up ends when that link is ready, or
 * cut. */
void coalesce_hold(struct coalesce *c, bool hold);
/* What is sent and not answered. */
void coalesce_in_doubt(const struct coalesce *c, uint32_t *answers, uint32_t *claims);
void coalesce_flush(struct coalesce *c); /* brings home what is in journals as soon as possible */
/* Takes a journal of a dead tallyd, all of whose links are gone. (!) tally:journals was changed to name this process,
 * on this very link. */
void coalesce_adopt(struct coalesce *c, struct slice name, struct slice bytes);
bool coalesce_has_journal(const struct coalesce *c, struct slice name);

/* How much older a hit's score may be than the moment when Redis applies it: a frame in doubt is sent again with the
 * score of its first sending. answer_ms: after this long without an answer the link is cut. */
int64_t coalesce_lag_ms(const struct coalesce *c, uint32_t answer_ms);

uint64_t coalesce_hits(const struct coalesce *c); /* applied so far, of all counters */
/* (!) Redis has all answered hits: tallyd asked it, and sent again what it lacked. Before that, a value read from
 * Redis, or a report that it is merged, may be too small. */
bool coalesce_caught_up(const struct coalesce *c);
bool coalesce_idle(const struct coalesce *c); /* nothing collected, in flight, in doubt or owed */

#ifdef TALLYD_RULES
extern uint32_t coalesce_rules_off; /* simulator only */
#endif

/* --- takes over journals whose process died before it had brought everything home. At start it takes those of earlier lives of
 * this instance; later also those of other instances without a link, and our own after Redis lost its tail. It takes one at a time;
 * coalesce brings them home (coalesce/README.md, rules C32 to C34). --- */

struct takeover_ports { /* each request is answered once, on the loop, never from inside the call */
    void *arg;
    void (*list)(void *arg, struct journal_list *list);
    void (*take)(void *arg, struct journal_take *take); /* (!) on the frame link */
};

struct takeover {
    bool busy;
    /* private */
    struct takeover_ports ports;
    struct coalesce *coalesce;
    uint32_t every_ms;
    uint64_t at_ms;
    bool stopped;
    size_t at; /* in the list */
    struct journal_list list;
    struct journal_take take;
};

void takeover_init(struct takeover *t, struct coalesce *c, const struct takeover_ports *ports,
                   uint32_t every_ms);
void takeover_soon(struct takeover *t); /* at the next tick, or once this look is over */
void takeover_tick(struct takeover *t); /* while the links are up */
void takeover_stop(struct takeover *t); /* takes no more; what was asked is still answered */

#endif
