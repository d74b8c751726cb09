/* protocol/hit.c - see hit.h. The two bytes behind an argument are passed over unlooked at, as Redis does and as the
 * general parser does (FACTS: wire behaviour). */
#include "protocol/hit.h"

#define HEAD "*4\r\n$7\r\nHINCRBY\r\n"
#define HEAD_BYTES 17
_Static_assert(sizeof HEAD - 1 == HEAD_BYTES, "is_head() compares so many bytes");

/* `$<n>\r\n<n bytes>..`, n of one to three digits without a leading zero. Returns what follows, NULL: not so. */
static inline const char *bulk(const char *at, const char *end, struct slice *arg)
{
    if (end - at < 7) return NULL;
    unsigned n = (unsigned)(at[1] - '0'), digit;
    bool good = at[0] == '$' && n - 1 <= 8;
    at += 2;
    for (int more = 0; more < 2 && *at != '\r'; more++, at++) {
        digit = (unsigned)(*at - '0');
        good = good && digit <= 9;
        n = n * 10 + digit;
    }
    if (!good || at[0] != '\r' || at[1] != '\n' || (size_t)(end - at) < (size_t)n + 4) return NULL;
    *arg = slice_of(at + 2, n);
    return at + n + 4;
}

/* memcmp of a fixed size that compilers make a call of. */
static inline bool is_head(const char *p)
{
    uint64_t have[2], want[2];
    memcpy(have, p, 16);
    memcpy(want, HEAD, 16);
    return ((have[0] ^ want[0]) | (have[1] ^ want[1])) == 0 && p[16] == HEAD[16];
}

size_t request_hit(struct slice in, struct slice args[3])
{
    const char *at = in.p + HEAD_BYTES, *end = in.p + in.n;
    if (in.n < HEAD_BYTES || !is_head(in.p)) return 0;
    if ((at = bulk(at, end, &args[0])) == NULL) return 0;
    if ((at = bulk(at, end, &args[1])) == NULL) return 0;
    if ((at = bulk(at, end, &args[2])) == NULL) return 0;
    return (size_t)(at - in.p);
}
