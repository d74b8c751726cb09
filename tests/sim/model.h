/* tests/sim/model.h - the sizes and names of the simulated world, and the numbers drawn for one seed.
 * A world is small on purpose: few hashes, few fields and short queues meet in every order within some
 * hundred steps. The k-th hit on a field adds 4^k or takes it away, so every sum anywhere tells exactly which hits
 * are in it, and how often. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "coalesce/coalesce.h"
#include "sync/sync.h"

#define SIM_DAEMONS 2
#define SIM_LANES 4  /* of each daemon, each with its own Redis */
#define SIM_LIVES 64 /* starts of all daemons in one run */
#define SIM_COUNTERS 2
#define SIM_HASHES 4     /* pending hashes; the odd ones belong to the second counter, where there is one */
#define SIM_HIT_FIELDS 6 /* that hits are on; the field after them counts visitors */
#define SIM_VISITORS SIM_HIT_FIELDS
#define SIM_DOWN 1 /* a field whose hits, or some of them, may count down */
#define SIM_VISITORS_DAY 20140920
#define SIM_FIELDS (SIM_HIT_FIELDS + 1)
#define SIM_HITS 24    /* of one field: 4^24 < DELTA_MAX */
#define SIM_BATCHES 24 /* standing at once */
#define SIM_CELLS (SIM_HASHES * SIM_HIT_FIELDS)
#define SIM_ROWS (SIM_HASHES * SIM_FIELDS)
#define SIM_KEPT_BYTES 25000                /* about a frame */
#define SIM_CLIENTS 3                       /* of one daemon */
#define SIM_EPOCH_MS INT64_C(1700000000000) /* Redis' clock when the simulated one starts */

static inline int64_t hit_delta(unsigned k)
{
    return INT64_C(1) << (2 * k);
}
/* How often is the k-th in a sum of hits that all go up? */
static inline unsigned hit_times(int64_t sum, unsigned k)
{
    return (unsigned)(sum >> (2 * k)) & 3;
}

/* Reproducible randomness (splitmix64). */
struct prng {
    uint64_t state;
};
uint64_t prng_next(struct prng *p);
static inline uint64_t prng_below(struct prng *p, uint64_t n)
{
    return prng_next(p) % n;
}
static inline bool prng_percent(struct prng *p, unsigned percent)
{
    return prng_below(p, 100) < percent;
}

enum fault { FAULT_NONE, FAULT_LOSS, FAULT_DOUBLE, FAULT_STUCK, FAULT_ANSWER, FAULT_BOOKS, FAULT_PROTOCOL };
const char *fault_name(enum fault f);

