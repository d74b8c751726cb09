/* protocol/inline.c - see inline.h. */
#include "protocol/inline.h"

struct inline_reader {
    const char *p, *end;
    struct buf *out; /* has room for the whole line: words only shrink */
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static void inline_put(struct inline_reader *in, char c)
{
    in->out->p[in->out->n++] = c;
}

static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* in->p points to a backslash that is not the last byte. */
static void take_escape(struct inline_reader *in)
{
    if (in->end - in->p >= 4 && in->p[1] == 'x') {
        int high = hex_digit(in->p[2]), low = hex_digit(in->p[3]);
        if (high >= 0 && low >= 0) {
            inline_put(in, (char)(high * 16 + low));
            in->p += 4;
            return;
        }
    }
    inline_put(in, escaped(in->p[1]));
    in->p += 2;
}

static bool take_double_quoted(struct inline_reader *in)
{
    for (in->p++; in->p < in->end && *in->p != '"';) {
        if (*in->p == '\\' && in->end - in->p >= 2)
            take_escape(in);
        else
            inline_put(in, *in->p++);
    }
    return in->p++ < in->end;
}

static bool take_single_quoted(struct inline_reader *in)
{
    for (in->p++; in->p < in->end && *in->p != '\'';) {
        if (*in->p == '\\' && in->end - in->p >= 2 && in->p[1] == '\'') in->p++;
        inline_put(in, *in->p++);
    }
    return in->p++ < in->end;
}

static bool take_word(struct inline_reader *in)
{
    while (in->p < in->end && memchr(" \n\r\t", *in->p, 4) == NULL) {
        if (*in->p != '"' && *in->p != '\'') {
            inline_put(in, *in->p++);
            continue;
        }
        if (!(*in->p == '"' ? take_double_quoted(in) : take_single_quoted(in))) return false;
        return in->p == in->end || is_blank(*in->p);
    }
    return true;
}

enum parsed inline_split(struct request *r, struct slice line)
{
    buf_reset(&r->unquoted);
    buf_reserve(&r->unquoted, line.n + 1);
    struct inline_reader in = {line.p, line.p + line.n, &r->unquoted};
    for (r->args_n = 0;; r->args_n++) {
        while (in.p < in.end && is_blank(*in.p))
            in.p++;
        if (in.p == in.end) return PARSED_OK;
        if (r->args_n == r->limits.args_max)
            return request_fail(r, PARSED_OVERSIZE, "ERR Protocol error: too many arguments");
        size_t at = in.out->n;
        if (!take_word(&in))
            return request_fail(r, PARSED_INVALID, "ERR Protocol error: unbalanced quotes in request");
        r->args[r->args_n] = slice_of(in.out->p + at, in.out->n - at);
    }
}
