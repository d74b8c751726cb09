/* Requests: the wire vectors measured on Redis 7.0, and that the split of the bytes never matters. */
#include "lib/dice.h"
#include "lib/unit.h"

#include "base/heap.h"
#include "protocol/reply.h"
#include "protocol/request.h"

/* What became of some input: each request as its arguments, then how it ended; one text to compare. */
static void tell_request(struct buf *story, const struct request *r)
{
    for (uint32_t i = 0; i < r->args_n; i++) {
        BUF_LIT(story, "<");
        buf_put_slice(story, r->args[i]);
        BUF_LIT(story, ">");
    }
    BUF_LIT(story, ";");
}

static void tell_end(struct buf *story, const struct request *r, enum parsed got)
{
    if (got == PARSED_UNFIN) return;
    buf_put_slice(story, got == PARSED_OVERSIZE ? SLICE("oversize ") : SLICE("invalid "));
    reply_error(story, r->error);
}

struct feeder {
    struct request request;
    struct parser parser;
    size_t used; /* of the input */
    bool ended;
    struct buf story;
};

static void feeder_open(struct feeder *f, const struct request_limits *limits)
{
    *f = (struct feeder){0};
    request_init(&f->request, limits != NULL ? limits : &request_limits_default);
}

static void feeder_close(struct feeder *f)
{
    request_close(&f->request);
    buf_free(&f->story);
}

/* in is all bytes that have come so far. It is copied to a block of its exact size: a sanitizer sees any read past its end. */
static void feed(struct feeder *f, struct slice in)
{
    char *block = heap_alloc(in.n - f->used);
    memcpy(block, in.p + f->used, in.n - f->used);
    struct slice rest = {block, in.n - f->used};
    while (!f->ended) {
        enum parsed got = request_parse(&f->request, &f->parser, rest);
        f->ended = got == PARSED_INVALID || got == PARSED_OVERSIZE;
        if (got != PARSED_OK) {
            tell_end(&f->story, &f->request, got);
            break;
        }
        tell_request(&f->story, &f->request);
        assert_true(f->request.raw.n > 0 && f->request.raw.n <= rest.n);
        f->used += f->request.raw.n;
        rest = slice_of(rest.p + f->request.raw.n, rest.n - f->request.raw.n);
    }
    heap_free(block);
}

static struct buf story_of(struct slice in, size_t cut)
{
    struct feeder f;
    feeder_open(&f, NULL);
    if (cut > 0) feed(&f, slice_of(in.p, cut));
    feed(&f, in);
    struct buf story = f.story;
    f.story = (struct buf){0};
    feeder_close(&f);
    return story;
}

static void expect(struct slice in, const char *told)
{
    struct buf story = story_of(in, 0);
    buf_put_char(&story, '\0');
    assert_string_equal(story.p, told);
    buf_free(&story);
}

/* The same with more bytes after it, which must not matter either. */
static void expect_refused(const char *in, const char *told)
{
    struct buf more = {0};
    buf_printf(&more, "%sPING\r\nPING\r\n", in);
    expect(slice_str(in), told);
    expect(buf_slice(&more), told);
    buf_free(&more);
}

#define PROTOCOL "-ERR Protocol error: "

UNIT(takes_multibulk)
{
    expect(SLICE("*1\r\n$4\r\nPING\r\n"), "<PING>;");
    expect(SLICE("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"), "<ECHO><>;");
    expect(SLICE("*4\r\n$7\r\nHINCRBY\r\n$1\r\nk\r\n$1\r\nf\r\n$1\r\n1\r\n*1\r\n$4\r\nPING\r\n"),
           "<HINCRBY><k><f><1>;<PING>;");
    expect(SLICE("*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n"), "<PING>;<PING>;");
    expect(SLICE("*1\r\n$12\r\nPING\r\nPING\r\n\r\n"), "<PING\r\nPING\r\n>;");
    expect(SLICE("*0\r\n*-1\r\n*-10\r\n*1\r\n$4\r\nPING\r\n"), ";;;<PING>;");
    expect(SLICE("*1\rX$4\rXPING\r\n"), "<PING>;");
}

