/* Which feeds are refused, and that those of a usual shop are not. */
#include "lib/unit.h"

#include "series/op.h"

#include <stdio.h>

struct shop {
    struct counter all[2];
    struct op_limits ops;
    struct counters counters;
};

static struct pattern pattern(const char *text)
{
    struct pattern p;
    struct error e;
    if (pattern_parse(slice_str(text), &p, &e) != ERR_NONE) fail_msg("%s", e.text);
    return p;
}

/* Counters "visits" and "sales"; the keys of the second as given. */
static void shop_init(struct shop *s, const char *key, const char *lock, enum store_kind store)
{
    *s = (struct shop){.ops = {.precisions = {1, 60}, .precisions_n = 2}};
    s->all[0] = (struct counter){.name = SLICE("visits"),
                                 .key = pattern("s<store>:visits"),
                                 .lock = pattern("s<store>:visits:sync"),
                                 .field = FIELD_DATE,
                                 .store = store};
    s->all[1] = (struct counter){.name = SLICE("sales"),
                                 .key = pattern(key),
                                 .lock = pattern(lock),
                                 .field = FIELD_HOUR,
                                 .store = store};
    s->counters = (struct counters){.all = s->all, .n = 2, .ops = &s->ops};
}

/* NULL: no problem; else a part of its text. */
static void feed_is(struct shop *s, size_t of, enum feed feed, const char *name, const char *problem)
{
    struct error e;
    size_t which = 99;
    enum feed at = FEEDS;
    s->all[of].feeds[feed] = pattern(name);
    enum err code = feeds_validate(&s->counters, &which, &at, &e);
    s->all[of].feeds[feed] = (struct pattern){0};
    if (problem == NULL && code != ERR_NONE) fail_msg("%s is refused: %s", name, e.text);
    if (problem == NULL) return;
    assert_int_equal(code, ERR_CONFIG);
    assert_int_equal(which, of);
    assert_int_equal(at, feed);
    if (strstr(e.text, problem) == NULL) fail_msg("%s: %s", name, e.text);
}

UNIT(test_usual)
{
    struct shop s;
    shop_init(&s, "s<store>:sales", "s<store>:sales:sync", STORE_INTEGER);
    feed_is(&s, 0, FEED_SERIES, "s<store>:visits", NULL); /* count:1:s7:visits is not s7:visits */
    feed_is(&s, 1, FEED_SERIES, "all sales", NULL);       /* of all stores together */
    feed_is(&s, 1, FEED_TIMEBOX, "s<store>:sales", NULL);
    feed_is(&s, 1, FEED_EVENT, "s<store>:sale", NULL);
    feed_is(&s, 1, FEED_EVENT, "shop:s<store>:sale", NULL);
    feed_is(&s, 1, FEED_EVENT, "<store>:sale", NULL);
}

UNIT(test_keys_of_counters)
{
    struct shop s;
    shop_init(&s, "count:60:s<store>", "x<store>", STORE_INTEGER);
    feed_is(&s, 0, FEED_SERIES, "s<store>", "\"count:60:s<store>\", which can be the key of counter sales");
    feed_is(&s, 0, FEED_SERIES, "s<store>:visits", NULL);
    shop_init(&s, "known:", "x", STORE_INTEGER);
    feed_is(&s, 0, FEED_SERIES, "s<store>", "\"known:\", which can be the key of counter sales");
    shop_init(&s, "x<store>", "count:7:s<store>", STORE_INTEGER); /* a precision that is not kept */
    feed_is(&s, 0, FEED_SERIES, "s<store>", NULL);
    shop_init(&s, "tb.<store>", "x<store>", STORE_TEXT);
    feed_is(&s, 0, FEED_TIMEBOX, "b<store>", "\"tb.b<store>\", which can be the key of counter sales");
    shop_init(&s, "x<store>", "pv.b<store>", STORE_INTEGER);
    feed_is(&s, 0, FEED_TIMEBOX, "b<store>", "\"pv.b<store>\", which can be the lock of counter sales");
    shop_init(&s, "s<store>:sales", "s<store>:index", STORE_INTEGER);
    feed_is(&s, 0, FEED_EVENT, "s<store>:sales", "\"s<store>:sales\", which can be the key of counter sales");
    feed_is(&s, 0, FEED_EVENT, "s<store>:view", "\"s<store>:index\", which can be the lock of counter sales");
    feed_is(&s, 0, FEED_EVENT, "v<store>:view", NULL);
    shop_init(&s, "statcache:view", "x", STORE_INTEGER);
    feed_is(&s, 0, FEED_EVENT, "s<store>:view", "\"statcache:view\", which can be the key of counter sales");
}

