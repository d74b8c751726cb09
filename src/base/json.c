/* base/json.c - see json.h; RFC 8259. */
#include "base/json.h"

static void value_begin(struct json *j, const char *key)
{
    if (j->comma) buf_put_char(j->out, ',');
    j->comma = true;
    if (key == NULL) return;
    json_slice(&(struct json){.out = j->out}, NULL, slice_str(key));
    buf_put_char(j->out, ':');
}

void json_open(struct json *j, const char *key, char bracket)
{
    value_begin(j, key);
    buf_put_char(j->out, bracket);
    j->comma = false;
}

void json_close(struct json *j, char bracket)
{
    buf_put_char(j->out, bracket);
    j->comma = true;
}

/* How many bytes the character at s.p[at] has; 0: not a character (RFC 3629: no overlong forms, no surrogates). */
static size_t character_bytes(struct slice s, size_t at)
{
    uint8_t a = (uint8_t)s.p[at], b = at + 1 < s.n ? (uint8_t)s.p[at + 1] : 0;
    size_t n = a < 0x80                ? 1
               : a >= 0xC2 && a < 0xE0 ? 2
               : a >= 0xE0 && a < 0xF0 ? 3
               : a >= 0xF0 && a < 0xF5 ? 4
                                       : 0;
    for (size_t i = 1; i < n; i++)
        if (at + i >= s.n || ((uint8_t)s.p[at + i] & 0xC0) != 0x80) return 0;
    bool overlong = (a == 0xE0 && b < 0xA0) || (a == 0xF0 && b < 0x90);
    bool beyond = (a == 0xED && b > 0x9F) || (a == 0xF4 && b > 0x8F);
    return overlong || beyond ? 0 : n;
}

bool text_is_utf8(struct slice s)
{
    size_t at = 0;
    for (size_t n; at < s.n && (n = character_bytes(s, at)) > 0;)
        at += n;
    return at == s.n;
}

void text_put_utf8(struct buf *out, struct slice text)
{
    for (size_t at = 0; at < text.n;) {
        size_t n = character_bytes(text, at);
        if (n == 0) BUF_LIT(out, "\xEF\xBF\xBD");
        buf_put(out, text.p + at, n);
        at += n == 0 ? 1 : n;
    }
}

static void character_put(struct buf *out, struct slice s, size_t at, size_t n)
{
    char c = s.p[at];
    if (n == 0)
        BUF_LIT(out, "\xEF\xBF\xBD");
    else if (c == '"' || c == '\\')
        buf_put_char(out, '\\'), buf_put_char(out, c);
    else if ((uint8_t)c < 0x20 || c == 0x7F)
        buf_printf(out, "\\u%04x", (unsigned)c);
    else
        buf_put(out, s.p + at, n);
}

void json_slice(struct json *j, const char *key, struct slice text)
{
    value_begin(j, key);
    buf_put_char(j->out, '"');
    for (size_t at = 0; at < text.n;) {
        size_t n = character_bytes(text, at);
        character_put(j->out, text, at, n);
        at += n == 0 ? 1 : n;
    }
    buf_put_char(j->out, '"');
}

void json_slice_or_null(struct json *j, const char *key, struct slice text)
{
    if (text.p == NULL)
        json_null(j, key);
    else
        json_slice(j, key, text);
}

void json_text(struct json *j, const char *key, const char *text)
{
    json_slice(j, key, slice_str(text));
}

void json_int(struct json *j, const char *key, int64_t v)
{
    value_begin(j, key);
    buf_int(j->out, v);
}

void json_bool(struct json *j, const char *key, bool v)
{
    json_digits(j, key, v ? SLICE("true") : SLICE("false"));
}

void json_null(struct json *j, const char *key)
{
    json_digits(j, key, SLICE("null"));
}

void json_digits(struct json *j, const char *key, struct slice number)
{
    value_begin(j, key);
    buf_put_slice(j->out, number);
}
