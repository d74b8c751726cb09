/* base/piece.h - gives work to a server in pieces, because other requests wait behind each piece. A piece is as large
 * as the server can do in a given number of us, by the times of the pieces before. A time may include other work, and
 * two answers may come together. So the estimate of one item's time is near the lowest third of the times: it goes down
 * by a quarter, or up by an eighth. */
#ifndef BASE_PIECE_H
#define BASE_PIECE_H

#include "base/check.h"
#include <stdint.h>

struct piece {
    uint32_t now, least, most;
    uint32_t us;      /* of the server's time; > 0 */
    uint64_t each_ns; /* 0: not known */
};

static inline void piece_took(struct piece *p, uint32_t done, uint64_t us)
{
    PRE(p->us > 0 && p->least > 0 && p->least <= p->most);
    if (done == 0 || (done < p->now / 2 && us <= p->us)) return; /* a small one says little */
    uint64_t ns = 1000 * us / done;
    if (p->each_ns == 0) p->each_ns = UINT64_C(1000) * p->us / p->most + 1;
    if (ns < p->each_ns)
        p->each_ns = ns > p->each_ns - p->each_ns / 4 ? ns : p->each_ns - p->each_ns / 4;
    else
        p->each_ns = ns < p->each_ns + p->each_ns / 8 ? ns : p->each_ns + p->each_ns / 8 + 1;
    uint64_t fits = UINT64_C(1000) * p->us / (p->each_ns + 1);
    p->now = fits < p->least ? p->least : fits > p->most ? p->most : (uint32_t)fits;
}

#endif
