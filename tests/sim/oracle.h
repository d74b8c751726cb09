/* tests/sim/oracle.h - what must be true. Every hit is followed: what its client was told, and how often it is in Redis' history
 * and in MySQL's row. The first thing found wrong ends the run. */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "sim/redis_twin.h"

enum told { TOLD_NOTHING, TOLD_DONE, TOLD_UNKNOWN, TOLD_REFUSED };

struct hit {
    enum told told;
    unsigned applied; /* in Redis' current history: 0 or 1 */
    bool ran;         /* it was in some history, which may be lost: a client that read then has seen it */
    bool lost;        /* Redis lost it after its daemon knew it to be applied, or never had it (rule C15) */
    bool awaited;     /* Redis lost it, and its daemon will send it again */
    bool exact;       /* the reply must be `value` */
    bool failed;      /* Redis ran it and answered an error */
    bool answered_unknown; /* by a reply, not by a connection that ended */
    int ran_by;            /* the life whose frame it was in last */
    unsigned sent;         /* with a token, so often; 0: without one */
    bool was_lost;         /* with a token: Redis lost it once, so it may have stood with another value */
    int64_t at_ms;         /* score of its frame, by which complete_until goes; 0: none of its hits */
    int64_t value, least;  /* least: of a hit on a timebox; value: the most */
};

struct process;

struct oracle {
    enum fault fault;
    char text[500];
    uint64_t step; /* of the world, when it was found */
    unsigned hits_n[SIM_HASHES][SIM_FIELDS];
    struct hit hits[SIM_HASHES][SIM_FIELDS][SIM_HITS];
    unsigned ops_n[OP_TARGETS];
    struct hit ops[OP_TARGETS][SIM_HITS];
    bool events_deleted, series_deleted, box_deleted; /* by another program, at least once */
    bool ops_lost;                                    /* of frames that no daemon sends again */
    bool tail_lost;     /* Redis lost its tail, so a journal may have another owner now */
    bool books_blurred; /* an error's share of tally:accepted may have died with a daemon or with Redis' tail
                         */
    bool cell_errors;
    int64_t overbooked
        [SIM_COUNTERS]; /* what tally:accepted has of cells that overflowed and are taken for counted */
    bool gen_below;     /* a rollback brought tally:gen below the ledger's highest */
    uint64_t told[4];
};

void oracle_init(struct oracle *o);
void fault_found(struct world *w, enum fault f, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void oracle_executed(struct world *w, struct link *l,
                     struct wire_frame *f);                  /* notes the execution, fills f->execution */
void oracle_known(struct world *w, struct execution *e);     /* the daemon learned that it is applied */
void oracle_named(struct world *w, int life, int64_t found); /* frames_lost: those after that number */
void oracle_named_all(struct world *w, const struct process *life); /* at the end: of all that it lost */
void oracle_life_ends(struct world *w, int life);                   /* what Redis lost of it is lost */
void oracle_lost_tail(struct world *w, uint64_t offset);            /* what came after it is gone */
void oracle_restored(struct world *w); /* what came after the copy is put aside */
void oracle_mended(struct world *w);   /* and is back, instead of what came then */
void oracle_told(struct world *w, int hash, int field, unsigned k, enum told told, const int64_t *value);
/* The same for a hit with a token: it may come again, whatever was answered. */
void oracle_told_token(struct world *w, int hash, int field, unsigned k, enum told told,
                       const int64_t *value);
void oracle_sent(struct world *w, int hash, int field, int64_t delta); /* a cell leaves the daemon */
void oracle_merged(struct world *w, int hash, int field);              /* MySQL's row grew */
/* Of the hits answered so far. A life at a demoted server does not see other clients' answers, so none of those then. */
void oracle_answered(const struct process *life, int64_t sums[SIM_HASHES][SIM_FIELDS]);
/* A live total: every hit answered before the total was asked for, and none twice. */
void oracle_total(struct world *w, int life, int hash, int field, int64_t answered, int64_t total);
void oracle_until(struct world *w, int counter); /* it was moved */
void oracle_synced(struct world *w, int life, int hash, int field,
                   int64_t answered); /* CTR.SYNC: these are merged */
void oracle_at_end(struct world *w);
/* Whatever keeps the world from being at rest, for a report; NULL: all is merged and discarded. */
const char *oracle_unrest(struct world *w);
const char *oracle_unrest_beside(struct world *w); /* of all stores but that of w->refused; NULL: none */

#endif
