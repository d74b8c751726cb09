/* protocol/hit.h - the shapes of nearly every request, read without the general parser's state: `*4 $7 HINCRBY key field n` and
 * `*2 $7 CTR.HIT key`, whole in the input, headers of one or two digits. Anything else is for request_parse(). */
#ifndef PROTOCOL_HIT_H
#define PROTOCOL_HIT_H

#include "base/outlet.h"

size_t request_hit(struct slice in,
                   struct hit_bytes *h); /* bytes of the request, 0: not of this shape; h points into in */
size_t request_today(struct slice in, struct hit_bytes *h); /* likewise; only key, and raw up to the field */

#endif
