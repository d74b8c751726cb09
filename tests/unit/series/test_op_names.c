/* Names that would make another program's key, and days. */
#include "lib/unit.h"

#include "series/names.h"
#include "series/op.h"
#include <stdio.h>

static struct counter all[] = {
    {.name = {"daily", 5},
     .key = {{"s", 1}, {":visitors:daily", 15}, true, NULL},
     .lock = {{"s", 1}, {":visitors:sync", 14}, true, NULL}},
    {.name = {"odd", 3},
     .key = {{"count:60:odd", 12}, {"", 0}, false, NULL},
     .lock = {{"pv.odd", 6}, {"", 0}, false, NULL}},
    {.name = {"stamp", 5},
     .key = {{"u", 1}, {"_2007_12_04", 11}, true, NULL},
     .lock = {{"u", 1}, {"_2007_12_05:hll", 15}, true, NULL}},
};
static const struct op_limits limits = {.precisions = {5, 60}, .precisions_n = 2};
static const struct counters counters = {.all = all, .n = 3, .ops = &limits};

/* "": it fits */
static const char *says(enum op_kind kind, struct slice name, struct slice type, int64_t day)
{
    static struct buf scratch, why;
    static char text[400];
    buf_reset(&why);
    bool fits = op_names_fit(&counters, kind, name, type, day, &scratch, &why);
    assert_int_equal(fits, why.n == 0);
    snprintf(text, sizeof text, SLICE_FMT, SLICE_ARG(buf_slice(&why)));
    buf_free(&scratch);
    buf_free(&why);
    return text;
}

#define SERIES(name) says(OP_SERIES, SLICE(name), SLICE(""), 0)
#define BOX(name) says(OP_TIMEBOX, SLICE(name), SLICE(""), 0)
#define EVENT(name, type) says(OP_EVENT, SLICE(name), SLICE(type), 0)
#define UNIQ(name, day) says(OP_UNIQ, SLICE(name), SLICE(""), day)
#define OF(key, counter) "ERR that would be the key '" key "', which belongs to counter '" counter "'"
#define OWN(key, lead)                                                                                       \
    "ERR that would be the key '" key "', and keys that begin with '" lead "' are tallyd's own"
#define NAME "ERR a name is 1 to 512 bytes without control characters"
#define TYPE "ERR a type is 1 to 512 bytes without control characters and ':'"
#define HEX "0123456789abcdef0123456789abcdef"

UNIT(what_is_a_name)
{
    char longest[513];
    memset(longest, 'x', sizeof longest);
    assert_string_equal(says(OP_SERIES, slice_of(longest, 512), SLICE(""), 0), "");
    assert_string_equal(says(OP_SERIES, slice_of(longest, 513), SLICE(""), 0), NAME);
    assert_string_equal(SERIES(""), NAME);
    assert_string_equal(SERIES("a\nb"), NAME);
    assert_string_equal(SERIES("a\0b"), NAME);
    assert_string_equal(SERIES("a\x7f"), NAME);
    assert_string_equal(SERIES("s1:views of caf\xc3\xa9 {1}"), "");
    assert_string_equal(BOX(""), NAME);
    assert_string_equal(EVENT("blob", ""), TYPE);
    assert_string_equal(EVENT("blob", "a:b"), TYPE);
    assert_string_equal(EVENT("blob", "a\tb"), TYPE);
    assert_string_equal(EVENT("a:b", "c"), "");
}

UNIT(keys_of_counters_are_taken)
{
    assert_string_equal(SERIES("odd"), OF("count:60:odd", "odd"));
    assert_string_equal(SERIES("odder"), "");
    assert_string_equal(SERIES("s1:visitors:daily"), ""); /* count:5:s1:... is no counter's */
    assert_string_equal(BOX("odd"), OF("pv.odd", "odd"));
    assert_string_equal(BOX("even"), "");
    assert_string_equal(EVENT("s1:visitors", "daily"), OF("s1:visitors:daily", "daily"));
    assert_string_equal(EVENT("s1:visitors", "sync"), OF("s1:visitors:sync", "daily"));
    assert_string_equal(EVENT("s1:visitors", "daily_" HEX), OF("s1:visitors:daily_" HEX, "daily"));
    assert_string_equal(EVENT("s1:visitors", "daily_1"), "");
    assert_string_equal(EVENT("sx:visitors", "daily"), ""); /* x is no store */
    assert_string_equal(UNIQ("u7", 20071204), OF("u7_2007_12_04", "stamp"));
    assert_string_equal(UNIQ("u7", 20071205), OF("u7_2007_12_05:hll", "stamp"));
    assert_string_equal(UNIQ("u7", 20071206), "");
}

UNIT(keys_of_tallyd_are_taken)
{
    assert_string_equal(EVENT("tally", "dirty"), OWN("tally:dirty", "tally:"));
    assert_string_equal(EVENT("known", "x"), OWN("known:x", "known:"));
    assert_string_equal(EVENT("count:5", "views"), OWN("count:5:views", "count:"));
    assert_string_equal(EVENT("statcache", "x"), OWN("statcache:x", "statcache:"));
    assert_string_equal(EVENT("tb.page", "x"), OWN("tb.page:x", "tb."));
    assert_string_equal(EVENT("pv.page", "x"), OWN("pv.page:x", "pv."));
    assert_string_equal(EVENT("tallyho", "x"), "");
    assert_string_equal(EVENT("blob", "index"),
                        "ERR the type 'index' is taken: that key is the ticker which numbers the events");
    assert_string_equal(UNIQ("tally:x", 20071204), OWN("tally:x_2007_12_04", "tally:"));
    assert_string_equal(UNIQ("unique_users", 20071204), "");
    assert_string_equal(SERIES("tally:dirty"), ""); /* count:5:tally:dirty is harmless */
}

UNIT(days_are_numbered)
{
    assert_int_equal(day_number(19700101), 0);
    assert_int_equal(day_number(19700102), 1);
    assert_int_equal(day_of_number(day_number(20000229) + 1), 20000301);
    assert_int_equal(day_of_number(day_number(21000228) + 1), 21000301);
    assert_int_equal(day_of_number(day_number(99991231)), 99991231);
    for (int64_t n = 0; n < 100000; n += 13)
        assert_int_equal(day_number(day_of_number(n)), n);
    assert_int_equal(day_of_s(1411199999), 20140920);
    assert_int_equal(day_of_s(1411257600 - 1), 20140920);
    assert_int_equal(day_of_s(1411257600), 20140921);
}
