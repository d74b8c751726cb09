/* series/batch.h - the rows of a batch, how they are cut into chunks, and the ledger's books of them. The format
 * version fixes the cut, not the configuration: rows ordered by (length, bytes) of the pending hash, then of the field,
 * BATCH_CHUNK_ROWS a chunk. Format 2 may have packed hashes; format 1, of older versions, has none, and the same cut. A
 * batch is built on the loop and immutable once sealed; then writer threads read it, too. */
#ifndef SERIES_BATCH_H
#define SERIES_BATCH_H

#include "base/list.h"
#include "series/counter.h"
#include "series/names.h"

/* Which primary tallyd merges for, and what a Redis says of itself (sync/README.md, "Epochs"). A realm is one Redis
 * with all servers that it fails over to. An epoch of a realm belongs to one primary: a server process and its history. */

#define REALM_WAIT_MS 6000 /* for an answer; who has the epoch looks three times as often */
#define GENS_KEPT 1000     /* claims whose batch is in tally:gens; more than ever exist at once */

struct epoch {
    struct batch_id realm, id; /* random both; id zero: no epoch */
    char run_id[RUN_ID_BYTES]; /* of the primary */
    char replid[RUN_ID_BYTES]; /* its history: another one begins with each start and each promotion */
};

struct claim_gen {
    uint64_t gen;
    struct batch_id id; /* of the batch that got it */
};

struct history_read { /* of one moment */
    struct batch_id
        realm; /* in: given to a Redis that has none, unless it is zero. Out: tally:realm; zero: it has none */
    char run_id[RUN_ID_BYTES], replid[RUN_ID_BYTES]; /* out */
    uint64_t gen;                                    /* out: tally:gen, which counts claims */
    struct claim_gen *gens;                          /* out: heap, the asker frees */
    uint32_t gens_n;
    bool fenced; /* in, of a look: it cannot be lost any more */
    bool lost;   /* link lost or an error; text */
    char text[200];
    void (*done)(struct history_read *h); /* NULL: the asker waits */
    void *arg;
};

/* Did this Redis give that gen to that batch? True also where it does not remember: gens from before an older tallyd
 * was replaced, and from before an operator accepted a rollback. */
bool history_has(const struct history_read *h, const struct claim_gen *claim);

enum realm_outcome {
    REALM_OURS,        /* the epoch is the answer, joined or taken */
    REALM_ASKED,       /* another server's tallyd may live that has the epoch: it was asked */
    REALM_LIVES,       /* it lives */
    REALM_UNFENCED,    /* it would be the realm's first epoch: a fence must cover what Redis said */
    REALM_GIVEN,       /* this Redis has none: epoch.realm was free, and must be written into it */
    REALM_BEHIND,      /* the ledger has a claim that this Redis does not know */
    REALM_STRANGER,    /* this Redis has none, and none is free */
    REALM_UNKNOWN,     /* this MySQL does not know its realm */
    REALM_OTHER_LANES, /* it counts for this Redis with another number of lanes */
};

struct realm_look { /* at MySQL, after one at Redis */
    enum realm_outcome outcome;
    bool taken;               /* OURS: a new epoch */
    struct epoch epoch;       /* OURS, GIVEN */
    struct claim_gen highest; /* of the realm's ledger; gen 0: it is empty */
    char by[65];              /* LIVES: who took the epoch */
    int64_t lanes;            /* of the realm; 0: not known yet */
};

#define BATCH_FORMAT 2
#ifndef BATCH_CHUNK_ROWS /* the simulator alone compiles with fewer */
#define BATCH_CHUNK_ROWS 1000
#endif
#define LEDGER_KEY_BYTES_MAX 1028

struct batch_hash {
    uint32_t name_at, name_n; /* pending hash's name in bytes */
    uint64_t hlen;            /* fields registered at the claim */
    uint64_t seen;            /* distinct fields scanned, set by batch_seal */
    bool packed;              /* its rows are in the registry: Redis has no claimed hash of it */
};

