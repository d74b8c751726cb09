/* series/names.h - every key name of tallyd's own in Redis is made here, and nowhere else; with the days and hash slots
 * in them. */
#ifndef SERIES_NAMES_H
#define SERIES_NAMES_H

#include "base/slice.h"

#include <stdint.h>

/* Days as people write them, YYYYMMDD (UTC), from 1970 to 9999. */

#define DAY_S (24 * 3600)
#define DAY_FIRST 19700101
#define DAY_LAST 99991231

int64_t day_number(int64_t day);     /* 20140920 -> days since 1970; day exists */
int64_t day_of_number(int64_t days); /* back */
static inline int64_t day_of_s(int64_t at_s)
{
    return day_of_number(at_s / DAY_S);
}

/* Hash slots of a Redis Cluster (its specification: "key distribution model"). A lane is one slot: each of its keys
 * begins with a tag, so that a MULTI, a script and a SCAN touch one slot. */

#define SLOTS 16384
#define LANES_MAX 256
#define TAG_BYTES_MAX 6 /* with its braces */

struct tag {
    char text[TAG_BYTES_MAX];
    uint8_t n; /* 0: no tag, as on a Redis of its own */
};

unsigned slot_of(struct slice key); /* as CLUSTER KEYSLOT has it */

/* The shortest tag whose slot is the middle of the lane's part of all slots; the first such in the order a-z0-9. Never
 * change this: keys are found by it. lane < lanes, which is at most LANES_MAX. */
void tag_find(unsigned lane, unsigned lanes, struct tag *out);
/* Which of this many lanes has all counts of a store; n = 0: the lane of counts without a store. Never change this. */
unsigned lane_of_store(struct slice store, unsigned lanes);
static inline struct slice tag_slice(const struct tag *t)
{
    return slice_of(t->text, t->n);
}

#define KEY_DIRTY "tally:dirty"
#define KEY_BATCHES "tally:batches"
#define KEY_BATCH_PREFIX "tally:batch:"
#define KEY_GEN "tally:gen"
#define KEY_GENS "tally:gens" /* hash: a gen -> the batch that got it, of the last GENS_KEPT */
#define KEY_REALM "tally:realm"
#define KEY_LANES "tally:lanes"
#define KEY_SEQ_PREFIX "tally:seq:"
#define KEY_MOVE "tally:move" /* whose counts go, or have gone, to a cluster; in a cluster: who brings them */
#define KEY_MARK_PREFIX "tally:mark:" /* written to hear that it was (redis/copy.c) */
#define KEY_ACCEPTED "tally:accepted"
#define KEY_HELD "tally:held"
#define KEY_TOKEN_PREFIX "tally:token:"
/* Hash: the second by which they are all gone -> how many tokens. tally:tokens:<second>, until then: user -> how many */
#define KEY_TOKENS "tally:tokens"
#define KEY_GROWN_PREFIX                                                                                     \
    "tally:grown:" /* and a day, 20071204; hash: user -> bytes by which its visitors' bits grew */
#define KEY_FENCE_PREFIX "tally:fence:"
#define KEY_WAIT_PREFIX "tally:wait:"
#define KEY_WAITAOF_PREFIX "tally:waitaof:"
#define KEY_INSTANCE_PREFIX "tally:instance:"
#define KEY_TEMPORARY_PREFIX "tally:tmp:"
#define KEY_JOURNALS "tally:journals" /* hash: name of a journal -> <instance>:<life> that brings it home */
#define KEY_JOURNALS_TAKEN                                                                                   \
    "tally:journals:taken" /* hash: name of a journal -> earlier owners with links perhaps, "a b " */
#define KEY_JOURNAL_PREFIX "tally:journal:"
#define KEY_KNOWN "known:"          /* zset of <precision>:<name>, all scores 0 */
#define KEY_SAMPLES_PREFIX "count:" /* and <precision>:<name>: a series' hash */
#define KEY_EVENTS "tally:events"   /* zset of event logs, <name>:<type>, all scores 0: the cleaner's list */
#define KEY_EVENTS_GONE "tally:events:gone" /* how often a log has left tally:events */
/* Hash: <name>:<type> of a log -> the highest number ever leased for it. Fields are never deleted: a process keeps its
 * lease for its whole life. */