/* Rules that live in the twins; the others are in base/sm.h. Value: set of those taken out, of 64 bits. */
enum world_rule {
    WORLD_RENAMENX = 1 << 0,     /* off: the claim renames with RENAME */
    WORLD_LEDGER = 1 << 1,       /* off: MySQL merges without a look at the ledger */
    WORLD_REGISTRY = 1 << 2,     /* off: the registry is written by a command of its own after the renames */
    WORLD_CUT = 1 << 3,          /* off: each daemon has its own chunk size */
    WORLD_LIFE = 1 << 4,         /* off: the seq key names only the instance */
    WORLD_FENCE_WRITE = 1 << 5,  /* off: WAITAOF without a write on that link */
    WORLD_WALK_TIMER = 1 << 6,   /* off: walks only at start and on reconnects */
    WORLD_KILL_NAMED = 1 << 7,   /* off: links of earlier lives are not killed before the first claim */
    WORLD_TAKE_LINK = 1 << 8,    /* off: a journal is taken over on the sync link */
    WORLD_JOURNAL_KILL = 1 << 9, /* off: a journal is read while its owner's links may still write */
    WORLD_LEASED = 1 << 10,      /* off: what was leased is forgotten with a log's name */
    WORLD_TOKEN_ONCE = 1 << 11,  /* off: an increment with a token is counted even if the token exists */
    WORLD_TOKEN_WITH = 1 << 12,  /* off: a token is written by a command after the frame */
    WORLD_TAKE_OWNER = 1 << 13,  /* off: a journal is taken over even if it has another owner by now */
    WORLD_CLOCK = 1 << 14,       /* off: a life's clock stops while the life is paused */
    WORLD_REJECTS = 1 << 15,     /* off: a row that MySQL refuses is dropped */
    WORLD_MENDED = 1 << 16,      /* off: what was made after an unnoticed deletion is not mended */
    WORLD_ONE_SERVER = 1 << 19,  /* off: links of one life may be at different servers */
    WORLD_HOLD = 1 << 20,        /* off: a fence counts while frames are held for a failover */
    WORLD_BY_CHUNK = 1 << 18,    /* off: a batch of which any chunk is in the ledger counts as merged */
    WORLD_EPOCH = 1 << 25,       /* off: MySQL merges under whatever epoch */
    WORLD_CAUGHT_UP = 1 << 21,   /* off: Redis is read before it has again what it lost */
    WORLD_KEPT_NUMBER = 1 << 24, /* off: an event that is sent again keeps its number, even if it is taken */
    WORLD_ALL_LINKS = 1 << 17,   /* off: the gate uses the Redis of the sync link alone */
    WORLD_PACK = 1 << 22,        /* off: what a claim packed is deleted by another command after the script */
    WORLD_REALM_FENCE = 1 << 27, /* off: a realm's first epoch is taken without a fence */
    WORLD_TAKE_ALL = 1 << 26,    /* off: of a journal taken twice only the last owner's links are ended */
    WORLD_WATCH = 1 << 30, /* off: a frame runs whatever became of the life's number since the frame before */
    WORLD_TAKE_TOUCHES = 1 << 28, /* off: taking a journal over leaves its owner's number alone */
    WORLD_NUMBER = 1 << 29,       /* off: what is read is believed, whatever became of the life's number */
    WORLD_FENCE_KEY = INT64_C(1) << 31, /* off: a fence does not look whether what it wrote is there still */
    WORLD_FORMAT = 1 << 23, /* off: a tallyd that knows no packed hashes adopts batches that have some */
    WORLD_LOOK =
        INT64_C(1) << 32, /* off: a row that was seen to be there is not locked until it is updated */
    WORLD_CONSTANT = INT64_C(1) << 33, /* off: rows are found without the constant of their key */
    WORLD_WITNESS =
        INT64_C(1) << 35,          /* off: a chunk is rejected whole, whether MySQL takes other rows or not */
    WORLD_LEFT = INT64_C(1) << 36, /* off: the ledger does not say what a merge left for its locks */
    WORLD_PART = INT64_C(1) << 37, /* off: who goes on with a chunk merges all of it */
    WORLD_GATE_AGAIN =
        INT64_C(1) << 38,            /* off: the gate does not look again at a Redis that has other data */
    WORLD_COUNTS = INT64_C(1) << 34, /* off: of several counts of one row a chunk writes the first */
};

/* Rules of several lanes, all in the twins. Value: as for enum world_rule. */
enum lanes_rule {
    LANES_FIXED = 1 << 0, /* off: each life has another lane for the same store */
    LANES_ORDER = 1 << 1, /* off: a lane's answers go to its clients as they come */
    LANES_REALM = 1 << 2, /* off: all lanes are one realm in MySQL */
    LANES_PRUNE = 1 << 3, /* off: a lane prunes the ledger's rows of all */
    LANES_UNTIL = 1 << 4, /* off: complete_until is that of the lane furthest ahead */
    LANES_ALONE = 1 << 5, /* off: no lane sends while another one's Redis is away */
};

/* What may happen, with its usual weight; events.c has the code of each. */
#define SIM_EVENTS(X)                                                                                        \
    X(hit, 30)                                                                                               \
    X(turn, 15)                                                                                              \
    X(tick, 12)                                                                                              \
    X(execute, 40)                                                                                           \
    X(execute_dead, 4)                                                                                       \
    X(deliver, 40)                                                                                           \
    X(answer_lost, 10)                                                                                       \
    X(connect, 12)                                                                                           \
    X(reconnect, 12)                                                                                         \
    X(notice_cut, 6)                                                                                         \
    X(merge, 15)                                                                                             \
    X(limbo, 3)                                                                                              \
    X(walk, 2)                                                                                               \
    X(read, 3)                                                                                               \
    X(wait, 1)                                                                                               \
    X(recover, 1)                                                                                            \
    X(tell_mysql, 5)                                                                                         \
    X(clock, 12)                                                                                             \
    X(fsync, 8)                                                                                              \
    X(start, 4)                                                                                              \
    X(resume, 3)                                                                                             \
    X(cut, 6)                                                                                                \
    X(crash, 3)                                                                                              \
    X(stop, 1)                                                                                               \
    X(pause, 2)                                                                                              \
    X(redis_restart, 3)                                                                                      \
    X(fence_late, 4)                                                                                         \
    X(redis_refuse, 2)                                                                                       \
    X(mysql_toggle, 3)                                                                                       \
    X(wrong_type, 1)                                                                                         \
    X(full, 1)                                                                                               \
    X(poison, 2)                                                                                             \
    X(leap, 2)                                                                                               \
    X(client_gone, 1)                                                                                        \
    X(abandon, 2)                                                                                            \
    X(unfit, 1)                                                                                              \
    X(total, 2)                                                                                              \
    X(question, 15)                                                                                          \
    X(dump, 2)                                                                                               \
    X(restore, 6)                                                                                            \
    X(hold, 2)                                                                                               \
    X(announce, 0)                                                                                           \
    X(failover, 0)                                                                                           \
    X(demote, 0)                                                                                             \
    X(follow, 0)                                                                                             \
    X(leave, 0)                                                                                              \
    X(crash_taking, 0)                                                                                       \
    X(client_wait, 0)                                                                                        \
    X(shop, 0)

