/* SERIES, BOX, EVENT, UNIQ: what is refused and how, what goes into the frame, what is asked and answered. */
#include "world.h"

#define NOT_INT "-ERR value is not an integer or out of range\r\n"
#define NOT_POSITIVE "-ERR value is out of range, must be positive\r\n"
#define SYNTAX "-ERR syntax error\r\n"
#define NOT_DAY(day) "-ERR day '" day "' is not a date as YYYYMMDD\r\n"

struct refusal {
    const char *request, *reply;
};

/* Now is 1411200000, 2014-09-20 08:00 UTC; precisions 1, 5, 60; ahead 60 s. */
static const struct refusal refusals[] = {
    {"SERIES.INCRBY v one", NOT_INT},
    {"SERIES.INCRBY v 1.5", NOT_INT},
    {"SERIES.INCRBY v 9007199254740993",
     "-ERR increment '9007199254740993' is too large: at most 9007199254740992 either way (limits.hit)\r\n"},
    {"BOX.INCRBY v -9007199254740993",
     "-ERR increment '-9007199254740993' is too large: at most 9007199254740992 either way (limits.hit)\r\n"},
    {"SERIES.INCRBY v", "-ERR wrong number of arguments for 'series.incrby' command\r\n"},
    {"SERIES.INCRBY v 1 AT", SYNTAX},
    {"SERIES.INCRBY v 1 ID 7", SYNTAX},
    {"SERIES.INCRBY v 1 AT 1 AT 2", SYNTAX},
    {"SERIES.INCRBY v 1 AT now", NOT_INT},
    {"SERIES.INCRBY v 1 AT -1", "-ERR time '-1' is before 1970; times are seconds since then\r\n"},
    {"SERIES.INCRBY v 1 AT 1411200061",
     "-ERR time 1411200061 is 61 s ahead of Redis' clock; at most 60 s are allowed\r\n"},
    {"BOX.INCRBY v 1 AT 9223372036854775807",
     "-ERR time 9223372036854775807 is 9223372035443575807 s ahead of Redis' "
     "clock; at most 60 s are allowed\r\n"},
    {"SERIES.INCRBY \"\" 1", "-ERR a name is 1 to 512 bytes without control characters\r\n"},
    {"BOX.INCRBY \"a\\nb\" 1", "-ERR a name is 1 to 512 bytes without control characters\r\n"},
    {"SERIES.GET v 7", "-ERR precision 7 is not kept; kept are 1, 5, 60\r\n"},
    {"SERIES.GET v 0", NOT_POSITIVE},
    {"SERIES.GET v x", NOT_INT},
    {"SERIES.GET v 5 FROM", SYNTAX},
    {"SERIES.GET v 5 FROM 1 FROM 2", SYNTAX},
    {"SERIES.GET v 5 SINCE 1", SYNTAX},
    {"SERIES.GET v 5 TO -1", "-ERR time '-1' is before 1970; times are seconds since then\r\n"},
    {"SERIES.LIST x", "-ERR wrong number of arguments for 'series.list' command\r\n"},
    {"BOX.RECENT v -1 5", NOT_POSITIVE},
    {"BOX.RECENT v 0 0", NOT_POSITIVE},
    {"BOX.RECENT v 0 x", NOT_INT},
    {"BOX.TOP v 0", NOT_POSITIVE},
    {"BOX.BOTTOM v -3", NOT_POSITIVE},
    {"EVENT.ADD blob", "-ERR wrong number of arguments for 'event.add' command\r\n"},
    {"EVENT.ADD blob a:b", "-ERR a type is 1 to 512 bytes without control characters and ':'\r\n"},
    {"EVENT.ADD blob submit ID \"\"", "-ERR an ID is 1 to 512 bytes\r\n"},
    {"EVENT.ADD blob submit ID a ID b", SYNTAX},
    {"EVENT.ADD blob submit FOO a", SYNTAX},
    {"EVENT.ADD s1 views", "-ERR that would be the key 's1:views', which belongs to counter 'views'\r\n"},
    {"EVENT.ADD tally dirty",
     "-ERR that would be the key 'tally:dirty', and keys that begin with 'tally:' are tallyd's own\r\n"},
    {"EVENT.RANGE blob submit 1 x", NOT_INT},
    {"EVENT.RANGE blob submit -1 1", "-ERR time '-1' is before 1970; times are seconds since then\r\n"},
    {"EVENT.RANGE blob submit 0 1 LIMIT 5", SYNTAX},
    {"EVENT.RANGE blob submit 0 1 PAGE 5 5", SYNTAX},
    {"EVENT.RANGE blob submit 0 1 LIMIT 0 0", NOT_POSITIVE},
    {"EVENT.RANGE blob submit 0 1 LIMIT 0 20001",
     "-ERR at most 20000 events come at once; ask for more with a larger offset\r\n"},
    {"EVENT.COUNT blob submit 100 0", NOT_POSITIVE},
    {"EVENT.COUNT blob submit -100 5", NOT_POSITIVE},
    {"EVENT.COUNT blob submit 4 5", "-ERR the span is shorter than one window\r\n"},
    {"EVENT.COUNT blob submit 20001 1",
     "-ERR span / window is 20001 windows; at most 20000 are counted at once\r\n"},
    {"EVENT.COUNT blob submit 9223372036854775807 9223372036854775807",
     "-ERR a window is at most 315360000 s\r\n"},
    {"UNIQ.ADD u 20140931 1", NOT_DAY("20140931")},
    {"UNIQ.ADD u 2014-09-20 1", NOT_DAY("2014-09-20")},
    {"UNIQ.ADD u 19691231 1", "-ERR day '19691231' is before 1970\r\n"},
    {"UNIQ.ADD u 20140921 1", "-ERR day 20140921 has not begun yet in any time zone\r\n"},
    {"UNIQ.ADD u 20140920 \"\"", "-ERR a visitor is 1 to 512 bytes\r\n"},
    {"UNIQ.ADD tally:u 20140920 1", "-ERR that would be the key 'tally:u_2014_09_20', and keys that begin "
                                    "with 'tally:' are tallyd's own\r\n"},
    {"UNIQ.COUNT u 20140920 20140919",
     "-ERR day 20140920 is after day 20140919; the first day comes first\r\n"},
    {"UNIQ.COUNT u 20130815 20140920", "-ERR that is 402 days; at most 400 are united at once\r\n"},
    {"UNIQ.COUNT u 20140920 x", NOT_DAY("x")},
    {"UNIQ.COUNT u 20140920 20140920 20140920",
     "-ERR wrong number of arguments for 'uniq.count' command\r\n"},
};

