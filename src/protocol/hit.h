/* protocol/hit.h - the one shape that nearly every request has, read without the general parser's state:
 * `*4 $7 HINCRBY key field n`, whole in the input, headers of one or two digits. Whatever looks otherwise (other
 * commands, longer keys, a part of a request, bytes that are no RESP) is 0, and request_parse() says what
 * it is. */
#ifndef PROTOCOL_HIT_H
#define PROTOCOL_HIT_H

#include "base/hit.h"

size_t request_hit(struct slice in,
                   struct hit_bytes *h); /* bytes of the request, 0: not of this shape; h points into in */

#endif
