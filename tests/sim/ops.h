/* tests/sim/ops.h - series, a timebox, an event log and visitors: what frames carry of them, what Redis holds, and what
 * must be true. As for hits, each op is followed: it adds 4^k to its series or box, is the k-th event, or the k-th
 * visitor, so that every sum tells which ops are in it. Visitors of a store move its pending hash, in a field of their
 * own. Some events have an own id: every second one a text, or, where the run has them, every fourth one a number.
 * Counters that feed have a series each store, one box and one log each store. */
#ifndef SIM_OPS_H
#define SIM_OPS_H

#include "sim/model.h"

#define OP_SERIES_TARGET 0
#define OP_BOX_TARGET 1
#define OP_EVENT_TARGET 2
#define OP_VISITORS_TARGET 3 /* and one more for each hash */
#define OP_TARGETS (OP_VISITORS_TARGET + SIM_HASHES)
#define OP_BOX_AT (SIM_EPOCH_MS / 1000)
#define OP_EVENT_AT (SIM_EPOCH_MS / 1000) /* the k-th event is k seconds after it */

#define SIM_PRECISIONS 2
#define SIM_SERIES (1 + SIM_HASHES) /* the clients', then the one that each hash feeds */
#define SIM_BOXES 2                 /* the clients', the one that all hashes feed */
#define SIM_OPS 128                 /* of a frame */
#define SIM_ITEMS 128

#define SIM_NUMBERS 4096 /* of the ticker: the highest */

struct wire_item {
    unsigned k;
    bool own_text;
    int64_t number; /* of an event, own or from a lease; 0: none yet */
    int64_t value;  /* reply */
    bool refused;
    bool lost; /* its number stood already, so that there is no such event */
};
struct wire_op {
    enum op_kind kind;
    bool fed, owed, stands, silent;
    bool taken;                 /* out of a journal */
    bool joins[SIM_PRECISIONS]; /* no sample of its own: the one of the op before */
    int series;                 /* which of the twin's */
    unsigned box;               /* which of the twin's */
    int target;                 /* of clients: which; fed: the hash; -1: of none */
    int64_t at, delta;
    uint64_t known;
    unsigned first_item, items_n; /* in the frame's items */
    bool given, named;            /* events */
    bool kept, ours;
    uint32_t lease_n;
    int64_t value; /* reply, as are the following */
    int64_t samples[SIM_PRECISIONS];
    const char *error; /* as a cell's */
    int64_t gone;      /* events */
};

struct twin_series {
    int64_t slot[SIM_PRECISIONS], value[SIM_PRECISIONS]; /* of the newest sample */
    bool has[SIM_PRECISIONS], known[SIM_PRECISIONS];
    bool unheard[SIM_PRECISIONS]; /* not known, and no daemon knows that */
    int64_t total;                /* of all that was ever added */
};
struct twin_log {
    bool has, named;                   /* events; its name in tally:events */
    bool unheard;                      /* not named, and no daemon knows that */
    uint64_t stands[SIM_NUMBERS / 64]; /* numbers that are ids */
    uint32_t texts;                    /* own texts, of the k-th event */
    int64_t ticker, leased, gone;
};
struct twin_box {        /* its one bucket */
    int64_t hits, total; /* the current value; all that was ever added */
    bool tb, pv;
    bool unheard; /* in one set alone, and no daemon knows that */
};
struct twin_ops {
    struct twin_series series[SIM_SERIES];
    struct twin_box boxes[SIM_BOXES];
    struct twin_log log; /* the clients' */
    int64_t fed_events[SIM_HASHES];
};

struct world;
struct process;
struct wire_frame;
struct execution;
struct link;

extern const struct op_limits ops_limits;
void ops_feed(struct counter *c); /* from now on it feeds all that can be fed */

/* The way of a frame. */
bool op_has(const struct wire_frame *f, const struct wire_op *op,
            unsigned k); /* is the k-th op on its target in it? */
void ops_to_wire(struct process *life, struct wire_frame *wire, const struct frame *f);
void ops_run(struct world *w, const struct link *l, struct wire_frame *f);
void ops_executed(struct world *w, struct wire_frame *f, struct execution *e);
void ops_exact(struct world *w, const struct wire_frame *f); /* its answers come */

/* A client's request: an op on the target, the k-th; and its reply (without CR LF; of a bulk string its text). */
enum add_result ops_send(struct process *life, struct outlet *o, int target, unsigned k);
void ops_told(struct world *w, int target, unsigned k, struct slice reply);
void ops_told_unknown(struct world *w, int target, unsigned k);
void ops_refused(struct world *w, int target, unsigned k);

/* Another program deletes the samples of some series, and its name; or a box; or events, and the log's name. */
void ops_clean(struct world *w);
/* A daemon or Redis forgot what it should have put right in `known:`, tb. or tally:events. */
void ops_forgot(struct world *w);
void ops_at_end(struct world *w);
void ops_named(struct world *w, int target,
               uint32_t which); /* of a lost frame that was not named: they are there again */
int64_t ops_visitors(const struct world *w, int hash); /* in Redis' history */

#endif
