/* command/inside.h - what the files of command/ share.
 *   session.c  the parse loop, the way of a hit, replies, what a session waits for
 *   lanes.c    which lane a request is of
 *   fan.c      what a client asks of all lanes
 *   order.c    replies of several lanes in the order of requests
 *   table.c    the command table, what a request must look like
 *   words.c    checks of arguments
 *   guard.c    what a client may do, and how much of it
 *   hits.c     HINCRBY, CTR.INCRBY, CTR.HIT, INCR and its like; SERIES.INCRBY, BOX.INCRBY, EVENT.ADD, UNIQ.ADD
 *   multi.c    MULTI, EXEC, DISCARD
 *   asks.c     CTR.PENDING, CTR.SYNC, CTR.RECOVER, WAIT, WAITAOF
 *   total.c    CTR.TOTAL, HGET, HMGET, GET
 *   keyspace.c EXPIRE and the like, EXISTS, TTL; what a counter's key refuses
 *   answers.c  memory of their answers
 *   halves.c   requests of which a part has come
 *   shares.c   memory that clients make tallyd hold
 *   reads.c    SERIES.GET, BOX.TOP, EVENT.RANGE, UNIQ.COUNT and the like
 *   auth.c     AUTH, HELLO
 *   client.c   PING, CLIENT and other commands about one connection
 *   clients.c  CLIENT INFO, LIST and KILL
 *   tracking.c CLIENT TRACKING and the like
 *   server.c   TIME, ROLE, CONFIG, <command> HELP
 *   info.c     INFO; how often each command was called, and how long that took
 *   commands.c COMMAND: the command table as clients read it */
#ifndef COMMAND_INSIDE_H
#define COMMAND_INSIDE_H

#include "base/clock.h"
#include "base/map.h"
#include "base/stats.h"
#include "command/command.h"
#include "command/order.h"
#include "protocol/reply.h"
#include "series/op.h"

#define SHOWN_BYTES 64 /* of a key, field or value in an error line */
#define NO_TYPE slice_of("", 0)

enum taken {
    TAKEN, /* the request is used up */
    LEFT,  /* it is parsed again when the state is SESSION_TAKING again; nothing of it was done */
};

/* Runs one request whose argument count is right; appends its reply to out. */
typedef enum taken run_fn(struct session *s, const struct request *r, struct buf *out);

enum spec_flag {
    SPEC_QUEUES = 1,  /* may be queued in a MULTI */
    SPEC_AT_ONCE = 2, /* runs at once inside a MULTI, too */
    SPEC_HIT = 4,     /* an increment: hit_read() reads it */
    SPEC_OP = 8,      /* another write that goes into the frame: op_read() reads it */
    SPEC_READ = 16,   /* reads */
    SPEC_ADMIN = 32,  /* a subcommand for admins only, of a command that is for all */
    SPEC_FAST = 64,
    SPEC_ASKS = 128,     /* asynchronous: its client waits */
    SPEC_STRANGER = 256, /* also before the client has authenticated */
    SPEC_KEY = 512,      /* its first argument is a key, or the name of a series, timebox, log or day */
    SPEC_KEYS = 1024,    /* all its arguments are keys, which it checks itself (guard_names) */
    SPEC_EXPIRY = 2048,  /* a write of Redis', which does nothing here */
};

struct spec {
    const char *name; /* lower case */
    int arity;        /* with the name (and the subcommand); negative: at least that many */
    unsigned flags;
    run_fn *run; /* NULL: has subcommands */
    const char *group;
    const char *summary;     /* for COMMAND DOCS and HELP */
    const struct spec *subs; /* ends with a name of NULL */
};

#define SPECS_MAX 64

/* Of one command. Reading the clock costs a tenth of a hit, so about one call in CALLS_TIMED is timed, and INFO estimates what
 * all took. */
struct calls {
    uint64_t n;
    uint64_t timed, timed_us; /* of n */
    uint64_t next;            /* the n at which the next is timed */
};

#define CALLS_TIMED 64
#define OPS_SAMPLES 16 /* as Redis: the mean of the last 1.6 s */
#define OPS_SAMPLE_MS 100

struct ops_rate {
    uint64_t at_ms[OPS_SAMPLES], n[OPS_SAMPLES]; /* mono; all calls until then */
    uint32_t taken; /* samples so far; the newest is [(taken - 1) % OPS_SAMPLES] */
};

struct codes { /* keys whose lane was matched (lanes.c) */
    uint64_t *all;
    uint32_t mask;
    uint32_t missed; /* since it has this size */
};

