/* sync/sync.h - decides when pending hashes are claimed, and which, and carries each batch into MySQL, exactly once.
 * One `struct sync` a lane; every call on the loop. See run.c for the machine of one batch. */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include "base/list.h"
#include "base/map.h"
#include "series/asks.h"
#include "series/batches.h"
#include "series/counter.h"

/* --- the world as the sync machine sees it. engine/ connects Redis and MySQL, the simulator in-memory twins. The requests and
 * their rules are in series/batches.h. --- */

struct sync_ports {
    void *arg;
    void (*claim)(void *arg, struct claim *c); /* down the frame link */
    void (*scan)(void *arg, struct scan *s);
    void (*fence)(void *arg, struct fence *f);
    void (*merge)(void *arg, struct chunk *c);
    void (*discard)(void *arg, struct discard *d);
    void (*adopt)(void *arg, struct adopt *a);
    void (*due_poll)(void *arg, struct due_poll *p);
    void (*standing)(void *arg, struct standing *s);
    /* A merge or a fence was refused: the epoch is over, or Redis has another history. Another look decides. */
    void (*epoch_over)(void *arg);
    /* Fire and forget: sign of life of these batches (and of this instance, with n = 0 too). */
    void (*beat)(void *arg, const struct batch_id *ids, uint32_t n);
    /* Fire and forget: dirty names that no counter matches go from tally:dirty to tally:held. */
    void (*hold_names)(void *arg, const struct slice *names, uint32_t n);
    uint64_t (*mono_ms)(void *arg);
    int64_t (*redis_ms)(void *arg); /* Redis' own time */
    void (*draw_id)(void *arg, struct batch_id *id);
    uint64_t (*hits)(void *arg);    /* applied so far, of all counters; only grows */
    uint64_t (*felt_us)(void *arg); /* that they waited for their answers, all together; only grows */
};

/* --- the machine --- */

struct sync_config {
    uint32_t runs_max;     /* batches under way at once, 1,024 */
    uint32_t claims_max;   /* at most CLAIMS_OUT_MAX, which is the default */
    uint32_t chunks_max;   /* chunks of one run handed to the writers at once, 8 */
    uint64_t fields_max;   /* claimed and not discarded, over which nothing is claimed, 500,000 */
    uint32_t claim_gap_ms; /* least pause between two claims of one counter, unless a claim is full, 100 */
    /* While hits come, and busy_ms after, 1,000, a claim takes Redis claim_us, 500, but at least claim_least hashes, 32
     * (pace.c) */
    uint32_t claim_us, claim_least, busy_ms;
    uint32_t poll_ms;                 /* how often the dirty index is asked, 250 */
    uint32_t beat_ms;                 /* sign of life, 10,000 */
    uint32_t adopt_ms;                /* how often stale batches are looked for, 10,000 */
    uint32_t stale_ms;                /* a batch without sign of life for this long is adopted, 60,000 */
    uint32_t retry_ms, retry_most_ms; /* backoff of a run, 100 and 5,000 */
    uint32_t held_ms;                 /* a held run looks again after, 30,000 */
    uint64_t give_up_ms;  /* a run older than that is given up (a third of ledger.keep: run.c says why) */
    uint64_t keep_ms;     /* a merged batch is discarded this much later, far less than give_up_ms; 0 */
    uint32_t forsaken_ms; /* a dirty name that no counter claims goes to tally:held after, 600,000 */
    uint32_t scans_max;   /* batches adopted whose rows are not counted yet, at once, 16 */
    uint32_t wait_ms;     /* CTR.SYNC: TRYAGAIN after, 30,000 */
    uint32_t due_max; /* names remembered as due, over all counters; the dirty index has the rest, 20,000 */
    /* What claims of names that are due by their hits alone may cost in MySQL (pace.c): */
    uint32_t rows_burst;      /* rows at once, 1,000 */
    uint32_t rows_free_per_s; /* rows a second, however few hits there are, 10 */
    uint32_t hits_a_row;      /* hits that pay for a row more, of whatever counter, at least 1; 2,000 */
    uint32_t
        paced_wait_ms; /* too few rows for all names: how long they are saved for one larger claim, 1,000 */
};
extern const struct sync_config sync_config_default;

/* A wait until everything that counted before now is merged (CTR.SYNC). Owned by the asker until done(). */
struct sync;
struct sync_wait {
    struct slice key;                  /* n = 0: ALL; it matched a counter; owned by the asker until done */
    enum ask_outcome outcome;          /* not ASK_FAILED */
    int64_t rows;                      /* merged by this service, of the batches waited for */
    void (*done)(struct sync_wait *w); /* not from inside sync_wait_for */
    void *arg;
    /* private */
    struct sync *sync;
    int phase;
    bool begun, queued, asking, answered;
    char replid[RUN_ID_BYTES]; /* the epoch's, as it began */
    uint64_t since_ms, ask_at_ms;
    int64_t before_ms;
    uint32_t claim_mark;
    struct map ids;
    struct standing ask;
    struct due_poll poll;
    struct list link;
};

