/* base/sm.h - state machines, and what tests hold on to: rules and crash points. A machine has a table of states, each
 * with the set of states it may move to. A move that the table does not allow is our bug and stops the process. */
#ifndef BASE_SM_H
#define BASE_SM_H

#include <stdbool.h>
#include <stdint.h>

struct sm_state {
    const char *name;
    uint32_t to; /* set of TO(state) */
};
#define TO(state) (UINT32_C(1) << (state))

struct sm {
    const struct sm_state *table;
    int now;
};

void sm_init(struct sm *m, const struct sm_state *table, int first);
void sm_move(struct sm *m, int next);
static inline int sm_now(const struct sm *m)
{
    return m->now;
}
static inline const char *sm_name(const struct sm *m)
{
    return m->table[m->now].name;
}

/* The rules (coalesce/README.md, sync/README.md) that a simulation takes out, one at a time, to prove that it finds the
 * fault. In the service RULE() is a constant: no rule can be switched off there. */

enum coalesce_rule {
    RULE_CLAIM_ONCE = 1 << 0,           /* a claim in doubt is looked for, never sent again */
    RULE_ONE_IN_FLIGHT = 1 << 1,        /* off: two frames in flight */
    RULE_KILL = 1 << 2,                 /* the old link is killed before seq is read */
    RULE_KILL_FIRST = 1 << 3,           /* off: seq is read before the kill */
    RULE_KILL_FOR_CLAIM = 1 << 4,       /* killed when only a claim is in doubt, too */
    RULE_DIRTY_AT_SEND = 1 << 5,        /* off: a frame's reply makes its hashes known dirty */
    RULE_FORGET_AT_SEND = 1 << 6,       /* off: a claim's reply forgets its hashes */
    RULE_REFUSED_AS_IS = 1 << 7,        /* off: a refusal puts back known dirty as it was before the frame */
    RULE_RESEND_ALL_ZADD = 1 << 8,      /* off: a frame is sent again as it was */
    RULE_OWED = 1 << 9,                 /* off: no ZADD is ever owed */
    RULE_ANSWERED_NEVER_SENT = 1 << 10, /* off: a frame answered "outcome unknown" is sent again */
    RULE_OWED_AFTER_REFUSAL = 1 << 11,  /* off: a refused frame's owed ZADDs are forgotten */
    RULE_SERIES_OWED = 1 << 12,         /* off: no ZADD in known: is ever owed */
    RULE_SERIES_FORGET = 1 << 13,       /* off: a cut or a refusal leaves series known */
    RULE_SERIES_RESEND = 1 << 14,       /* off: series are sent again as they were */
    RULE_JOURNAL_UNDO = 1 << 15,        /* off: what a refused frame did to journals stays as it is */
    RULE_JOURNAL_LOOK = 1 << 16,        /* off: a new link does not check the journals' owner */
    RULE_BUCKET_OWED = 1 << 17,         /* off: no bucket's place in tb. is ever owed */
    RULE_BUCKET_FORGET = 1 << 18,       /* off: a cut leaves buckets known to exist */
    RULE_BUCKET_RESEND = 1 << 19,       /* off: hits on buckets are sent again as they were */
    RULE_LEASE_FORGET = 1 << 20,        /* off: leases live on after a cut */
    RULE_LEASE_RESEND = 1 << 21,        /* off: numbers of a lease are sent again as they were */
    RULE_EVENTS_OWED = 1 << 22,         /* off: no log is ever owed to tally:events */
    RULE_SHARE_BACK = 1 << 23,          /* off: a failed cell's share stays in tally:accepted */
    RULE_TAKEOVER_OWN = 1 << 24,        /* off: journals of our own instance are left to others */
    RULE_TAKEOVER_SERVER = 1 << 25,     /* off: taken by a list that another server gave */
    RULE_LEASE_HELD = 1 << 26,          /* off: what is held through a cut keeps numbers of a lease */
    RULE_REPLAY = 1 << 27,              /* off: answered frames that Redis lost are not sent again */
    RULE_REPLAY_LOOK = 1 << 28,         /* off: all that are kept are sent again, whatever Redis has */
    RULE_REPLAY_FIRST = 1 << 29,        /* off: frames in doubt are sent before those that were answered */
    RULE_REPLAY_HOME = INT32_MIN,       /* off: what came out of a journal is sent again */
    RULE_REPLAY_FENCE = 1 << 30,        /* off: a fence releases what was answered while it was under way */
};
enum sync_rule {
    RULE_BARRIER = 1 << 0,        /* fence before merge */
    RULE_RESCAN = 1 << 1,         /* rows scanned again when the server changed before the fence passed */
    RULE_ADOPT = 1 << 2,          /* stale batches are adopted by timer */
    RULE_GIVE_UP = 1 << 3,        /* a run older than a third of ledger.keep gives up */
    RULE_SYNC_HIGHEST = 1 << 4,   /* off: CTR.SYNC ALL asks for what is dirty by the time of the call */
    RULE_GATE = 1 << 5,           /* off: Redis' gen is not compared with the ledger's */
    RULE_PRUNE_STANDING = 1 << 6, /* off: the ledger is pruned by age alone */
    RULE_PRUNE_CUTOFF = 1 << 7,   /* off: what is old is decided after the standing batches were read */
    RULE_UNTIL_SLACK = 1 << 8,    /* off: complete_until has no slack for hits on their way */
    RULE_UNTIL_ORDER = 1 << 9,    /* off: batches are asked before the dirty index */
    RULE_TOTAL_EPOCH = 1 << 16,   /* off: a total does not ask whether its epoch is over */
    RULE_GEN_ID = 1 << 13,        /* off: only gens are compared, not their batches */
    RULE_EPOCH_OF_RUN = 1 << 14,  /* off: a chunk is merged under the newest epoch, not under its scan's */
    RULE_FENCE_HISTORY = 1 << 15, /* off: fence and scan do not ask which history the server is at */
    RULE_UNTIL_HISTORY = 1 << 18, /* off: complete_until does not ask which history it was read of */
    RULE_SYNC_HISTORY = 1 << 19,  /* off: CTR.SYNC does not ask which history it was read of */
    RULE_WAIT_KEY = 1 << 20,      /* off: clients' WAITs write the fence's key */
    RULE_REALM_KEPT = 1 << 17,    /* off: a realm that MySQL gave is forgotten with the look that asked */
    RULE_KEEP = 1 << 11,          /* off: a merged batch is discarded at once, whatever keep_ms says */
    RULE_KEEP_SEEN = 1 << 12, /* off: a kept batch is discarded when its time is over, whatever MySQL says */
    RULE_STORES_APART = 1 << 21, /* off: a batch that is refused whole holds its counter */
    RULE_TOTAL_BY_GEN = 1 << 10, /* off: a total counts what was claimed and merged after Redis was read */
};

