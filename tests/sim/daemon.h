/* tests/sim/daemon.h - a daemon: the real coalesce and sync, wired as the service wires them, with its links,
 * its clients and its writers. A life is one start of the process; a crash forgets all its memory. */
#ifndef SIM_DAEMON_H
#define SIM_DAEMON_H

#include "coalesce/coalesce.h"
#include "sim/arena.h"
#include "sim/client.h"
#include "sim/link.h"
#include "sync/gate.h"
#include "sync/total.h"

#define SIM_WAITS 2
#define SIM_TOTALS 3

struct world;
struct daemon;
struct filing;

/* A request of sync that found no link, or whose link was lost: answered as lost at one of the next turns. */
struct lost {
    struct list link;
    enum request_kind kind;
    void *target;
};

struct sim_wait { /* CTR.SYNC */
    struct sync_wait wait;
    bool busy;
    int hash;                                 /* -1: ALL */
    unsigned strays;                          /* its life's, then */
    int64_t answered[SIM_HASHES][SIM_FIELDS]; /* sums of the hits answered before the call */
    struct process *life;
};

struct sim_total { /* CTR.TOTAL */
    struct total_request request;
    bool busy, astray;    /* astray: asked at a server that is no primary */
    unsigned run, strays; /* the primary then; the life's */
    int hash;
    struct slice fields[SIM_HIT_FIELDS];
    int64_t answered[SIM_HASHES][SIM_FIELDS]; /* as for sim_wait */
    struct process *life;
};

/* A life's part at one lane; there is one for each. */
struct process {
    struct world *w;
    struct daemon *daemon;
    int index, instance;
    unsigned lane;
    struct coalesce *coalesce;
    struct sync *sync;
    struct gate gate;
    struct prune prune;
    struct until until;
    struct totals totals;
    struct takeover takeover;
    struct sim_total asked[SIM_TOTALS];
    char run_id[ROLES][RUN_ID_BYTES]; /* of the Redis that each link was opened to last */
    struct list questions;
    struct filing *filings;
    struct link *links[ROLES]; /* NULL: not connected */
    uint64_t looked_ms;        /* for that number, last */
    int64_t number;            /* of the last frame that their server is known to have */
    unsigned fences;           /* asked for */
    unsigned client_waits;     /* the same of clients' WAITs */
    unsigned waited_beside;    /* the newest fence when the last WAIT was asked for */
    bool client_waits_busy;    /* one is under way */
    unsigned strays;           /* so often a link came up at a server that is not the primary */
    bool started;              /* sync_start was called */
    bool redis_up, mysql_up;   /* as it was told */
    unsigned mysql_starts;
    bool witness[SIM_COUNTERS]; /* its connection has merged rows */
    bool paused, stopping, abandoned;
    bool let_go; /* of the frame link, at stop, whatever is in doubt */
    uint64_t paused_ms, resume_ms, walk_ms;
    uint64_t hold_ms;  /* frames are held until then; 0: they are not */
    uint64_t slept_ms; /* by which its clock is behind; 0 unless WORLD_CLOCK is off */
    int64_t leap_ms;   /* of Redis' clock, as it was when it was last asked */
    bool walk_wanted;
    struct life life;
    struct sim_read read;
    uint64_t hits; /* taken by coalesce */
    struct list lost;
    struct sim_wait waits[SIM_WAITS];
    struct sync_recover recover;
    bool recovering;
};

struct daemon {
    struct process *life; /* of `lives`, at the lane that the world is at; NULL: not running */
    struct process *lives[SIM_LANES];
    struct arena arena; /* of all of them */
    bool for_good;      /* it never comes back */
    int instance;
    struct client clients[SIM_CLIENTS];
};

void daemon_start(struct world *w, struct daemon *d);
void daemon_crash(struct world *w, struct daemon *d);
void daemon_end(struct world *w,
                struct daemon *d); /* at rest: everything is given back, and checked for leaks */
uint64_t life_mono_ms(const struct process *life);
int64_t life_redis_ms(const struct process *life);       /* as it believes Redis' clock to be */
bool life_knows(const struct process *life, int hash);   /* is the hash's counter in its configuration? */
bool daemon_may_end(const struct process *life);         /* nothing asked that was not answered */
bool daemon_owes(const struct daemon *d);                /* its clients, an answer */
struct process *daemon_life(struct world *w, int index); /* the life with this number runs: its struct */
bool daemon_hears(const struct world *w, int index);     /* will that life know what became of its frames? */

/* Around every call into a life: its heap, its chunk size. Leaving ends a loop turn now and then. */
void daemon_hold(struct process *life, uint64_t until_ms); /* 0: lets go */
struct arena *daemon_enter(struct process *life);
void daemon_leave(struct process *life, struct arena *before);

/* What the scheduler asks of a life that runs and is not paused, at one lane; a stop is for all lanes. */
bool daemon_wants_link(const struct process *life, enum role role);
void daemon_connect(struct process *life, enum role role);
void daemon_link_lost(struct process *life, enum role role);  /* the link was cut, and the daemon sees it */
void daemon_leave_server(struct process *life, unsigned run); /* all links to it are cut */
void daemon_caught_up(struct process *life);                  /* all that was answered is in Redis */
void daemon_deliver(struct process *life, enum role role);    /* the oldest reply of that link */
void daemon_answer_lost(struct process *life);
void daemon_turn(struct process *life);
void daemon_tick(struct process *life);
void daemon_tell_mysql(struct process *life);
void daemon_walk(struct process *life);
void daemon_wait(struct process *life);
bool daemon_may_client_wait(const struct process *life);
void daemon_client_wait(struct process *life);
void daemon_recover(struct process *life);
void daemon_stop(struct daemon *d);
void daemon_abandon(struct daemon *d);

#endif
