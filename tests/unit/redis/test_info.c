/* Reading INFO's text. */
#include "lib/unit.h"
#include "redis/check_op.h"

#define INFO SLICE("# Server\r\nredis_version:7.0.15\r\nredis_versions:1\r\nempty:\r\nlast:x:y")

UNIT(values)
{
    struct slice got;
    assert_true(info_is(INFO, "redis_version", "7.0.15"));
    assert_true(info_is(INFO, "empty", ""));
    assert_true(info_is(INFO, "last", "x:y"));
    assert_false(info_get(INFO, "version", &got));
    assert_false(info_get(INFO, "# Server", &got));
}

/* What a server said that gave no text. */
UNIT(nothing)
{
    struct slice got;
    struct redis_facts facts;
    assert_false(info_get(slice_of(NULL, 0), "redis_version", &got));
    assert_false(info_facts(slice_of(NULL, 0), &facts));
}

/* Redis' unstable branch is 255.255.255. */
UNIT(versions)
{
    static const struct {
        const char *text;
        int is;
    } all[] = {{"7.0.15", 70015}, {"8.2", 80200}, {"7.2.241", 70299}, {"255.255.255", 2559999},
               {"seven", 0},      {"7", 0},       {"-7.0.1", 0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct redis_facts facts = {0};
        char info[80];
        snprintf(info, sizeof info, "redis_version:%s\r\nrun_id:r\r\n", all[i].text);
        assert_int_equal(info_facts(slice_str(info), &facts), all[i].is > 0);
        assert_int_equal(facts.version, all[i].is);
    }
}
