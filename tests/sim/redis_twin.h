/* tests/sim/redis_twin.h - Redis in memory: the keys that tallyd uses, as plain data, so that the state
 * after every write can be kept. `durable` is how far the log is safe; losing the tail puts back any state
 * from there on. A fence writes its key, and passes at a later look once what came before its own write is safe. */
#ifndef SIM_REDIS_TWIN_H
#define SIM_REDIS_TWIN_H

#include "sim/link.h"

#define PAST_MAX 40

struct twin_lock {
    int holder;
    int64_t until_ms; /* 0: no key */
};
struct twin_batch {
    bool used;   /* something of it is there */
    bool stands; /* its registry */
    struct batch_id id;
    int counter, owner; /* owner: a life */
    uint64_t gen;
    int64_t lowest_ms, beat_ms;
    uint32_t hlen[SIM_HASHES]; /* registered; 0: not in it */
    uint32_t packed; /* set of hashes: theirs are in the registry, the others are keys of their own */
    struct twin_hash claimed[SIM_HASHES];
};
struct twin_state {
    struct twin_hash pending[SIM_HASHES];
    bool wrong_type[SIM_HASHES]; /* another program's string is in the place of the pending hash */
    uint8_t full[SIM_HASHES];    /* set of fields: so high that nothing can be added */
    int64_t dirty[SIM_HASHES];   /* score; 0: not a member */
    struct twin_lock lock[SIM_HASHES];
    bool realm; /* tally:realm exists */
    uint64_t gen;
    struct claim_gen gens[SIM_GENS]; /* at gen % SIM_GENS; gen 0: none */
    int64_t seq[SIM_LIVES];          /* -1: no key */
    unsigned fence[SIM_LIVES];       /* what its newest fence wrote; 0: no key */
    unsigned wait[SIM_LIVES];        /* what was written for its clients' WAITs */
    unsigned touched[SIM_LIVES];     /* so often the key was, though it says the same */
    int64_t accepted[SIM_COUNTERS];
    struct twin_tokens tokens;
    struct twin_ops ops;
    struct twin_batch batch[SIM_BATCHES];      /* redis_state_copy() copies those that are used, */
    struct twin_journal journal[SIM_JOURNALS]; /* and of these the bytes that are there */
};
struct past {
    uint64_t offset, at_ms;
    struct twin_state *state;
};
struct twin_copy {
    uint64_t offset;
    struct twin_state state;
};
/* A frame that ran, for the oracle: what a lost tail takes back, and whether the daemon knew of it. */
struct execution {
    uint64_t offset, seq;
    int life;
    bool lost, known;
    bool put_aside; /* lost by redis_restore() */
    bool named;     /* lost, and its daemon said frames_lost of it */
    unsigned cells_n;
    struct wire_cell cells[SIM_CELLS];
    uint32_t ops[OP_TARGETS];                                                            /* set of k */
    uint32_t tokens[SIM_HASHES][SIM_HIT_FIELDS], new_tokens[SIM_HASHES][SIM_HIT_FIELDS]; /* the same */
};

struct redis {
    struct twin_state now;
    struct past past[PAST_MAX]; /* each has a state of its own, those from past_n on too */
    unsigned past_n;
    struct twin_state kept[PAST_MAX]; /* theirs */
    uint64_t offset, durable;
    unsigned run, runs;          /* this process; how many there were, each start of one counted */
    unsigned history, histories; /* that it is at; how many began, each with a start or a promotion */
    bool is_other;               /* see moves_swap() */
    bool alone;                  /* after a failover: no replica acknowledges */
    uint64_t chosen, chosen_ms;  /* of the failover announced: its copy has this much; UINT64_MAX: none */
    bool dumped, restored;
    struct twin_copy dump, newest; /* a copy on disk; what stood there when it was put back */
    size_t newest_executions;
    bool refuses; /* out of memory: refuses frames now and then */
    struct list links;
    int64_t client_id;
    struct execution *executions;
    size_t executions_n, executions_cap;
};

struct world;

void redis_init(struct redis *r, bool fresh);
void redis_close(struct redis *r);
void redis_run_id(unsigned run, char out[RUN_ID_BYTES]);
/* As an assignment, without what is not there: most of 50 KB. */
void redis_state_copy(struct twin_state *to, const struct twin_state *from);
void redis_past_only(struct redis *r, unsigned which); /* it is past[0], and all others are forgotten */
/* May the next request of this link run? A fence waits, for as long as its server has what it wrote. */
bool redis_can_execute(const struct redis *r, const struct link *l);
void redis_execute(struct world *w, struct link *l); /* one step of the link's first request */
bool redis_is_looking(const struct link *l);         /* its first request is a fence that has written */
struct link *redis_blocked_fence(struct redis *r);   /* NULL: none waits for its writes to be safe */
void redis_refuse_fence(struct world *w, struct link *l);
void redis_catch_up(struct world *w, uint64_t sent_before_ms); /* runs all that was sent before */
void redis_fsync(struct redis *r, uint64_t up_to);
void redis_age(struct redis *r, uint64_t now_ms, uint64_t lag_ms); /* what is older than lag is durable */
void redis_restart(struct world *w, bool lose_tail);
void redis_dump(struct redis *r);
void redis_restore(struct world *w); /* an operator puts the copy back */
void redis_mend(struct world *w);    /* the operator sees that this was wrong: all services were stopped */
void redis_kill_named(struct redis *r, int instance, int life); /* links of the instance's other lives */
void redis_kill_life(struct redis *r, int life);
bool redis_has_link(struct redis *r, int life); /* one that the server has open */
void redis_reap(struct list *links);            /* frees links that neither end holds */
/* What an increment of the field meets there, as Redis says it; NULL: nothing. */
const char *redis_cell_error(const struct redis *r, int hash, int field);
int redis_seq_slot(const struct world *w, const struct link *l); /* which number in seq its frames set */
struct twin_batch *redis_batch(struct redis *r, const struct batch_id *id); /* NULL: nothing of it is there */
void redis_wrote(struct world *w, struct link *l); /* the state changed: one more entry of the log */

#endif
