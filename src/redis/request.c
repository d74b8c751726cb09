/* redis/request.c - RESP2 requests, straight into the buffer. */
#include "redis/request.h"
#include "base/outlet.h"

void request_array(struct buf *out, size_t n)
{
    put_head(out, '*', (int64_t)n);
}

void request_slice(struct buf *out, struct slice s)
{
    put_bulk(out, s);
}

void request_key(struct buf *out, struct slice tag, struct slice name)
{
    put_head(out, '$', (int64_t)(tag.n + name.n));
    buf_put_slice(out, tag);
    buf_put_slice(out, name);
    BUF_LIT(out, "\r\n");
}

void request_int(struct buf *out, int64_t v)
{
    char digits[21];
    request_slice(out, slice_of(digits, num_write(v, digits)));
}

void request_text(struct buf *out, const char *text)
{
    request_slice(out, slice_str(text));
}

void request_words(struct buf *out, const char *words)
{
    size_t n = 1;
    for (const char *p = words; *p != '\0'; p++)
        n += *p == ' ';
    request_array(out, n);
    for (const char *p = words; n > 0; n--) {
        size_t len = strcspn(p, " ");
        request_slice(out, slice_of(p, len));
        p += len + 1;
    }
}

void request_eval(struct buf *out, struct slice script, size_t keys_n, size_t args_n)
{
    request_array(out, 3 + keys_n + args_n);
    REQUEST_LIT(out, "EVAL");
    request_slice(out, script);
    request_int(out, (int64_t)keys_n);
}