struct command {
    struct command_config config;
    struct request request; /* the one being run */
    struct buf scratch;     /* a reply that must come after answers still owed */
    struct buf exec;        /* the same inside EXEC */
    struct buf today;       /* the field of a CTR.HIT, as its counter spells it */
    uint64_t refused_id;    /* the session of the last refused hit, whose address was asked: a system call */
    char refused_peer[64];
    struct buf name, why;            /* of names_fit() */
    struct codes codes;              /* with several lanes */
    uint64_t ids;                    /* sessions so far */
    uint64_t started_ms;             /* mono */
    char run_id[41];                 /* as Redis', by which Sentinel tells processes apart */
    uint64_t now_ms;                 /* mono, of the last command_tick() */
    struct list sessions, strangers; /* strangers: the oldest first */
    uint32_t strangers_n;
    struct list paced;      /* users for whom sessions wait */
    uint64_t users_version; /* one more with each command_users() */
    uint64_t frame, window; /* coalesce's frame; a window is it, or the time between two command_pace() */
    uint64_t rode;          /* the frame that held-back requests were put into beside others' */
    const struct grant *grants[SPECS_MAX]; /* one a spec */
    struct calls calls[SPECS_MAX];         /* one a spec */
    struct ops_rate ops;
    uint32_t blocked_n; /* sessions that are PARKED, BARRIER, ASKING, QUEUED or PACED */
    struct list queued; /* sessions that wait for memory for an answer, the longest first */
    struct {
        struct list held; /* sessions with bytes of it */
        size_t n;         /* of all */
        size_t of[2];     /* of those without a user: clients; from inside */
    } shares[SHARES];
    uint64_t halves_ms; /* mono: they were looked at last */
    struct lasts {
        struct map all;     /* name -> struct last */
        struct list oldest; /* the one that was answered first */
        size_t bytes;
        struct buf name;
        struct list asked; /* requests whose client still waits for live totals, the oldest first */
        uint32_t late_n;   /* requests that are out and whose client was told the last ones */
    } lasts;               /* total.c: for OR STALE */
};

/* info.c */
run_fn run_info;
uint64_t calls_us(const struct calls *k); /* what all took, estimated; 0: none was timed yet */
void calls_tick(struct command *c, uint64_t now_ms);
/* Runs spec, which is `whole` or a subcommand of it, and counts it if it is TAKEN. */
enum taken calls_run(struct session *s, const struct spec *whole, const struct spec *spec,
                     const struct request *r, struct buf *out);

void calls_timed(struct calls *k, uint64_t begun_us, uint32_t n); /* of calls_end() */

/* When a run of calls began, for calls_end(); 0: it is not timed. */
static inline uint64_t calls_begin(const struct calls *k)
{
    return __builtin_expect(k->n < k->next, 1) ? 0 : mono_us();
}

static inline void calls_end(struct calls *k, uint64_t begun_us, uint32_t n)
{
    k->n += n;
    if (__builtin_expect(begun_us != 0, 0)) calls_timed(k, begun_us, n);
}

/* table.c */
extern const struct spec specs[]; /* ends with a name of NULL */
#define SPEC_HINCRBY 0            /* their rows */
#define SPEC_TODAY 2
const struct spec *spec_find(const struct spec *table, struct slice name);
/* The spec that runs r: its subcommand's, if it has any. NULL: the error line is in out. *whole is the command that was
 * found, if any, even if r does not fit it. */
const struct spec *spec_resolve(const struct session *s, const struct request *r, const struct spec **whole,
                                struct buf *out);
bool spec_arity_fits(const struct spec *spec, uint32_t args_n);
void spec_put_name(const struct spec *spec, struct buf *out); /* "ping", "client|list" */
const char *
spec_is_strange(const struct request *r); /* why it is of no Redis client; NULL: it may be of one */

/* lanes.c */
#define AHEAD EXPECT_MAX /* hits that are looked up together: their reads of memory overlap */
void lanes_init(struct command *c);
/* From now on the session works on that lane, until the next call. */
struct coalesce *lane_enter(struct session *s, uint32_t lane);
struct coalesce *lane_of_hit(struct session *s, struct slice key);
struct coalesce *lane_of_op(struct session *s, enum op_kind kind, struct slice name);
static inline struct coalesce *lane_coalesce(const struct session *s)
{
    return s->command->config.lanes[s->lane];
}
static inline struct outlet *lane_outlet(const struct session *s)
{
    return s->order == NULL ? s->outlet : &s->order->ways[s->lane].outlet;
}
/* coalesce took a request of the session's lane. */
static inline enum add_result lane_added(struct session *s, enum add_result got)
{
    if (s->order == NULL || got != ADD_OK) return got;
    order_expect_one(s->order, s->lane);
    s->outlet->waiting++;
    return got;
}
void lanes_leave(struct session *s); /* the client is gone */
/* As hits_take() and todays_take() in session.c. */
size_t hits_take_lanes(struct session *s, struct slice in, uint32_t room);
size_t todays_take_lanes(struct session *s, struct slice in, uint32_t room);
uint64_t lanes_frame(const struct command *c); /* another one when any lane collects a new frame */
bool lanes_collect(const struct command *c);

