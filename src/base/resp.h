/* base/resp.h - the two shapes of RESP that requests, frames and replies share. Each appends to out. */
#ifndef BASE_RESP_H
#define BASE_RESP_H

#include "base/buf.h"
#include "base/num.h"

#define HEAD_BYTES 24

/* Type, digits, CR LF, at most HEAD_BYTES; returns how many. */
static inline size_t head_write(char type, int64_t v, char *p)
{
    p[0] = type;
    size_t n = 1 + num_write(v, p + 1);
    p[n] = '\r';
    p[n + 1] = '\n';
    return n + 2;
}

static inline void put_head(struct buf *out, char type, int64_t v)
{
    out->n += head_write(type, v, buf_reserve(out, HEAD_BYTES));
}

static inline void put_bulk(struct buf *out, struct slice s) /* $n CR LF, n bytes, CR LF */
{
    buf_reserve(out, 24 + s.n + 2); /* once for all */
    put_head(out, '$', (int64_t)s.n);
    buf_put_slice(out, s);
    BUF_LIT(out, "\r\n");
}

#endif
