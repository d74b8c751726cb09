/* series/counter.h - a counter: a family of pending hashes (`s<store>:unique_visitors:daily`), the kind of its fields,
 * and the MySQL table for its counts. Immutable once built; a reload builds a new set. */
#ifndef SERIES_COUNTER_H
#define SERIES_COUNTER_H

#include "base/log.h"
#include "base/slice.h"

/* What a placeholder stands for, and texts with several of them: `store:<store>:product:<product>:views`,
 * `<product>:<day>`. Pure. */

#define PLACES_MAX 6
#define PLAIN_BYTES 12 /* for the digits of a time */
#define TEXT_BYTES_MAX                                                                                       \
    255 /* of a field or a placeholder that is a text; so InnoDB's keys have room for them */

enum value_kind { VALUE_INTEGER, VALUE_TEXT, VALUE_DATE, VALUE_HOUR, VALUE_MONTH };
enum spelling {
    SPELLED_DIGITS,  /* 20240501, 2024050113, 202405 */
    SPELLED_DASHES,  /* 2024-05-01, 2024-05-01 13 (or T or - before the hour), 2024-05 */
    SPELLED_SECONDS, /* since 1970, where the day or the hour begins in UTC */
    SPELLED_MS
};

struct value_type {
    enum value_kind kind;
    enum spelling spelling; /* of a time */
    char before_hour;       /* with dashes: ' ', 'T' or '-' */
};

/* "integer", "text", "date", "date 2024-05-01", "date seconds", "date milliseconds", "hour", "hour 2024-05-01 13", "month",
 * "month 2024-05". */
bool value_type_parse(struct slice text, struct value_type *out);

/* Is text such a value? A time as digits goes to *plain, in digits; any other is *plain itself. An integer is 0 to 2^63-1. */
bool value_plain(const struct value_type *type, struct slice text, char digits[PLAIN_BYTES],
                 struct slice *plain);
/* The time with these digits, as it is spelled; appended to out. */
void value_spell(const struct value_type *type, struct slice digits, struct buf *out);

struct place {
    struct slice name; /* [a-z0-9_]{1,64}; "store": of texts only those without ':', '{' and '}' */
    struct value_type type;
};

/* text[0] <at[0]> text[1] ... <at[n-1]> text[n]. A text ends before the byte that follows it in the pattern; the last one is what
 * is left, and holds no ':' if something follows it. Borrows all texts. */
struct places {
    struct slice text[PLACES_MAX + 1];
    struct place at[PLACES_MAX];
    uint32_t n;
};

/* The types are left to the caller. *why says what is wrong. */
bool places_parse(struct slice text, struct places *out, const char **why);
const struct place *places_find(const struct places *p, struct slice name); /* NULL: none of that name */
bool places_match(const struct places *p, struct slice text, struct slice values[PLACES_MAX]);
void places_text(const struct places *p, struct buf *out); /* as it was parsed */
void places_put(const struct places *p, const struct slice values[], struct buf *out);

/* How a time is spelled: 'd' stands for a digit, any other byte for itself. NULL: as a number, or it is no time. */
const char *value_shape(const struct value_type *t);

/* Is there a name that both stand for? Then it goes to *both. Exact but for dates that no calendar has. */
bool places_overlap(const struct places *a, const struct places *b, struct buf *both);
/* Can it begin with lead? */
bool places_can_begin(const struct places *p, struct slice lead);

/* Is text YYYYMMDD of a day that there is? */
bool date_is(struct slice text);

#define KEY_BYTES_MAX 512 /* of a pending hash's name; so ledger keys fit their column */
#define NAME_BYTES_MAX 64
bool name_valid(struct slice s); /* of a counter or a placeholder: 1 to 64 of a-z 0-9 _ */
#define DELTA_MAX (INT64_C(1) << 53)

