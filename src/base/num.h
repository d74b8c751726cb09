/* base/num.h - integers as Redis reads and writes them, and hex. */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include "base/slice.h"

/* As Redis' string2ll: canonical decimal only ("-0", "+1", "01", " 1", "1.0" and "" are refused), whole int64 range. */
bool num_parse(struct slice s, int64_t *out);
bool num_parse_u64(struct slice s, uint64_t *out);
size_t num_write(int64_t v, char out[21]); /* digits, no NUL; returns how many */
/* Modulo 2^64, as the books are. */
static inline int64_t num_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t num_less(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

#define HEX_ID 32
void hex_write(const uint8_t *bytes, size_t n, char *out);    /* 2n lower-case digits, no NUL */
bool hex_read(struct slice digits, uint8_t *bytes, size_t n); /* exactly 2n digits, lower case */

#endif