enum sim_event {
#define X(name, weight) EVENT_##name,
    SIM_EVENTS(X)
#undef X
        EVENT_COUNT
};
#define EVENTS_DRAWN EVENT_announce /* those after it are in profiles alone */

/* Everything that one seed draws before its run begins. */
struct sim_config {
    uint64_t seed;
    bool partial; /* the second daemon's configuration lacks the second counter */
    unsigned daemons, counters, hashes, fields, steps, hits_most;
    unsigned lanes;
    unsigned away_percent; /* of runs over lanes: one stays away until the others have come to rest */
    unsigned weight[EVENT_COUNT];
    unsigned faults_most;      /* fault events of the whole run */
    unsigned faults_from;      /* none before this step */
    unsigned for_good_percent; /* of crashes: the instance never comes back */
    unsigned turn_percent;     /* a loop turn ends right after an event of the daemon */
    unsigned refuse_percent;   /* frames refused while Redis refuses */
    unsigned claim_refuse_percent;
    unsigned repeat_percent;    /* HSCAN shows a field again */
    unsigned unread_percent;    /* of cuts: the server keeps what it had not read yet */
    unsigned lose_tail_percent; /* of Redis restarts */
    unsigned lost_commit_percent;
    unsigned table_refuses_percent;
    unsigned claim_twice_percent; /* a claim runs a second time while its batch exists */
    unsigned clock_step_ms, clock_jump_percent;
    uint64_t clock_jump_ms;
    uint64_t lag_ms;    /* what is older is durable in Redis */
    uint64_t unread_ms; /* Redis reads what arrived within this time; keep > 2 * give_up + this */
    uint32_t answer_ms; /* redis.timeout, for complete_until: hits that take longer are not counted */
    uint32_t prune_ms, until_ms, takeover_ms;
    uint64_t walk_ms, keep_ms, wait_timeout_ms;
    uint64_t pause_ms;
    bool keeps_all;        /* of frames that could be lost; else a few, or none */
    uint64_t leap_most_ms; /* Redis' clock is off by up to this, either way; 0: never */
    uint64_t claim_fields_max;
    unsigned pack_fields; /* a claim packs hashes with at most this many; 0: none */
    bool older;           /* the second daemon is of the version before: it packs and reads none */
    unsigned ops_percent; /* of clients' requests */
    unsigned tokens_percent, again_percent; /* of their hits; of those, the ones that were sent before */
    unsigned clean_percent;                 /* of steps of the clock: another program deletes samples */
    bool own_numbers;                       /* some events have ids of their own that are numbers */
    bool restores;                          /* an old copy of Redis may be put back */
    bool swaps;                             /* ... under its links, as SWAPDB does it */
    bool moves;                             /* Redis may fail over, see moves.h */
    bool third_copy;  /* one that is not promoted acknowledges too: failovers are announced */
    bool keeps_links; /* a server that takes over other data keeps its links */
    bool fails_back;  /* to the same process as before, not to one that started anew */
    bool unheard;     /* nobody hears in time that another life has the epoch */
    bool fresh;    /* Redis has no realm yet; no life that gave it one may end before MySQL merges for it */
    bool unfenced; /* redis.replicas is 0: the gate may close for good, so the run ends without a rest */
    unsigned killed_percent,
        split_percent; /* of failovers: links end; the old one takes writes for a while */
    uint32_t role_ms;
    uint64_t down;   /* of the hits on SIM_DOWN: 3 * 4^k for each k that counts down */
    bool unlocked;   /* counters have no locks */
    bool makes_none; /* counters make no rows: the shop makes and deletes them */
    bool
        refusing; /* MySQL refuses all rows of one hash, or the shop has them locked, until all others have come to rest */
    bool feeds; /* the first counter feeds a series, a box and events */
    uint32_t chunk_rows[SIM_DAEMONS];
    int64_t counter_hits;
    uint32_t every_s;
    uint64_t world_off; /* set of enum world_rule */
    uint32_t lanes_off; /* set of enum lanes_rule */
    bool rule_out;      /* some rule is: whatever it breaks is worth more than the hint of tally:gen */
    struct coalesce_config coalesce;
    struct sync_config sync; /* keep_ms > 0: MySQL's replica, behind by less, may be promoted */
};

void sim_config_draw(struct sim_config *c, uint64_t seed, unsigned daemons); /* daemons 0: the seed decides */

#endif
