/* The memory of answers: the last one to each question, and the least asked of too many is forgotten. */
#include "lib/unit.h"

#include "http/caches.h"

#include <stdio.h>

static void put(struct answer_cache *c, const char *question, int64_t stored)
{
    struct rows_answer a = {.stored_s = stored, .until_s = {true, 5}};
    rows_add(&a.rows, SLICE("20140920"))->stored = (struct figure){true, stored};
    rows_add(&a.rows, slice_of("a\0b", 3));
    answer_cache_put(c, slice_str(question), &a);
    answer_free(&a);
}

UNIT(the_last_answer_comes_back)
{
    static struct answer_cache c;
    struct rows_answer a = {0};
    answer_cache_init(&c);
    assert_false(answer_cache_get(&c, SLICE("q"), &a));
    put(&c, "q", 1);
    put(&c, "q", 2);
    assert_true(answer_cache_get(&c, SLICE("q"), &a));
    assert_int_equal(a.rows.n, 2);
    assert_int_equal(a.rows.all[0].stored.value, 2);
    assert_false(a.rows.all[1].stored.known);
    assert_int_equal(rows_field(&a.rows, 1).n, 3);
    assert_non_null(rows_find(&a.rows, SLICE("20140920")));
    assert_null(rows_find(&a.rows, SLICE("2014092")));
    assert_true(a.until_s.known && a.stored_s == 2);
    answer_free(&a);
    answer_cache_close(&c);
}

UNIT(what_nobody_asks_is_forgotten_first)
{
    static struct answer_cache c;
    struct rows_answer a = {0};
    char question[16];
    answer_cache_init(&c);
    for (int i = 0; i < CACHED_ANSWERS_MAX; i++) {
        snprintf(question, sizeof question, "q%d", i);
        put(&c, question, i);
    }
    assert_true(answer_cache_get(&c, SLICE("q0"), &a));
    answer_free(&a);
    put(&c, "one more", 1);
    assert_true(answer_cache_get(&c, SLICE("q0"), &a));
    answer_free(&a);
    assert_false(answer_cache_get(&c, SLICE("q1"), &a));
    assert_true(answer_cache_get(&c, SLICE("q2"), &a));
    answer_free(&a);
    answer_cache_close(&c);
}
