/* Slices: comparing, and showing bytes of others in texts of ours. */
#include "lib/unit.h"

UNIT(compares)
{
    struct slice nothing = {NULL, 0};
    assert_true(slice_eq(nothing, SLICE("")));
    assert_true(slice_cmp(SLICE("b"), SLICE("aa")) < 0);
    assert_true(slice_cmp(SLICE("ab"), SLICE("aa")) > 0);
    assert_true(slice_cmp(SLICE("\xff"), SLICE("a")) > 0);
    assert_int_equal(slice_cmp(nothing, nothing), 0);
    assert_true(slice_ieq(SLICE("HinCRBY"), SLICE("hincrby")));
    assert_false(slice_ieq(SLICE("["), SLICE("{")));
    assert_false(slice_ieq(SLICE("ab"), SLICE("a")));
}

UNIT(starts_and_ends)
{
    assert_true(slice_starts(SLICE("s1:daily"), SLICE("s1:")));
    assert_true(slice_starts(SLICE("s1"), SLICE("")));
    assert_false(slice_starts(SLICE("s"), SLICE("s1")));
    assert_true(slice_ends(SLICE("s1:daily"), SLICE(":daily")));
    assert_true(slice_ends(SLICE("s1"), SLICE("s1")));
    assert_false(slice_ends(SLICE("s1:weekly"), SLICE(":daily")));
    assert_false(slice_ends(SLICE("y"), SLICE(":daily")));
}

UNIT(shows_only_printable_ascii)
{
    char out[20];
    assert_string_equal(slice_show(SLICE("a\r\nb\0c\x7f\xc3\xa4"), 100, out, sizeof out), "a??b?c???");
    assert_string_equal(slice_show(SLICE(""), 5, out, sizeof out), "");
}

UNIT(shows_where_it_was_cut)
{
    char out[8];
    assert_string_equal(slice_show(SLICE("abcdef"), 3, out, sizeof out), "abc...");
    assert_string_equal(slice_show(SLICE("abc"), 3, out, sizeof out), "abc");
    assert_string_equal(slice_show(SLICE("abcdefg"), 100, out, sizeof out), "abcdefg");
    assert_string_equal(slice_show(SLICE("abcdefgh"), 100, out, sizeof out), "abcd...");
    assert_string_equal(slice_show(SLICE("abcdefgh"), 7, out, sizeof out), "abcd...");
    char least[4];
    assert_string_equal(slice_show(SLICE("abcdefgh"), 7, least, sizeof least), "...");
}