#ifdef TALLYD_RULES
#define RULE(off, rule) (((off) & (uint32_t)(rule)) == 0)
#else
#define RULE(off, rule) 1
#endif

/* A move of a state machine that only a rule taken out makes. */
#ifdef TALLYD_RULES
#define TO_UNRULED(state) TO(state)
#else
#define TO_UNRULED(state) 0
#endif

/* Named crash points: TALLYD_CRASH=<point>[:<n>] in the environment makes the process end itself with SIGKILL when it
 * passes the point for the n-th time (default 1). Off, and one predictable branch, by default. TALLYD_CRASH=list makes
 * `tallyd run` print the names and exit. */

#define CRASH_POINTS(X)                                                                                      \
    X(frame_before_send)                                                                                     \
    X(frame_after_send)                                                                                      \
    X(frame_applied)                                                                                         \
    X(claim_before_send)                                                                                     \
    X(claim_after_send)                                                                                      \
    X(claim_done)                                                                                            \
    X(scan_mid)                                                                                              \
    X(scan_done)                                                                                             \
    X(fence_mid)                                                                                             \
    X(fence_done)                                                                                            \
    X(merge_after_ledger)                                                                                    \
    X(merge_before_commit)                                                                                   \
    X(merge_after_commit)                                                                                    \
    X(merge_between_chunks)                                                                                  \
    X(discard_before_send)                                                                                   \
    X(discard_after_send)                                                                                    \
    X(discard_done)

enum crash_point {
#define X(name) CRASH_##name,
    CRASH_POINTS(X)
#undef X
        CRASH_COUNT
};

extern bool crash_armed;
bool crash_init(void); /* reads the environment; false: it names no point (the names are on stderr) */
void crash_hit(enum crash_point p);

#define CRASH(name)                                                                                          \
    do {                                                                                                     \
        if (__builtin_expect(crash_armed, 0)) crash_hit(CRASH_##name);                                       \
    } while (0)

#endif
