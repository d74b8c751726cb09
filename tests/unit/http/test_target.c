/* Paths and queries: what is decoded, what parts segments, what is refused. */
#include "lib/unit.h"

#include "http/exchange.h"
#include "lib/dice.h"

static const char *path_of(struct target *t, const char *path)
{
    *t = (struct target){0};
    return target_read_path(t, slice_str(path));
}

UNIT(parts_and_decodes)
{
    struct target t;
    assert_null(path_of(&t, "/api/series/s7%3aviews%2F%41/60"));
    assert_int_equal(t.segments_n, 4);
    assert_slice(target_segment(&t, 0), "api");
    assert_slice(target_segment(&t, 2), "s7:views/A");
    assert_slice(target_segment(&t, 3), "60");
    target_close(&t);
}

UNIT(an_end_is_a_segment_too)
{
    struct target t;
    assert_null(path_of(&t, "/"));
    assert_int_equal(t.segments_n, 0);
    target_close(&t);
    assert_null(path_of(&t, "/api/"));
    assert_int_equal(t.segments_n, 2);
    assert_slice(target_segment(&t, 1), "");
    target_close(&t);
    assert_null(path_of(&t, "//.."));
    assert_int_equal(t.segments_n, 2);
    assert_slice(target_segment(&t, 1), "..");
    target_close(&t);
}

UNIT(refuses)
{
    static const struct {
        const char *path, *fault;
    } cases[] = {
        {"", "does not begin with /"},
        {"*", "does not begin with /"},
        {"/a%00", "has a NUL byte (%00)"},
        {"/a%", "has a % without two hexadecimal digits behind it"},
        {"/a%4", "has a % without two hexadecimal digits behind it"},
        {"/a%4g", "has a % without two hexadecimal digits behind it"},
        {"/1/2/3/4/5/6/7/8/9", "has too many segments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct target t;
        assert_string_equal(path_of(&t, cases[i].path), cases[i].fault);
        target_close(&t);
    }
}

UNIT(takes_each_parameter_once)
{
    struct target t = {0};
    struct slice value;
    assert_null(target_add_arg(&t, SLICE("from"), SLICE("2014%30920")));
    assert_null(target_add_arg(&t, SLICE("field"), SLICE("")));
    assert_string_equal(target_add_arg(&t, SLICE("fro%6d"), SLICE("1")), "has a parameter twice");
    assert_true(target_arg(&t, "from", &value));
    assert_slice(value, "20140920");
    assert_true(target_arg(&t, "field", &value));
    assert_slice(value, "");
    assert_false(target_arg(&t, "to", &value));
    target_close(&t);
}

UNIT(too_many_parameters_are_refused)
{
    struct target t = {0};
    char name[8];
    for (int i = 0; i < TARGET_ARGS_MAX; i++) {
        snprintf(name, sizeof name, "a%d", i);
        assert_null(target_add_arg(&t, slice_str(name), SLICE("x")));
    }
    assert_string_equal(target_add_arg(&t, SLICE("b"), SLICE("x")), "has too many parameters");
    target_close(&t);
}

/* After percent-encoding, any bytes but NUL come back unchanged. */
UNIT(any_bytes_come_back)
{
    struct dice dice = dice_new("target");
    for (int round = 0; round < 2000; round++) {
        char plain[20], path[64] = "/x/";
        size_t n = 1 + dice_below(&dice, sizeof plain - 1), at = 3;
        for (size_t i = 0; i < n; i++) {
            plain[i] = (char)(1 + dice_below(&dice, 255));
            at += (size_t)snprintf(path + at, sizeof path - at, "%%%02X", (unsigned char)plain[i]);
        }
        struct target t;
        assert_null(path_of(&t, path));
        assert_true(slice_eq(target_segment(&t, 1), slice_of(plain, n)));
        target_close(&t);
    }
}
