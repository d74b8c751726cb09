/* Names of tallyd's own keys, as operators read them. */
#include "lib/unit.h"

#include "lib/dice.h"
#include "series/names.h"

#define HEX "00112233445566778899aabbccddeeff"

static struct batch_id sample(void)
{
    struct batch_id id;
    assert_true(batch_id_read(SLICE(HEX), &id));
    return id;
}

UNIT(are_made_here)
{
    struct batch_id id = sample();
    struct life l = {.instance = SLICE("shop-1"), .id = "0123456789abcdef"};
    struct buf b = {0};
    name_batch(&b, &id), buf_put_char(&b, '\n');
    name_claimed(&b, SLICE("s1:unique_visitors:daily"), &id), buf_put_char(&b, '\n');
    name_of_life(&b, KEY_SEQ_PREFIX, &l), buf_put_char(&b, '\n');
    name_of_life(&b, KEY_FENCE_PREFIX, &l), buf_put_char(&b, '\n');
    name_of_life(&b, KEY_WAIT_PREFIX, &l), buf_put_char(&b, '\n');
    name_of_life(&b, KEY_WAITAOF_PREFIX, &l), buf_put_char(&b, '\n');
    name_owner(&b, &l), buf_put_char(&b, '\n');
    name_link(&b, &l, "frame");
    assert_slice(buf_slice(&b), "tally:batch:" HEX "\n"
                                "s1:unique_visitors:daily_" HEX "\n"
                                "tally:seq:shop-1:0123456789abcdef\n"
                                "tally:fence:shop-1:0123456789abcdef\n"
                                "tally:wait:shop-1:0123456789abcdef\n"
                                "tally:waitaof:shop-1:0123456789abcdef\n"
                                "shop-1:0123456789abcdef\n"
                                "tallyd:shop-1:0123456789abcdef:frame");
    buf_free(&b);
}

UNIT(the_other_counts_have_the_names_of_their_seeds)
{
    struct slice name = SLICE("hits");
    struct buf b = {0};
    name_series(&b, 5, name), buf_put_char(&b, '\n');
    name_samples(&b, 86400, name), buf_put_char(&b, '\n');
    name_buckets(&b, name), buf_put_char(&b, '\n');
    name_bucket_hits(&b, name), buf_put_char(&b, '\n');
    name_events(&b, SLICE("blob"), SLICE("submit")), buf_put_char(&b, '\n');
    name_ticker(&b, SLICE("blob")), buf_put_char(&b, '\n');
    name_windows(&b, SLICE("submit")), buf_put_char(&b, '\n');
    name_visitors(&b, SLICE("unique_users"), 20071204), buf_put_char(&b, '\n');
    name_visitors_sketch(&b, SLICE("unique_users"), 10000101);
    assert_slice(buf_slice(&b), "5:hits\n"
                                "count:86400:hits\n"
                                "tb.hits\n"
                                "pv.hits\n"
                                "blob:submit\n"
                                "blob:index\n"
                                "statcache:submit\n"
                                "unique_users_2007_12_04\n"
                                "unique_users_1000_01_01:hll");
    buf_free(&b);
}

UNIT(claimed_names_come_apart)
{
    struct dice d = dice_new("claimed_names_come_apart");
    struct buf b = {0};
    for (int i = 0; i < 5000; i++) {
        struct batch_id id, back;
        struct slice pending;
        char name[12];
        size_t n = dice_below(&d, sizeof name);
        for (size_t at = 0; at < n; at++)
            name[at] = "a_09f:"[dice_below(&d, 6)];
        batch_id_draw(&id);
        buf_reset(&b);
        name_claimed(&b, slice_of(name, n), &id);
        assert_true(claimed_split(buf_slice(&b), &pending, &back));
        assert_true(slice_eq(pending, slice_of(name, n)));
        assert_memory_equal(&back, &id, sizeof id);
        size_t broken = n + dice_below(&d, 33);
        b.p[broken] = broken == n ? '-' : 'G';
        assert_false(claimed_split(buf_slice(&b), NULL, NULL));
    }
    buf_free(&b);
}

UNIT(other_names_do_not)
{
    assert_true(claimed_split(SLICE("_" HEX), NULL, NULL));
    assert_false(claimed_split(SLICE(HEX), NULL, NULL));
    assert_false(claimed_split(SLICE("a" HEX), NULL, NULL));
    assert_false(claimed_split(SLICE("a_" HEX "0"), NULL, NULL));
    assert_false(claimed_split(SLICE("a_00112233445566778899AABBCCDDEEFF"), NULL, NULL));
    assert_false(claimed_split(SLICE(""), NULL, NULL));
}

UNIT(ids_are_drawn_anew)
{
    struct batch_id a, b, back;
    struct life l, m;
    char hex[33];
    batch_id_draw(&a), batch_id_draw(&b);
    assert_memory_not_equal(&a, &b, sizeof a);
    batch_id_hex(&a, hex);
    assert_int_equal(strlen(hex), 32);
    assert_true(batch_id_read(slice_str(hex), &back));
    assert_memory_equal(&a, &back, sizeof a);
    life_init(&l, SLICE("x")), life_init(&m, SLICE("x"));
    assert_int_equal(strlen(l.id), 16);
    assert_string_not_equal(l.id, m.id);
}

UNIT(a_bad_id_leaves_the_old_one)
{
    struct batch_id id = sample(), before = id;
    assert_false(batch_id_read(SLICE("ffffffffffffffffffffffffffffffzz"), &id));
    assert_memory_equal(&id, &before, sizeof id);
}
