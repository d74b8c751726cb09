/* base/slice.h - runs of bytes, numbers in them, and buffers. A slice does not own its bytes; there may be no NUL after
 * them. */
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
/* The same in memory of the block that it stands in; most is a constant. */
#define SLICE_SHOW(s, most) slice_show(s, most, (char[(most) + 4]){0}, (most) + 4)

/* Integers as Redis reads and writes them, and hex. */

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
int hex_digit(char c);                                        /* of either case; -1: none */
bool hex_read(struct slice digits, uint8_t *bytes, size_t n); /* exactly 2n digits, lower case */

/* A byte buffer that grows. Owns p; buf_free gives it back. Never fails (base/heap.h aborts). */

struct buf {
    char *p;
    size_t n;   /* bytes used */
    size_t cap; /* bytes allocated */
};

void buf_free(struct buf *b);              /* back to empty, memory returned */
void buf_grow(struct buf *b, size_t more); /* slow half of buf_reserve */
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_int(struct buf *b, int64_t v); /* decimal digits */
void buf_drop(struct buf *b, size_t n); /* forgets the first n bytes, moves the rest to the front */
void buf_trim(struct buf *b);           /* frees what is allocated and not used */

static inline void buf_reset(struct buf *b)
{
    b->n = 0;
}
static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->p, b->n};
}

/* Room for `more` bytes at the end; returns where they go. The caller adds to b->n. */
static inline char *buf_reserve(struct buf *b, size_t more)
{
    if (b->cap - b->n < more) buf_grow(b, more);
    return b->p + b->n;
}

__attribute__((always_inline)) static inline void buf_put(struct buf *b, const char *p, size_t n)
{
    if (n == 0) return;
    memcpy(buf_reserve(b, n), p, n);
    b->n += n;
}

__attribute__((always_inline)) static inline void buf_put_slice(struct buf *b, struct slice s)
{
    buf_put(b, s.p, s.n);
}
static inline void buf_put_char(struct buf *b, char c)
{
    *buf_reserve(b, 1) = c, b->n++;
}
#define BUF_LIT(b, literal) buf_put((b), (literal), sizeof(literal) - 1)

#endif
