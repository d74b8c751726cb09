/* Connections: clients that want no replies, what CLIENT INFO and LIST show, which ones CLIENT KILL closes, and for which users. */
#include "world.h"

#include "command/inside.h"

#define SHORT(n)                                                                                             \
    "*4\r\n$7\r\nHINCRBY\r\n$8\r\ns1:views\r\n$1\r\n7\r\n$1\r\n" #n "\r\n" /* takes the short way */

static bool has(struct conn *c, const char *text)
{
    return memmem(c->said.p, c->said.n, text, strlen(text)) != NULL;
}

/* ---- CLIENT REPLY ---- */

TEST(quiet_hits_count_and_say_nothing)
{
    say(client,
        HIT(1) "CLIENT REPLY OFF\r\n" HIT(2)
            HIT(3) "hincrby s1:views 7 4\r\nCTR.INCRBY s1:views 7 5\r\n"
                   "CTR.INCRBY s1:views 7 6 TOKEN t\r\nBOX.INCRBY b 1\r\nPING\r\nHINCRBY s1:views x 1\r\n");
    assert_int_equal(fake.adds, 7);
    assert_int_equal(client->outlet.waiting, 7);
    frame_heard(client, ":1\r\n");
    say(client, SHORT(8) SHORT(8));
    say(client, "CLIENT REPLY ON\r\n" SHORT(9) "PING\r\n"); /* its answer follows one that is suppressed */
    heard(client, "");
    frame_heard(client, "+OK\r\n:9\r\n+PONG\r\n");
}

TEST(one_skipped_answer_is_one)
{
    say(client, "CLIENT REPLY SKIP\r\n" HIT(1) HIT(2) HIT(3));
    assert_int_equal(fake.adds, 3);
    frame_heard(client, ":2\r\n:3\r\n");
    say(client, SHORT(1) "CLIENT REPLY SKIP\r\n" SHORT(2) SHORT(3));
    frame_heard(client, ":1\r\n:3\r\n");
    say(client, HIT(4) "CLIENT REPLY SKIP\r\nCLIENT GETNAME\r\n" HIT(5) "CLIENT REPLY SKIP\r\nMULTI\r\n" HIT(
                    6) "EXEC\r\n");
    frame_heard(client, ":4\r\n:5\r\n+QUEUED\r\n*1\r\n:6\r\n");
}

TEST(a_quiet_hit_without_room_waits_for_it)
{
    fake.room = 1;
    say(client, "CLIENT REPLY SKIP\r\n" HIT(1) "CLIENT REPLY SKIP\r\n" HIT(2) HIT(3));
    assert_int_equal(fake.parked_n, 1);
    frame_answered();
    frame_has_room(2);
    assert_int_equal(fake.adds, 3);
    frame_heard(client, ":3\r\n");
}

TEST(quiet_replies_take_no_room)
{
    fake.room = 1;
    say(client, "CLIENT REPLY OFF\r\n" HIT(1));
    for (int i = 0; i < 1000; i++)
        say(client, "ECHO 0123456789012345678901234567890123456789\r\n");
    assert_int_equal(fake.n, 1);
    assert_false(client->paused);
    frame_heard(client, "");
    say(client, HIT(1) "CLIENT REPLY ON\r\n"); /* which has none, and is held back */
    assert_true(client->paused);
    frame_heard(client, "+OK\r\n");
    assert_false(client->paused);
}

TEST(a_quiet_transaction_counts_whole)
{
    fake.liar = true;
    fake.refuse_literals = 100; /* nothing of it may need one */
    say(client, HIT(9) "CLIENT REPLY OFF\r\nMULTI\r\nPING\r\n" HIT(1) "ECHO x\r\n" HIT(2) "EXEC\r\n");
    assert_int_equal(fake.adds, 3);
    assert_false(client->paused);
    frame_heard(client, ":9\r\n");
}

TEST(what_takes_time_is_quiet_as_well)
{
    say(client, "CLIENT REPLY SKIP\r\nCTR.SYNC ALL\r\nPING\r\n");
    assert_true(client->paused);
    sync_out->done(sync_out);
    conn_take(client);
    conn_flush(client);
    heard(client, "+PONG\r\n");
    say(client, "CLIENT REPLY OFF\r\nCTR.SYNC ALL\r\n" HIT(1) "CTR.PENDING s1:views\r\n");
    sync_out->outcome = ASK_TRY_AGAIN;
    sync_out->done(sync_out);
    conn_take(client);
    assert_null(pending_out); /* the barrier waits for a hit whose client wants no reply */
    frame_answered();
    assert_non_null(pending_out);
    pending_out->done(pending_out);
    pending_out = NULL;
    answer_inside = true;
    talk(client, "CTR.SYNC ALL\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nCTR.SYNC ALL\r\nCTR.SYNC ALL\r\n",
         "+OK\r\n:77\r\n");
}

TEST(no_resp_is_the_end_of_a_quiet_client)
{
    say(client, "CLIENT REPLY OFF\r\n" HIT(1) "*x\r\nPING\r\n");
    assert_true(client->finished);
    frame_heard(client, "");
}

/* ---- CLIENT INFO and LIST ---- */

