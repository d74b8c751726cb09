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

TEST(wait_comes_behind_the_hits)
{
    say(client, HIT(1) "WAIT 2 500\r\nPING\r\n");
    assert_null(wait_out);
    frame_heard(client, ":1\r\n");
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

TEST(waitaof_answers_both)
{
    say(client, "WAITAOF 1 3 0\r\n");
    assert_true(wait_out->disk);
    assert_int_equal(wait_out->local, 1);
    assert_int_equal(wait_out->replicas, 3);
    assert_int_equal(wait_out->timeout_ms, 0);
    answered(ASK_DONE, 1, 2);
    heard(client, "*2\r\n:1\r\n:2\r\n");
}

static uint64_t asked_since_ms(const char *words)
{
    say_slice(client, slice_str(words));
    return wait_out->since_ms;
}

/* Hits answered before this connection's last WAIT that told of them are not asked about again. */
TEST(each_wait_is_about_what_came_since)
{
    uint64_t later_ms = mono_ms() + 1000;
    uint64_t first_ms = asked_since_ms("WAIT 1 0\r\n");
    assert_true(first_ms < later_ms);
    answered(ASK_DONE, 0, 0);
    command_tick(command, later_ms);
    assert_int_equal(asked_since_ms("WAIT 1 0\r\n"), first_ms);
    command_tick(command, later_ms + 1000);
    answered(ASK_DONE, 0, 0); /* a change while it waited is for the next one */
    heard(client, ":0\r\n:0\r\n");
    assert_int_equal(asked_since_ms("WAIT 1 0\r\n"), later_ms);
    answered(ASK_DONE, 0, 0);
    heard(client, ":0\r\n");
}

/* By a WAIT that refuses for another reason, or says nothing, the client has not heard that the primary changed. */
TEST(unblocked_is_told_once_and_not_lost)
{
    uint64_t first_ms = asked_since_ms("WAIT 1 0\r\n");
    command_tick(command, first_ms + 1000);
    answered(ASK_REDIS_DOWN, 0, 0);
    assert_int_equal(asked_since_ms("WAIT 1 0\r\n"), first_ms);
    answered(ASK_FAILED, 0, 0);
    say(client, "CLIENT REPLY SKIP\r\n");
    assert_int_equal(asked_since_ms("WAIT 1 0\r\n"), first_ms);
    answered(ASK_UNBLOCKED, 0, 0);
    assert_int_equal(asked_since_ms("WAIT 1 0\r\n"), first_ms);
    uint64_t told_ms = mono_ms(); /* a tick is older than the change may be */
    answered(ASK_UNBLOCKED, 0, 0);
    assert_true(asked_since_ms("WAIT 1 0\r\n") >= told_ms);
    answered(ASK_DONE, 0, 0);
    heard(client, "-MASTERDOWN Redis is away\r\n-UNBLOCKED why\r\n-UNBLOCKED why\r\n:0\r\n");
}

/* It may want its answer, but not for ever. */
TEST(a_client_that_shut_its_side_down_is_left_later)
{
    say(client, "WAIT 1 0\r\n");
    client->left = true;
    assert_false(wait_out->left(wait_out));
    command_tick(command, mono_ms() + 6000);
    assert_true(wait_out->left(wait_out));
    client->left = false;
    assert_false(wait_out->left(wait_out));
    answered(ASK_DONE, 0, 0);
    heard(client, ":0\r\n");
}

TEST(a_client_that_goes_is_told_nothing)
{
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

TEST(not_in_a_transaction)
{
    talk(client, "MULTI\r\nWAIT 1 0\r\nEXEC\r\n",
         "+OK\r\n-ERR Command not allowed inside a transaction\r\n"
         "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_null(wait_out);
}
