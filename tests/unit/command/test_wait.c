/* WAIT and WAITAOF as commands: they wait for the hits before them; what they ask for, the replies, and a client that leaves. */
#include "unit/command/world.h"

static void answered(enum ask_outcome outcome, int64_t local, int64_t replicas)
{
    struct wait_request *q = wait_out;
    wait_out = NULL;
    q->outcome = outcome;
    q->text = "UNBLOCKED why";
    q->local = local;
    q->replicas = replicas;
    q->done(q);
    conn_take(client);
    conn_flush(client);
}

static void wait_comes_behind_the_hits(void **state)
{
    (void)state;
    say(client, HIT(1) "WAIT 2 500\r\nPING\r\n");
    assert_null(wait_out);
    frame_answered();
    heard(client, ":1\r\n");
    assert_true(client->paused);
    assert_false(wait_out->disk);
    assert_int_equal(wait_out->replicas, 2);
    assert_int_equal(wait_out->local, 0);
    assert_int_equal(wait_out->timeout_ms, 500);
    assert_false(wait_out->left(wait_out));
    answered(ASK_DONE, 0, 1);
    assert_false(client->paused);
    heard(client, ":1\r\n+PONG\r\n");
}

static void waitaof_answers_both(void **state)
{
    (void)state;
    say(client, "WAITAOF 1 3 0\r\n");
    assert_true(wait_out->disk);
    assert_int_equal(wait_out->local, 1);
    assert_int_equal(wait_out->replicas, 3);
    assert_int_equal(wait_out->timeout_ms, 0);
    answered(ASK_DONE, 1, 2);
    heard(client, "*2\r\n:1\r\n:2\r\n");
}

/* Hits answered before this connection's last WAIT are not asked about again. */
static void each_wait_is_about_what_came_since(void **state)
{
    (void)state;
    command_tick(command, mono_ms() + 1000);
    say(client, "WAIT 1 0\r\n");
    uint64_t first_ms = wait_out->since_ms;
    answered(ASK_FAILED, 0, 0);
    heard(client, "-UNBLOCKED why\r\n");
    say(client, "WAIT 1 0\r\n");
    assert_true(wait_out->since_ms >= first_ms + 1000);
    answered(ASK_REDIS_DOWN, 0, 0);
    heard(client, "-MASTERDOWN Redis is away\r\n");
}

static void a_client_that_goes_is_told_nothing(void **state)
{
    (void)state;
    struct conn *other = conn_open();
    say(other, "WAIT 1 0\r\n");
    struct wait_request *q = wait_out;
    wait_out = NULL;
    on_drop(other);
    assert_int_equal(other->holds, 1);
    assert_true(q->left(q));
    q->outcome = ASK_DONE;
    q->done(q);
    assert_int_equal(other->holds, 0);
    conn_close(other);
}

static void not_in_a_transaction(void **state)
{
    (void)state;
    say(client, "MULTI\r\nWAIT 1 0\r\nEXEC\r\n");
    heard(client, "+OK\r\n-ERR Command not allowed inside a transaction\r\n"
                  "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_null(wait_out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wait_comes_behind_the_hits),
        TEST(waitaof_answers_both),
        TEST(each_wait_is_about_what_came_since),
        TEST(a_client_that_goes_is_told_nothing),
        TEST(not_in_a_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
