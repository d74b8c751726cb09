/* CTR.INCRBY ... TOKEN id: what is refused and how, what goes into the frame, alone and in a MULTI. */
#include "world.h"

#define NOT_A_TOKEN "-ERR a TOKEN is 1 to 128 printable ASCII characters without a space\r\n"
#define SYNTAX "-ERR syntax error\r\n"
#define FED                                                                                                  \
    "-ERR counter 'views' feeds other counts, which a token cannot keep from moving twice; nothing was "     \
    "counted\r\n"
#define ABORTED "-EXECABORT Transaction discarded because of previous errors.\r\n"

TEST(a_token_goes_into_the_frame)
{
    say(client, "ctr.incrby s1:views 7 -3 token order:7/a\r\n");
    assert_slice(fake.token.key, "s1:views");
    assert_slice(fake.token.field, "7");
    assert_int_equal(fake.token.delta, -3);
    assert_slice(fake.token.id, "order:7/a");
    assert_slice(fake.token_user, "");
    say(client, "CTR.INCRBY s1:views 7 2\r\n");
    frame_heard(client, ":7\r\n:2\r\n");
}

TEST(so_does_one_of_today)
{
    views.field = FIELD_DATE;
    world_now_s = 86400;
    say(client, "CTR.HIT s1:views TOKEN a\r\n");
    assert_slice(fake.token.field, "19700102");
    assert_slice(fake.token.id, "a");
    assert_int_equal(fake.token.delta, 1);
    assert_true(fake.token.today);
    say(client, "CTR.HIT s1:views -3 token b\r\n");
    assert_slice(fake.token.id, "b");
    assert_int_equal(fake.token.delta, -3);
    say(client, "CTR.INCRBY s1:views 19700102 1 TOKEN c\r\n");
    assert_false(fake.token.today);
    frame_heard(client, ":7\r\n:7\r\n:7\r\n");
    say(client, "MULTI\r\nCTR.HIT s1:views 2 TOKEN d\r\nEXEC\r\n");
    assert_slice(fake.token.id, "d");
    frame_heard(client, "+OK\r\n+QUEUED\r\n*1\r\n:7\r\n");
    views.field = FIELD_INTEGER;
}

TEST(what_is_no_token_is_refused)
{
    char longest[200] =
        "*6\r\n$10\r\nCTR.INCRBY\r\n$8\r\ns1:views\r\n$1\r\n7\r\n$1\r\n1\r\n$5\r\nTOKEN\r\n$129\r\n";
    memset(longest + strlen(longest), 'x', 129);
    say_slice(client, slice_str(longest));
    talk(client, "\r\n", NOT_A_TOKEN);
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN \"\"\r\n", NOT_A_TOKEN);
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN \"a b\"\r\n", NOT_A_TOKEN);
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN \"a\\x7f\"\r\n", NOT_A_TOKEN);
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN\r\n", SYNTAX);
    talk(client, "CTR.INCRBY s1:views 7 1 TOKENS a\r\n", SYNTAX);
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN a b\r\n", SYNTAX);
    talk(client, "CTR.INCRBY s1:views 7 one TOKEN a\r\n", "-ERR value is not an integer or out of range\r\n");
    talk(client, "CTR.INCRBY s1:views x 1 TOKEN a\r\n",
         "-ERR field 'x' of counter 'views' is not an integer\r\n");
    talk(client, "CTR.INCRBY s1:views 7\r\n", "-ERR wrong number of arguments for 'ctr.incrby' command\r\n");
    talk(client, "HINCRBY s1:views 7 1 TOKEN a\r\n",
         "-ERR wrong number of arguments for 'hincrby' command\r\n");
    fake.fed = true;
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN a\r\n", FED);
    assert_int_equal(fake.adds, 0);
}

TEST(without_room_it_waits_as_a_hit_does)
{
    fake.room = 0;
    say(client, "CTR.INCRBY s1:views 7 1 TOKEN a\r\nPING\r\n");
    assert_true(client->paused);
    frame_has_room(10);
    assert_slice(fake.token.id, "a");
    frame_heard(client, ":7\r\n+PONG\r\n");
    fake.down = true;
    talk(client, "CTR.INCRBY s1:views 7 1 TOKEN a\r\n", "-MASTERDOWN Redis is away; nothing was counted\r\n");
}

TEST(a_transaction_takes_tokens)
{
    talk(client, "MULTI\r\nHINCRBY s1:views 7 1\r\nCTR.INCRBY s1:views 7 5 TOKEN a\r\nEXEC\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n");
    assert_slice(fake.token.id, "a");
    frame_heard(client, ":1\r\n:7\r\n");
}

TEST(a_transaction_with_a_bad_token_is_refused_whole)
{
    talk(client, "MULTI\r\nCTR.INCRBY s1:views 7 5 TOKEN a\r\nCTR.INCRBY s1:views 7 5 TOKEN \"\"\r\nEXEC\r\n",
         "+OK\r\n+QUEUED\r\n" NOT_A_TOKEN ABORTED);
    fake.fed = true;
    talk(client, "MULTI\r\nCTR.INCRBY s1:views 7 5 TOKEN a\r\nEXEC\r\n", "+OK\r\n" FED ABORTED);
    assert_int_equal(fake.adds, 0);
}

TEST(a_transaction_waits_for_room_for_its_tokens)
{
    fake.room = 10; /* two are five cells each, and one for the array */
    talk(client, "MULTI\r\nCTR.INCRBY s1:views 7 5 TOKEN a\r\nCTR.INCRBY s1:views 7 5 TOKEN b\r\nEXEC\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    assert_true(client->paused);
    frame_has_room(11);
    frame_heard(client, "*2\r\n:7\r\n:7\r\n");
}
