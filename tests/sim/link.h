/* tests/sim/link.h - one connection of one life to Redis: requests on their way, and replies on their way
 * back. The two ends break one at a time. After a cut on the daemon's side replies are lost, but what the server
 * holds unread may still run, until a daemon kills the link there or the server restarts. */
#ifndef SIM_LINK_H
#define SIM_LINK_H

#include "sim/journals.h"
#include "sim/ops.h"
#include "sim/tokens.h"

enum role { ROLE_FRAME, ROLE_SYNC, ROLE_FENCE, ROLE_WAIT, ROLES }; /* the last: clients' WAITs */

enum request_kind {
    REQ_FRAME,
    REQ_REPLAY,
    REQ_CLAIM,
    REQ_KILL,
    REQ_LOOK,
    REQ_VALUES,
    REQ_SCAN,
    REQ_FENCE,
    REQ_WAIT,
    REQ_DISCARD,
    REQ_ADOPT,
    REQ_DUE_POLL,
    REQ_STANDING,
    REQ_BEAT,
    REQ_HOLD_NAMES,
    REQ_WALK,
    REQ_JOURNALS,
    REQ_JOURNAL_TAKE,
    REQ_HISTORY,
    REQ_DIRTY,
    REQ_BATCHES,
    REQ_TOTAL,
};
const char *request_name(enum request_kind kind);

/* What is on the wire, as numbers of hashes, fields and counters; the asker's own struct is `target`, and
 * only what was delivered may touch it. */
struct wire_hash {
    int hash;
    bool zadd, ask_lock;
    uint32_t lock_s;
    bool lock_granted; /* reply */
    int64_t lock_pttl_ms;
};
struct wire_cell {
    int hash, field;
    int64_t delta;
    int64_t value;     /* reply */
    const char *error; /* reply: Redis' line; NULL: none */
};
struct wire_frame {
    uint64_t seq;
    int64_t dirty_ms;
    unsigned hashes_n, cells_n, shares_n;
    struct wire_hash hashes[SIM_HASHES];
    struct wire_cell cells[SIM_CELLS];
    unsigned tokens_n;
    struct wire_token tokens[SIM_TOKENS];
    unsigned ops_n, items_n;
    struct wire_op ops[SIM_OPS];
    struct wire_item items[SIM_ITEMS];
    unsigned appends_n;
    struct wire_append appends[SIM_APPENDS];
    char records[SIM_JOURNAL_BYTES];
    int64_t share[SIM_COUNTERS];
    bool refused;
    bool again;       /* Redis lost it: without what is not sent again */
    size_t execution; /* reply: its place in redis->executions, from 1 */
};
struct wire_claim {
    struct batch_id id;
    int counter;
    uint32_t every_s;
    unsigned n;
    int hashes[SIM_HASHES];
    unsigned again;  /* hashes that the first run renamed, when this is a second run */
    unsigned packed; /* of them, without the rule that they go in the same step */
    enum claim_outcome outcome;
    uint32_t renamed, left;
    uint64_t fields, took_us;
};
struct wire_look {
    unsigned n;
    struct batch_id ids[64];
    unsigned journals_n;
    char journals[SIM_JOURNALS][SIM_JOURNAL_NAME];
    int64_t seq;
    bool stands[64], ours[SIM_JOURNALS];
};
struct twin_hash {
    uint8_t has; /* set of fields; 0: the key is not there */
    int64_t value[SIM_FIELDS];
};
struct wire_total { /* of one pending hash; the rest is the reply */
    int hash;
    bool wrong_type;
    uint64_t gen;
    struct twin_hash pending;
    unsigned n;
    struct batch_id ids[SIM_BATCHES];
    struct twin_hash claimed[SIM_BATCHES];
};
struct wire_row {
    int hash, field;
    int64_t value;
};
struct wire_scan {
    struct batch_id id;
    bool gone, stands;
    int counter, owner;
    uint64_t gen;
    int64_t lowest_ms;
    uint32_t hlen[SIM_HASHES];
    struct wire_row rows[3 * SIM_ROWS];
    unsigned rows_n;
};
struct wire_ids {
    enum adopt_mode mode;
    int64_t stale_ms, before_ms;
    uint32_t limit;
    int hash; /* standing: only batches with this one; -1: all */
    unsigned n, unknown;
    struct batch_id ids[SIM_BATCHES];
};
struct wire_names {
    int64_t scores[SIM_HASHES];
    unsigned n;
    int hashes[SIM_HASHES];
    bool highest;
    int64_t before_ms;
    uint32_t skip, limit;
};

#define SIM_GENS 32 /* as GENS_KEPT */
struct wire_history {
    bool give;  /* a realm, if it has none; the rest is the reply */
    bool realm; /* it has one */
    uint64_t gen;
    struct claim_gen gens[SIM_GENS];
};

struct request {
    struct list link;
    enum request_kind kind;
    void *target;
    unsigned step;
    uint64_t sent_ms;
    char run_id[RUN_ID_BYTES];       /* reply: of the server that answered */
    bool refused;                    /* reply to a fence: not confirmed in time */
    bool readonly;                   /* reply: the server is no primary any more */
    int64_t number, least;           /* reply: of the life's last frame there; what it was at least */
    bool changed;                    /* reply to a frame: it did not run, what the link watches has changed */
    uint64_t fence_at;               /* passes once this much is durable */
    unsigned fence;                  /* what it, or a WAIT, writes */
    int64_t client_id;               /* of the link to kill */
    char replid[RUN_ID_BYTES];       /* reply: its history */
    int64_t lowest_ms[SIM_COUNTERS]; /* reply; dirty: the first, of all. INT64_MAX: none */
    union {
        struct wire_frame frame; /* others have no room for it: request_bytes() */
        struct {
            union {
                struct wire_claim claim;
                struct wire_look look;
                struct wire_scan scan;
                struct wire_ids ids;
                struct wire_names names;
                struct wire_journals journals;
                struct wire_take take;
                struct wire_total total;
                struct wire_history history;
            };
            char others_end;
        };
    };
};

struct link {
    struct list all;  /* on redis->links */
    struct list sent; /* the server has not run these */
    struct list done; /* the daemon has not read these */
    struct list
        gone; /* the server died or closed with these unread: the daemon will learn that they are lost */
    int life, instance;
    enum role role;
    int64_t client_id;
    unsigned run; /* of the server */
    bool client_open, server_open;
    bool changed;      /* the life's number, since this link watches it */
    uint64_t wrote_at; /* offset of the last write that came by this link */
};

struct link *link_open(struct list *all, int life, int instance, enum role role, int64_t client_id);
void link_free(struct link *l);
struct request *request_send(struct link *l, enum request_kind kind, void *target, uint64_t now_ms);
void link_drop(struct list *requests);
bool request_is_driven(
    const struct request *r);   /* several commands, each sent when the one before was answered */
void link_kill(struct link *l); /* the server's end: unread requests are gone */
void link_lose(struct link *l,
               unsigned unread_kept);    /* the daemon's end; the server keeps this many requests */
bool link_is_dead(const struct link *l); /* both ends closed: to be freed */
unsigned link_unread(const struct link *l);

#endif
