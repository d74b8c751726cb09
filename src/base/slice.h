/* base/slice.h - a run of bytes that it does not own; there may be no NUL after it. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *p;
    size_t n;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})
#define SLICE_FMT "%.*s"
#define SLICE_ARG(s) (int)(s).n, (s).p

static inline struct slice slice_of(const char *p, size_t n)
{
    return (struct slice){p, n};
}
static inline struct slice slice_str(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* 8 to 16 bytes as two words that overlap: keys and fields are short, and a call of memcmp costs more than they do. */
static inline bool bytes_eq_16(const char *a, const char *b, size_t n)
{
    uint64_t a0, a1, b0, b1;
    memcpy(&a0, a, 8), memcpy(&a1, a + n - 8, 8);
    memcpy(&b0, b, 8), memcpy(&b1, b + n - 8, 8);
    return ((a0 ^ b0) | (a1 ^ b1)) == 0;
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    if (a.n != b.n) return false;
    if (a.n - 8 <= 8) return bytes_eq_16(a.p, b.p, a.n);
    if (a.n - 16 <= 16) return bytes_eq_16(a.p, b.p, 16) && bytes_eq_16(a.p + a.n - 16, b.p + a.n - 16, 16);
    return a.n == 0 || memcmp(a.p, b.p, a.n) == 0;
}

/* Order by (length, bytes): the order of keys and fields inside a batch. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    if (a.n != b.n) return a.n < b.n ? -1 : 1;
    return a.n == 0 ? 0 : memcmp(a.p, b.p, a.n);
}

/* Order by bytes, as Redis sorts members. */
static inline int slice_cmp_bytes(struct slice a, struct slice b)
{
    size_t both = a.n < b.n ? a.n : b.n;
    int order = both == 0 ? 0 : memcmp(a.p, b.p, both);
    return order != 0 ? order : slice_cmp(a, b);
}

bool slice_ieq(struct slice a, struct slice b); /* ASCII case does not matter */
bool slice_starts(struct slice s, struct slice prefix);
bool slice_ends(struct slice s, struct slice suffix);

/* Writes s into out for an error or log text: at most `most` bytes of it, what is not printable ASCII (CR and LF
 * too) as '?', then "..." where it was cut. out holds size bytes, at least 4, and is always terminated. Returns out. */
char *slice_show(struct slice s, size_t most, char *out, size_t size);

#endif
