/* Which lane a name is in: all of a store in one. */
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

static struct counter all[2];
static struct op_limits ops;
static const struct counters counters = {.all = all, .n = 2, .ops = &ops};

static int shop(void **state)
{
    all[0] = (struct counter){
        .name = SLICE("visits"),
        .key = pattern("s<store>:visits"),
        .field = FIELD_DATE,
        .feeds = {pattern("s<store>:views"), pattern("s<store>:hot"), pattern("s<store>:view")}};
    all[1] =
        (struct counter){.name = SLICE("pages"), .key = pattern("pages"), .feeds = {pattern("all:pages")}};
    ops = (struct op_limits){.uniq_name = pattern("s<store>:people"), .uniq_counter = &all[0]};
    return 0;
}

static unsigned of(enum op_kind kind, const char *name)
{
    return lane_of_name(&counters, kind, slice_str(name), LANES);
}

#define TEST(f) UNIT_IN(f, shop, NULL)

TEST(all_of_a_store_is_in_one_lane)
{
    unsigned lane = lane_of_store(SLICE("12345"), LANES);
    assert_int_equal(lane_of_key(&counters, SLICE("s12345:visits"), LANES), lane);
    assert_int_equal(of(OP_SERIES, "s12345:views"), lane);
    assert_int_equal(of(OP_TIMEBOX, "s12345:hot"), lane);
    assert_int_equal(of(OP_EVENT, "s12345"), lane);
    assert_int_equal(of(OP_UNIQ, "s12345:people"), lane);
}

TEST(what_has_no_store_is_in_one_lane)
{
    unsigned lane = lane_of_store(SLICE(""), LANES);
    assert_int_equal(lane_of_key(&counters, SLICE("pages"), LANES), lane);
    assert_int_equal(lane_of_key(&counters, SLICE("nobody's"), LANES), lane);
    assert_int_equal(of(OP_SERIES, "all:pages"), lane);
    assert_int_equal(of(OP_SERIES, "s1x:views"), lane); /* not a store of its counter */
    assert_int_equal(of(OP_TIMEBOX, "s1:views"), lane); /* another kind's */
    assert_int_equal(of(OP_EVENT, "x"), lane);
    ops.uniq_counter = NULL;
    assert_int_equal(of(OP_UNIQ, "s12345:people"), lane);
}

static void refuses(const char *text)
{
    struct error e = {0};
    enum err code = ERR_NONE;
    for (size_t i = 0; i < counters.n && code == ERR_NONE; i++)
        for (int k = 0; k < FEEDS && code == ERR_NONE; k++)
            if (counter_feeds(&all[i], (enum feed)k))
                code = feed_lane_validate(&counters, &all[i], (enum feed)k, &e);
    if (text == NULL && code != ERR_NONE) fail_msg("%s", e.text);
    if (text != NULL && (code == ERR_NONE || strstr(e.text, text) == NULL)) fail_msg("%s", e.text);
}

TEST(a_feed_is_in_one_lane_or_refused)
{
    refuses(NULL);
    all[0].feeds[FEED_SERIES] = pattern("all:views");
    refuses("holds no <store>, and the counter's stores");
    all[0].feeds[FEED_SERIES] = pattern("s<store>:views");
    all[1].key = pattern("p<store>");
    all[1].feeds[FEED_SERIES] = pattern("s<store>:views"); /* the same name: the same store */
    refuses(NULL);
    all[1].store = STORE_TEXT;
    all[1].feeds[FEED_SERIES] = pattern("<store>:views");
    refuses("can have a name that counter visits feeds for another store");
    all[1].feeds[FEED_SERIES] = pattern("pages<store>");
    all[1].feeds[FEED_EVENT] = pattern("<store>:sale"); /* with s<store>:view: one ticker a name */
    refuses("can have a name that counter visits feeds");
}

TEST(a_name_of_no_store_is_not_a_stores)
{
    all[1].feeds[FEED_SERIES] = pattern("s7:views");
    refuses("can have a name that counter visits feeds");
}
