/* base/refusals.h - hits that were refused, by reason: an app that looks at no reply loses them, so status, panel, log and metrics
 * say so. Of the loop alone; the one set of its process, as stats. */
#ifndef BASE_REFUSALS_H
#define BASE_REFUSALS_H

#include "base/slice.h"
#include <stdint.h>

#define REFUSALS_MAX 16         /* reasons; the last one is all others together */
#define REFUSAL_MINUTE_PARTS 12 /* of 5 s each */

struct refused {
    char reason[24]; /* no_counter, field, value, or the first word of the error: oom, noperm, busy ... */
    char text[400];  /* one of the last second: the error as the client got it, its key, and the client */
    uint64_t all, told_at_ms, logged_at_ms, not_logged;
    struct {
        uint64_t part, n; /* n of that part of the clock */
    } minute[REFUSAL_MINUTE_PARTS];
};

/* n hits got that error, a reply with or without its '-' (its first line counts). key, peer: of one of them; "": not known. */
void refusals_add(uint64_t n, struct slice error, struct slice key, const char *peer);

/* The reason at that place, from 0 on. NULL: there are no more. */
const struct refused *refusals_at(uint32_t at);

/* How many in the last minute, or up to 5 s less. */
uint64_t refusal_minute(const struct refused *r);

#endif
