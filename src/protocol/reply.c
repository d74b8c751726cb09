/* protocol/reply.c - see reply.h. Source of the shapes: redis-doc, "RESP protocol spec". */
#include "protocol/reply.h"

#include "base/outlet.h"

#include <stdarg.h>
#include <stdio.h>

void reply_simple(struct buf *out, const char *text)
{
    buf_put_char(out, '+');
    buf_put_slice(out, slice_str(text));
    BUF_LIT(out, "\r\n");
}

bool reply_error_slice(struct buf *out, struct slice text)
{
    size_t n = text.n < REPLY_ERROR_MAX ? text.n : REPLY_ERROR_MAX;
    char *p = buf_reserve(out, n + 3);
    *p++ = '-';
    for (size_t i = 0; i < n; i++)
        *p++ = text.p[i] == '\r' || text.p[i] == '\n' ? ' ' : text.p[i];
    *p++ = '\r';
    *p = '\n';
    out->n += n + 3;
    return false;
}

bool reply_error(struct buf *out, const char *text)
{
    return reply_error_slice(out, slice_str(text));
}

bool reply_errorf(struct buf *out, const char *fmt, ...)
{
    char text[REPLY_ERROR_MAX + 1];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return reply_error(out, text);
}

void reply_int(struct buf *out, int64_t v)
{
    put_head(out, ':', v);
}

void reply_bulk(struct buf *out, struct slice bytes)
{
    put_bulk(out, bytes);
}

void reply_bulk_str(struct buf *out, const char *text)
{
    reply_bulk(out, slice_str(text));
}

void reply_bulk_int(struct buf *out, int64_t v)
{
    char digits[21];
    reply_bulk(out, slice_of(digits, num_write(v, digits)));
}

void reply_verbatim(struct buf *out, int resp, struct slice text)
{
    if (resp == 2) {
        reply_bulk(out, text);
        return;
    }
    put_head(out, '=', (int64_t)text.n + 4);
    BUF_LIT(out, "txt:");
    buf_put_slice(out, text);
    BUF_LIT(out, "\r\n");
}

void reply_null(struct buf *out, int resp)
{
    buf_put_slice(out, resp == 2 ? SLICE("$-1\r\n") : SLICE("_\r\n"));
}

void reply_array(struct buf *out, size_t n)
{
    put_head(out, '*', (int64_t)n);
}

void reply_set(struct buf *out, int resp, size_t n)
{
    put_head(out, resp == 2 ? '*' : '~', (int64_t)n);
}

void reply_map(struct buf *out, int resp, size_t pairs)
{
    if (resp == 2)
        put_head(out, '*', (int64_t)(2 * pairs));
    else
        put_head(out, '%', (int64_t)pairs);
}

void reply_push(struct buf *out, size_t n)
{
    put_head(out, '>', (int64_t)n);
}
