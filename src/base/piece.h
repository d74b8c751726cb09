/* base/piece.h - work is given to a server in pieces, each as large as it does in so many us, by the time that those before
 * took: others wait behind it. One that took longer makes the next one smaller; a full one that took less, larger; each by a
 * factor of two at most, since a time may have been somebody else's. */
#ifndef BASE_PIECE_H
#define BASE_PIECE_H

#include "base/check.h"
#include <stdint.h>

struct piece {
    uint32_t now, least, most;
    uint32_t us; /* of the server's time; > 0 */
};

static inline void piece_took(struct piece *p, uint32_t done, uint64_t us)
{
    PRE(p->us > 0 && p->least > 0 && p->least <= p->most);
    uint64_t fits = (uint64_t)done * p->us / (us > 0 ? us : 1), half = p->now / 2,
             twice = UINT64_C(2) * p->now;
    if (us > p->us ? fits >= p->now : done < p->now) return;
    if (fits < half) fits = half;
    if (fits > twice) fits = twice;
    p->now = fits < p->least ? p->least : fits > p->most ? p->most : (uint32_t)fits;
}

#endif