#define KEY_LEASED "tally:leased"
#define EVENT_TICKER_TYPE "index" /* no event's type: <name>:index is the ticker */
/* What keys of one kind, or of tallyd's own, begin with; no other kind's do. Keys of events and visitors begin with a
 * client's text. */
#define NAME_LEADS_N 6
extern const struct slice name_leads[NAME_LEADS_N];
#define SEQ_TTL_S (30 * 24 * 3600)
#define RUN_ID_BYTES                                                                                         \
    41 /* Redis' run_id, 40 hex digits and a NUL: which server process a connection talks to */

struct batch_id {
    uint8_t bytes[16];
};
static inline bool batch_id_same(const struct batch_id *a, const struct batch_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
static inline bool batch_id_is_zero(const struct batch_id *id)
{
    return batch_id_same(id, &(struct batch_id){{0}});
}

/* One start of one instance: it writes seq keys and owns batches. Filled once at start. */
struct life {
    struct slice instance; /* [A-Za-z0-9._-]{1,64} */
    char id[17];           /* 64 random bits, 16 hex digits */
};

void life_init(struct life *l, struct slice instance); /* draws the id; borrows instance */
void batch_id_draw(struct batch_id *id);
void batch_id_hex(const struct batch_id *id, char out[33]); /* NUL-terminated */
bool batch_id_read(struct slice hex, struct batch_id *id);

/* Each appends to out. */
void name_batch(struct buf *out, const struct batch_id *id);                         /* tally:batch:<hex> */
void name_claimed(struct buf *out, struct slice pending, const struct batch_id *id); /* <pending>_<hex> */
/* <prefix><instance>:<life>, as the keys of KEY_SEQ_PREFIX, and those of fences and WAITs */
void name_of_life(struct buf *out, const char *prefix, const struct life *l);
void name_owner(struct buf *out, const struct life *l); /* <instance>:<life>, the owner field of a batch */
void name_journal(struct buf *out, const struct life *l, uint64_t number); /* <instance>:<life>:<number> */
void name_journal_key(struct buf *out, struct slice journal);              /* tally:journal:<name> */
/* tallyd:<instance>:<life>:frame|sync|fence|clean|cli */
void name_link(struct buf *out, const struct life *l, const char *role);

void name_token(struct buf *out, struct slice store, struct slice id); /* tally:token:<store>:<id> */

/* Does key end in '_' and 32 lower-case hex digits? Then *pending and *id (each may be NULL) are its parts. */
bool claimed_split(struct slice key, struct slice *pending, struct batch_id *id);

/* The other counts. Each appends to out. */
void name_series(struct buf *out, uint32_t precision, struct slice name);  /* <precision>:<name>, in known: */
void name_samples(struct buf *out, uint32_t precision, struct slice name); /* count:<precision>:<name> */
void name_samples_of(struct buf *out, struct slice known);               /* the same, of a member of known: */
void name_buckets(struct buf *out, struct slice name);                   /* tb.<name> */
void name_bucket_hits(struct buf *out, struct slice name);               /* pv.<name> */
void name_events(struct buf *out, struct slice name, struct slice type); /* <name>:<type> */
void name_ticker(struct buf *out, struct slice name);                    /* <name>:index */
void name_windows(struct buf *out, struct slice type);                   /* statcache:<type> */
void name_visitors(struct buf *out, struct slice name, int64_t day);     /* <name>_2007_12_04 of 20071204 */
void name_grown(struct buf *out, int64_t at_s);                          /* tally:grown:<day> */
void name_visitors_sketch(struct buf *out, struct slice name, int64_t day); /* <name>_2007_12_04:hll */
void name_temporary(struct buf *out, struct slice id,
                    struct slice of); /* tally:tmp:<id>:<of>, always with a TTL */

/* Which series one pass of the cleaner looks at: each precision as often as it is written, but at most once a minute
 * (Redis in Action, 5.2.1). It goes by the clock, where the book counts passes, so that a slow pass makes none of them
 * late. */

#define CLEAN_PASS_S 60

/* "60:hits" of `known:` -> 60. 0: it is no series' name. */
int64_t clean_precision(struct slice known);

/* Is this precision due in a pass that began at now_s, when the previous one began at last_s (< 0: the first)? */
bool clean_due(int64_t precision_s, int64_t now_s, int64_t last_s);

#endif