/* session.c */
void session_state(struct session *s, enum session_state state);
void session_wait(struct session *s, enum session_state state); /* pauses the client */
void session_go_on(struct session *s);                          /* ends that: SESSION_TAKING */
enum taken session_barrier(struct session *s); /* TAKEN: nothing is owed; LEFT: the session waits until so */
/* The request under way gets no answer. */
static inline bool session_is_quiet(const struct session *s)
{
    return s->replies == REPLIES_OFF || s->replies == REPLIES_SKIP;
}
void session_replies_next(struct session *s);              /* a request is through */
void session_refuse(struct session *s, const char *error); /* the last it gets: it is closed */
/* A reply after all that is owed, which is not empty. False: no room for it. */
bool reply_behind(struct session *s, struct slice reply);

/* guard.c */
void guard_init(struct command *c);
void guard_open(struct session *s, bool inside); /* last line: it may be dropped */
void guard_close(struct session *s);
void guard_reset(struct session *s);
bool guard_enter(struct session *s, struct user *u); /* false: the user has too many connections */
/* May it run that? False: the error line is in out. Not with DOOR_OPEN. */
bool guard_lets(struct session *s, const struct spec *whole, const struct spec *spec, const struct request *r,
                struct buf *out);
bool guard_names(const struct session *s, struct slice key); /* may it name that? Of every door */
static inline bool guard_is_admin(const struct session *s)
{
    uint64_t all = grants_of(GRANT_ADMIN);
    return s->door == DOOR_OPEN || (s->door == DOOR_USER && (s->user->commands & all) == all);
}
/* How many requests may be taken from it now; 0: it waits, and is in SESSION_PACED. Not with DOOR_OPEN. */
uint32_t guard_room(struct session *s);
void guard_took(struct session *s, uint32_t requests);
void guard_weighed(struct session *s, uint32_t hits); /* a request that costs a frame more than one */
void guard_queued(struct session *s);                 /* one request, in its MULTI */
void guard_took_at_once(struct session *s, uint32_t requests); /* its transaction; of every door */
uint32_t guard_multi_max(const struct session *s);             /* commands in a transaction; of every door */

/* auth.c */
run_fn run_hello, run_auth;
extern const struct spec acl_specs[];

/* hits.c */
int64_t hit_second(const struct session *s); /* Redis' own, from 1970 on: of today */
/* Key, field and n of r, and its token (id.n = 0: none), checked except for what coalesce knows. */
bool hit_read(struct session *s, const struct request *r, struct coalesce_token *hit, struct buf *out);
enum add_result hit_add(struct session *s, const struct coalesce_token *hit);
run_fn hit_run, op_run;
/* The hit of that key is refused, with the error that is in out from `before` on. */
void hit_refused(struct session *s, struct slice key, const struct buf *out, size_t before);
void hit_refuse(struct session *s, const struct request *r, enum add_result result, struct buf *out);

/* The counter of a key; NULL: none is configured, the error is in out. */
const struct counter *hit_counter(struct session *s, struct slice key, struct buf *out);
void hit_refuse_key(struct session *s, struct slice key,
                    struct buf *out); /* the error line for a key of no counter */
/* The error line for a field that is not of its counter's kind; always false. */
bool hit_refuse_field(struct session *s, struct slice key, struct slice field, struct buf *out);
/* What r asks for; its bytes are r's. Its time is for op_in_time(). */
bool op_read(struct session *s, const struct request *r, struct coalesce_op *op, struct buf *out);
bool op_in_time(const struct session *s, const struct coalesce_op *op, struct buf *out);
enum add_result op_add(struct session *s, const struct coalesce_op *op); /* ADD_OK, _FULL, _BUSY or _DOWN */

/* multi.c */
/* A request between MULTI and EXEC. */
enum taken multi_take(struct session *s, const struct request *r, struct buf *out);
void multi_free(struct session *s);
int64_t multi_queued(const struct session *s, size_t *bytes); /* requests, -1: no transaction */
run_fn run_multi, run_exec, run_discard;

/* asks.c */
/* A request: barrier, keep what it needs in s->key, ask_begin, the port. In its done: ask_answers, a reply if so, ask_end. */
void ask_begin(struct session *s);
/* True: it was done, and the client is there for the reply. Answers refusals itself. */
bool ask_answers(struct session *s, enum ask_outcome outcome, const char *text);
/* The error line, without '-', of a request that is not ASK_DONE. */
const char *ask_refusal(const struct session *s, enum ask_outcome outcome, const char *text);
void ask_end(struct session *s); /* frees s->key; last: s may be gone after it */
run_fn run_pending, run_sync, run_recover, run_wait, run_waitaof;