TEST(bad_arguments_are_refused_at_once)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        say_slice(client, slice_str(refusals[i].request));
        talk(client, "\r\n", refusals[i].reply);
    }
    assert_int_equal(fake.adds, 0);
    assert_null(read_out);
}

TEST(ops_are_read)
{
    say(client, "series.incrby s1:views -4 at 1411200060\r\n");
    assert_int_equal(fake.op.kind, OP_SERIES);
    assert_slice(fake.op.name, "s1:views");
    assert_int_equal(fake.op.n, -4);
    assert_int_equal(fake.op.at, 1411200060);
    say(client, "BOX.INCRBY page 3\r\n");
    assert_int_equal(fake.op.kind, OP_TIMEBOX);
    assert_int_equal(fake.op.n, 3);
    assert_int_equal(fake.op.at, COALESCE_NOW);
    say(client, "EVENT.ADD blob submit ID order-7 AT 0\r\n");
    assert_int_equal(fake.op.kind, OP_EVENT);
    assert_slice(fake.op.name, "blob");
    assert_slice(fake.op.type, "submit");
    assert_slice(fake.op.id, "order-7");
    assert_int_equal(fake.op.at, 0);
    say(client, "EVENT.ADD blob submit\r\n");
    assert_int_equal(fake.op.id.n, 0);
    assert_int_equal(fake.op.at, COALESCE_NOW);
    heard(client, "");
    frame_heard(client, ":9\r\n:9\r\n:9\r\n:9\r\n");
}

TEST(visitors_are_integers_or_texts)
{
    say(client, "UNIQ.ADD u 20140920 1099511627776\r\n");
    assert_int_equal(fake.op.kind, OP_UNIQ);
    assert_int_equal(fake.op.at, 20140920);
    assert_int_equal(fake.op.visitor, INT64_C(1) << 40);
    assert_int_equal(fake.op.id.n, 0);
    const char *texts[] = {"-1", "01", "9223372036854775808", "ann"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        say(client, "UNIQ.ADD u 19700101 ");
        say_slice(client, slice_str(texts[i]));
        say(client, "\r\n");
        assert_slice(fake.op.id, texts[i]);
    }
    frame_heard(client, ":9\r\n:9\r\n:9\r\n:9\r\n:9\r\n");
}

