/* Replies: the bytes of each shape in RESP2 and RESP3. */
#include "lib/unit.h"

#include "protocol/reply.h"

static struct buf out;

static void expect(const char *bytes)
{
    assert_slice(buf_slice(&out), bytes);
    buf_free(&out);
}

UNIT(same_in_both)
{
    reply_simple(&out, "OK");
    reply_int(&out, -12);
    reply_int(&out, INT64_MIN);
    reply_bulk(&out, SLICE("a\r\nb"));
    reply_bulk_str(&out, "");
    reply_bulk_int(&out, 1234);
    reply_array(&out, 3);
    expect("+OK\r\n:-12\r\n:-9223372036854775808\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$4\r\n1234\r\n*3\r\n");
}

UNIT(differs)
{
    reply_null(&out, 2);
    reply_map(&out, 2, 2);
    reply_set(&out, 2, 2);
    reply_verbatim(&out, 2, SLICE("abc"));
    expect("$-1\r\n*4\r\n*2\r\n$3\r\nabc\r\n");
    reply_null(&out, 3);
    reply_map(&out, 3, 2);
    reply_set(&out, 3, 2);
    reply_verbatim(&out, 3, SLICE("abc"));
    expect("_\r\n%2\r\n~2\r\n=7\r\ntxt:abc\r\n");
}

UNIT(errors_are_one_short_line)
{
    reply_error(&out, "ERR a\r\nb");
    reply_errorf(&out, "ERR %d%s", 7, "\n");
    expect("-ERR a  b\r\n-ERR 7 \r\n");
    char text[2000];
    memset(text, 'x', sizeof(text));
    reply_error_slice(&out, slice_of(text, sizeof(text)));
    assert_int_equal(out.n, REPLY_ERROR_MAX + 3);
    assert_memory_equal(out.p + out.n - 2, "\r\n", 2);
    buf_free(&out);
    text[sizeof(text) - 1] = '\0';
    reply_errorf(&out, "%s", text);
    assert_int_equal(out.n, REPLY_ERROR_MAX + 3);
    buf_free(&out);
}
