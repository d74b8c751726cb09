/* Which one has its turn, over an hour of passes. */
#include "lib/unit.h"

#include "series/names.h"

UNIT(test_precision)
{
    assert_int_equal(clean_precision(SLICE("60:hits")), 60);
    assert_int_equal(clean_precision(SLICE("1:a:b")), 1);
    assert_int_equal(clean_precision(SLICE("86400:")), 86400);
    static const char *const none[] = {"",        ":",       "hits",    "0:hits",
                                       "-5:hits", "05:hits", "5 :hits", "99999999999999999999:x"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(clean_precision(slice_str(none[i])), 0);
}

static int turns(int64_t precision_s, int64_t pass_s)
{
    int n = 0;
    int64_t last_s = -1;
    for (int64_t now_s = 1700000017; now_s < 1700000017 + 86400; now_s += pass_s) {
        n += clean_due(precision_s, now_s, last_s);
        last_s = now_s;
    }
    return n;
}

UNIT(test_due)
{
    assert_int_equal(turns(1, 60), 1440);
    assert_int_equal(turns(60, 60), 1440);
    assert_int_equal(turns(300, 60), 1 + 288);
    assert_int_equal(turns(3600, 60), 1 + 24);
    assert_int_equal(turns(86400, 60), 1 + 1);
    assert_int_equal(turns(300, 97), 1 + 288); /* slow passes make it no rarer */
    assert_int_equal(turns(300, 600), 144);
    assert_true(clean_due(86400, 1700000000 - 90000, 1700000000)); /* the clock fell back */
}