TEST(an_op_without_room_waits_as_a_hit_does)
{
    fake.room = 1;
    say(client, "BOX.INCRBY page 1\r\nBOX.INCRBY page 2\r\nPING\r\n");
    assert_true(client->paused);
    assert_int_equal(fake.parked_n, 1);
    frame_answered();
    frame_has_room(10);
    assert_int_equal(fake.op.n, 2);
    frame_heard(client, ":9\r\n:9\r\n+PONG\r\n");
    fake.room = 0;
    fake.busy = true;
    talk(client, "BOX.INCRBY page 1\r\n", "-BUSY Redis does not keep up; nothing was counted, try again\r\n");
    fake.down = true;
    talk(client, "UNIQ.ADD u 20140920 7\r\n", "-MASTERDOWN Redis is away; nothing was counted\r\n");
}

/* ---- MULTI ---- */

TEST(a_transaction_goes_whole)
{
    talk(client,
         "MULTI\r\nHINCRBY s1:views 7 1\r\nSERIES.INCRBY v 1\r\nPING\r\nEVENT.ADD blob submit ID "
         "a\r\nEXEC\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n");
    assert_int_equal(fake.adds, 3);
    frame_heard(client, ":1\r\n:9\r\n+PONG\r\n:9\r\n");
}

TEST(an_event_that_grows_old_in_its_transaction_is_taken)
{
    limits.events_keep_s = 100;
    talk(client, "EVENT.ADD blob submit AT 1411199899\r\nMULTI\r\nEVENT.ADD blob submit AT 1411199900\r\n",
         "-ERR time 1411199899 is too long ago: events are kept for 100 s (events.keep)\r\n"
         "+OK\r\n+QUEUED\r\n");
    world_now_s++;
    say(client, "EXEC\r\n");
    frame_heard(client, "*1\r\n:9\r\n");
}

