/* Slots as a cluster has them, and the tags of lanes. */
#include "lib/unit.h"

#include "series/names.h"

#include <stdio.h>

UNIT(are_those_of_cluster_keyslot)
{
    static const struct {
        const char *key;
        unsigned slot; /* as redis-server 7.0.15 answers CLUSTER KEYSLOT */
    } known[] = {{"", 0},
                 {"123456789", 12739},
                 {"foo", 12182},
                 {"foo{}{bar}", 8363},
                 {"foo{{bar}}zap", 4015},
                 {"foo{bar}{zap}", 5061},
                 {"{user1000}.following", 3443},
                 {"{", 4092},
                 {"}", 12090},
                 {"{}", 15257},
                 {"x{y", 2740},
                 {"a}b{c}d", 7365},
                 {"s12345:unique_visitors:daily", 10159}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(slot_of(slice_str(known[i].key)), known[i].slot);
    assert_int_equal(slot_of(slice_of(NULL, 0)), 0);
}

/* Keys are found by it: it must never change. */
UNIT(one_lane_has_this_tag)
{
    struct tag tag;
    tag_find(0, 1, &tag);
    assert_slice(tag_slice(&tag), "{fjl}");
    assert_int_equal(slot_of(tag_slice(&tag)), SLOTS / 2);
}

UNIT(each_lane_is_in_the_middle_of_its_part)
{
    for (unsigned lanes = 1; lanes <= 256; lanes *= 2)
        for (unsigned lane = 0; lane < lanes; lane++) {
            struct tag tag;
            tag_find(lane, lanes, &tag);
            assert_int_equal(slot_of(tag_slice(&tag)), (2 * lane + 1) * SLOTS / (2 * lanes));
            assert_true(tag.n <= TAG_BYTES_MAX);
        }
}

UNIT(a_tag_rules_whatever_stands_behind_it)
{
    struct tag tag;
    tag_find(3, 16, &tag);
    static const char *const names[] = {"tally:dirty", "s1:unique_visitors:daily", "count:60:{odd}", "}{",
                                        ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buf key = {0};
        buf_put_slice(&key, tag_slice(&tag));
        buf_put_slice(&key, slice_str(names[i]));
        assert_int_equal(slot_of(buf_slice(&key)), slot_of(tag_slice(&tag)));
        buf_free(&key);
    }
}

/* Stores are found by their lanes: none of these may ever change. */
UNIT(a_store_is_of_this_lane)
{
    static const struct {
        const char *store;
        unsigned of_16, of_256;
    } known[] = {{"", 3, 61},       {"0", 15, 241},   {"1", 4, 65},
                 {"7", 0, 3},       {"12345", 1, 16}, {"9223372036854775807", 5, 93},
                 {"berlin", 6, 109}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(lane_of_store(slice_str(known[i].store), 1), 0);
        assert_int_equal(lane_of_store(slice_str(known[i].store), 16), known[i].of_16);
        assert_int_equal(lane_of_store(slice_str(known[i].store), 256), known[i].of_256);
    }
    assert_int_equal(lane_of_store(slice_of(NULL, 0), 16), known[0].of_16);
}

/* Stores numbered one after the other: no lane has more than a tenth more, or less, than its share. */
UNIT(stores_spread_evenly)
{
    for (unsigned lanes = 16; lanes <= LANES_MAX; lanes *= 16) {
        unsigned of[LANES_MAX] = {0}, share = 2000;
        for (unsigned i = 0; i < lanes * share; i++) {
            char store[16];
            int n = snprintf(store, sizeof store, "%u", i);
            of[lane_of_store(slice_of(store, (size_t)n), lanes)]++;
        }
        for (unsigned lane = 0; lane < lanes; lane++)
            assert_in_range(of[lane], share - share / 10, share + share / 10);
    }
}
