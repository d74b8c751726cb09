/* series/frame.h - what one loop turn sends to Redis for many clients, as data: one MULTI ... EXEC. coalesce/ fills it,
 * redis/ writes it and files the answers into the same cells. In the order of the wire:
 *   MULTI; one ZADD tally:dirty NX for all hashes with zadd; HINCRBY a cell; HINCRBY tally:accepted a share;
 *   SET lock NX EX and PTTL a hash with ask_lock; a script for all tokens; the ops (op.h); the journals it appends to or ends;
 *   SET tally:seq:... seq EX; EXEC. */
#ifndef SERIES_FRAME_H
#define SERIES_FRAME_H

#include "base/list.h"
#include "base/slice.h"
#include "series/op.h"

struct frame_hash {   /* one pending hash that the frame touches, with hits or only with an owed ZADD */
    void *entry;      /* coalesce's registry entry, pinned while the frame lives */
    struct slice key; /* borrowed from the entry */
    uint32_t lock_at, lock_n;    /* the lock's name in frame->bytes, when ask_lock */
    uint32_t lock_s;             /* its EX */
    uint32_t cells;              /* how many cells are of this hash */
    bool zadd, ask_lock, owed;   /* owed: the ZADD was owed when the frame was sent */
    bool moved;                  /* a script moves it: new visitors of an op, a new token */
    int64_t fed_delta, fed_hits; /* coalesce's: sums of its cells, for its feeds */
    bool fresh;                  /* answer: a HINCRBY came back equal to its own delta */
    bool lock_granted;           /* answer: SET NX said OK */
    int64_t lock_pttl_ms;        /* answer: PTTL of the lock; <= 0 unknown */
};

struct frame_cell { /* one HINCRBY */
    uint64_t code;  /* hash of key and field, 0 in the first of its hash: coalesce's own */
    uint32_t hash;  /* index into frame->hashes */
    uint32_t raw_at,
        raw_n; /* in frame->bytes: key and field as a request has them, $n CR LF bytes CR LF each */
    uint32_t field_at, field_n; /* in frame->bytes, inside raw */
    uint32_t error_at, error_n; /* answer: Redis' error line without '-', in frame->errors; n = 0: none */
    uint32_t hits;              /* how many came to it: events that a feed makes of them */
    bool hit_is_event;          /* coalesce's: a further hit costs a cell, since it feeds an event */
    int64_t delta;
    int64_t value; /* answer: the field after it */
};

#define TOKEN_BYTES_MAX 128 /* of a client's id */
#define TOKEN_PAYLOAD 16    /* hex digits of the hash of key, field and delta */

/* An increment that counts once, however often it is sent. Tokens come after the cells, in the order of arrival. A
 * script adds each to its hash, the dirty index and tally:accepted, and writes the token; when the token exists it does
 * nothing. */
struct frame_token {
    const struct counter *counter;
    uint32_t hash;            /* index into frame->hashes */
    uint32_t name_at, name_n; /* in frame->bytes: the token's key */
    uint32_t field_at, field_n;
    uint32_t user_at, user_n; /* n = 0: none; the token is nobody's share */
    char payload[TOKEN_PAYLOAD];
    int64_t delta;
    /* answers */
    int64_t value;              /* the field after it, when it was counted */
    bool is_new;                /* this frame counted it */
    uint32_t error_at, error_n; /* as a cell's */
};

struct frame_share { /* one counter's part of tally:accepted */
    const struct counter *counter;
    int64_t delta;
    bool refused; /* answer: the sum would overflow. The next frame has it, and goes round */
};

struct frame_append {           /* to one journal (below) */
    struct journal *journal;    /* coalesce's own */
    uint32_t name_at, name_n;   /* in frame->bytes */
    uint32_t bytes_at, bytes_n; /* records, in frame->records; none when it ends */
    bool opens;                 /* the first: HSET tally:journals */
    bool ends;                  /* all of it is in its keys: UNLINK, and HDEL */
};

struct frame {
    uint64_t seq; /* set when it is sent; the same when it is sent again */
    int64_t
        dirty_ms; /* score of its ZADDs, and the ops' now: Redis' time when sent; the same when sent again */
    /* answer: how often a log has ever left tally:events; -1: unknown. Read when the frame has events */
    int64_t events_gone;
    struct frame_hash *hashes;
    struct frame_cell *cells;
    struct frame_token *tokens;
    struct frame_share *shares;
    struct frame_op *ops;
    struct op_item *items;
    struct frame_append *appends;
    uint32_t hashes_n, hashes_cap, cells_n, cells_cap, tokens_n, tokens_cap, shares_n, shares_cap, ops_n,
        ops_cap, items_n, items_cap, appends_n, appends_cap;
    struct buf
        bytes; /* keys and fields of cells, tokens, lock names, names and texts of ops, names of journals
                       */
    struct buf records; /* of the appends */
    struct buf errors;  /* error texts of cells, tokens and ops */
    /* redis/'s, if frames are kept: what is sent again when Redis loses the frame (struct kept_frame) */
    struct buf again;
    uint32_t again_lines, again_cells;
};

/* An answered frame, as it is sent again to a Redis that lacks it: with its own number, and a ZADD for each hash of its
 * cells. What failed in it is left out, and so are locks. */
struct kept_frame {
    struct list link;
    uint64_t seq;
    int64_t dirty_ms;
    uint32_t hits;         /* answered with it */
    uint32_t lines, cells; /* commands in bytes; of them, HINCRBYs of cells, which are the first */
    struct buf bytes;      /* of cells, shares, tokens and visitors */
    struct buf records;    /* of the other ops (below) */
    uint64_t found; /* the least last frame of servers that lacked this one: of later ones no lease is left */
    /* answers */
    uint32_t failed;     /* commands, tokens and ops */
    uint32_t renumbered; /* events that got another number than their clients were told */
};

