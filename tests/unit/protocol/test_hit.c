/* The fast parser of a hit must see exactly what the general parser sees, or nothing. */
#include "lib/dice.h"
#include "lib/unit.h"
#include "protocol/request.h"

#define PLAIN "*4\r\n$7\r\nHINCRBY\r\n$3\r\ns1x\r\n$8\r\n20140920\r\n$1\r\n1\r\n"

static size_t hit(const char *text, struct hit_bytes *h)
{
    return request_hit(slice_str(text), h);
}

UNIT(a_whole_hit_is_taken)
{
    struct hit_bytes h;
    assert_int_equal(hit(PLAIN, &h), sizeof PLAIN - 1);
    assert_int_equal(hit(PLAIN "*1\r\n", &h), sizeof PLAIN - 1);
    assert_slice(h.key, "s1x");
    assert_slice(h.field, "20140920");
    assert_int_equal(h.delta, 1);
    assert_slice(h.raw, "$3\r\ns1x\r\n$8\r\n20140920\r\n");
    assert_int_equal(hit("*4\r\n$7\r\nhIncrby\r\n$3\r\ns1x\r\n$8\r\n20140920\r\n$1\r\n1\r\n", &h),
                     sizeof PLAIN - 1);
}

UNIT(whatever_is_not_whole_is_left)
{
    struct hit_bytes h;
    for (size_t n = 0; n < sizeof PLAIN - 1; n++) {
        char *part = malloc(n + 1); /* of its very size, so that a read beyond it is seen */
        memcpy(part, PLAIN, n);
        assert_int_equal(request_hit(slice_of(part, n), &h), 0);
        free(part);
    }
}

#define TODAY "*2\r\n$7\r\nCTR.HIT\r\n$3\r\ns1x\r\n"

UNIT(a_hit_of_today_is_taken_whole)
{
    struct hit_bytes h;
    assert_int_equal(request_today(SLICE(TODAY "*1\r\n"), &h), sizeof TODAY - 1);
    assert_slice(h.key, "s1x");
    assert_slice(h.raw, "$3\r\ns1x\r\n");
    assert_int_equal(request_today(SLICE("*2\r\n$7\r\nctR.hIt\r\n$3\r\ns1x\r\n"), &h), sizeof TODAY - 1);
    assert_int_equal(request_today(SLICE("*2\r\n$7\r\nCTR\x0eHIT\r\n$3\r\ns1x\r\n"), &h), 0);
    assert_int_equal(request_today(SLICE("*3\r\n$7\r\nCTR.HIT\r\n$3\r\ns1x\r\n$1\r\n1\r\n"), &h), 0);
    assert_int_equal(request_today(SLICE(PLAIN), &h), 0);
    for (size_t n = 0; n < sizeof TODAY - 1; n++) {
        char *part = malloc(n + 1);
        memcpy(part, TODAY, n);
        assert_int_equal(request_today(slice_of(part, n), &h), 0);
        free(part);
    }
}

UNIT(other_shapes_are_left)
{
    struct hit_bytes h;
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBX\r\n$3\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n$3\r\ns1xab$1\r\n1\r\n$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n$3\r\ns1x\r\n$1\r\n1ab$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("*5\r\n$7\r\nHINCRBY\r\n$3\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n$03\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n$0\r\n\r\n$1\r\n1\r\n$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n:3\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n", &h), 0);
    assert_int_equal(hit("HINCRBY s1x 1 1\r\n", &h), 0);
}

/* The bytes used for the lookup, and sent on, are those of a request of ours. */
static void raw_is_as_we_write_it(const struct hit_bytes *h)
{
    char text[256];
    int n = snprintf(text, sizeof text, "$%zu\r\n" SLICE_FMT "\r\n$%zu\r\n" SLICE_FMT "\r\n", h->key.n,
                     SLICE_ARG(h->key), h->field.n, SLICE_ARG(h->field));
    assert_int_equal(n, h->raw.n);
    assert_memory_equal(text, h->raw.p, h->raw.n);
}

/* A few bytes of a good request changed at random. */
UNIT(what_it_takes_the_parser_takes_so)
{
    struct dice dice = dice_new("hit");
    struct request r;
    request_init(&r, &request_limits_default);
    static const char bytes[] = "0123456789$*\r\n\r\n:+-HINCRBYhincrby ";
    for (int i = 0; i < 200000; i++) {
        char text[sizeof PLAIN];
        memcpy(text, PLAIN, sizeof PLAIN);
        for (uint64_t change = dice_below(&dice, 4); change > 0; change--)
            text[dice_below(&dice, sizeof PLAIN - 1)] = bytes[dice_below(&dice, sizeof bytes - 1)];
        struct hit_bytes h;
        struct slice in = slice_of(text, sizeof PLAIN - 1);
        size_t n = request_hit(in, &h);
        if (n == 0) continue;
        struct parser parser = {0};
        assert_int_equal(request_parse(&r, &parser, in), PARSED_OK);
        assert_int_equal(r.args_n, 4);
        assert_int_equal(r.raw.n, n);
        assert_true(r.args[1].p == h.key.p && r.args[1].n == h.key.n);
        assert_true(r.args[2].p == h.field.p && r.args[2].n == h.field.n);
        int64_t delta;
        assert_true(num_parse(r.args[3], &delta));
        assert_int_equal(delta, h.delta);
        raw_is_as_we_write_it(&h);
    }
    request_close(&r);
}
