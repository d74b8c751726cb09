/* coalesce/journal.h - one journal (bytes: series/frame.h) as its owner knows it: what frames added to series,
 * timeboxes and logs, summed by name and time, until a checkpoint brings it home to their own keys. A frame's ops then
 * cost Redis one APPEND, and what many frames added costs one HINCRBY a sample. Redis has every hit at any moment,
 * either in a journal or in its key. The rules (checkpoint.c carries them out):
 *   In: all feed updates; a client's update of a series that Redis accepted since the last cut; hits on buckets with a
 *     known total; events numbered from a lease. The rest goes straight to its key, so the first client to meet a key of
 *     the wrong type gets the error. The ops of a frame with only a few go straight, too.
 *   Home: closed journals, oldest first, some commands a frame. Ops of later frames take sums out of the journal in the
 *     same MULTI; all seconds of a series go together. A read's name goes home at once (settle).
 *   Undo: what a refused or lost frame put in or took out is undone here before the frame is sent again or given up.
 *   (!) Takeover: tally:journals names the process that brings a journal home. A link that comes up looks there before
 *     the next frame. A journal that another process took over meanwhile belongs to that one, whatever we remember (it
 *     killed our links before it read). When Redis lost its tail, only Redis knows what a journal has, so all are given up.
 * This file and journal.c are pure data. Numbers are indices; an op keeps its number as long as the journal lives. */
#ifndef COALESCE_JOURNAL_H
#define COALESCE_JOURNAL_H

#include "base/list.h"
#include "series/frame.h"

#define JOURNAL_TIMES_MAX 64          /* of one name; a further one does not go into the journal */
#define JOURNAL_NUMBERS_MAX (1 << 19) /* more than journal_ops_max and one frame's */
#define JOURNAL_SUM_MAX (INT64_C(1) << 62)

struct journal_event {
    int64_t second, id;       /* id 0: the text */
    uint32_t text_at, text_n; /* in journal->texts */
    uint32_t next;
};

/* Still to be added is a sum; for an op EVENT_GIVEN it is a list of events, first in, first out. */
struct journal_op {
    enum op_kind kind;
    uint64_t code;            /* of kind, name and type, coalesce's own */
    uint32_t name_at, name_n; /* in journal->texts */
    uint32_t type_at, type_n;
    uint32_t next; /* the same name at another time; OP_END: no more */
    bool told;     /* its OP record was sent */
    int64_t which; /* as a frame_op's */
    int64_t n;     /* still to be added */
    int64_t out;   /* checkpoint's own: of a bucket, what the frame under way brings home */
    uint32_t adds; /* a sum: in how many ADDs; events: how many */
    uint32_t first_event, last_event;
};

struct journal {
    struct list link; /* in coalesce.journals, oldest first */
    struct buf name, texts;
    struct buf records; /* of the frame that is being made */
    struct journal_op *ops;
    struct journal_event *events; /* those that are gone, too: an undone frame brings them back */
    uint32_t events_n, events_cap;
    uint32_t *slots; /* hash of code -> number + 1 of the first of its name, 0: free */
    uint32_t ops_n, ops_cap, slots_cap, names_n;
    uint32_t puts;    /* ops of frames that it took */
    uint32_t from;    /* no op before it is pending */
    uint32_t pending; /* ops with something still to be added */
    uint32_t frames;  /* sent and not settled that append to it */
    size_t bytes;     /* of the string in Redis */
    uint64_t age;     /* in the order of their beginning */
    uint64_t begun_ms;
    bool opened; /* it is in Redis, or will be by a frame under way */
    bool closed; /* takes no more; the checkpoint empties it */
    bool looked; /* the look that is under way asked for it */
};

static inline bool journal_has_events(const struct journal_op *op)
{
    return op->kind == OP_EVENT && op->which == EVENT_GIVEN;
}

struct journal *journal_create(struct slice name, uint64_t age, uint64_t now_ms);
void journal_destroy(struct journal *j);
void journal_begin(struct journal *j, struct slice name, uint64_t age,
                   uint64_t now_ms); /* a new one, in the memory of the one before */

struct slice journal_name(const struct journal *j, const struct journal_op *op);
struct slice journal_type(const struct journal *j, const struct journal_op *op);

/* The number of the first op of that kind, name and type, or OP_END; `next` leads to the others. */
uint32_t journal_first(const struct journal *j, uint64_t code, enum op_kind kind, struct slice name,
                       struct slice type);
/* The number of the op, which is made if it is new. OP_END: the name has too many times. */
uint32_t journal_number(struct journal *j, uint64_t code, const struct journal_record *of);
bool journal_fits(const struct journal *j, uint32_t number, int64_t n); /* no sum overflows */
void journal_add(struct journal *j, uint32_t number, int64_t n);        /* with its records */
void journal_add_event(struct journal *j, uint32_t number, int64_t second, int64_t id, struct slice text);
/* This many ADDs of the op are brought home, with their record: of events the first ones, of a sum all. */
void journal_take(struct journal *j, uint32_t number, uint32_t adds);
/* The frame with those records did not run. n: the sum, of events 0. first_event: of those taken. */
void journal_undo_add(struct journal *j, uint32_t number, int64_t n, uint32_t adds, bool was_told);
void journal_undo_take(struct journal *j, uint32_t number, int64_t n, uint32_t adds, uint32_t first_event);

/* Reads what a journal that another process wrote still has to add. False: the bytes end in something that is no
 * record; what comes before it is taken. code: of an op. */
bool journal_read(struct journal *j, struct slice bytes,
                  uint64_t (*code)(void *arg, const struct journal_record *of), void *arg);

#endif
