/* protocol/hit.c - see hit.h. Only requests of exactly this shape are read here, so a hit's key and field can be looked up
 * and sent on as the bytes that came. */
#include "protocol/hit.h"

#include "base/num.h"

#define HEAD "*4\r\n$7\r\nhincrby\r\n"
#define CASE "\0\0\0\0\0\0\0\0\x20\x20\x20\x20\x20\x20\x20\0"
#define HEAD_BYTES 17
_Static_assert(sizeof HEAD - 1 == HEAD_BYTES, "is_head() compares 17 bytes");

static inline bool is_crlf(const char *p)
{
    uint16_t have, want;
    memcpy(&have, p, 2);
    memcpy(&want, "\r\n", 2);
    return have == want;
}

/* `$<n>\r\n<n bytes>\r\n`, n of one or two digits without a leading zero. Returns what follows, NULL: another shape. */
static inline const char *bulk(const char *at, const char *end, struct slice *arg)
{
    if (end - at < 7) return NULL;
    unsigned n = (unsigned)(at[1] - '0'), second = (unsigned)(at[2] - '0');
    bool good = at[0] == '$' && n - 1 <= 8;
    at += 2;
    if (second <= 9) n = n * 10 + second, at++;
    if (!good || !is_crlf(at) || end - at < (ptrdiff_t)n + 4) return NULL;
    *arg = slice_of(at + 2, n);
    at += n + 2;
    return is_crlf(at) ? at + 2 : NULL;
}

/* In either case. Compilers make a call of a memcmp of this size. */
static inline bool is_head(const char *p)
{
    uint64_t have[2], want[2], lower[2];
    memcpy(have, p, 16);
    memcpy(want, HEAD, 16);
    memcpy(lower, CASE, 16);
    return (((have[0] | lower[0]) ^ want[0]) | ((have[1] | lower[1]) ^ want[1])) == 0 && p[16] == HEAD[16];
}

/* Nearly every increment is one digit. */
static inline const char *delta_read(const char *at, const char *end, int64_t *delta)
{
    struct slice digits;
    uint32_t have, want;
    if (end - at < 7) return NULL;
    memcpy(&have, at, 4);
    memcpy(&want, "$1\r\n", 4);
    unsigned digit = (unsigned)(at[4] - '0');
    if (have == want && digit <= 9 && is_crlf(at + 5)) {
        *delta = digit;
        return at + 7;
    }
    at = bulk(at, end, &digits);
    return at != NULL && num_parse(digits, delta) ? at : NULL;
}

size_t request_hit(struct slice in, struct hit_bytes *h)
{
    const char *at = in.p + HEAD_BYTES, *end = in.p + in.n;
    if (in.n < HEAD_BYTES || !is_head(in.p)) return 0;
    h->raw.p = at;
    if ((at = bulk(at, end, &h->key)) == NULL) return 0;
    if ((at = bulk(at, end, &h->field)) == NULL) return 0;
    h->raw.n = (size_t)(at - h->raw.p);
    if ((at = delta_read(at, end, &h->delta)) == NULL) return 0;
    return (size_t)(at - in.p);
}