UNIT(test_events)
{
    struct shop s;
    static const char *const bad[] = {"views",     "<store>",        "s<store>:", ":view",
                                      "a:<store>", "s<store>:index", "s<store>"};
    shop_init(&s, "s<store>:sales", "s<store>:sales:sync", STORE_INTEGER);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        feed_is(&s, 0, FEED_EVENT, bad[i], "no name and type of events");
    feed_is(&s, 0, FEED_EVENT, "tally:s<store>:view", "can begin with tally:");
    feed_is(&s, 0, FEED_EVENT, "count:<store>:view", "can begin with count:");
    feed_is(&s, 0, FEED_EVENT, "p<store>:view", NULL); /* digits are no "v." */
    shop_init(&s, "s<store>:sales", "s<store>:sales:sync", STORE_TEXT);
    feed_is(&s, 0, FEED_EVENT, "p<store>:view", "can begin with pv.");
    feed_is(&s, 0, FEED_EVENT, "ta<store>:view", "can begin with tally:");
    feed_is(&s, 0, FEED_EVENT, "ta<store>-view:x", NULL); /* no ':' after "lly" */
}

UNIT(test_stores)
{
    struct shop s;
    char longest[520];
    shop_init(&s, "sales", "sales:sync", STORE_INTEGER);
    feed_is(&s, 1, FEED_SERIES, "s<store>", "the counter's key holds no <store>");
    feed_is(&s, 1, FEED_SERIES, "sales", NULL);
    snprintf(longest, sizeof longest, "<store>%0493d", 0); /* and 19 digits: 512 */
    feed_is(&s, 0, FEED_SERIES, longest, NULL);
    snprintf(longest, sizeof longest, "<store>%0494d", 0);
    feed_is(&s, 0, FEED_SERIES, longest, "longer than 512 bytes");
}

static void uniq_is(struct shop *s, size_t counter, const char *name, const char *problem)
{
    struct error e;
    s->ops.uniq_name = pattern(name);
    s->ops.uniq_counter = &s->all[counter];
    enum err code = uniq_feed_validate(&s->counters, &e);
    if (problem == NULL && code != ERR_NONE) fail_msg("%s is refused: %s", name, e.text);
    if (problem == NULL) return;
    assert_int_equal(code, ERR_CONFIG);
    if (strstr(e.text, problem) == NULL) fail_msg("%s: %s", name, e.text);
}

UNIT(test_uniques)
{
    struct shop s;
    shop_init(&s, "s<store>:sales", "v<store>_2010_10_10:hll", STORE_INTEGER);
    uniq_is(&s, 0, "s<store>:visitors", NULL);
    uniq_is(&s, 0, "s<store>:visits", NULL); /* s7:visits_2014_09_20 is not s7:visits */
    uniq_is(&s, 1, "s<store>:visitors", "counter sales has the field hour");
    uniq_is(&s, 0, "visitors", "holds a <store> and uniques.name does not");
    uniq_is(&s, 0, "v<store>", "\"v<store>_2010_10_10:hll\", which can be the lock of counter sales");
    uniq_is(&s, 0, "tally:<store>", "can begin with tally:");
    shop_init(&s, "s_<store>", "x<store>", STORE_TEXT);
    uniq_is(&s, 0, "s_<store>", "\"s_<store>_2010_10_10\", which can be the key of counter sales");
}
