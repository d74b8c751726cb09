/* Reading INFO's text. */
#include "lib/unit.h"
#include "redis/check_op.h"

#define INFO SLICE("# Server\r\nredis_version:7.0.15\r\nredis_versions:1\r\nempty:\r\nlast:x:y")

static void values(void **state)
{
    struct slice got;
    (void)state;
    assert_true(info_is(INFO, "redis_version", "7.0.15"));
    assert_true(info_is(INFO, "empty", ""));
    assert_true(info_is(INFO, "last", "x:y"));
    assert_false(info_get(INFO, "version", &got));
    assert_false(info_get(INFO, "# Server", &got));
}

/* What a server said that gave no text. */
static void nothing(void **state)
{
    struct slice got;
    struct redis_facts facts;
    (void)state;
    assert_false(info_get(slice_of(NULL, 0), "redis_version", &got));
    assert_false(info_facts(slice_of(NULL, 0), &facts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
