/* base/outlet.h - what the rooms between a client and Redis share: RESP, an increment's bytes, figures of a connection,
 * and the outlet: a client's output buffer, embedded in its connection. Frames answer straight into `out`, in order.
 * Over several lanes a client has an outlet for each (command/order.h), a queue: answers wait in it for earlier ones of
 * other lanes. Its `out` has eight bytes for each, a value. What is no value is in `texts`. */
#ifndef BASE_OUTLET_H
#define BASE_OUTLET_H

#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

/* The two shapes of RESP that requests, frames and replies share. Each appends to out. */

#define HEAD_BYTES 24

/* Type, digits, CR LF, at most HEAD_BYTES; returns how many. */
static inline size_t head_write(char type, int64_t v, char *p)
{
    p[0] = type;
    size_t n = 1 + num_write(v, p + 1);
    p[n] = '\r';
    p[n + 1] = '\n';
    return n + 2;
}

static inline void put_head(struct buf *out, char type, int64_t v)
{
    out->n += head_write(type, v, buf_reserve(out, HEAD_BYTES));
}

static inline void put_bulk(struct buf *out, struct slice s) /* $n CR LF, n bytes, CR LF */
{
    buf_reserve(out, 24 + s.n + 2); /* once for all */
    put_head(out, '$', (int64_t)s.n);
    buf_put_slice(out, s);
    BUF_LIT(out, "\r\n");
}

/* The arguments of one increment, in the bytes that it came as. */

struct hit_bytes {
    /* `$n CR LF key CR LF $n CR LF field CR LF`, the numbers without leading zeros; of a hit of today only the key's half */
    struct slice raw;
    struct slice key, field; /* into raw */
    int64_t delta;           /* the number after it */
};

/* Figures of a connection, for CLIENT INFO. */

#define CONN_ADDRESS_BYTES 160

struct conn_info {
    char peer[CONN_ADDRESS_BYTES], local[CONN_ADDRESS_BYTES]; /* "127.0.0.1:4711", "[::1]:4711", "/path:0" */
    int fd;                                                   /* -1: none any more */
    bool is_unix;
    bool reads;          /* from its client, now */
    size_t kept_bytes;   /* of requests that are not whole or not taken yet */
    size_t unsent_bytes; /* of answers that the socket had no room for, without the outlet's */
    size_t memory; /* of the block of both the connection and its session, and of what these three count */
};

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
