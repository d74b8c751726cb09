/* Which keys go along to a cluster, and to which lane. */
#include "lib/unit.h"

#include "series/moved.h"
#include "series/names.h"

#define LANES 16

static struct pattern pattern(const char *text)
{
    struct pattern p;
    struct error e;
    if (pattern_parse(slice_str(text), &p, &e) != ERR_NONE) fail_msg("%s", e.text);
    return p;
}

static struct counter visits;
static struct op_limits ops;
static const struct counters counters = {.all = &visits, .n = 1, .ops = &ops};
static unsigned of_shop, of_none;

static int shop(void **state)
{
    visits = (struct counter){
        .name = SLICE("visits"),
        .key = pattern("s<store>:visits"),
        .field = FIELD_DATE,
        .feeds = {pattern("s<store>:views"), pattern("s<store>:hot"), pattern("s<store>:view")}};
    ops = (struct op_limits){.uniq_name = pattern("s<store>:people"), .uniq_counter = &visits};
    of_shop = lane_of_store(SLICE("12345"), LANES);
    of_none = lane_of_store(SLICE(""), LANES);
    assert_int_not_equal(of_shop, of_none);
    return 0;
}

static void goes(const char *key, enum moved_kind kind, const char *type, unsigned lane)
{
    struct moved_key got = moved_key_of(&counters, slice_str(key), LANES);
    if (got.kind != kind) fail_msg("%s: kind %d, not %d", key, got.kind, kind);
    if (kind == MOVED_NOT || kind == MOVED_ANEW) return;
    assert_string_equal(got.type, type);
    assert_int_equal(got.lane, lane);
    if (strcmp(type, "string?zset") != 0) assert_int_equal(got.zset_lane, lane);
}

UNIT(whole_keys)
{
    goes("count:60:s12345:views", MOVED_SAMPLES, "hash", of_shop);
    goes("count:60:clicks:x", MOVED_SAMPLES, "hash", of_none);
    goes("tb.s12345:hot", MOVED_WHOLE, "zset", of_shop);
    goes("pv.s12345:hot", MOVED_WHOLE, "zset", of_shop);
    goes("s12345:index", MOVED_WHOLE, "string", of_shop);
    goes("people_2024_02_29", MOVED_WHOLE, "string", of_none);
    goes("_2024_02_29", MOVED_NOT, NULL, 0); /* of nobody */
    goes("s12345:view", MOVED_WHOLE, "?zset", of_shop);
    goes("s12345:buy", MOVED_WHOLE, "?zset", of_shop); /* another type of the same name */
    goes("s12345:visits_0123456789abcdef0123456789abcdef", MOVED_WHOLE, "?zset",
         of_shop); /* a hash, so it stays */
    goes("tally:token:12345:a:b", MOVED_TOKEN, "string", of_shop);
    goes("tally:token::a", MOVED_TOKEN, "string", of_none);
}

static void day_or_log(const char *key, unsigned lane, unsigned zset_lane)
{
    goes(key, MOVED_WHOLE, "string?zset", lane);
    assert_int_equal(moved_key_of(&counters, slice_str(key), LANES).zset_lane, zset_lane);
}

/* Visitors of s12345:sale, or a log of s12345: the type of the key tells. */
UNIT(days_and_logs)
{
    day_or_log("s12345:people_2024_02_29", of_shop, of_shop);
    day_or_log("s12345:people_2024_02_29:hll", of_shop, of_none);
    day_or_log("s12345:sale_2025_11_28", of_none, of_shop);
    day_or_log("web_2025_11_28:hll", of_none, of_none);
}

UNIT(what_stays)
{
    static const char *const stay[] = {"s12345:visits",
                                       "tally:dirty",
                                       "tally:batch:0123456789abcdef0123456789abcdef",
                                       "tally:gen",
                                       "tally:seq:one:0123456789abcdef",
                                       "tally:journal:one:0123456789abcdef:1",
                                       "tally:tmp:a:b",
                                       "tally:events:gone",
                                       "somebody",
                                       "somebody:",
                                       ":else"};
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++)
        goes(stay[i], MOVED_NOT, NULL, 0);
}

UNIT(what_is_made_anew)
{
    goes("known:", MOVED_ANEW, NULL, 0);
    goes("tally:tokens", MOVED_ANEW, NULL, 0);
    goes("tally:tokens:1700000000", MOVED_ANEW, NULL, 0);
    goes("tally:grown:20261127", MOVED_ANEW, NULL, 0);
}

static void member(const char *key, const char *type, const char *of, unsigned lane)
{
    goes(key, MOVED_BY_MEMBER, type, 0);
    assert_int_equal(moved_lane_of(&counters, slice_str(key), slice_str(of), LANES), lane);
}

UNIT(each_member_by_its_name)
{
    member("tally:events", "zset", "s12345:view", of_shop);
    member("tally:leased", "hash", "s12345:view", of_shop);
    member("tally:leased", "hash", "web:login", of_none);
    member("statcache:view", "hash", "s12345:1700000000:5", of_shop);
    member("statcache:view", "hash", "s12345:windows", of_shop);
    member("statcache:view", "hash", "web:1700000000:5", of_none);
}

UNITS_IN(shop, NULL)