enum field_kind {
    FIELD_DATE,
    FIELD_HOUR,
    FIELD_INTEGER,
    FIELD_TEXT,
    FIELD_MONTH,
    FIELD_PLACES,
    FIELD_COUNT,
    FIELD_NONE
}; /* YYYYMMDD, YYYYMMDDHH, int64, bytes, YYYYMM, a pattern of its own, the name of a count, the only one: "count" */

#define FIELD_ONLY SLICE("count") /* of FIELD_NONE, in Redis */

/* FIELD_COUNT: a field, and the column in which it is counted. */
struct named_count {
    struct slice field, column;
};
enum store_kind {
    STORE_INTEGER,
    STORE_TEXT
}; /* canonical digits 0..2^63-1; 1..255 bytes without ':', '{', '}' */

/* prefix + <store> + suffix; without <store> the whole is the prefix. Borrowed from the configuration's strings. */
struct pattern {
    struct slice prefix, suffix;
    bool has_store;
    struct places
        *places; /* NULL, or all of it when it has other placeholders; the pattern's owner frees it */
};

enum feed { FEED_SERIES, FEED_TIMEBOX, FEED_EVENT };
#define FEEDS 3

/* A table of the merchant's that is only read: the column that is searched, and the one that is read. */
struct lookup {
    struct slice table; /* n = 0: no labels. All three are MySQL identifiers, as a counter's */
    struct slice key, value;
};

struct key_column; /* row.h */
struct set_column;
enum missing {
    MISSING_INSERT,
    MISSING_REJECT,
    MISSING_DROP
}; /* what a hit on a row that is not there does */

struct counter {
    struct slice name;   /* [a-z0-9_]{1,64} */
    struct pattern key;  /* of the pending hash */
    struct pattern lock; /* all of it empty: none, see counter_locks() */
    enum field_kind field;
    enum store_kind store;
    int64_t hits;              /* due at that many */
    uint32_t every_s;          /* due after that long; also the lock's life */
    struct slice table;        /* MySQL identifiers, validated: [A-Za-z0-9_$]{1,64} */
    struct slice column_store; /* n = 0 when the pattern has no <store> */
    struct slice column_field,
        column_count; /* no column_field: `more` has what the field says; no column_count: FIELD_COUNT */
    const struct named_count *counts;
    uint32_t counts_n;
    struct value_type spelled;         /* of a field that is a time, unless it is spelled in digits */
    const struct places *field_places; /* FIELD_PLACES */
    const struct key_column *more;     /* of other placeholders, of parts of a time, of constants */
    uint32_t more_n;
    const struct set_column *sets; /* written with the count */
    uint32_t sets_n;
    enum missing missing;
    struct lookup labels;   /* names for the values of a placeholder or of the field, integer or text */
    struct slice labels_of; /* which placeholder; n = 0: there is only one */
    /* What the same hit also moves, by enum feed; an empty pattern: nothing. An event's is "<its name>:<its type>",
     * split at the last ':'. */
    struct pattern feeds[FEEDS];
};

struct op_limits; /* op.h */

struct counters {
    struct counter *all;
    size_t n;
    const struct op_limits *ops; /* of series, timeboxes, events and visitors */
};

/* "s<store>:x" -> pattern. Refuses: more than one <store>, other <...>, an empty text, control bytes. */
enum err pattern_parse(struct slice text, struct pattern *out, struct error *e);
/* The same with other placeholders, whose types the caller sets. */
enum err pattern_parse_places(struct slice text, struct pattern *out, struct error *e);

/* Does name match, and what is its store? store may be NULL. The store is checked against kind. */
bool pattern_match(const struct pattern *p, enum store_kind kind, struct slice name, struct slice *store);

/* Would it match, were its integers texts? Then which of them, the first, has a value that is no integer? */
bool pattern_misfit(const struct pattern *p, enum store_kind kind, struct slice name, struct slice *place,
                    struct slice *value);

void pattern_text(const struct pattern *p, struct buf *out); /* as in the configuration */

/* Appends the name with that store to out (without <store> it is ignored). It has no other placeholders. */
void pattern_put(const struct pattern *p, struct slice store, struct buf *out);
static inline bool pattern_empty(const struct pattern *p)
{
    return !p->has_store && p->prefix.n == 0;
}

