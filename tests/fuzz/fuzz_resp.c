/* fuzz_resp.c - RESP bytes to requests (protocol/). What is parsed depends on the bytes alone: every way of cutting
 * them gives the same requests, the same error, the same number of bytes used up, and nothing is read that has not come.
 * And the fast parser for hits (protocol/hit.c) agrees with the general parser on every request. */
#include "fuzz.h"

#include "protocol/request.h"

#define PIECES_GROW SIZE_MAX /* of one byte at first, and longer and longer ones */
#define CUTS_ALL 48          /* an input of no more bytes is cut at each of them, */
#define CUTS 6               /* a longer one in this many places, set by its length */

static const struct request_limits small = {.args_max = 5, .bulk_max = 20, .line_max = 24, .bytes_max = 60};
static struct request request_of_default, request_of_small;

struct stream {
    struct request *r;
    struct parser parser;
    const char *bytes;
    size_t n, used;
    bool ended;
    struct buf said; /* what was parsed, as text */
};

/* Plain bytes: this is most of the work. */
static void said_number(struct buf *out, uint64_t v)
{
    buf_put(out, (const char *)&v, sizeof v);
}

static void said_request(struct buf *out, const struct request *r)
{
    said_number(out, r->raw.n);
    said_number(out, r->args_n);
    for (uint32_t i = 0; i < r->args_n; i++) {
        said_number(out, r->args[i].n);
        buf_put_slice(out, r->args[i]);
    }
}

/* The first `upto` bytes have come. */
static void stream_feed(struct stream *s, size_t upto)
{
    fuzz_hide(s->bytes, s->n, upto);
    while (!s->ended) {
        struct slice in = slice_of(s->bytes + s->used, upto - s->used);
        enum parsed got = request_parse(s->r, &s->parser, in);
        if (got == PARSED_UNFIN) break;
        if (got == PARSED_OK) {
            MUST(s->r->raw.n > 0 && s->r->raw.p == in.p && s->r->raw.n <= in.n);
            said_request(&s->said, s->r);
            s->used += s->r->raw.n;
        } else {
            MUST(s->r->error != NULL);
            said_number(&s->said, got);
            buf_put_slice(&s->said, slice_str(s->r->error));
            s->ended = true;
        }
    }
    fuzz_hide(s->bytes, s->n, s->n);
}

/* Is it written in the one way that clients write a hit, with lengths of one or two digits? */
static bool is_plain_hit(const struct request *r)
{
    struct buf want = {0};
    int64_t delta;
    if (r->args_n != 4 || !slice_ieq(r->args[0], SLICE("hincrby")) || !num_parse(r->args[3], &delta))
        return false;
    buf_printf(&want, "*4\r\n$7\r\n" SLICE_FMT "\r\n", SLICE_ARG(r->args[0]));
    for (uint32_t i = 1; i < 4; i++) {
        buf_printf(&want, "$%zu\r\n", r->args[i].n);
        buf_put_slice(&want, r->args[i]);
        BUF_LIT(&want, "\r\n");
    }
    bool plain = slice_eq(buf_slice(&want), r->raw);
    for (uint32_t i = 1; i < 4; i++)
        plain &= r->args[i].n >= 1 && r->args[i].n <= 99;
    buf_free(&want);
    return plain;
}

/* What the fast parser makes of the bytes at `in`, when the general parser takes `r` from them (NULL: nothing). */
static void hit_agrees(struct slice in, const struct request *r)
{
    struct hit_bytes h;
    int64_t delta;
    size_t bytes = request_hit(in, &h);
    MUST((bytes > 0) == (r != NULL && is_plain_hit(r)));
    if (bytes == 0) return;
    MUST(bytes == r->raw.n && slice_eq(h.key, r->args[1]) && slice_eq(h.field, r->args[2]));
    MUST(num_parse(r->args[3], &delta) && h.delta == delta);
    MUST(h.raw.p == in.p + 17 && h.raw.p + h.raw.n == h.field.p + h.field.n + 2);
}

/* A part of a hit is not a hit. */
static void part_is_no_hit(const char *bytes, size_t n, size_t from, size_t whole)
{
    struct hit_bytes h;
    for (size_t part = 0; part < whole; part++) {
        fuzz_hide(bytes, n, from + part);
        MUST(request_hit(slice_of(bytes + from, part), &h) == 0);
    }
    fuzz_hide(bytes, n, n);
}

static void hits_agree(const char *bytes, size_t n)
{
    struct request *r = &request_of_default;
    for (size_t used = 0; used < n;) {
        struct parser p = {0};
        struct slice in = slice_of(bytes + used, n - used);
        enum parsed got = request_parse(r, &p, in);
        hit_agrees(in, got == PARSED_OK ? r : NULL);
        if (got != PARSED_OK) break;
        if (is_plain_hit(r)) part_is_no_hit(bytes, n, used, r->raw.n);
        used += r->raw.n;
    }
}

static struct stream stream_open(struct request *r, const char *bytes, size_t n)
{
    return (struct stream){.r = r, .bytes = bytes, .n = n};
}

static void same_end(struct stream *s, const struct stream *whole)
{
    MUST(s->ended == whole->ended && s->used == whole->used);
    MUST(slice_eq(buf_slice(&s->said), buf_slice(&whole->said)));
    buf_free(&s->said);
}

static void cut_once(const struct stream *whole, size_t at)
{
    struct stream s = stream_open(whole->r, whole->bytes, whole->n);
    stream_feed(&s, at);
    stream_feed(&s, s.n);
    same_end(&s, whole);
}

static void cut_every(const struct stream *whole, size_t step)
{
    struct stream s = stream_open(whole->r, whole->bytes, whole->n);
    for (size_t at = 1; at < s.n; at += step == PIECES_GROW ? 1 + at / 64 : step)
        stream_feed(&s, at);
    stream_feed(&s, s.n);
    same_end(&s, whole);
}

static void cuts_agree(struct request *r, const char *bytes, size_t n)
{
    struct stream whole = stream_open(r, bytes, n);
    size_t stride = n <= CUTS_ALL ? 1 : n / CUTS + 1;
    stream_feed(&whole, n);
    for (size_t at = 1 + n % stride; at < n; at += stride)
        cut_once(&whole, at);
    cut_every(&whole, n <= CUTS_ALL ? 1 : PIECES_GROW);
    cut_every(&whole, 7);
    buf_free(&whole.said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (request_of_default.args == NULL) {
        request_init(&request_of_default, &request_limits_default);
        request_init(&request_of_small, &small);
    }
    char *bytes = fuzz_copy(data, size);
    cuts_agree(&request_of_default, bytes, size);
    cuts_agree(&request_of_small, bytes, size);
    hits_agree(bytes, size);
    heap_free(bytes);
    return 0;
}
