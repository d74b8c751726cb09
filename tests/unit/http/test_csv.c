/* CSV: cells of RFC 4180, formulas made harmless, bytes that are no text. */
#include "lib/unit.h"

#include "http/exchange.h"

static void expect(const char *text, const char *cell)
{
    struct buf out = {0};
    struct csv c = {.out = &out};
    csv_text(&c, slice_str(text));
    csv_end(&c);
    buf_put_char(&out, '\0');
    size_t n = strlen(cell);
    assert_memory_equal(out.p, cell, n);
    assert_string_equal(out.p + n, "\r\n");
    buf_free(&out);
}

UNIT(texts)
{
    expect("", "");
    expect("red shoes", "red shoes");
    expect("a,b", "\"a,b\"");
    expect("5\" nail", "\"5\"\" nail\"");
    expect("two\r\nlines", "\"two\r\nlines\"");
    expect("Gr\xc3\xbcn", "Gr\xc3\xbcn");
    expect("a\xff\x01\x7f", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

UNIT(formulas)
{
    expect("=1+1", "'=1+1");
    expect("+1", "'+1");
    expect("-1", "'-1");
    expect("@SUM(A1)", "'@SUM(A1)");
    expect("\t=1", "'\t=1");
    expect("\r=1", "\"'\r=1\"");
    expect("=cmd|' /C calc'!A0, \"x\"", "\"'=cmd|' /C calc'!A0, \"\"x\"\"\"");
    expect("1-1", "1-1");
}

UNIT(rows)
{
    struct buf out = {0};
    struct csv c = {.out = &out};
    csv_text(&c, SLICE("item"));
    csv_int(&c, -5);
    csv_figure(&c, (struct figure){true, INT64_MIN});
    csv_figure(&c, (struct figure){false, 7});
    csv_end(&c);
    csv_int(&c, 1);
    csv_end(&c);
    assert_slice(buf_slice(&out), "item,-5,-9223372036854775808,\r\n1\r\n");
    buf_free(&out);
}