/* Can it make a name that begins with lead? */
bool pattern_can_begin(const struct pattern *p, enum store_kind kind, struct slice lead);

/* Could any name match both? Decided from the patterns alone (places_overlap). */
bool pattern_overlap(const struct pattern *a, enum store_kind ka, const struct pattern *b,
                     enum store_kind kb);

/* Refuses sets in which a pattern can equal a lock, a `tally:` key, another counter's key or lock, or a claimed hash
 * (`_` and 32 hex digits at the end). It also refuses counters that lack what their pattern needs. Names the two in
 * e->text; *which gets the index of the counter at fault. */
enum err counters_validate(const struct counters *cs, size_t *which, struct error *e);

/* The counter that matches this key, NULL for none. Keys that end in '_' and 32 hex digits match nothing. */
const struct counter *counters_match(const struct counters *cs, struct slice key);
const struct counter *counters_find(const struct counters *cs, struct slice name);

/* The columns of counts: one, or those of FIELD_COUNT. */
static inline uint32_t counter_counts_n(const struct counter *c)
{
    return c->field == FIELD_COUNT ? c->counts_n : 1;
}
/* The counter with the i-th of them as its column_count; borrows as c does. */
struct counter counter_of_count(const struct counter *c, uint32_t i);
/* In which of them this field is counted; the field is valid. */
uint32_t counter_count_of(const struct counter *c, struct slice field);

/* Is this field of that kind, one of the first five? Dates must exist (20140931 does not); text is 1..255 bytes. */
bool field_valid(enum field_kind kind, struct slice field);
bool counter_field_valid(const struct counter *c, struct slice field);
const char *field_kind_name(enum field_kind kind); /* "date" */
/* How many digits of YYYYMMDDHH a field of that kind has; 0: it is no time. */
static inline size_t field_digits(enum field_kind kind)
{
    return kind == FIELD_DATE ? 8 : kind == FIELD_HOUR ? 10 : kind == FIELD_MONTH ? 6 : 0;
}
const char *field_kind_expected(enum field_kind kind); /* "a date as YYYYMMDD" */
/* What a client is told that a field must be: "a date as 2024-05-01"; appended to out. */
void counter_field_expected(const struct counter *c, struct buf *out);

/* Can it have that store? A text may still be one that no key holds. */
bool counter_takes_store(const struct counter *c, struct slice store);

/* The pending hash of that store, appended to out. False, and nothing appended: c has no such stores, or a store has several. */
bool counter_key(const struct counter *c, struct slice store, struct buf *out);

/* The store of a key that matched c; n = 0: c has none. */
struct slice counter_store(const struct counter *c, struct slice key);

/* `lock: none`: no key in Redis says when a hash was claimed last, for no other program looks at it. */
static inline bool counter_locks(const struct counter *c)
{
    return c->lock.prefix.n > 0 || c->lock.suffix.n > 0 || c->lock.has_store || c->lock.places != NULL;
}
/* The lock's name for a key that matched c; appended to out. Nothing is, when it has none. */
void counter_lock_name(const struct counter *c, struct slice key, struct buf *out);

/* What a hit on this key feeds; appended to out. False: the counter has no such feed. */
bool counter_feed_name(const struct counter *c, enum feed which, struct slice key, struct buf *out);
static inline bool counter_feeds(const struct counter *c, enum feed which)
{
    return !pattern_empty(&c->feeds[which]);
}
static inline bool counter_feeds_any(const struct counter *c)
{
    return counter_feeds(c, FEED_SERIES) || counter_feeds(c, FEED_TIMEBOX) || counter_feeds(c, FEED_EVENT);
}
/* "s1:views" -> "s1" and "views", at the last ':'. False: one of them would be empty, or the type is the ticker's,
 * "index". */
bool event_split(struct slice event, struct slice *name, struct slice *type);

#endif