UNIT(takes_inline)
{
    expect(SLICE("PING\r\nPING\n"), "<PING>;<PING>;");
    expect(SLICE("\r\n\n  \r\nPING\r\n"), ";;;<PING>;");
    expect(SLICE("  ECHO \t  hello  \r\n"), "<ECHO><hello>;");
    expect(SLICE("ECHO \"\\x41\\x42 c\" ''\r\n"), "<ECHO><AB c><>;");
    expect(SLICE("ECHO 'a \\'b' 'a\\x'\r\n"), "<ECHO><a 'b><a\\x>;");
    expect(SLICE("ECHO \"a\\n\\t\\r\\b\\a\\\\\\q\\\"\"\r\n"), "<ECHO><a\n\t\r\b\a\\q\">;");
    expect(SLICE("ECHO ab\"c d\" \"\\x4\"\r\n"), "<ECHO><abc d><x4>;");
    expect(SLICE("ECHO \"abc\r\n"), "invalid " PROTOCOL "unbalanced quotes in request\r\n");
    expect(SLICE("ECHO 'abc\r\n"), "invalid " PROTOCOL "unbalanced quotes in request\r\n");
    expect(SLICE("ECHO \"abc\"def\r\n"), "invalid " PROTOCOL "unbalanced quotes in request\r\n");
    expect(SLICE("ECHO 'abc'def\r\n"), "invalid " PROTOCOL "unbalanced quotes in request\r\n");
    expect(SLICE("ECHO \"abc\\\r\n"), "invalid " PROTOCOL "unbalanced quotes in request\r\n");
}

UNIT(refuses_counts)
{
    static const char *const bad[] = {"*\r\n",    "*x\r\n",          "*+1\r\n",
                                      "*01\r\n",  "* 1\r\n",         "*-0\r\n",
                                      "*1x\r\n",  "*2147483648\r\n", "*99999999999999999999999\r\n",
                                      "*1025\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i], "invalid " PROTOCOL "invalid multibulk length\r\n");
}

UNIT(refuses_lengths)
{
    static const char *const bad[] = {"$-1",        "$",   "$+4",    "$04",
                                      "$536870913", "$4x", "$65537", "$-9223372036854775809"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char in[64];
        snprintf(in, sizeof(in), "*1\r\n%s\r\n", bad[i]);
        expect_refused(in, "invalid " PROTOCOL "invalid bulk length\r\n");
    }
    expect_refused("*1\r\n:4\r\n", "invalid " PROTOCOL "expected '$', got ':'\r\n");
    expect_refused("*1\r\n\r\n", "invalid " PROTOCOL "expected '$', got ' '\r\n");
    expect(SLICE("*2\r\n$4\r\nECHO\r\nhello\r\n"), "invalid " PROTOCOL "expected '$', got 'h'\r\n");
}

UNIT(waits_for_the_rest)
{
    static const char *const unfinished[] = {
        "*", "*1", "*1\r", "*1\r\n", "*1\r\n$4\r\nPING", "*1\r\n$4\r\nPING\r", "PING", "*1\r\n:4", "*x"};
    for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++)
        expect(slice_str(unfinished[i]), "");
}

static void too_long(char first, const char *before, const char *told)
{
    struct buf in = {0};
    buf_put_slice(&in, slice_str(before));
    buf_put_char(&in, first);
    for (size_t i = 0; i < 64 * 1024 - 1; i++)
        buf_put_char(&in, '1');
    expect(buf_slice(&in), "");
    buf_put_char(&in, '1');
    expect(buf_slice(&in), told);
    BUF_LIT(&in, "11\r\n");
    expect(buf_slice(&in), told); /* as if the end of the line had not come yet */
    buf_free(&in);
}

UNIT(refuses_long_lines)
{
    too_long('a', "", "oversize " PROTOCOL "too big inline request\r\n");
    too_long('*', "", "oversize " PROTOCOL "too big mbulk count string\r\n");
    too_long('$', "*1\r\n", "oversize " PROTOCOL "too big bulk count string\r\n");
}

UNIT(refuses_large_requests)
{
    struct buf in = {0};
    BUF_LIT(&in, "*17\r\n");
    for (int i = 0; i < 15; i++) {
        BUF_LIT(&in, "$65536\r\n");
        memset(buf_reserve(&in, 65538), 'x', 65538);
        in.n += 65538;
    }
    BUF_LIT(&in, "$65300\r\n");
    expect(buf_slice(&in), "");
    in.n -= 8;
    BUF_LIT(&in, "$65536\r\n");
    expect(buf_slice(&in), "oversize " PROTOCOL "too big request\r\n");
    buf_free(&in);
}

UNIT(takes_as_many_arguments_as_said)
{
    struct request_limits limits = request_limits_default;
    struct feeder f;
    limits.args_max = 3;
    feeder_open(&f, &limits);
    feed(&f, SLICE("a b c\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\na b c d\r\n"));
    buf_put_char(&f.story, '\0');
    assert_string_equal(f.story.p, "<a><b><c>;<a><b><c>;oversize " PROTOCOL "too many arguments\r\n");
    feeder_close(&f);
}

