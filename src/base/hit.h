/* base/hit.h - the arguments of one increment, in the bytes that it came as. */
#ifndef BASE_HIT_H
#define BASE_HIT_H

#include "base/slice.h"

struct hit_bytes {
    struct slice raw; /* `$n CR LF key CR LF $n CR LF field CR LF`, the numbers without leading zeros */
    struct slice key, field; /* into raw */
    int64_t delta;           /* the number after it */
};

#endif
