/* The short way of a hit must see exactly what the general parser sees, or nothing. */
#include "lib/dice.h"
#include "lib/unit.h"
#include "protocol/hit.h"
#include "protocol/request.h"

#define PLAIN "*4\r\n$7\r\nHINCRBY\r\n$3\r\ns1x\r\n$8\r\n20140920\r\n$1\r\n1\r\n"

static size_t hit(const char *text, struct slice args[3])
{
    return request_hit(slice_str(text), args);
}

static void a_whole_hit_is_taken(void **state)
{
    (void)state;
    struct slice args[3];
    assert_int_equal(hit(PLAIN, args), sizeof PLAIN - 1);
    assert_int_equal(hit(PLAIN "*1\r\n", args), sizeof PLAIN - 1);
    assert_slice(args[0], "s1x");
    assert_slice(args[1], "20140920");
    assert_slice(args[2], "1");
}

static void whatever_is_not_whole_is_left(void **state)
{
    (void)state;
    struct slice args[3];
    for (size_t n = 0; n < sizeof PLAIN - 1; n++) {
        char *part = malloc(n + 1); /* of its very size, so that a read beyond it is seen */
        memcpy(part, PLAIN, n);
        assert_int_equal(request_hit(slice_of(part, n), args), 0);
        free(part);
    }
}

static void other_shapes_are_left(void **state)
{
    (void)state;
    struct slice args[3];
    assert_int_equal(hit("*4\r\n$7\r\nhincrby\r\n$3\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n", args), 0);
    assert_int_equal(hit("*5\r\n$7\r\nHINCRBY\r\n$3\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n", args), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n$03\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n", args), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n$0\r\n\r\n$1\r\n1\r\n$1\r\n1\r\n", args), 0);
    assert_int_equal(hit("*4\r\n$7\r\nHINCRBY\r\n:3\r\ns1x\r\n$1\r\n1\r\n$1\r\n1\r\n", args), 0);
    assert_int_equal(hit("HINCRBY s1x 1 1\r\n", args), 0);
}

/* A few bytes of a good request changed at random. */
static void what_it_takes_the_parser_takes_so(void **state)
{
    (void)state;
    struct dice dice = dice_new("hit");
    struct request r;
    request_init(&r, &request_limits_default);
    static const char bytes[] = "0123456789$*\r\n\r\n:+-HINCRBYhincrby ";
    for (int i = 0; i < 200000; i++) {
        char text[sizeof PLAIN];
        memcpy(text, PLAIN, sizeof PLAIN);
        for (uint64_t change = dice_below(&dice, 4); change > 0; change--)
            text[dice_below(&dice, sizeof PLAIN - 1)] = bytes[dice_below(&dice, sizeof bytes - 1)];
        struct slice args[3], in = slice_of(text, sizeof PLAIN - 1);
        size_t n = request_hit(in, args);
        if (n == 0) continue;
        struct parser parser = {0};
        assert_int_equal(request_parse(&r, &parser, in), PARSED_OK);
        assert_int_equal(r.args_n, 4);
        assert_int_equal(r.raw.n, n);
        for (int j = 0; j < 3; j++)
            assert_true(r.args[j + 1].p == args[j].p && r.args[j + 1].n == args[j].n);
    }
    request_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_hit_is_taken),
        cmocka_unit_test(whatever_is_not_whole_is_left),
        cmocka_unit_test(other_shapes_are_left),
        cmocka_unit_test(what_it_takes_the_parser_takes_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