/* On-demand recovery (CTR.RECOVER): adopts everything whose owner is dead and waits until it is merged. */
struct sync_recover { /* one at a time; owned by the asker until done */
    bool failed;      /* Redis or MySQL went away before all was merged: run it again for the rest */
    int64_t adopted, rows_merged, rows_already, unknown, held;
    void (*done)(struct sync_recover *r); /* not from inside sync_recover */
    void *arg;
    /* private */
    bool more; /* in, may change: the asker may still sync_take(); done() waits until it is false */
    struct sync *sync;
    struct adopt adopt;
    bool asking, asked_all;
    uint64_t left; /* batches of it not finished */
};

struct sync *sync_create(const struct sync_ports *ports, const struct counters *counters,
                         const struct sync_config *config);
void sync_start(
    struct sync *s); /* Redis is up: adopts this instance's old batches, then claims; MySQL may be down */
void sync_tick(struct sync *s); /* at least every 50 ms; all timers of the machine depend on it */
/* Every loop turn: begins at once, and not at the next tick, what an answer of this turn made possible. */
void sync_turn(struct sync *s);
/* Do hits come, as of the last tick? They wait for Redis and MySQL as merges do. */
bool sync_hits_come(const struct sync *s);
/* The key is copied. Repeats are ignored, but a name that is due by its hits may become due by time. */
void sync_due(struct sync *s, const struct counter *c, struct slice key, enum due_why why);
void sync_mysql(struct sync *s, bool up); /* down: nothing is claimed, runs wait */
/* MySQL is there, and its schema or Redis' history is not good yet: not up, but a CTR.SYNC waits for it. */
void sync_mysql_unchecked(struct sync *s, bool unchecked);
void sync_epoch(struct sync *s,
                const struct epoch *epoch); /* what is scanned from now on is merged under it */
void sync_redis(struct sync *s, bool up);   /* all three links are up, or not */
void sync_hold(struct sync *s, bool hold,
               const char *why); /* Redis was rolled back: merges and claims stop, counting goes on */
void sync_wait_for(struct sync *s, struct sync_wait *w);
void sync_recover(struct sync *s, struct sync_recover *r);
/* Takes a batch that already exists (leftovers claimed by recover) as this life's own, from SCAN on. Counts for the
 * recovery under way, if there is one. */
void sync_take(struct sync *s, const struct batch_id *id);
/* Ids under way, for the ledger's pruning and for status; the caller frees out. Returns how many. */
uint32_t sync_running(const struct sync *s, struct batch_id **out);
/* Calls each for every batch that is held now; why as the log has it: "table_refuses", say. text: what MySQL said to which statement. */
void sync_held(const struct sync *s,
               void (*each)(void *arg, const struct batch_id *id, const char *why, const char *text),
               void *arg);
/* Calls each for every counter of which something is due and nothing was merged for `every` and 30 s; "-": of batches
 * whose counter is not known yet. */
void sync_stalled(const struct sync *s, void (*each)(void *arg, struct slice counter, const char *why),
                  void *arg);
uint64_t sync_stalled_s(const struct sync *s); /* for how long, the longest of them; 0: none */
/* Calls each for every store that waits: MySQL refused more of its rows than a store may have rejects a minute (rows: how many), or another
 * program has locked some. */
typedef void sync_store_waits(void *arg, struct slice counter, struct slice store, int64_t rows,
                              const char *why);
void sync_stores_waiting(const struct sync *s, sync_store_waits *each, void *arg);
/* Does MySQL's schema fit this counter? While it does not, nothing of it is claimed, and its batches are held. */
void sync_counter_fit(struct sync *s, const struct counter *c, bool fit);
/* Claims no hash of this counter until there were as many releases. It is for a live total (sync/README.md, rule S28),
 * which cannot tell what was claimed after it read Redis and merged before it read MySQL. Claims under way are
 * finished, claimed batches go on, and due names remain due. */
void sync_counter_hold(struct sync *s, const struct counter *c);
void sync_counter_release(struct sync *s, const struct counter *c);
/* Sum of the hits in batches of a gen above this that were discarded, of the last few thousand. */
int64_t sync_discarded_above(const struct sync *s, uint64_t gen);
void sync_stop(struct sync *s);    /* claims nothing more, ends waits and recovery; what runs goes on */
void sync_abandon(struct sync *s); /* and makes no request any more: what is under way is only waited for */
bool sync_quiet(const struct sync *s); /* no request out (a stopped machine with runs waiting is quiet) */
/* Needs sync_quiet. Runs leave their batches for adoption; waits get no answer. */
void sync_destroy(struct sync **s);

#ifdef TALLYD_RULES
extern uint32_t sync_rules_off; /* simulator only: see base/sm.h */
#endif

#endif
