/* protocol/hit.c - see request.h. Only requests of exactly this shape are read here, so that a hit's key and field can be
 * looked up and sent on as the bytes that came. */
#include "protocol/request.h"

#include "base/slice.h"

#define HEAD "*4\r\n$7\r\nhincrby\r\n"
#define CASE "\0\0\0\0\0\0\0\0\x20\x20\x20\x20\x20\x20\x20\0"
#define TODAY_HEAD "*2\r\n$7\r\nctr.hit\r\n"
#define TODAY_CASE "\0\0\0\0\0\0\0\0\x20\x20\x20\0\x20\x20\x20\0"
#define HIT_HEAD_BYTES 17
#define BULK_BYTES_LEAST 7
_Static_assert(sizeof HEAD - 1 == HIT_HEAD_BYTES && sizeof TODAY_HEAD == sizeof HEAD,
               "is_head() compares 17 bytes");

static inline bool is_crlf(const char *p)
{
    uint16_t have, want;
    memcpy(&have, p, 2);
    memcpy(&want, "\r\n", 2);
    return have == want;
}

/* `$<n>\r\n<n bytes>\r\n`, then at least `behind` bytes; n has one or two digits without a leading zero;
 * BULK_BYTES_LEAST bytes are there. Returns what follows, NULL: another shape. */
static inline const char *bulk(const char *at, const char *end, ptrdiff_t behind, struct slice *arg)
{
    unsigned n = (unsigned)(at[1] - '0'), second = (unsigned)(at[2] - '0');
    bool good = at[0] == '$' && n - 1 <= 8;
    at += 2;
    if (second <= 9) n = n * 10 + second, at++;
    const char *bytes = at + 2;
    if (!good || !is_crlf(at) || end - bytes < (ptrdiff_t)n + 2 + behind) return NULL;
    *arg = slice_of(bytes, n);
    return is_crlf(bytes + n) ? bytes + n + 2 : NULL;
}

/* Letters of either case. Compilers make a call of a memcmp of this size. */
static inline bool is_head(const char *p, const char *head, const char *letters)
{
    uint64_t have[2], want[2], lower[2];
    memcpy(have, p, 16);
    memcpy(want, head, 16);
    memcpy(lower, letters, 16);
    return (((have[0] | lower[0]) ^ want[0]) | ((have[1] | lower[1]) ^ want[1])) == 0 && p[16] == head[16];
}

/* Nearly every increment is one digit. */
static inline const char *delta_read(const char *at, const char *end, int64_t *delta)
{
    struct slice digits;
    uint32_t have, want;
    memcpy(&have, at, 4);
    memcpy(&want, "$1\r\n", 4);
    unsigned digit = (unsigned)(at[4] - '0');
    if (have == want && digit <= 9 && is_crlf(at + 5)) {
        *delta = digit;
        return at + 7;
    }
    at = bulk(at, end, 0, &digits);
    return at != NULL && num_parse(digits, delta) ? at : NULL;
}

size_t request_hit(struct slice in, struct hit_bytes *h)
{
    const char *at = in.p + HIT_HEAD_BYTES, *end = in.p + in.n;
    if (in.n < HIT_HEAD_BYTES + 3 * BULK_BYTES_LEAST || !is_head(in.p, HEAD, CASE)) return 0;
    h->raw.p = at;
    if ((at = bulk(at, end, 2 * BULK_BYTES_LEAST, &h->key)) == NULL) return 0;
    if ((at = bulk(at, end, BULK_BYTES_LEAST, &h->field)) == NULL) return 0;
    h->raw.n = (size_t)(at - h->raw.p);
    if ((at = delta_read(at, end, &h->delta)) == NULL) return 0;
    return (size_t)(at - in.p);
}

size_t request_today(struct slice in, struct hit_bytes *h)
{
    const char *at = in.p + HIT_HEAD_BYTES;
    if (in.n < HIT_HEAD_BYTES + BULK_BYTES_LEAST || !is_head(in.p, TODAY_HEAD, TODAY_CASE)) return 0;
    h->raw.p = at;
    if ((at = bulk(at, in.p + in.n, 0, &h->key)) == NULL) return 0;
    h->raw.n = (size_t)(at - h->raw.p);
    return (size_t)(at - in.p);
}