struct batch_row {
    uint32_t hash; /* before batch_seal: index in the order of registration; after: in sorted order */
    uint32_t field_n, value_n;
    uint64_t field_at; /* in bytes; the value follows the field */
};

struct batch {
    struct batch_id id;
    uint32_t format;
    struct buf counter_name;       /* as registered */
    const struct counter *counter; /* NULL: no such counter is configured here */
    uint64_t gen;
    struct buf owner;
    int64_t lowest_ms; /* lowest dirty score in it */
    struct batch_hash *hashes;
    struct batch_row *rows;
    size_t hashes_n, hashes_cap, rows_n, rows_cap;
    int64_t hits; /* sum of the rows, once sealed */
    struct buf bytes;
    bool sealed;
};

static inline bool batch_format_known(int64_t format)
{
    return format >= 1 && format <= BATCH_FORMAT;
}
void batch_init(struct batch *b, const struct batch_id *id);
void batch_clear(struct batch *b); /* all but the id goes, the memory stays: the scan starts again */
void batch_close(struct batch *b);
/* Each pending hash once, or it would count twice; batch_seal asserts it. */
uint32_t batch_add_hash(struct batch *b, struct slice pending, uint64_t hlen);
void batch_add_row(struct batch *b, uint32_t hash, struct slice field, struct slice value);

/* Sorts, keeps the last of a repeated field, counts. False: a hash (*short_hash: its index in sorted order) does not
 * have its registered number of fields; the batch is not sealed and needs a new scan. Pure, but slow for many rows. */
bool batch_seal(struct batch *b, size_t *short_hash) MUST_CHECK;

static inline struct slice batch_hash_name(const struct batch *b, size_t hash)
{
    return slice_of(b->bytes.p + b->hashes[hash].name_at, b->hashes[hash].name_n);
}
static inline struct slice batch_field(const struct batch *b, const struct batch_row *r)
{
    return slice_of(b->bytes.p + r->field_at, r->field_n);
}
static inline struct slice batch_value(const struct batch *b, const struct batch_row *r)
{
    return slice_of(b->bytes.p + r->field_at + r->field_n, r->value_n);
}

#define CHUNK_REJECTED_MAX 8

/* Of a chunk, which a writer merges in one transaction, or in several (sync/README.md, rule S48). Up to MERGE_CONFLICT the later of these
 * decides for the batch, from there on the first that was met. */
enum merge_outcome {
    MERGE_DONE,     /* committed now */
    MERGE_ALREADY,  /* the ledger has it with the same digest: committed before */
    MERGE_LOCKED,   /* some of its hashes wait for a lock of another program's; the others are merged */
    MERGE_REFUSED,  /* MySQL takes none of its rows, and is not known to take others. ROLLBACK */
    MERGE_DOWN,     /* MySQL is away or asks to wait; nothing is known to be committed: try again later */
    MERGE_CONFLICT, /* the ledger has it with another digest or cut: never discard */
    MERGE_HELD,     /* a table is not as it must be, or tallyd's own refuse: an operator must look */
    MERGE_STALE,    /* its epoch is over: another primary was found. ROLLBACK; nothing is merged */
    MERGE_TOO_OLD,  /* not_after_ms has passed, so the ledger may be pruned: give the run up */
};

struct chunk {
    const struct batch *batch; /* sealed */
    uint32_t index, chunks;
    size_t first, rows_n;  /* batch->rows[first .. first + rows_n) */
    uint64_t not_after_ms; /* on age_ms()'s clock: no transaction begins after this */
    struct epoch epoch;    /* under which its rows were scanned */
    bool
        values_only; /* rows refused for their values are rejects, though MySQL is not known to take others */
    /* answer, written by the writer, read after done */
    enum merge_outcome outcome;
    uint32_t rows_merged, rows_rejected;
    bool by_value; /* MERGE_REFUSED: for their values alone */
    struct {
        uint32_t hash, rows;
    } rejected[CHUNK_REJECTED_MAX]; /* hashes with most rejects, rows that are only missing left out */
    uint32_t rejected_n;
    struct buf left;     /* MERGE_LOCKED: these hashes, see put_measured(); the asker frees it */
    char locked_by[160]; /* ... by whom, as far as MySQL told */
    char text[300];      /* with rejects: why the first of them */
    /* the border: the writer's between submit and done */
    void (*done)(struct chunk *c);
    void *arg;
    struct list link;
};