/* fan.c: the request in s->ask, of all lanes; its done() is called once */
void fan_sync(struct session *s);
void fan_recover(struct session *s);
void fan_wait(struct session *s);
void fan_names(struct session *s); /* SERIES.LIST */

/* shares.c */
void shares_init(struct command *c);
void shares_users(struct command *c); /* there are new ones */
void share_set(struct session *s, enum share_kind kind, size_t bytes);
/* One who has nothing may have all that is free. */
bool share_fits(const struct session *s, enum share_kind kind, size_t more);

/* halves.c: so many bytes of a request have come; is_new: of another one than before */
void half_set(struct session *s, size_t bytes, bool is_new);
void halves_tick(struct command *c, uint64_t now_ms);

/* answers.c */
void answers_tick(struct command *c, uint64_t now_ms);
void answers_close(struct session *s);
/* False: it waits, in SESSION_QUEUED, or has waited too long, which is in out. */
bool answer_begin(struct session *s, const struct query *q, struct buf *out);
void answer_end(struct session *s); /* it is in the outlet */

/* words.c: each false comes with an error line in out */
bool word_int(struct slice w, int64_t *v, struct buf *out);
bool word_positive(struct slice w, int64_t *v, struct buf *out); /* not 0 */
bool word_not_negative(struct slice w, int64_t *v, struct buf *out);
bool word_delta(const struct session *s, struct slice w, int64_t *v, struct buf *out);
bool word_second(struct slice w, int64_t *v, struct buf *out); /* since 1970 */
bool word_text(const char *what, struct slice w, struct buf *out);
bool word_day(struct slice w, int64_t *day, struct buf *out);
bool word_token(struct slice w, struct buf *out); /* the id of a tokened increment */
bool words_syntax(struct buf *out);               /* always false */
/* [AT s], [ID id] after two arguments, each at most once. id NULL: no ID. */
bool words_options(const struct request *r, struct coalesce_op *op, struct slice *id, struct buf *out);
bool word_is(struct slice w, const char *upper); /* says nothing */
int64_t redis_now_s(const struct session *s);
/* Not too far ahead of Redis' clock. */
bool second_begun(const struct session *s, int64_t at, struct buf *out);
bool day_begun(const struct session *s, int64_t day, struct buf *out);
/* As op_names_fit(). */
bool names_fit(struct session *s, enum op_kind kind, struct slice name, struct slice type, int64_t day,
               struct buf *out);

/* reads.c */
run_fn run_series_get, run_series_list, run_box_recent, run_box_extreme, run_event_range, run_event_count,
    run_uniq_count;

/* total.c: CTR.TOTAL, HGET, HMGET, GET */
void lasts_init(struct command *c);
void lasts_close(struct command *c);
void lasts_tick(struct command *c, uint64_t now_ms);
run_fn run_total;

/* keyspace.c */
run_fn run_expire, run_exists, run_ttl; /* PERSIST and PTTL, too */
/* The error line, without '-', for a command of Redis' that would set or delete a count; NULL: r is none of those, or
 * not of a counter's key that s may name. */
const char *counter_refusal(const struct session *s, const struct request *r);

/* client.c */
extern const struct spec client_specs[];
run_fn run_ping, run_echo, run_select, run_quit, run_reset, run_watch, run_unwatch;
bool client_name_fits(struct slice name, struct buf *out);
void client_text_set(struct buf *b, struct slice text); /* a name of the client or its library */

/* clients.c. at: of one of the two lists of sessions, or c->sessions for the first. */
static inline struct session *client_after(struct command *c, const struct list *at)
{
    struct list *next = at->next;
    if (next == &c->sessions) next = c->strangers.next;
    return next == &c->strangers ? NULL : CONTAINER_OF(next, struct session, place);
}

/* NULL: none has this id. */
static inline struct session *client_find(struct command *c, int64_t id)
{
    struct session *s = client_after(c, &c->sessions);
    while (s != NULL && (int64_t)s->id != id)
        s = client_after(c, &s->place);
    return s;
}

run_fn run_client_info, run_client_list, run_client_kill;

/* tracking.c */
void tracking_off(struct session *s);
/* Behind the answer to a command whose answers libraries cache: a client that may do so is told to forget it. */
void tracking_forget(const struct session *s, struct slice key, struct buf *out);
/* 0: no client was named, -1: tracking is off */
static inline int64_t tracking_redirect(const struct session *s)
{
    return (s->tracking & TRACKING_ON) != 0 ? (int64_t)s->redirect : -1;
}
run_fn run_tracking, run_caching, run_getredir, run_trackinginfo;

/* server.c */
extern const struct spec config_specs[];
run_fn run_help, run_time, run_role;

/* commands.c */
extern const struct spec command_specs[];
run_fn run_command;

#endif
