/* Refused hits by reason: which reason an error is, what is kept of it, and that reasons have a bound. */
#include "lib/unit.h"

#include "base/stats.h"

static const struct refused *find(const char *reason)
{
    const struct refused *r;
    for (uint32_t i = 0; (r = refusals_at(i)) != NULL; i++)
        if (strcmp(r->reason, reason) == 0) return r;
    return NULL;
}

UNIT(the_reason_is_in_the_error)
{
    static const struct {
        const char *error, *reason;
    } rows[] = {{"-ERR no counter is configured for key 'a:b'\r\n", "no_counter"},
                {"ERR field 'x' of counter 'c' is not a date", "field"},
                {"-ERR value is not an integer or out of range\r\n", "value"},
                {"OOM command not allowed when used memory > 'maxmemory'.", "oom"},
                {"-NOPERM this user has no permissions\r\n+OK\r\n", "noperm"},
                {"-ERR something new\r\n", "other"},
                {"", "other"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct refused *before = find(rows[i].reason);
        uint64_t all = before != NULL ? before->all : 0;
        refusals_add(3, slice_str(rows[i].error), SLICE("s1:views"), "10.0.0.7:4000");
        const struct refused *after = find(rows[i].reason);
        assert_non_null(after);
        assert_int_equal(after->all, all + 3);
        assert_int_equal(refusal_minute(after), all + 3);
        assert_non_null(strstr(after->text, "from 10.0.0.7:4000"));
        assert_null(strchr(after->text, '\r'));
    }
    assert_non_null(strstr(find("oom")->text, "(key 's1:views')"));
    assert_null(strstr(find("no_counter")->text, "s1:views")); /* the error names its key */
}

UNIT(reasons_have_a_bound)
{
    char error[] = "-AAAA x";
    uint32_t n = 0;
    for (int i = 0; i < 2 * 26; i++) {
        error[3] = (char)('A' + i / 26);
        error[4] = (char)('A' + i % 26);
        refusals_add(1, slice_str(error), SLICE("k"), "");
    }
    while (refusals_at(n) != NULL)
        n++;
    assert_int_equal(n, REFUSALS_MAX);
    assert_non_null(find("other"));
    assert_true(find("other")->all >= 2 * 26 - REFUSALS_MAX);
}