uint32_t batch_chunks(const struct batch *b); /* at least 1 once sealed, also with no rows */
void batch_chunk(const struct batch *b, uint32_t index,
                 struct chunk *out); /* fills batch, index, chunks, first, rows_n */
void chunk_digest(const struct chunk *c,
                  uint8_t out[16]); /* XXH3-128 over names, fields, values with lengths */
/* Key of a row in the ledger, memcmp-ordered as the rows are: BE16 length and bytes of the pending hash, then of the
 * field, cut at LEDGER_KEY_BYTES_MAX. A length of 65535 or more, which no client can send, is FFFF and BE64. out is
 * reset. */
void chunk_row_key(const struct batch *b, const struct batch_row *r, struct buf *out);
/* Names in the ledger's list of hashes that wait: BE32 length, and bytes. */
void put_measured(struct buf *out, struct slice name);
/* Is it in such a list? */
bool ledger_names_have(struct slice names, struct slice name);
/* Takes the first off; false: there is none. */
bool ledger_names_next(struct slice *names, struct slice *name);

/* The ledger as data: which rows of a batch are merged; MySQL's half of a live total. */

struct books_counter {
    char name[NAME_BYTES_MAX + 1];
    int64_t merged, rejected;  /* tally_counters as it is now */
    int64_t newer;             /* part of those two: merged from a later gen than was asked for */
    int64_t complete_until_ms; /* 0: not set */
    int64_t adjusted;          /* by hand, for all Redis; in none of those */
};

struct books_chunk { /* a ledger row of one of the batches asked for */
    struct batch_id batch;
    uint32_t chunk, chunks;
    int64_t total;
    struct slice first_key, last_key; /* memcmp-ordered, see chunk_row_key(); owned by the books */
    struct slice waiting;             /* hashes that are not merged, see put_measured(); owned likewise */
};

struct books {
    struct books_counter *counters; /* by name */
    struct books_chunk *chunks;     /* by batch, chunk */
    size_t counters_n, chunks_n;
    struct claim_gen highest; /* of the realm's ledger; gen 0: it is empty */
    bool known;               /* there is such a realm (text.h: sql_realm) */
};
void books_close(struct books *b);
/* Do these books say that the row (key, field) of this batch is merged? */
bool books_has(const struct books *b, const struct batch_id *id, struct slice key, struct slice field);

/* MySQL's half of live totals of one counter (sync/README.md, rule S26), in one snapshot. */
struct books_total { /* of one pending hash */
    struct slice key;
    const struct slice *fields;
    size_t fields_n;
    bool sums;       /* the answer may be the sum of some, in the place of any of them */
    int64_t gen;     /* Redis' at the read */
    int64_t *stored; /* answer: one a field, 0 without a row; heap, the asker frees it */
    bool newer;      /* answer: the ledger has a later gen of this counter: read Redis again */
    bool over;       /* answer: a count is more than an int64 holds */
};
struct books_totals {
    const struct counter *counter;
    struct epoch epoch; /* when Redis was read */
    bool stale;         /* answer: it is over, so that Redis may be none any more: read again, all of them */
    struct books_total *all;
    size_t n;
    const struct batch_id *ids; /* standing batches that hold any of these hashes; may repeat */
    size_t ids_n;
    struct books books; /* answer: chunks only; starts empty, the asker closes it */
};

#endif
