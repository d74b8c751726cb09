/* protocol/request.c - see request.h. Refusals follow redis 7.0: src/networking.c, processMultibulkBuffer and
 * processInlineBuffer. Two differences are deliberate: limits are lower, and a NUL byte in a header line or an inline
 * request is a byte like any other. */
#include "protocol/request.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"

#include <stdio.h>

/* The longest useful command is an increment with names of at most 512 bytes. These bounds are far above that, so no
 * option changes them. They bound what a client can make tallyd hold before tallyd looks at it. */
const struct request_limits request_limits_default = {
    .args_max = 1024,
    .bulk_max = 64 * 1024,
    .line_max = 64 * 1024,
    .bytes_max = 1 << 20,
};

const struct request_limits request_limits_stranger = {
    .args_max = 10,
    .bulk_max = 16 * 1024,
    .line_max = 64 * 1024,
    .bytes_max = 256 * 1024,
    .stranger = true,
};

void request_init(struct request *r, const struct request_limits *limits)
{
    PRE(limits->args_max > 0);
    *r = (struct request){.limits = *limits};
    r->args = heap_alloc(limits->args_max * sizeof(*r->args));
}

void request_close(struct request *r)
{
    heap_free(r->args);
    buf_free(&r->unquoted);
    *r = (struct request){0};
}

static enum parsed request_fail(struct request *r, enum parsed how, const char *text)
{
    r->error = text;
    return how;
}

/* "<type>digits\r\n" with one to three digits, as nearly every header is. False: the slow way decides. */
static inline bool header_short(const char *p, const char *end, uint32_t *value, const char **after)
{
    if (end - p < 7) return false;
    uint32_t v = (unsigned char)p[1] - (uint32_t)'0';
    if (v > 9) return false;
    const char *q = p + 2;
    for (; *q != '\r'; q++) {
        uint32_t digit = (unsigned char)*q - (uint32_t)'0';
        if (digit > 9 || v == 0 || q == p + 4) return false;
        v = v * 10 + digit;
    }
    *value = v;
    *after = q + 2;
    return true;
}

/* The line at p with its type byte into *line; the byte after its CRLF into *after. As in Redis the byte after CR may
 * be any. */
static enum parsed header_line(struct request *r, const char *p, const char *end, const char *too_big,
                               struct slice *line, const char **after)
{
    size_t here = (size_t)(end - p), most = (size_t)r->limits.line_max + 1;
    const char *cr = memchr(p, '\r', here < most ? here : most);
    if (cr == NULL) return here < most ? PARSED_UNFIN : request_fail(r, PARSED_OVERSIZE, too_big);
    if (cr + 1 == end) return PARSED_UNFIN;
    *line = slice_of(p, (size_t)(cr - p));
    *after = cr + 2;
    return PARSED_OK;
}

/* `*<n>`: *size is 0 for a request without arguments. */
static enum parsed size_read(struct request *r, const char *p, const char *end, uint32_t *size,
                             const char **after)
{
    if (header_short(p, end, size, after) && *size <= r->limits.args_max) return PARSED_OK;
    struct slice line;
    enum parsed got = header_line(r, p, end, "ERR Protocol error: too big mbulk count string", &line, after);
    if (got != PARSED_OK) return got;
    int64_t n;
    bool is_number = num_parse(slice_of(line.p + 1, line.n - 1), &n);
    if (is_number && n > r->limits.args_max && r->limits.stranger)
        return request_fail(r, PARSED_INVALID, "ERR Protocol error: unauthenticated multibulk length");
    if (!is_number || n > r->limits.args_max)
        return request_fail(r, PARSED_INVALID, "ERR Protocol error: invalid multibulk length");
    *size = n > 0 ? (uint32_t)n : 0;
    return PARSED_OK;
}

