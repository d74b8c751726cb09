/* series/op.h - ops as a frame carries them: on time series, timeboxes, events, unique visitors. coalesce/ fills them,
 * redis/ writes them into the frame's MULTI and files the answers into the same structs. Both follow `struct
 * op_limits`, the configuration. The keys are made in names.c; texts are in frame->bytes. */
#ifndef SERIES_OP_H
#define SERIES_OP_H

#include "series/asks.h"
#include "series/counter.h"

#define OP_PRECISIONS_MAX 16
#define OP_TIERS_MAX 16
#define OP_NAME_BYTES_MAX 512                  /* of a series, a timebox, an event's name or type, visitors */
#define OP_TEXT_BYTES_MAX 512                  /* of an event's own id, a visitor in text */
#define OP_END UINT32_MAX                      /* no more items */
#define OP_NUMBER_MAX ((INT64_C(1) << 53) - 1) /* of an event: scores and Lua's numbers are doubles */

enum op_kind { OP_SERIES, OP_TIMEBOX, OP_EVENT, OP_UNIQ };

/* Where an event's id comes from. DRAWS: Redis draws a number, or has to check whether the client's own id may be
 * added. GIVEN: it has a number of a lease (coalesce/hash_cache.h). OWN: it has a text that no ticker could give. A text
 * may come twice, and only the log shows which one came first, so it never waits in a journal. */
enum event_id {
    EVENT_DRAWS,
    EVENT_GIVEN,
    EVENT_OWN,
    EVENT_KEPT /* of a frame that is sent again: the number that its client was told */
};

struct op_item {              /* event: one event; uniq: one visitor, the same one perhaps more than once */
    uint32_t next;            /* index in frame->items, in the order of arrival; OP_END: the last of its op */
    uint32_t text_at, text_n; /* in frame->bytes: the event's own id, the visitor in text; n = 0: none */
    int64_t at;               /* event: its second; uniq: the visitor as an integer, -1: text says it */
    /* answer; a GIVEN op gets none: this is the number that it has from a lease */
    int64_t value; /* event: its number, 0 when it has an own id, EVENT_REFUSED; uniq: 1 new, 0 not */
};

#define EVENT_REFUSED INT64_C(-1) /* its own id is a number that a lease may hold: not added */

struct journal;

/* How an op's hits get to their keys: by this frame, by way of a journal, or out of one by this frame. */
enum op_way { OP_STRAIGHT, OP_INTO, OP_HOME };

/* All that a frame does to one (kind, name, type, which). An op that a counter's feed made is never shared with
 * clients.
 *            which tells apart ops of a name              delta       answer: value
 *   series   the second                                   sum of n    how many precisions keep the second
 *   timebox  the start of its bucket                      sum of n    hits of the bucket after it
 *   event    enum event_id; when fed of now, the second   when fed of now, how many; else items
 *                                                                     the last number of all drawn; 0: none
 *   uniq     the day, YYYYMMDD                            items       each item's own */
struct frame_op {
    enum op_kind kind;
    uint32_t name_at, name_n;
    uint32_t type_at, type_n; /* events */
    int64_t which;
    int64_t delta;
    uint32_t first_item, last_item, items_n;
    bool fed; /* no client waits */
    /* No command of its own: one of the frame's appends has it, or another tallyd brought it home. */
    bool silent;
    /* Adds no hit, only what an earlier frame left out. Series: the ZADDs in `known:`; timebox: its entry in
     * `tb.<name>`; events: their log's name */
    bool owed;
    uint64_t known; /* series: bit i: the ZADD of precision i in `known:` is due, if that keeps the second */
    bool stands;    /* timebox: known to be in both sets, so that its hits alone go */
    bool has_numbers;   /* event: an own id is a number, as a ticker's are */
    bool named;         /* event, GIVEN: its log is put into tally:events */
    uint32_t lease_n;   /* event, DRAWS: this many more numbers are drawn last, for a lease */
    uint64_t lease_seq; /* event, GIVEN: the frame that drew its lease */
    bool ours;          /* event, KEPT: Redis knows that lease */
    /* uniq: moved by one for each new visitor, in the pending hash `key`, its field the day; NULL: none */
    const struct counter *counter;
    uint32_t key_at, key_n;
    uint32_t user_at, user_n; /* uniq: whose share of uniq_growth it takes, n = 0: nobody's */
    /* answers */
    int64_t value;
    bool late;  /* timebox: older than all of the buckets that are kept, so nothing was added */
    bool fresh; /* series, timebox: a sample, hits came into being whose ZADD the frame left out */
    uint32_t error_at, error_n; /* in frame->errors: Redis' error line without '-'; all of its items fail */
    /* coalesce's own */
    uint64_t code, name_code; /* of all that makes it one; of kind, name and type */
    int64_t gone;             /* event: frame.events_gone at which its log was known to be in tally:events */
    bool may_wait;            /* it may go into a journal */
    enum op_way way;
    struct journal *journal;    /* OP_INTO, OP_HOME: NULL when it is not ours any more */
    uint32_t number;            /* there */
    bool was_told;              /* OP_INTO: before this frame */
    uint32_t adds, first_event; /* OP_HOME: of how many ADDs it is the sum; the first of its events */
    bool joined;                /* OP_HOME, series: as the op before, at another second */
};

