/* protocol/hit.h - the one shape that nearly every request has, read without the general parser's state:
 * `*4 $7 HINCRBY key field n`, whole in the input, headers of one to three digits. Whatever looks otherwise (other
 * commands, other case, a part of a request, bytes that are no RESP) is 0, and request_parse() says what it is. */
#ifndef PROTOCOL_HIT_H
#define PROTOCOL_HIT_H

#include "base/slice.h"

/* Bytes of the request, 0: not of this shape. args: key, field, n, into the input. */
size_t request_hit(struct slice in, struct slice args[3]);

#endif
