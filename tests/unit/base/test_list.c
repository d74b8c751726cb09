/* Rings: order, removing twice, moving all. */
#include "lib/unit.h"

#include "base/list.h"

struct item {
    int n;
    struct list link;
};

static int popped(struct list *l)
{
    struct list *node = list_pop(l);
    return node != NULL ? CONTAINER_OF(node, struct item, link)->n : -1;
}

UNIT(keeps_order)
{
    struct list l;
    struct item items[3] = {{.n = 0}, {.n = 1}, {.n = 2}};
    list_init(&l);
    assert_int_equal(popped(&l), -1);
    for (int i = 0; i < 3; i++) {
        assert_false(list_linked(&items[i].link));
        list_push(&l, &items[i].link);
        assert_true(list_linked(&items[i].link));
    }
    int expected = 0;
    list_for_each (node, &l)
        assert_int_equal(CONTAINER_OF(node, struct item, link)->n, expected++);
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    assert_false(list_linked(&items[1].link));
    assert_int_equal(popped(&l), 0);
    assert_int_equal(popped(&l), 2);
    assert_true(list_empty(&l));
}

UNIT(moves_all)
{
    struct list a, b;
    struct item items[2] = {{.n = 0}, {.n = 1}};
    list_init(&a), list_init(&b);
    list_move_all(&b, &a);
    assert_true(list_empty(&b));
    list_push(&a, &items[0].link), list_push(&a, &items[1].link);
    list_move_all(&b, &a);
    assert_true(list_empty(&a));
    assert_int_equal(popped(&b), 0);
    assert_int_equal(popped(&b), 1);
    assert_int_equal(popped(&b), -1);
}
