/* Requests by format have the bytes that the pieces have, and answers are taken apart. */
#include "lib/redis_world.h"
#include <inttypes.h>

static void assert_same(struct buf *a, struct buf *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->p, b->p, a->n);
    buf_free(a);
    buf_free(b);
}

UNIT(test_format)
{
    const struct slice tag = SLICE("{x}"), bytes = slice_of("a b\0%\r\n", 7);
    struct buf got = {0}, want = {0};
    request_format(&got, tag, "EVAL %.*s 2 {}" KEY_GEN " {}%.*s %d %u %ld %" PRIu64 " %zu p%s:%d %s",
                   SLICE_ARG(bytes), SLICE_ARG(bytes), -1, 4000000000u, -5L, UINT64_C(7), (size_t)8, "re", 9,
                   "");
    request_eval(&want, bytes, 2, 7);
    REQUEST_KEY(&want, tag, KEY_GEN);
    request_key(&want, tag, bytes);
    request_int(&want, -1);
    request_int(&want, 4000000000);
    request_int(&want, -5);
    request_int(&want, 7);
    request_int(&want, 8);
    REQUEST_LIT(&want, "pre:9");
    REQUEST_LIT(&want, "");
    assert_same(&got, &want);
    request_format(&got, tag, "UNLINK {} +%zu", (size_t)2);
    request_array(&want, 4);
    REQUEST_LIT(&want, "UNLINK");
    request_key(&want, tag, SLICE(""));
    assert_same(&got, &want);
    request_format(&got, tag, "INFO");
    request_words(&want, "INFO");
    assert_same(&got, &want);
}

WORLD_TEST(test_scan)
{
    struct slice text;
    int64_t i, n;
    const struct redis_answer *all, *list, *any;
    const struct redis_answer *r = redis_call(&world->link, "EVAL %s 0", "return {'a', 5, {'7', {}}, false}");
    assert_true(answer_scan(r, "(si(ia)*)", &text, &i, &n, &list, &any));
    assert_slice(text, "a");
    assert_true(i == 5 && n == 7 && list->n == 0 && any->type == REDIS_NIL);
    assert_true(answer_scan(r, "a", &all) && all == r);
    assert_false(answer_scan(r, "(si(ia))", &text, &i, &n, &list));               /* more are there */
    assert_false(answer_scan(r, "(si(ia)**)", &text, &i, &n, &list, &any, &any)); /* fewer */
    assert_false(answer_scan(r, "(ss(ia)*)", &text, &text, &n, &list, &any));
    assert_false(answer_scan(r, "(si(ia)a)", &text, &i, &n, &list, &any));
    assert_false(answer_scan(NULL, "*", &any));
}

/* Answers that come meanwhile do not touch it. */
WORLD_TEST(test_call)
{
    const struct redis_answer *r = redis_call(&world->link, "ECHO %s", "kept");
    for (int i = 0; i < 3; i++) {
        request_words(redis_link_begin(&world->link), "UNWATCH");
        redis_link_ask(&world->link, 1, on_forgot, NULL);
    }
    redis_settle(&world->link);
    assert_slice(r->str, "kept");
    redis_server_kill(&world->server);
    assert_null(redis_call(&world->link, "PING"));
    assert_null(redis_call(&world->link, "PING"));
}