/* `$<n>` that is not short. */
static enum parsed bulk_read(struct request *r, const char *p, const char *end, uint32_t *bytes,
                             const char **after)
{
    struct slice line;
    enum parsed got = header_line(r, p, end, "ERR Protocol error: too big bulk count string", &line, after);
    if (got != PARSED_OK) return got;
    if (*p != '$') {
        snprintf(r->error_text, sizeof(r->error_text), "ERR Protocol error: expected '$', got '%c'", *p);
        return request_fail(r, PARSED_INVALID, r->error_text);
    }
    int64_t n;
    bool is_number = num_parse(slice_of(line.p + 1, line.n - 1), &n);
    if (is_number && n > r->limits.bulk_max && r->limits.stranger)
        return request_fail(r, PARSED_INVALID, "ERR Protocol error: unauthenticated bulk length");
    if (!is_number || n < 0 || n > r->limits.bulk_max)
        return request_fail(r, PARSED_INVALID, "ERR Protocol error: invalid bulk length");
    *bytes = (uint32_t)n;
    return PARSED_OK;
}

/* The p->left arguments from p->at on. */
static enum parsed args_read(struct request *r, struct parser *p, struct slice in)
{
    const char *at = in.p + p->at, *end = in.p + in.n;
    struct slice *arg = r->args + (p->size - p->left);
    for (; p->left > 0; p->left--) {
        uint32_t n;
        const char *body;
        if (end - at < 7 || *at != '$' || !header_short(at, end, &n, &body) || n > r->limits.bulk_max) {
            enum parsed got = bulk_read(r, at, end, &n, &body);
            if (got != PARSED_OK) return got;
        }
        if ((size_t)(body - in.p) + n + 2 > r->limits.bytes_max)
            return request_fail(r, PARSED_OVERSIZE, "ERR Protocol error: too big request");
        if ((size_t)(end - body) < (size_t)n + 2) return PARSED_UNFIN;
        *arg++ = slice_of(body, n);
        at = body + n + 2;
        p->at = (uint32_t)(at - in.p);
    }
    r->args_n = p->size;
    r->raw = slice_of(in.p, p->at);
    *p = (struct parser){0};
    return PARSED_OK;
}

static enum parsed multibulk_start(struct request *r, struct parser *p, struct slice in)
{
    uint32_t size;
    const char *after;
    enum parsed got = size_read(r, in.p, in.p + in.n, &size, &after);
    if (got != PARSED_OK) return got;
    *p = (struct parser){.at = (uint32_t)(after - in.p), .left = size, .size = size};
    return args_read(r, p, in);
}

/* --- the words of an inline request --- */

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

/* Splits a line (without its end) into r->args, as Redis' sdssplitargs does: blanks between words, "..." with \n \r \t
 * \b \a \xHH, '...' with \', a closing quote only before a blank or the end. */
static enum parsed inline_split(struct request *r, struct slice line)
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

static enum parsed inline_read(struct request *r, struct slice in)
{
    size_t most = (size_t)r->limits.line_max + 1;
    const char *lf = memchr(in.p, '\n', in.n < most ? in.n : most);
    if (lf == NULL)
        return in.n < most ? PARSED_UNFIN
                           : request_fail(r, PARSED_OVERSIZE, "ERR Protocol error: too big inline request");
    size_t n = (size_t)(lf - in.p);
    r->raw = slice_of(in.p, n + 1);
    if (n > 0 && lf[-1] == '\r') n--;
    return inline_split(r, slice_of(in.p, n));
}

enum parsed request_parse(struct request *r, struct parser *p, struct slice in)
{
    r->error = NULL;
    if (in.n == 0) return PARSED_UNFIN;
    if (p->left > 0) { /* r serves many connections and has forgotten the first arguments: */
        PRE(in.n >= p->at);
        enum parsed got = args_read(r, p, in);
        if (got != PARSED_OK) return got; /* once the last one is here, all are read again */
    }
    return in.p[0] == '*' ? multibulk_start(r, p, in) : inline_read(r, in);
}