struct op_tier {
    uint32_t window_s; /* cached windows of that size or smaller ... */
    int64_t keep_s;    /* ... are kept this long */
};

/* From the configuration, immutable. */
struct op_limits {
    uint32_t precisions[OP_PRECISIONS_MAX]; /* s, ascending, each once */
    uint32_t precisions_n;
    uint32_t samples; /* of each precision; a slot is kept while slot > now - samples * precision */
    uint32_t timebox_width_s, timebox_keep;
    uint32_t uniq_limit;                /* visitors below it are bits, others are sketched */
    int64_t uniq_days;                  /* how many days back visitors are added; 0: any */
    int64_t uniq_growth;                /* bytes by which a user's bits may grow a day; 0: any */
    int64_t ahead_s;                    /* how far beyond Redis' now a time may be */
    struct pattern uniq_name;           /* names of visitors that feed uniq_counter */
    const struct counter *uniq_counter; /* NULL: none. Its fields are dates */
    int64_t token_keep_s;               /* tokened increments (frame_token) */
    int64_t tokens_most;                /* at most this many may be in Redis at once */
    int64_t events_keep_s;
    struct op_tier tiers[OP_TIERS_MAX]; /* ascending by window_s; a window larger than all: as the last */
    uint32_t tiers_n;
    struct query_limits read;
};

/* Start of the slot or bucket that holds `at`; at >= 0. */
static inline int64_t op_slot(int64_t at, uint32_t width_s)
{
    return at - at % width_s;
}
/* Does precision i still keep the time `at`, when it is now_s? */
static inline bool op_keeps(const struct op_limits *l, uint32_t i, int64_t at, int64_t now_s)
{
    return op_slot(at, l->precisions[i]) > now_s - (int64_t)l->samples * l->precisions[i];
}
/* A bucket is removed only when timebox_keep newer ones exist. False: that many may exist at now_s, or all but one
 * (clocks differ a little). */
static inline bool op_bucket_stays(const struct op_limits *l, int64_t bucket, int64_t now_s)
{
    int64_t newest = op_slot(now_s + l->ahead_s, l->timebox_width_s);
    return bucket > newest - ((int64_t)l->timebox_keep - 1) * l->timebox_width_s;
}
/* Does its frame add these events as they are? Events that a feed makes now have no items; those out of a journal
 * have. */
static inline bool op_is_given(const struct frame_op *op)
{
    bool has_ids = op->which == EVENT_GIVEN || op->which == EVENT_OWN;
    return op->kind == OP_EVENT && has_ids && (op->items_n > 0 || op->owed);
}
/* Is the op's sample of that precision the same as the previous op's? Then one HINCRBY moves both. */
bool op_joins(const struct frame_op *op, uint32_t precision_s);
/* Is it a number as a ticker gives them: 1 to OP_NUMBER_MAX, canonical? */
bool op_id_is_number(struct slice id);
/* The pending hash that new visitors under this name move: appended to out. False: none does. */
bool op_uniq_key(const struct op_limits *l, struct slice name, struct buf *out);

/* Which names series, timeboxes, events and visitors may have. Their keys are in the same Redis as those of counters
 * and tallyd's own, so a name must not make a key of another kind. */

/* False: why gets an error line without '-'. type matters only for events, day only for visitors. scratch is
 * overwritten. */
bool op_names_fit(const struct counters *cs, enum op_kind kind, struct slice name, struct slice type,
                  int64_t day, struct buf *scratch, struct buf *why);

/* Checks the feeds of a configuration. A feed has keys of its own (names.h). They must not be a counter's key or lock,
 * and must not begin like tallyd's own keys or those of another kind. Names that
 * clients give are checked one by one. */

/* Looks at the feeds of all counters; cs->ops is set. On an error *which and *feed say where. */
enum err feeds_validate(const struct counters *cs, size_t *which, enum feed *feed,
                        struct error *e) MUST_CHECK;

/* Looks at ops->uniq_name, whose new visitors move ops->uniq_counter (not NULL). */
enum err uniq_feed_validate(const struct counters *cs, struct error *e) MUST_CHECK;

#endif