TEST(a_transaction_with_a_bad_op_is_refused_whole)
{
    say(client, "MULTI\r\nSERIES.INCRBY v 1\r\nBOX.INCRBY page x\r\nEXEC\r\n");
    heard(client,
          "+OK\r\n+QUEUED\r\n" NOT_INT "-EXECABORT Transaction discarded because of previous errors.\r\n");
    talk(client, "MULTI\r\nUNIQ.ADD u 20991231 1\r\nEXEC\r\n",
         "+OK\r\n-ERR day 20991231 has not begun yet in any time zone\r\n"
         "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_int_equal(fake.adds, 0);
}

TEST(a_transaction_waits_for_room_for_all_of_its_cells)
{
    fake.room = 6; /* two series are three cells each, and one for the array */
    talk(client, "MULTI\r\nSERIES.INCRBY v 1\r\nSERIES.INCRBY v 2\r\nEXEC\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    assert_true(client->paused);
    assert_int_equal(fake.adds, 0);
    frame_has_room(7);
    assert_int_equal(fake.adds, 2);
    frame_heard(client, "*2\r\n:9\r\n:9\r\n");
}

TEST(a_transaction_that_never_fits_says_so)
{
    say(client, "MULTI\r\n");
    for (int i = 0; i < 334; i++)
        say(client, "SERIES.INCRBY v 1\r\n");
    buf_reset(&client->said);
    talk(client, "EXEC\r\n",
         "-EXECABORT Transaction discarded because it does not fit into one frame; "
         "send fewer commands\r\n");
    assert_int_equal(fake.adds, 0);
}

TEST(reads_are_not_for_transactions)
{
    talk(client, "MULTI\r\nSERIES.GET v 5\r\nEXEC\r\n",
         "+OK\r\n-ERR Command not allowed inside a transaction\r\n"
         "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_null(read_out);
}

/* ---- reads ---- */

static const struct query *asked(const char *request)
{
    read_out = NULL;
    say_slice(client, slice_str(request));
    talk(client, "\r\n", "");
    assert_non_null(read_out);
    assert_true(client->paused);
    struct conn *other = conn_open(); /* parses where the request was parsed */
    say(other, "ECHO ??????????????????????????????????????????????????\r\n");
    conn_close(other);
    return &read_out->query;
}

static void answer_read(struct query_answer *a)
{
    struct read_request *r = read_out;
    r->answer = a;
    r->done(r);
    conn_flush(client);
    query_answer_free(a);
}

static void answer_nothing(void)
{
    struct query_answer a = {0};
    answer_read(&a);
    heard(client, "*0\r\n");
    assert_false(client->paused);
}

TEST(reads_are_asked)
{
    const struct query *q = asked("SERIES.GET s1:views 5");
    assert_int_equal(q->kind, QUERY_SERIES);
    assert_slice(q->name, "s1:views");
    assert_int_equal(q->precision_s, 5);
    assert_true(q->from == 0 && q->to == INT64_MAX);
    answer_nothing();
    q = asked("series.get v 60 to 9 from 3");
    assert_true(q->from == 3 && q->to == 9);
    answer_nothing();
    assert_int_equal(asked("SERIES.LIST")->kind, QUERY_NAMES);
    answer_nothing();
    q = asked("BOX.RECENT page 3 9223372036854775807");
    assert_true(q->kind == QUERY_TIMEBOX_RECENT && q->offset == 3 && q->limit == INT64_MAX);
    answer_nothing();
    q = asked("BOX.TOP page 4");
    assert_true(q->kind == QUERY_TIMEBOX_TOP && q->offset == 0 && q->limit == 4);
    answer_nothing();
    assert_int_equal(asked("BOX.BOTTOM page 4")->kind, QUERY_TIMEBOX_BOTTOM);
    answer_nothing();
    q = asked("EVENT.RANGE blob submit 3 9");
    assert_true(q->kind == QUERY_EVENTS && q->from == 3 && q->to == 9 && q->offset == 0 && q->limit < 0);
    assert_slice(q->name, "blob");
    assert_slice(q->type, "submit");
    answer_nothing();
    q = asked("EVENT.RANGE blob submit 3 9 limit 5 6");
    assert_true(q->offset == 5 && q->limit == 6);
    answer_nothing();
    q = asked("EVENT.COUNT blob submit 3601 36");
    assert_true(q->kind == QUERY_WINDOWS && q->window_s == 36 && q->windows_n == 100);
    assert_slice(q->type, "submit");
    answer_nothing();
    q = asked("UNIQ.COUNT u 20140920");
    assert_true(q->kind == QUERY_VISITORS && q->from == 20140920 && q->to == 20140920);
    answer_nothing();
    q = asked("UNIQ.COUNT u 20130921 20140921");
    assert_true(q->from == 20130921 && q->to == 20140921);
    answer_nothing();
}

TEST(an_answer_is_flat_in_both_protocols)
{
    for (int resp = 2; resp <= 3; resp++) {
        struct query_answer a = {0};
        asked("EVENT.RANGE blob submit 3 9");
        query_put_text(&a, SLICE("order-7"));
        query_put_number(&a, 4);
        query_put_text(&a, SLICE(""));
        query_put_number(&a, -5);
        answer_read(&a);
        heard(client, "*4\r\n$7\r\norder-7\r\n:4\r\n$0\r\n\r\n:-5\r\n");
        if (resp == 2) say(client, "HELLO 3\r\n");
        buf_reset(&client->said);
    }
}

TEST(a_read_waits_for_what_was_counted_before)
{
    say(client, "SERIES.INCRBY v 1\r\nSERIES.GET v 5\r\nPING\r\n");
    assert_null(read_out);
    frame_heard(client, ":9\r\n");
    assert_non_null(read_out);
    answer_nothing();
    talk(client, "", "+PONG\r\n");
}

TEST(a_read_that_fails_says_why)
{
    asked("UNIQ.COUNT u 20140920");
    read_out->outcome = ASK_FAILED;
    read_out->text = "WRONGTYPE of somebody else";
    read_out->done(read_out);
    conn_flush(client);
    heard(client, "-WRONGTYPE of somebody else\r\n");
    asked("UNIQ.COUNT u 20140920");
    read_out->outcome = ASK_REDIS_DOWN;
    read_out->done(read_out);
    conn_flush(client);
    heard(client, "-MASTERDOWN Redis is away\r\n");
}

TEST(who_leaves_hears_nothing_of_it)
{
    struct query_answer a = {0};
    asked("EVENT.RANGE blob submit 3 9");
    const struct query *q = &read_out->query;
    on_drop(client);
    assert_int_equal(client->holds, 1);
    assert_slice(q->name, "blob"); /* still there for the reader */
    query_put_number(&a, 4);
    answer_read(&a);
    assert_int_equal(client->holds, 0);
    heard(client, "");
}
