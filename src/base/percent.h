/* base/percent.h - percent-decoding of URLs: %XX is a byte. A NUL byte is refused, since C strings cannot hold it. */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include "base/check.h"
#include "base/slice.h"

enum percent { PERCENT_OK, PERCENT_ESCAPE /* a % without two hexadecimal digits */, PERCENT_NUL };

/* out has room for text.n bytes; *n is how many were written, also at a fault. */
enum percent percent_decode(struct slice text, char *out, size_t *n) MUST_CHECK;
/* On the heap; NULL: a fault, and what was decoded is wiped, since it may be a password. */
char *percent_string(struct slice text) MUST_CHECK;

#endif
