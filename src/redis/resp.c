/* redis/resp.c - RESP2 requests, straight into the buffer. */
#include "redis/resp.h"
#include "base/num.h"

#define HEAD_MAX 24 /* a mark, 20 digits, CR LF */

static size_t head_write(char *p, char mark, size_t n)
{
    p[0] = mark;
    size_t at = 1 + num_write((int64_t)n, p + 1);
    p[at] = '\r';
    p[at + 1] = '\n';
    return at + 2;
}

void resp_array(struct buf *out, size_t n)
{
    out->n += head_write(buf_reserve(out, HEAD_MAX), '*', n);
}

void resp_slice(struct buf *out, struct slice s)
{
    char *p = buf_reserve(out, HEAD_MAX + s.n + 2);
    size_t at = head_write(p, '$', s.n);
    if (s.n > 0) memcpy(p + at, s.p, s.n);
    p[at + s.n] = '\r';
    p[at + s.n + 1] = '\n';
    out->n += at + s.n + 2;
}

void resp_int(struct buf *out, int64_t v)
{
    char digits[21];
    resp_slice(out, slice_of(digits, num_write(v, digits)));
}

void resp_text(struct buf *out, const char *text)
{
    resp_slice(out, slice_str(text));
}

void resp_words(struct buf *out, const char *words)
{
    size_t n = 1;
    for (const char *p = words; *p != '\0'; p++)
        n += *p == ' ';
    resp_array(out, n);
    for (const char *p = words; n > 0; n--) {
        size_t len = strcspn(p, " ");
        resp_slice(out, slice_of(p, len));
        p += len + 1;
    }
}

void resp_eval(struct buf *out, struct slice script, size_t keys_n, size_t args_n)
{
    resp_array(out, 3 + keys_n + args_n);
    RESP_LIT(out, "EVAL");
    resp_slice(out, script);
    resp_int(out, (int64_t)keys_n);
}
