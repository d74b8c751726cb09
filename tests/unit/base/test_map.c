/* The map: against an array of all possible keys, and its walk in the order of insertion. */
#include "lib/unit.h"

#include "base/map.h"
#include "lib/dice.h"

#define KEYS 400

static struct slice key_of(size_t i, char out[8])
{
    if (i == 0) return SLICE("");
    if (i == 1) return SLICE("a\0b");
    return slice_of(out, (size_t)snprintf(out, 8, "k%zu", i));
}

UNIT(knows_nothing_when_empty)
{
    struct map s;
    size_t at = 0;
    map_init(&s);
    assert_false(map_has(&s, SLICE("a")));
    assert_null(map_get(&s, SLICE("a")));
    assert_false(map_remove(&s, SLICE("a")));
    assert_false(map_next(&s, &at, NULL, NULL));
    map_close(&s);
}

UNIT(copies_its_keys)
{
    struct map s;
    char key[] = "abc";
    int one, two;
    map_init(&s);
    assert_true(map_put(&s, slice_str(key), &one));
    key[0] = 'x';
    assert_false(map_has(&s, slice_str(key)));
    assert_ptr_equal(map_get(&s, SLICE("abc")), &one);
    assert_false(map_put(&s, SLICE("abc"), &two));
    assert_ptr_equal(map_get(&s, SLICE("abc")), &two);
    assert_int_equal(s.n, 1);
    map_close(&s);
}

/* model[i]: when key i came, 0 when it is not there; the values are places in the model. */
static void agree(const struct map *s, size_t *model)
{
    size_t at = 0, walked = 0, before = 0, there = 0;
    struct slice key;
    void *value;
    while (map_next(s, &at, &key, &value)) {
        size_t *place = value, came = *place;
        char name[8];
        assert_true(slice_eq(key, key_of((size_t)(place - model), name)));
        assert_true(came > before);
        before = came;
        walked++;
    }
    for (size_t i = 0; i < KEYS; i++) {
        char name[8];
        there += model[i] != 0;
        assert_int_equal(map_has(s, key_of(i, name)), model[i] != 0);
        assert_ptr_equal(map_get(s, key_of(i, name)), model[i] != 0 ? &model[i] : NULL);
    }
    assert_int_equal(walked, there);
    assert_int_equal(s->n, there);
}

UNIT(equals_a_model)
{
    struct dice d = dice_new("equals_a_model");
    size_t model[KEYS] = {0};
    struct map s;
    map_init(&s);
    for (size_t step = 1; step < 60000; step++) {
        size_t i = dice_below(&d, 1 + dice_below(&d, KEYS));
        char name[8];
        bool put = step % 20000 < 10000 ? dice_below(&d, 3) > 0 : dice_below(&d, 3) == 0;
        if (put) {
            assert_int_equal(map_put(&s, key_of(i, name), &model[i]), model[i] == 0);
            if (model[i] == 0) model[i] = step;
        } else {
            assert_int_equal(map_remove(&s, key_of(i, name)), model[i] != 0);
            model[i] = 0;
        }
        if (step % 500 == 0) agree(&s, model);
    }
    map_close(&s);
}

UNIT(does_not_grow_by_coming_and_going)
{
    struct map s;
    map_init(&s);
    for (size_t i = 0; i < 100000; i++) {
        char name[24];
        struct slice key = slice_of(name, (size_t)snprintf(name, sizeof name, "%zu", i));
        assert_true(map_put(&s, key, NULL));
        assert_true(map_remove(&s, key));
    }
    assert_int_equal(s.n, 0);
    assert_true(s.cap <= 16);
    map_close(&s);
}
