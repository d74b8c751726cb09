/* base/buf.h - a byte buffer that grows. Owns p; buf_free gives it back. Never fails (base/heap.h aborts). */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/slice.h"

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
