/* Nearest names: what a typo is taken for, and what is too far from everything. */
#include "lib/unit.h"

#include "conf/conf.h"

#include <stdio.h>

static size_t distance(const char *a, const char *b)
{
    return near_distance(slice_str(a), slice_str(b));
}

UNIT(test_distance)
{
    assert_int_equal(distance("", ""), 0);
    assert_int_equal(distance("", "abc"), 3);
    assert_int_equal(distance("listen", "listen"), 0);
    assert_int_equal(distance("listne", "listen"), 1); /* swapped */
    assert_int_equal(distance("isten", "listen"), 1);
    assert_int_equal(distance("llisten", "listen"), 1);
    assert_int_equal(distance("lisden", "listen"), 1);
    assert_int_equal(distance("kitten", "sitting"), 3);
    char longer[66] = "";
    memset(longer, 'a', 65);
    assert_true(distance(longer, "a") == SIZE_MAX);
    assert_true(distance("a", longer) == SIZE_MAX);
    longer[64] = '\0';
    assert_int_equal(distance(longer, "a"), 63);
}

UNIT(test_nearest)
{
    static const char *const names[] = {"run", "check", "migrate", "recover", "verify", "dev"};
    assert_string_equal(near_name(SLICE("chek"), names, 6), "check");
    assert_string_equal(near_name(SLICE("rnu"), names, 6), "run");
    assert_string_equal(near_name(SLICE("migrates"), names, 6), "migrate");
    assert_null(near_name(SLICE("frobnicate"), names, 6));
    assert_null(near_name(SLICE(""), names, 6));
    assert_null(near_name(SLICE("x"), names, 0));
}
