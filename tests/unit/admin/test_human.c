/* Numbers as people read them, at their borders. */
#include "lib/unit.h"

#include "admin/human.h"

#include <stdlib.h>
#include <time.h>

UNIT(test_counts)
{
    char out[HUMAN_BYTES];
    assert_string_equal(human_count(0, out), "0");
    assert_string_equal(human_count(999, out), "999");
    assert_string_equal(human_count(1000, out), "1,000");
    assert_string_equal(human_count(-999, out), "-999");
    assert_string_equal(human_count(-123456, out), "-123,456");
    assert_string_equal(human_count(INT64_MAX, out), "9,223,372,036,854,775,807");
    assert_string_equal(human_count(INT64_MIN, out), "-9,223,372,036,854,775,808");
}

UNIT(test_spans)
{
    char out[HUMAN_BYTES];
    assert_string_equal(human_span(-1, out), "0.0 s");
    assert_string_equal(human_span(0, out), "0.0 s");
    assert_string_equal(human_span(9999, out), "9.9 s");
    assert_string_equal(human_span(10000, out), "10 s");
    assert_string_equal(human_span(59999, out), "59 s");
    assert_string_equal(human_span(60000, out), "1 min 0 s");
    assert_string_equal(human_span(3599999, out), "59 min 59 s");
    assert_string_equal(human_span(3600000, out), "1 h 0 min");
    assert_string_equal(human_span(INT64_C(86400000) * 3 + 7200000, out), "3 d 2 h");
    assert_string_equal(human_span(INT64_MAX, out), "106751991167 d 7 h");
}

UNIT(test_bytes)
{
    char out[HUMAN_BYTES];
    assert_string_equal(human_bytes(1023, out), "1023 B");
    assert_string_equal(human_bytes(1024, out), "1.0 KiB");
    assert_string_equal(human_bytes(INT64_C(3) << 39, out), "1.5 TiB");
    assert_string_equal(human_bytes(INT64_MAX, out), "8388608.0 TiB");
}

UNIT(test_times)
{
    char out[HUMAN_BYTES];
    setenv("TZ", "UTC", 1);
    tzset();
    assert_string_equal(human_time(1763733787999, out), "2025-11-21 14:03:07");
}
