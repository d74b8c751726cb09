/* JSON: commas, escapes, and bytes that are no UTF-8. */
#include "lib/unit.h"

#include "base/json.h"

static void written(struct buf *out, const char *expected)
{
    buf_put_char(out, '\0');
    assert_string_equal(out->p, expected);
    buf_free(out);
}

UNIT(test_shapes)
{
    struct buf out = {0};
    struct json j = {.out = &out};
    json_open(&j, NULL, '{');
    json_int(&j, "least", INT64_MIN);
    json_open(&j, "list", '[');
    json_null(&j, NULL);
    json_bool(&j, NULL, true);
    json_open(&j, NULL, '{');
    json_close(&j, '}');
    json_digits(&j, NULL, SLICE("123456789012345678901234567890"));
    json_close(&j, ']');
    json_text(&j, "last", "x");
    json_close(&j, '}');
    written(&out, "{\"least\":-9223372036854775808,\"list\":[null,true,{},123456789012345678901234567890],"
                  "\"last\":\"x\"}");
}

static void text_is(struct slice text, const char *expected)
{
    struct buf out = {0};
    struct json j = {.out = &out};
    json_slice(&j, NULL, text);
    written(&out, expected);
}

UNIT(test_texts)
{
    text_is(SLICE("a\"b\\c\n\x01\x7f"), "\"a\\\"b\\\\c\\u000a\\u0001\\u007f\"");
    text_is(SLICE("a\0b"), "\"a\\u0000b\"");
    text_is(SLICE("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
    text_is(slice_of(NULL, 0), "\"\"");
}

#define BAD "\xEF\xBF\xBD"
UNIT(test_no_utf8)
{
    text_is(SLICE("\xFF"), "\"" BAD "\"");
    text_is(SLICE("\xC3"), "\"" BAD "\"");                           /* cut */
    text_is(SLICE("\xC0\xAF"), "\"" BAD BAD "\"");                   /* overlong */
    text_is(SLICE("\xE0\x80\xAF"), "\"" BAD BAD BAD "\"");           /* overlong */
    text_is(SLICE("\xED\xA0\x80"), "\"" BAD BAD BAD "\"");           /* a surrogate */
    text_is(SLICE("\xF4\x90\x80\x80x"), "\"" BAD BAD BAD BAD "x\""); /* past U+10FFFF */
    text_is(SLICE("\xE2\x82z"), "\"" BAD BAD "z\"");
}
