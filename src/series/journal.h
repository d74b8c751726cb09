/* series/journal.h - the bytes of a journal: what ops add to series, timeboxes and logs before it goes to their own
 * keys. A journal is one string in Redis, tally:journal:<name>, of consecutive records; frames append to it:
 *   OP     number, kind, at, name, type: from now on this number means this op
 *   ADD    number, n: n is to be added to it
 *   DONE   number: all that was to be added so far is in the op's own keys
 *   EVENT  number, second, id, text: an event of that log; its id is the text, when id is 0
 *   GONE   number, n: of the events recorded so far and not gone, the first n are in the log
 * Unsigned numbers are LEB128, signed ones are zigzag first; the first of a record is 8 * number + mark. When a tallyd
 * has died, another one reads here what is still to be added. */
#ifndef SERIES_JOURNAL_H
#define SERIES_JOURNAL_H

#include "base/slice.h"
#include "series/op.h"

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

#endif
