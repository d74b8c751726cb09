/* base/outlet.h - one client's output buffer, embedded in its connection. Frames answer straight into `out`, in order.
 * Over several lanes a client has an outlet for each (command/order.h), a queue: answers wait in it for earlier ones of
 * other lanes. Its `out` has eight bytes for each, a value. What is no value is in `texts`. */
#ifndef BASE_OUTLET_H
#define BASE_OUTLET_H

#include "base/buf.h"
#include "base/list.h"

/* With this many bytes in `out` its session takes no more requests, until they are flushed. */
#define OUTLET_FULL (64 * 1024)

#define OUTLET_VALUE sizeof(int64_t)

struct outlet {
    struct buf out;      /* bytes to the client, owned by the connection; all others only append */
    uint32_t waiting;    /* answers that frames still owe; > 0: everything else must queue behind them, too */
    bool stranger;       /* unauthenticated: may leave OUTLET_FULL unread at most */
    bool gone;           /* the client went away: answers are dropped, memory stays until waiting is 0 */
    bool behind;         /* scratch of coalesce: answers of a frame in doubt come first */
    bool has_text;       /* of a queue: texts is not empty */
    uint64_t counted;    /* hits whose answers were put into out; not of a queue */
    struct list touched; /* on coalesce's list of outlets that a frame answered */
    struct list parked;  /* on coalesce's list of outlets that wait for room */
    uint64_t parked_ms;  /* since when it has had no room (mono), 0: it has */
    /* of a queue; texts NULL: this is none */
    struct buf *texts;    /* a struct outlet_text and its bytes, for each that was not taken */
    size_t taken, values; /* bytes of out: taken already; up to the first text, or all */
    uint64_t given;       /* answers so far */
};

struct outlet_text {
    uint64_t number; /* of the answer: how many came before it */
    uint32_t n;      /* bytes that follow; 0: the client gets no reply */
    bool counts;     /* as outlet.counted */
};

/* Room for n more answers at the end of a queue; what was taken is dropped. The caller writes eight bytes for each, then
 * calls outlet_gave(). */
char *outlet_reserve(struct outlet *o, size_t n);
/* Answer i of these is a text, appended to o->texts between the two calls; the first returns what is for the second. Its
 * eight bytes mean nothing. */
size_t outlet_text_begin(struct outlet *o, size_t i);
void outlet_text_end(struct outlet *o, size_t at, bool counts);
static inline void outlet_gave(struct outlet *o, size_t n)
{
    o->out.n += n * OUTLET_VALUE;
    o->given += n;
    if (!o->has_text) o->values = o->out.n;
}

#endif
