/* Runs of days and hours: defaults, ends, and every field found again at its place. */
#include "lib/unit.h"

#include "series/range.h"

#define NONE slice_of(NULL, 0)
#define NOW INT64_C(1411216245) /* 2014-09-20 12:30:45 UTC */

static char why[160];

static bool days(struct slice from, struct slice to, struct range *out)
{
    why[0] = '\0';
    return range_read(FIELD_DATE, from, to, NOW, 30, out, why, sizeof why);
}

static void ends_at(const struct range *r, size_t i, const char *field)
{
    char text[RANGE_FIELD_BYTES];
    size_t n = range_field(r, i, text), back;
    assert_string_equal(text, field);
    assert_int_equal(n, strlen(field));
    assert_true(range_index(r, slice_of(text, n), &back));
    assert_int_equal(back, i);
}

UNIT(defaults_end_today)
{
    struct range r;
    assert_true(days(NONE, NONE, &r));
    assert_int_equal(r.n, 30);
    ends_at(&r, 0, "20140822");
    ends_at(&r, 29, "20140920");
    assert_true(range_read(FIELD_HOUR, NONE, NONE, NOW, 48, &r, why, sizeof why));
    ends_at(&r, 0, "2014091813");
    ends_at(&r, 47, "2014092012");
    assert_true(range_read(FIELD_MONTH, NONE, NONE, NOW, 12, &r, why, sizeof why));
    ends_at(&r, 0, "201310");
    ends_at(&r, 3, "201401");
    ends_at(&r, 11, "201409");
}

UNIT(takes_what_is_given)
{
    struct range r;
    assert_true(days(SLICE("20120228"), SLICE("20120302"), &r));
    assert_int_equal(r.n, 4);
    ends_at(&r, 1, "20120229"); /* a leap year */
    assert_true(days(NONE, SLICE("20140101"), &r));
    ends_at(&r, 0, "20131203");
    assert_true(days(SLICE("20140918"), NONE, &r));
    assert_int_equal(r.n, 3);
    assert_true(days(SLICE("19700101"), SLICE("19700101"), &r));
    ends_at(&r, 0, "19700101");
    assert_true(days(NONE, SLICE("19700105"), &r)); /* nothing is before 1970 */
    assert_int_equal(r.n, 5);
    assert_true(days(SLICE("99991231"), SLICE("99991231"), &r));
    ends_at(&r, 0, "99991231");
}

static void refused(struct slice from, struct slice to, const char *text)
{
    struct range r;
    assert_false(days(from, to, &r));
    assert_string_equal(why, text);
}

UNIT(says_what_is_wrong)
{
    refused(SLICE("20140931"), NONE, "from is \"20140931\", expected a date as YYYYMMDD, from 1970 on");
    refused(NONE, SLICE(""), "to is \"\", expected a date as YYYYMMDD, from 1970 on");
    refused(NONE, SLICE("19691231"), "to is \"19691231\", expected a date as YYYYMMDD, from 1970 on");
    refused(NONE, SLICE("2014092012"), "to is \"2014092012\", expected a date as YYYYMMDD, from 1970 on");
    refused(SLICE("20140921"), SLICE("20140920"), "from is after to; the first day comes first");
    refused(SLICE("20140921"), NONE, "from is after to; the first day comes first");
    refused(SLICE("20110101"), SLICE("20131001"), "that is 1005 days; at most 1000 come at once");
}

UNIT(a_field_of_elsewhere_has_no_place)
{
    size_t i;
    struct range r;
    assert_true(days(SLICE("20140918"), SLICE("20140920"), &r));
    assert_false(range_index(&r, SLICE("20140917"), &i));
    assert_false(range_index(&r, SLICE("20140921"), &i));
    assert_false(range_index(&r, SLICE("19691231"), &i));
    assert_false(range_index(&r, SLICE("x"), &i));
    assert_true(range_index(&r, SLICE("20140919"), &i));
    assert_int_equal(i, 1);
}
