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

TEST(total_is_a_barrier_and_keeps_the_order_of_fields)
{
    say(client, "HINCRBY s1:views 7 1\r\nCTR.TOTAL s1:views 8 7 8\r\nPING\r\n");
    assert_null(total_out);
    frame_heard(client, ":1\r\n");
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

TEST(total_says_why_not)
{
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

TEST(total_refuses_at_the_door)
{
    talk(client, "CTR.TOTAL s1:views\r\n", "-ERR wrong number of arguments for 'ctr.total' command\r\n");
    talk(client, "CTR.TOTAL other 1\r\n", "-ERR no counter is configured for key 'other'\r\n");
    talk(client, "CTR.TOTAL s1:views 1 07\r\n", "-ERR field '07' of counter 'views' is not an integer\r\n");
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

TEST(a_thousand_fields_and_no_more)
{
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
TEST(the_client_goes_meanwhile)
{
    say(client, "CTR.TOTAL s1:views 7 8\r\n");
    on_drop(client);
    assert_int_equal(client->holds, 1);
    assert_slice(total_out->key, "s1:views");
    assert_slice(total_out->fields[1], "8");
    answered(ASK_DONE, (const int64_t[]){1, 2});
    assert_int_equal(client->holds, 0);
    assert_int_equal(client->outlet.out.n, 0);
}

static void say_line(const char *request, const char *more)
{
    char line[160];
    snprintf(line, sizeof line, "%s%s\r\n", request, more);
    say_slice(client, slice_str(line));
}

/* --- FROM first TO last --- */

TEST(a_range_is_its_fields)
{
    views.field = FIELD_DATE;
    say(client, "CTR.TOTAL s1:views from 20240228 to 20240301\r\n");
    assert_slice(total_out->key, "s1:views");
    assert_true(total_out->sums);
    assert_int_equal(total_out->fields_n, 3);
    assert_slice(total_out->fields[0], "20240228");
    assert_slice(total_out->fields[1], "20240229");
    assert_slice(total_out->fields[2], "20240301");
    answered(ASK_DONE, (const int64_t[]){42});
    conn_flush(client);
    heard(client, "*1\r\n:42\r\n");
    views.spelled = (struct value_type){VALUE_DATE, SPELLED_DASHES, 0}; /* as its app spells days */
    say(client, "CTR.TOTAL s1:views FROM 2024-02-29 TO 2024-03-01\r\n");
    assert_int_equal(total_out->fields_n, 2);
    assert_slice(total_out->fields[0], "2024-02-29");
    assert_slice(total_out->fields[1], "2024-03-01");
    answered(ASK_DONE, (const int64_t[]){0});
    conn_flush(client);
    heard(client, "*1\r\n:0\r\n");
    views.spelled = (struct value_type){0};
}

TEST(ranges_that_are_none)
{
    static const char *const said[][2] = {
        {"CTR.TOTAL s1:views FROM 20240228", "-ERR syntax error\r\n"},
        {"CTR.TOTAL s1:views FROM 20240228 TILL 20240301", "-ERR syntax error\r\n"},
        {"CTR.TOTAL s1:views FROM 20240228 TO 20240301 20240302", "-ERR syntax error\r\n"},
        {"CTR.TOTAL s1:views FROM 20240228 TO 20240230",
         "-ERR field '20240230' of counter 'views' is not a date as YYYYMMDD\r\n"},
        {"CTR.TOTAL s1:views FROM 20240229 TO 20240228",
         "-ERR from is after to; the first day comes first\r\n"},
        {"CTR.TOTAL s1:views FROM 20240101 TO 20260927",
         "-ERR that is 1001 days; at most 1000 come at once\r\n"},
        {"HMGET s1:views FROM 20240228 TO 20240301",
         "-ERR field 'FROM' of counter 'views' is not a date as YYYYMMDD\r\n"},
    };
    views.field = FIELD_DATE;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        say_line(said[i][0], "");
        heard(client, said[i][1]);
        assert_null(total_out);
    }
    say(client, "CTR.TOTAL s1:views FROM 20240101 TO 20260926\r\n");
    assert_int_equal(total_out->fields_n, 1000);
    assert_slice(total_out->fields[999], "20260926");
    answered(ASK_DONE, (const int64_t[]){1});
    conn_flush(client);
    heard(client, "*1\r\n:1\r\n");
    views.field = FIELD_INTEGER;
    talk(client, "CTR.TOTAL s1:views FROM 1 TO 2\r\n",
         "-ERR field 'FROM' of counter 'views' is not an integer\r\n");
}

/* --- OR STALE --- */

static void told(const char *request, enum ask_outcome outcome, const int64_t *totals, const char *reply)
{
    say_line(request, " OR STALE");
    assert_non_null(total_out);
    answered(outcome, totals);
    conn_flush(client);
    heard(client, reply);
}

#define AWAY "-ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back\r\n"

TEST(the_last_totals_when_there_are_no_others)
{
    told("CTR.TOTAL s1:views 7", ASK_MYSQL_DOWN, NULL, AWAY);
    told("CTR.TOTAL s1:views 7 8", ASK_DONE, (const int64_t[]){5, 6}, "*3\r\n:5\r\n:6\r\n:0\r\n");
    told("CTR.TOTAL s1:views 8", ASK_MYSQL_DOWN, NULL, "*2\r\n:6\r\n:0\r\n");
    told("CTR.TOTAL s1:views 8 7 8", ASK_FAILED, NULL, "*4\r\n:6\r\n:5\r\n:6\r\n:0\r\n");
    told("CTR.TOTAL s1:views 8 9", ASK_MYSQL_DOWN, NULL, AWAY); /* not of all */
    told("CTR.TOTAL s2:views 8", ASK_MYSQL_DOWN, NULL, AWAY);
    told("CTR.TOTAL s1:views 8", ASK_DONE, (const int64_t[]){9}, "*2\r\n:9\r\n:0\r\n");
    told("CTR.TOTAL s1:views 8", ASK_MYSQL_DOWN, NULL, "*2\r\n:9\r\n:0\r\n");
    say(client, "CTR.TOTAL s1:views 8\r\n"); /* who did not ask for it */
    answered(ASK_MYSQL_DOWN, NULL);
    conn_flush(client);
    heard(client, AWAY);
}

TEST(a_range_is_a_figure_of_its_own)
{
    views.field = FIELD_DATE;
    told("CTR.TOTAL s1:views FROM 20240228 TO 20240229", ASK_DONE, (const int64_t[]){5},
         "*2\r\n:5\r\n:0\r\n");
    told("CTR.TOTAL s1:views FROM 20240228 TO 20240229", ASK_MYSQL_DOWN, NULL, "*2\r\n:5\r\n:0\r\n");
    told("CTR.TOTAL s1:views FROM 20240228 TO 20240301", ASK_MYSQL_DOWN, NULL, AWAY);
    told("CTR.TOTAL s1:views FROM 20240228 TO 20240228", ASK_DONE, (const int64_t[]){4},
         "*2\r\n:4\r\n:0\r\n");
    told("CTR.TOTAL s1:views 20240228", ASK_DONE, (const int64_t[]){3}, "*2\r\n:3\r\n:0\r\n");
    told("CTR.TOTAL s1:views FROM 20240228 TO 20240228", ASK_MYSQL_DOWN, NULL, "*2\r\n:4\r\n:0\r\n");
    views.field = FIELD_INTEGER;
}

/* A server that does not answer: after a second the last totals are told. What is late becomes the last. */
TEST(the_last_totals_instead_of_a_long_wait)
{
    told("CTR.TOTAL s1:views 7", ASK_DONE, (const int64_t[]){5}, "*2\r\n:5\r\n:0\r\n");
    say(client, "CTR.TOTAL s1:views 7 OR STALE\r\n");
    struct total_request *late = total_out;
    command_tick(command, mono_ms() + 900);
    assert_true(client->paused);
    command_tick(command, mono_ms() + 1000);
    assert_false(client->paused);
    conn_flush(client);
    heard(client, "*2\r\n:5\r\n:0\r\n");
    assert_int_equal(client->holds, 0);
    total_out = NULL;
    talk(client, "CTR.TOTAL s1:views 7 OR STALE\r\n",
         "*2\r\n:5\r\n:0\r\n"); /* the next one waits for nothing */
    assert_null(total_out);
    say(client, "CTR.TOTAL s1:views 8 OR STALE\r\n"); /* not known, so it waits */
    command_tick(command, mono_ms() + 60000);
    assert_true(client->paused);
    answered(ASK_MYSQL_DOWN, NULL);
    conn_flush(client);
    heard(client, AWAY);
    total_out = late;
    answered(ASK_DONE, (const int64_t[]){6});
    conn_flush(client);
    heard(client, "");
    told("CTR.TOTAL s1:views 7", ASK_MYSQL_DOWN, NULL, "*2\r\n:6\r\n:0\r\n");
}

/* The oldest go; the world has room for some hundred. */
TEST(not_more_than_there_is_room_for)
{
    char request[64], reply[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(request, sizeof request, "CTR.TOTAL s%d:views 7", i);
        snprintf(reply, sizeof reply, "*2\r\n:%d\r\n:0\r\n", i);
        told(request, ASK_DONE, (const int64_t[]){i}, reply);
        if (i % 2 == 0) told("CTR.TOTAL s0:views 7", ASK_DONE, (const int64_t[]){0}, "*2\r\n:0\r\n:0\r\n");
    }
    told("CTR.TOTAL s999:views 7", ASK_MYSQL_DOWN, NULL, "*2\r\n:999\r\n:0\r\n");
    told("CTR.TOTAL s0:views 7", ASK_MYSQL_DOWN, NULL, "*2\r\n:0\r\n:0\r\n");
    told("CTR.TOTAL s500:views 7", ASK_MYSQL_DOWN, NULL, AWAY);
}
