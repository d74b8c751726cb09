/* redis/resp.c - RESP2 requests, straight into the buffer. */
#include "redis/resp.h"
#include "base/resp.h"

void resp_array(struct buf *out, size_t n)
{
    put_head(out, '*', (int64_t)n);
}

void resp_slice(struct buf *out, struct slice s)
{
    put_bulk(out, s);
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