/* What became of a sent frame whose answer arrived. A link lost before that is no answer: coalesce_cut(). */
enum frame_outcome {
    FRAME_APPLIED, /* EXEC's array: every cell has its value or its own error */
    FRAME_REFUSED, /* EXECABORT or an error to EXEC: nothing of it ran; the text is in frame->errors */
    FRAME_ASTRAY, /* likewise, since its slot is moving to another node of a cluster; the link is being cut */
};

#define FRAME_RAW(f, c) slice_of((f)->bytes.p + (c)->raw_at, (c)->raw_n)
#define FRAME_FIELD(f, c) slice_of((f)->bytes.p + (c)->field_at, (c)->field_n)
#define FRAME_ERROR(f, c)                                                                                    \
    slice_of((f)->errors.p + (c)->error_at, (c)->error_n) /* of a cell, a token or an op */
#define FRAME_TEXT(f, at, n) slice_of((f)->bytes.p + (at), (n))
#define FRAME_NAME(f, op) FRAME_TEXT(f, (op)->name_at, (op)->name_n)
#define FRAME_TYPE(f, op) FRAME_TEXT(f, (op)->type_at, (op)->type_n)

void frame_reset(struct frame *f); /* empty again, memory kept */
void frame_free(struct frame *f);
struct frame_hash *frame_add_hash(struct frame *f, void *entry, struct slice key);
/* A cell with the bytes of key and field as they came; field points into raw. */
struct frame_cell *frame_add_raw(struct frame *f, uint32_t hash, struct slice raw, struct slice field,
                                 int64_t delta);
/* Of a store (n = 0: its counter has none), the client's id, and its user (n = 0: none). */
struct frame_token *frame_add_token(struct frame *f, uint32_t hash, struct slice store, struct slice id,
                                    struct slice field, int64_t delta, struct slice user);
/* Sent again on a later day it is the same increment: today is no part of what it is compared with. */
void frame_token_today(const struct frame *f, struct frame_token *t);
void frame_add_share(struct frame *f, const struct counter *c, int64_t delta); /* sums per counter */
/* An op without hits yet. */
struct frame_op *frame_add_op(struct frame *f, enum op_kind kind, struct slice name, struct slice type,
                              int64_t which);
/* A further event or visitor of the op; returns its number. */
uint32_t frame_add_item(struct frame *f, struct frame_op *op, int64_t at, struct slice text);
/* An append of these records to a journal of that name. */
struct frame_append *frame_add_append(struct frame *f, struct slice name, struct slice records);
/* Reads `stands`, what Redis has of a written token: its payload, ':', the value that its client was told. False: the
 * token is of another increment, or this is no token; nothing is filed. */
bool frame_token_read(struct frame_token *t, struct slice stands);
void frame_fail_token(struct frame *f, struct frame_token *t, struct slice line);
/* Sets the error of all that wait for the op; line is without '-'. */
void frame_fail_op(struct frame *f, struct frame_op *op, struct slice line);

/* The bytes of a journal: what ops add to series, timeboxes and logs before it goes to their own
 * keys. A journal is one string in Redis, tally:journal:<name>, of consecutive records; frames append to it:
 *   OP     number, kind, at, name, type: from now on this number means this op
 *   ADD    number, n: n is to be added to it
 *   DONE   number: all that was to be added so far is in the op's own keys
 *   EVENT  number, second, id, text: an event of that log; its id is the text, when id is 0
 *   GONE   number, n: of the events recorded so far and not gone, the first n are in the log
 * Unsigned numbers are LEB128, signed ones are zigzag first; the first of a record is 8 * number + mark. When a tallyd
 * has died, another one reads here what is still to be added. */

enum journal_mark { JOURNAL_OP, JOURNAL_ADD, JOURNAL_DONE, JOURNAL_EVENT, JOURNAL_GONE, JOURNAL_MARKS };

struct journal_record {
    enum journal_mark mark;
    uint32_t number;
    enum op_kind kind;       /* OP */
    int64_t at;              /* OP; EVENT: its second */
    struct slice name, type; /* OP: into the bytes read; EVENT: name is its text */
    int64_t n;               /* ADD, GONE; EVENT: its id */
};

void journal_put_op(struct buf *out, uint32_t number, enum op_kind kind, int64_t at, struct slice name,
                    struct slice type);
void journal_put_add(struct buf *out, uint32_t number, int64_t n);
void journal_put_done(struct buf *out, uint32_t number);
void journal_put_event(struct buf *out, uint32_t number, int64_t second, int64_t id, struct slice text);
void journal_put_gone(struct buf *out, uint32_t number, uint32_t n);

/* Reads the next record; *rest then begins after it. False: no record; rest->n = 0 means the end, otherwise the bytes
 * are no record. */
bool journal_next(struct slice *rest, struct journal_record *r);

/* The ops of a kept frame as bytes: records as in a journal, op after op.
 * Visitors are not among them.
 *   OP     number: 1 when a feed made the op, else 0; at: the op's `which`
 *   ADD    what it adds; of events with items, the frame that drew their lease
 *   EVENT  an event without number and text draws a new number
 * An op without ADD is owed. */

/* told: Redis' answers to the frame came. */
void kept_put_op(struct buf *out, const struct frame *f, const struct frame_op *op, bool told);
/* Adds the ops to f: they now go straight to their keys, whatever way they went before. found: the last frame that
 * Redis has. */
void kept_take_ops(struct frame *f, struct slice records, uint64_t found);

#endif