static const char pipeline[] =
    "*4\r\n$7\r\nHINCRBY\r\n$28\r\ns12345:unique_visitors:daily\r\n$8\r\n20140920\r\n$1\r\n1\r\nPING\r\n\r\n*"
    "0\r\n*-1\r\n"
    "ECHO \"a "
    "\\x41\"\n*2\r\n$4\r\necho\r\n$100\r\n0123456789012345678901234567890123456789012345678901234567890123456"
    "789012345678901234567890123\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n$4\r\nPINGxx*2\r\n$"
    "4\r\nECHO\r\nbad\r\nPING\r\n";

UNIT(split_does_not_matter)
{
    struct slice in = {pipeline, sizeof(pipeline) - 1};
    struct buf whole = story_of(in, 0);
    assert_non_null(memmem(whole.p, whole.n, "expected '$', got 'b'", 21));
    for (size_t cut = 1; cut < in.n; cut++) {
        struct buf story = story_of(in, cut);
        assert_true(slice_eq(buf_slice(&story), buf_slice(&whole)));
        buf_free(&story);
    }
    struct feeder f;
    feeder_open(&f, NULL);
    for (size_t n = 1; n <= in.n && !f.ended; n++)
        feed(&f, slice_of(in.p, n));
    assert_true(slice_eq(buf_slice(&f.story), buf_slice(&whole)));
    feeder_close(&f);
    buf_free(&whole);
}

UNIT(one_request_serves_many_parsers)
{
    struct request r;
    struct parser a = {0}, b = {0};
    request_init(&r, &request_limits_default);
    struct slice in = SLICE("*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n");
    assert_int_equal(request_parse(&r, &a, slice_of(in.p, 20)), PARSED_UNFIN);
    assert_int_equal(request_parse(&r, &b, SLICE("*2\r\n$3\r\nfoo\r\n$3\r\nbar\r\n")), PARSED_OK);
    assert_int_equal(request_parse(&r, &a, in), PARSED_OK);
    assert_slice(r.args[0], "ECHO");
    assert_slice(r.args[1], "hello");
    assert_int_equal(request_parse(&r, &a, in), PARSED_OK); /* the same bytes once more, as after parking */
    assert_slice(r.args[1], "hello");
    request_close(&r);
}

/* A request of 1,000 arguments that comes byte by byte: its whole arguments are not read again. */
UNIT(dribble_is_cheap)
{
    struct buf in = {0};
    BUF_LIT(&in, "*1000\r\n");
    for (int i = 0; i < 1000; i++)
        BUF_LIT(&in, "$3\r\nabc\r\n");
    struct request r;
    struct parser p = {0};
    request_init(&r, &request_limits_default);
    for (size_t n = 1; n < in.n; n++) {
        assert_int_equal(request_parse(&r, &p, slice_of(in.p, n)), PARSED_UNFIN);
        if (n > 20) assert_true(n - p.at < 10);
    }
    assert_int_equal(request_parse(&r, &p, buf_slice(&in)), PARSED_OK);
    assert_int_equal(r.args_n, 1000);
    request_close(&r);
    buf_free(&in);
}

/* Random bytes that look like RESP often enough: no crash, and the same story however they are cut. */
UNIT(random_bytes)
{
    static const char *const pieces[] = {
        "*",       "$",  "\r\n", "\r",   "\n", "1",      "2",      "4",
        "PING",    "\"", "'",    "\\x4", " ",  "*2\r\n", "$4\r\n", "*1\r\n$4\r\nPING\r\n",
        "*-1\r\n", ":",  "x",    "\\"};
    struct dice d = dice_new("random_bytes");
    for (int round = 0; round < 20000; round++) {
        struct buf in = {0};
        for (size_t n = 1 + dice_below(&d, 12); n > 0; n--) {
            if (dice_below(&d, 10) == 0)
                buf_put_char(&in, (char)dice_below(&d, 256));
            else
                buf_put_slice(&in, slice_str(pieces[dice_below(&d, sizeof(pieces) / sizeof(pieces[0]))]));
        }
        struct buf whole = story_of(buf_slice(&in), 0),
                   cut = story_of(buf_slice(&in), dice_below(&d, in.n + 1));
        assert_true(slice_eq(buf_slice(&whole), buf_slice(&cut)));
        buf_free(&whole);
        buf_free(&cut);
        buf_free(&in);
    }
}
