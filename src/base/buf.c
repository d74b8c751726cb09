/* base/buf.c - see buf.h. Capacity doubles, so n single bytes cost O(n) in all. */
#include "base/buf.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>

#define BUF_CAP_FIRST 64

void buf_free(struct buf *b)
{
    heap_free(b->p);
    *b = (struct buf){0};
}

void buf_grow(struct buf *b, size_t more)
{
    PRE(more <= SIZE_MAX / 2 - b->n);
    size_t cap = b->cap > 0 ? b->cap : BUF_CAP_FIRST;
    while (cap - b->n < more)
        cap *= 2;
    b->p = heap_realloc(b->p, cap);
    b->cap = cap;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    INVARIANT(n >= 0);
    (void)vsnprintf(buf_reserve(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    b->n += (size_t)n;
}

void buf_int(struct buf *b, int64_t v)
{
    b->n += num_write(v, buf_reserve(b, 21));
}

void buf_drop(struct buf *b, size_t n)
{
    PRE(n <= b->n);
    if (n == 0) return;
    b->n -= n;
    memmove(b->p, b->p + n, b->n);
}

void buf_trim(struct buf *b)
{
    if (b->n == 0) {
        buf_free(b);
    } else if (b->n < b->cap) {
        b->p = heap_realloc(b->p, b->n);
        b->cap = b->n;
    }
}