TEST(info_has_all_fields_in_the_order_of_redis)
{
    say(client, "CLIENT SETNAME me\r\nCLIENT SETINFO lib-name lib\r\nCLIENT INFO\r\n");
    client->said.n = 0;
    say(client, "CLIENT INFO\r\n");
    char *said = heap_strndup(client->said.p, client->said.n);
    unsigned length, capacity, memory;
    assert_int_equal(sscanf(said, "$%u\r\n%*[^\n]\n", &length), 1);
    char *rbs = strstr(said, " rbs=");
    assert_non_null(rbs);
    assert_int_equal(sscanf(rbs, " rbs=%u rbp=0 obl=0 oll=0 omem=0 tot-mem=%u", &capacity, &memory), 2);
    char line[600];
    snprintf(
        line, sizeof line,
        "id=1 addr=127.0.0.1:4711 laddr=127.0.0.1:6380 fd=8 name=me age=0 idle=0 flags=N db=0 sub=0 psub=0 "
        "ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=%u rbp=0 obl=0 oll=0 omem=0 "
        "tot-mem=%u events=r cmd=client|info user=default redir=-1 resp=2 lib-name=lib lib-ver=\n",
        capacity, memory);
    assert_int_equal(length, strlen(line));
    assert_memory_equal(strchr(said, '\n') + 1, line, length);
    heap_free(said);
    buf_reset(&client->said);
}

/* Of the second client. */
static void seen(const char *text)
{
    say(client, "CLIENT LIST ID 2\r\n");
    if (!has(client, text)) fail_msg("'%s' is not in %.*s", text, (int)client->said.n, client->said.p);
    buf_reset(&client->said);
}

TEST(list_tells_what_a_client_does)
{
    struct conn *other = conn_open();
    seen(" cmd=NULL ");
    say(other, SHORT(1));
    seen(" cmd=hincrby ");
    say(other, "hincrby s1:views 7 1\r\nnonsense\r\n");
    seen(" cmd=NULL ");
    say(other, "hincrby s1:views 7 1\r\n");
    seen(" cmd=hincrby ");
    say(other, "CLIENT NO-EVICT on\r\nCLIENT TRACKING on REDIRECT 1\r\nMULTI\r\n" HIT(1) "PING\r\n");
    seen(" flags=xte ");
    seen(" multi=2 ");
    seen(" redir=1 ");
    seen(" cmd=ping ");
    say(other,
        "EXEC\r\nCLIENT NO-EVICT off\r\nCLIENT TRACKING off\r\nCTR.INCRBY s1:views 7 1\r\nHELLO 3\r\n");
    seen(" flags=N ");
    seen(" multi=-1 ");
    seen(" resp=3 ");
    frame_answered();
    say(other, "CTR.SYNC ALL\r\n");
    seen(" flags=b ");
    sync_out->done(sync_out);
    other->session.opened_ms -= 7000;
    command->now_ms -= 4000;
    say(other, "PING\r\n");
    seen(" age=7 idle=4 ");
    command_tick(command, mono_ms());
    say(other, "PING\r\n");
    seen(" idle=0 ");
    conn_close(other);
}

TEST(list_has_all_and_those_named)
{
    struct conn *other = conn_open();
    say(client, "CLIENT LIST\r\n");
    assert_true(has(client, "\r\nid=1 ") && has(client, "\nid=2 "));
    buf_reset(&client->said);
    say(client, "CLIENT LIST TYPE normal\r\n");
    assert_true(has(client, "\r\nid=1 ") && has(client, "\nid=2 "));
    buf_reset(&client->said);
    say(client, "CLIENT LIST ID 2 7 1\r\n");
    assert_true(has(client, "\r\nid=2 ") && has(client, "\nid=1 "));
    buf_reset(&client->said);
    conn_close(other);
    say(client, "CLIENT LIST\r\n");
    assert_false(has(client, "\nid=2 "));
    buf_reset(&client->said);
}

/* ---- CLIENT KILL ---- */

TEST(kill_closes_whom_it_means)
{
    struct conn *all[4];
    for (int i = 0; i < 4; i++)
        all[i] = conn_open();
    talk(client, "CLIENT KILL ID 2\r\nCLIENT KILL ID 2\r\n", ":1\r\n:0\r\n");
    assert_true(all[0]->dropped && !all[1]->dropped);
    talk(client, "CLIENT KILL ID 3 USER default ADDR 127.0.0.1:4711 LADDR 127.0.0.1:1\r\n", ":0\r\n");
    talk(client, "CLIENT KILL ID 3 USER default ADDR 127.0.0.1:4711 LADDR 127.0.0.1:6380 TYPE normal\r\n",
         ":1\r\n");
    assert_true(all[1]->dropped && !all[2]->dropped);
    talk(client, "CLIENT KILL SKIPME yes\r\n", ":2\r\n");
    assert_true(all[2]->dropped && all[3]->dropped && !client->finished);
    for (int i = 0; i < 4; i++)
        conn_close(all[i]);
}

TEST(who_kills_itself_hears_of_it)
{
    say(client, HIT(1) "CLIENT KILL 127.0.0.1:4711\r\nPING\r\n");
    assert_true(client->finished && !client->dropped);
    frame_heard(client, ":1\r\n+OK\r\n");
}

TEST(the_killed_may_be_in_the_middle_of_anything)
{
    struct conn *parked = conn_open(), *asking = conn_open(), *queueing = conn_open();
    say(asking, "CTR.SYNC ALL\r\n");
    say(queueing, "MULTI\r\n" HIT(1));
    fake.room = 1;
    say(parked, HIT(1) HIT(2));
    assert_int_equal(fake.parked_n, 1);
    talk(client, "CLIENT KILL TYPE normal SKIPME yes\r\n", ":3\r\n");
    assert_int_equal(fake.parked_n, 0);
    sync_out->done(sync_out);
    frame_answered();
    conn_close(parked);
    conn_close(asking);
    conn_close(queueing);
}
