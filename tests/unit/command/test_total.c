/* CTR.TOTAL as a command: what it refuses, what it asks for, its reply, and a client that leaves before the answer. */
#include "unit/command/world.h"

static void answered(enum ask_outcome outcome, const int64_t *totals)
{
    struct total_request *t = total_out;
    total_out = NULL;
    t->outcome = outcome;
    t->text = "ERR why";
    t->totals = totals;
    t->done(t);
}

static void total_is_a_barrier_and_keeps_the_order_of_fields(void **state)
{
    (void)state;
    say(client, "HINCRBY s1:views 7 1\r\nCTR.TOTAL s1:views 8 7 8\r\nPING\r\n");
    assert_null(total_out);
    frame_answered();
    heard(client, ":1\r\n");
    assert_non_null(total_out);
    assert_true(client->paused);
    assert_int_equal(client->holds, 1);
    assert_slice(total_out->key, "s1:views");
    assert_ptr_equal(total_out->counter, &views);
    assert_int_equal(total_out->fields_n, 3);
    assert_slice(total_out->fields[0], "8");
    assert_slice(total_out->fields[1], "7");
    assert_slice(total_out->fields[2], "8");
    answered(ASK_DONE, (const int64_t[]){-5, INT64_MAX, -5});
    assert_false(client->paused);
    conn_take(client);
    conn_flush(client);
    heard(client, "*3\r\n:-5\r\n:9223372036854775807\r\n:-5\r\n+PONG\r\n");
    assert_int_equal(client->holds, 0);
}

static void total_says_why_not(void **state)
{
    (void)state;
    const char *told[] = {
        [ASK_MYSQL_DOWN] =
            "-ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back\r\n",
        [ASK_REDIS_DOWN] = "-MASTERDOWN Redis is away\r\n",
        [ASK_HELD] = "-ERR merging is held until an operator has looked: the log of tallyd says why\r\n",
        [ASK_FAILED] = "-ERR why\r\n",
    };
    for (enum ask_outcome o = ASK_MYSQL_DOWN; o <= ASK_FAILED; o++) {
        say(client, "CTR.TOTAL s1:views 7\r\n");
        answered(o, NULL);
        conn_flush(client);
        heard(client, told[o]);
    }
}

static void total_refuses_at_the_door(void **state)
{
    (void)state;
    say(client, "CTR.TOTAL s1:views\r\n");
    heard(client, "-ERR wrong number of arguments for 'ctr.total' command\r\n");
    say(client, "CTR.TOTAL other 1\r\n");
    heard(client, "-ERR no counter is configured for key 'other'\r\n");
    say(client, "CTR.TOTAL s1:views 1 07\r\n");
    heard(client, "-ERR field '07' of counter 'views' is not an integer\r\n");
    assert_null(total_out);
    say(client, "MULTI\r\nCTR.TOTAL s1:views 1\r\n");
    assert_null(total_out);
}

static void ask_for(int n)
{
    struct buf b = {0};
    BUF_LIT(&b, "CTR.TOTAL s1:views");
    for (int i = 0; i < n; i++)
        buf_printf(&b, " %d", i);
    BUF_LIT(&b, "\r\n");
    say_slice(client, buf_slice(&b));
    buf_free(&b);
}

static void a_thousand_fields_and_no_more(void **state)
{
    (void)state;
    static const int64_t zeros[1000];
    ask_for(1001);
    heard(client, "-ERR too many fields: at most 1000 at once\r\n");
    assert_null(total_out);
    ask_for(1000);
    assert_int_equal(total_out->fields_n, 1000);
    assert_slice(total_out->fields[999], "999");
    answered(ASK_DONE, zeros);
}

/* The request stays whole until it is answered. */
static void the_client_goes_meanwhile(void **state)
{
    (void)state;
    say(client, "CTR.TOTAL s1:views 7 8\r\n");
    on_drop(client);
    assert_int_equal(client->holds, 1);
    assert_slice(total_out->key, "s1:views");
    assert_slice(total_out->fields[1], "8");
    answered(ASK_DONE, (const int64_t[]){1, 2});
    assert_int_equal(client->holds, 0);
    assert_int_equal(client->outlet.out.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(total_is_a_barrier_and_keeps_the_order_of_fields),
        TEST(total_says_why_not),
        TEST(total_refuses_at_the_door),
        TEST(a_thousand_fields_and_no_more),
        TEST(the_client_goes_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
