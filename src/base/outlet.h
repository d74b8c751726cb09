/* base/outlet.h - one client's output buffer, embedded in its connection. Frames answer straight into `out`, in order. */
#ifndef BASE_OUTLET_H
#define BASE_OUTLET_H

#include "base/buf.h"
#include "base/list.h"

/* With this many bytes in `out` its session takes no more requests, until they are flushed. */
#define OUTLET_FULL (64 * 1024)

struct outlet {
    struct buf out;      /* bytes to the client, owned by the connection; all others only append */
    uint32_t waiting;    /* answers that frames still owe; > 0: everything else must queue behind them, too */
    uint64_t counted;    /* hits whose answers were put into out */
    bool stranger;       /* unauthenticated: may leave OUTLET_FULL unread at most */
    bool gone;           /* the client went away: answers are dropped, memory stays until waiting is 0 */
    struct list touched; /* on coalesce's list of outlets that a frame answered */
    struct list parked;  /* on coalesce's list of outlets that wait for room */
    uint64_t parked_ms;  /* since when it has had no room (mono), 0: it has */
    bool behind;         /* scratch of coalesce: answers of a frame in doubt come first */
};

#endif
