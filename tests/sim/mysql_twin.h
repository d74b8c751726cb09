/* tests/sim/mysql_twin.h - MySQL in memory: rows, ledger, and transactions that are one of: waiting for a
 * writer, open (its ledger row is locked), in limbo (COMMIT was sent, no daemon waits for the answer any more).
 */
#ifndef SIM_MYSQL_TWIN_H
#define SIM_MYSQL_TWIN_H

#include "sim/model.h"

struct ledger_row {
    struct batch_id batch;
    uint32_t chunk, chunks;
    uint8_t digest[16];
    uint64_t merged_ms, gen;
    unsigned realm;
    int counter;
    char first[40], last[40]; /* keys of its first and last row */
    unsigned left;            /* set of its hashes that are not merged yet */
    unsigned first_n, last_n;
};

struct world;

enum job_state { JOB_QUEUED, JOB_OPEN, JOB_LIMBO };

struct job {
    struct list link;
    struct chunk *target; /* NULL in limbo */
    int life;
    unsigned lane; /* of the life */
    enum job_state state;
    uint64_t opened_ms;
    struct batch_id epoch;
    struct ledger_row row; /* its realm is the epoch's */
    unsigned rows_n;
    struct {
        int hash, field;       /* as in Redis */
        int of_hash, of_field; /* whose row, and count, its key columns find */
        int64_t delta;
        bool refused, missing; /* missing: it is in no row, so it is not refused */
        bool innocent;         /* refused with all others of its table */
    } rows[SIM_ROWS];
};

/* What MySQL has of a lane's Redis: the primary that the epoch is for, and complete_until, 0: not known yet. */
struct twin_realm {
    struct epoch epoch;
    uint64_t asked_ms, alive_ms; /* 0: never */
    int64_t until_ms[SIM_COUNTERS];
};

/* A replica: what the primary had then. */
struct mysql_copy {
    struct twin_realm realms[SIM_LANES];
    uint64_t at_ms;
    int64_t rows[SIM_HASHES][SIM_FIELDS], rejects[SIM_HASHES][SIM_FIELDS], deleted[SIM_HASHES][SIM_FIELDS];
    uint8_t gone[SIM_HASHES];
    struct ledger_row *ledger;
    size_t ledger_n;
};

struct mysql {
    bool up; /* it takes writes */
    unsigned starts;
    bool schema_unfit, table_unfit; /* table: of the first counter */
    /* Counts of rows, each in the place of the hash and field that mean it (table.h). */
    int64_t rows[SIM_HASHES][SIM_FIELDS], rejects[SIM_HASHES][SIM_FIELDS];
    uint8_t poison
        [SIM_HASHES]; /* set of fields whose rows MySQL refuses; of hashes with odd numbers for no code of values */
    bool takes_none[SIM_COUNTERS]; /* of a counter's table */
    unsigned locked;               /* set of hashes whose rows the shop has locked */
    uint8_t gone[SIM_HASHES];      /* set of fields whose row is not there, and is made by no merge */
    int64_t deleted[SIM_HASHES][SIM_FIELDS]; /* what rows had when the shop deleted them */
    struct ledger_row *ledger;
    size_t ledger_n, ledger_cap;
    struct list jobs;
    struct twin_realm realms[SIM_LANES];
    uint64_t epochs; /* how many there ever were */
    struct mysql_copy copy;
    unsigned promoted; /* starts, when the replica was last promoted */
};

void mysql_put_left(const struct world *w, unsigned left, struct buf *names); /* as the ledger has them */
struct batch_id sim_realm(const struct world *w, unsigned lane);
/* Which of mysql.realms an id is; that of the lane that the world is at, while its gate knows none. */
unsigned mysql_realm(const struct world *w, const struct batch_id *id);

/* What is in MySQL, in its row or kept to be replayed, or was in a row that the shop deleted. */
static inline int64_t mysql_has(const struct mysql *m, int hash, int field)
{
    return m->rows[hash][field] + m->rejects[hash][field] + m->deleted[hash][field];
}

/* What is in the row that these mean. */
int64_t mysql_count(const struct world *w, const struct counter *c, struct slice key, struct slice field);

struct process;

void mysql_init(struct mysql *m);
/* The shop makes a row, or deletes it, unless an open transaction has locked it. */
void mysql_shop(struct world *w, int hash, int field);
/* The shop locks all rows of a hash, likewise, or lets them go. */
void mysql_lock(struct world *w, int hash);
void mysql_close(struct mysql *m);
void mysql_submit(struct process *life, struct chunk *c);
void mysql_step(struct world *w, struct job *job);    /* begin, or commit; may answer the daemon */
void mysql_resolve(struct world *w, struct job *job); /* limbo: committed or rolled back */
void mysql_start(struct world *w);
void mysql_stop(struct world *w); /* all open transactions roll back */
void mysql_demote(struct world *w);
void mysql_copy(struct world *w);                  /* the replica catches up */
void mysql_promote(struct world *w);               /* the replica: what it had not got is lost */
void mysql_forget_life(struct world *w, int life); /* its writers are gone, what was sent may stay in limbo */
/* Rows of a realm merged up to cutoff_ms, but for the highest gen. */
void mysql_prune(struct world *w, unsigned realm, int64_t cutoff_ms, const struct batch_id *standing,
                 unsigned standing_n);
void mysql_until(struct world *w, unsigned realm, int counter, int64_t ms);
int64_t mysql_complete_until(const struct world *w, int counter); /* as the merchant's views have it */
/* had: the epoch that the asker had last. */
void mysql_look(struct world *w, const struct history_read *redis, const struct batch_id *had,
                struct realm_look *out);
void mysql_sign(struct world *w, const struct epoch *epoch); /* one that has the epoch lives */
uint64_t mysql_highest_gen(const struct world *w);           /* of the lane that the world is at */

#endif
