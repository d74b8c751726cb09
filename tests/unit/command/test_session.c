/* Sessions: the order of replies, waiting for room, transactions, commands that take time, the ends of
 * clients. */
#include "world.h"

#include "lib/dice.h"

TEST(a_hit_is_answered_by_its_frame)
{
    say(client,
        HIT(3) "*4\r\n$7\r\nhInCrBy\r\n$8\r\ns1:views\r\n$1\r\n7\r\n$2\r\n-4\r\nctr.incrby s1:views 7 5\r\n");
    heard(client, "");
    assert_int_equal(client->outlet.waiting, 3);
    frame_heard(client, ":3\r\n:-4\r\n:5\r\n");
}

TEST(replies_keep_the_order_of_requests)
{
    talk(client, "PING\r\n" HIT(1) "PING\r\nPING a\r\n" HIT(2) "nonsense\r\n", "+PONG\r\n");
    frame_answered();
    heard(client,
          ":1\r\n+PONG\r\n$1\r\na\r\n:2\r\n-ERR unknown command 'nonsense', with args beginning with: \r\n");
    talk(client, "PING\r\n", "+PONG\r\n");
}

TEST(a_reply_without_room_is_held_back)
{
    fake.room = 1;
    talk(client, HIT(1) "CLIENT SETNAME me\r\nCLIENT GETNAME\r\n" HIT(2), "");
    assert_true(client->paused);
    assert_int_equal(fake.adds, 1);
    frame_heard(client, ":1\r\n+OK\r\n$2\r\nme\r\n"); /* and the rest went on */
    assert_false(client->paused);
    frame_heard(client, ":2\r\n");
}

TEST(a_held_reply_waits_for_all_that_is_owed)
{
    fake.room = 2;
    say(client, HIT(1) HIT(2) "PING\r\n");
    answers_come(1);
    heard(client, ":1\r\n");
    answers_come(1);
    heard(client, ":2\r\n+PONG\r\n");
}

TEST(a_hit_without_room_waits_for_it)
{
    fake.room = 1;
    say(client, HIT(1) HIT(2) HIT(3));
    assert_true(client->paused);
    assert_int_equal(fake.parked_n, 1);
    assert_int_equal(fake.adds, 1);
    frame_heard(client, ":1\r\n");
    frame_has_room(1); /* for one of the two */
    assert_int_equal(fake.adds, 2);
    assert_int_equal(fake.parked_n, 1);
    frame_answered();
    frame_has_room(10);
    frame_heard(client, ":2\r\n:3\r\n");
    assert_false(client->paused);
    assert_int_equal(fake.parked_n, 0);
}

TEST(who_leaves_is_not_parked_any_more)
{
    struct conn *other = conn_open();
    fake.room = 0;
    say(other, HIT(1));
    assert_int_equal(fake.parked_n, 1);
    conn_close(other);
    assert_int_equal(fake.parked_n, 0);
}

TEST(refused_hits_say_why_in_one_line)
{
    talk(client, "HINCRBY \"x\\r\\ny\" 7 1\r\n", "-ERR no counter is configured for key 'x??y'\r\n");
    say(client, "HINCRBY s1:views \"d\\nay\" 1\r\n");
    buf_put_char(&client->said, '\0');
    assert_non_null(strstr(client->said.p, "-ERR field 'd?ay' of counter 'views' is not "));
    buf_reset(&client->said);
    talk(client, "HINCRBY s1:views 7 9007199254740993\r\n",
         "-ERR increment '9007199254740993' is too large: at most 9007199254740992 either way "
         "(limits.hit)\r\n");
    say(client,
        "HINCRBY s1:views 7 one\r\nHINCRBY s1:views 7 +1\r\nHINCRBY s1:views 7 9223372036854775808\r\n");
    heard(client,
          "-ERR value is not an integer or out of range\r\n-ERR value is not an integer or out of range\r\n"
          "-ERR value is not an integer or out of range\r\n");
    fake.room = 0;
    fake.busy = true;
    talk(client, HIT(1), "-BUSY Redis does not keep up; nothing was counted, try again\r\n");
    fake.down = true;
    talk(client, HIT(1), "-MASTERDOWN Redis is away; nothing was counted\r\n");
    assert_int_equal(fake.adds, 0);
}

/* ---- MULTI ---- */

TEST(exec_goes_whole)
{
    talk(client, "MULTI\r\n" HIT(1) "PING\r\n" HIT(2) "ECHO x\r\nEXEC\r\nPING\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n");
    frame_heard(client, ":1\r\n+PONG\r\n:2\r\n$1\r\nx\r\n+PONG\r\n");
    say(client, HIT(5) "MULTI\r\nPING\r\n" HIT(6) "EXEC\r\n"); /* after an answer that is owed */
    heard(client, "");
    frame_heard(client, ":5\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n:6\r\n");
    talk(client, "MULTI\r\nPING\r\nEXEC\r\nMULTI\r\nEXEC\r\n",
         "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n+OK\r\n*0\r\n");
}

TEST(exec_waits_for_room)
{
    fake.room = 3;
    talk(client, "MULTI\r\n" HIT(1) HIT(2) HIT(3) "EXEC\r\nPING\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    assert_true(client->paused);
    assert_int_equal(fake.adds, 0);
    frame_has_room(2);
    assert_int_equal(fake.adds, 0);
    assert_int_equal(fake.parked_n, 1);
    frame_has_room(10);
    assert_int_equal(fake.adds, 3);
    frame_heard(client, "*3\r\n:1\r\n:2\r\n:3\r\n+PONG\r\n");
}

TEST(exec_gives_up_when_it_waited_too_long)
{
    fake.room = 0;
    say(client, "MULTI\r\n" HIT(1) "EXEC\r\n");
    assert_true(client->paused);
    client->outlet.parked_ms = 1; /* long ago */
    frame_has_room(0);
    heard(client, "+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of: BUSY Redis does not keep "
                  "up; try again\r\n");
    fake.room = 10;
    talk(client, "EXEC\r\n", "-ERR EXEC without MULTI\r\n");
    assert_int_equal(fake.adds, 0);
}

TEST(exec_that_never_fits_is_refused)
{
    say(client, "MULTI\r\n");
    for (int i = 0; i < 1500; i++)
        say(client, HIT(1));
    buf_reset(&client->said);
    talk(client, "EXEC\r\nPING\r\n",
         "-EXECABORT Transaction discarded because it does not fit into one frame; "
         "send fewer commands\r\n+PONG\r\n");
    say(client, "MULTI\r\n");
    for (int i = 0; i < 2000; i++)
        say(client, "PING\r\n");
    buf_reset(&client->said);
    talk(client, "PING\r\nEXEC\r\n",
         "-ERR transaction is too large: at most 2000 commands; send more than one transaction\r\n"
         "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_int_equal(fake.adds, 0);
}

/* 200,000 bytes of this world. */
TEST(exec_of_too_many_bytes_is_refused)
{
    static char request[50001];
    snprintf(request, sizeof request, "PING %0*d\r\n", (int)sizeof request - 8, 0);
    say(client, "MULTI\r\n");
    for (int i = 0; i < 4; i++)
        say(client, request);
    buf_reset(&client->said);
    talk(client, "PING\r\nEXEC\r\n",
         "-ERR transaction is too large: at most 200000 bytes; send more than one transaction\r\n"
         "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

TEST(exec_of_sums_beyond_a_frame_is_refused)
{
    say(client, "MULTI\r\n");
    for (int i = 0; i < 64; i++)
        say_slice(client, i % 2 == 0 ? SLICE(HIT(9007199254740992)) : SLICE(HIT(-9007199254740992)));
    buf_reset(&client->said);
    say(client, HIT(1) "EXEC\r\n");
    heard(
        client,
        "-ERR transaction is too large\r\n-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_int_equal(fake.adds, 0);
}

TEST(exec_is_refused_after_an_error)
{
    static const char *const bad[] = {"HINCRBY s1:views x 1\r\n",
                                      "HINCRBY t 7 1\r\n",
                                      "HINCRBY s1:views 7 x\r\n",
                                      "HINCRBY s1:views\r\n",
                                      "nonsense\r\n",
                                      "CTR.SYNC ALL\r\n",
                                      "INFO\r\n",
                                      "HELLO 3\r\n",
                                      "CTR.PENDING s1:views\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        say(client, "MULTI\r\n" HIT(1));
        buf_reset(&client->said);
        say_slice(client, slice_str(bad[i]));
        assert_true(client->said.n > 5 && memcmp(client->said.p, "-ERR ", 5) == 0);
        buf_reset(&client->said);
        talk(client, HIT(1) "EXEC\r\n",
             "+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n");
    }
    assert_int_equal(fake.adds, 0);
}

TEST(exec_refused_midway_is_still_answered_in_order)
{
    fake.liar = true;
    fake.refuse_literals = 1;
    talk(client, "MULTI\r\nPING\r\n" HIT(1) "ECHO x\r\n" HIT(2) "EXEC\r\nPING\r\n",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+PONG\r\n");
    assert_true(client->paused);
    assert_int_equal(fake.adds, 1);
    frame_answered();
    heard(client,
          ":1\r\n$1\r\nx\r\n-BUSY Redis does not keep up; nothing was counted, try again\r\n+PONG\r\n");
}

/* ---- commands that take time ---- */

TEST(pending_is_a_barrier)
{
    say(client, HIT(1) "CTR.PENDING s1:views\r\nPING\r\n");
    assert_null(pending_out);
    assert_true(client->paused);
    frame_heard(client, ":1\r\n");
    assert_non_null(pending_out);
    assert_true(client->paused);
    assert_slice(pending_out->key, "s1:views");
    assert_int_equal(client->holds, 1);
    const struct slice items[] = {SLICE("7"), SLICE("1"), SLICE("8"), SLICE("2")};
    pending_out->items = items;
    pending_out->items_all = 4;
    pending_out->items_n = 2;
    pending_out->part(pending_out);
    conn_flush(client);
    heard(client, "*4\r\n$1\r\n7\r\n$1\r\n1\r\n");
    assert_true(client->paused);
    pending_out->items = items + 2;
    pending_out->items_at = 2;
    pending_out->done(pending_out);
    assert_false(client->paused);
    conn_take(client);
    conn_flush(client);
    heard(client, "$1\r\n8\r\n$1\r\n2\r\n+PONG\r\n");
    assert_int_equal(client->holds, 0);
    pending_out = NULL;
    talk(client, "CTR.PENDING other\r\n", "-ERR no counter is configured for key 'other'\r\n");
}

TEST(pending_is_a_map_in_resp3)
{
    say(client, "HELLO 3\r\nCTR.PENDING s1:views\r\n");
    buf_reset(&client->said);
    const struct slice items[] = {SLICE("7"), SLICE("1")};
    pending_out->items = items;
    pending_out->items_n = pending_out->items_all = 2;
    pending_out->done(pending_out);
    conn_flush(client);
    heard(client, "%1\r\n$1\r\n7\r\n$1\r\n1\r\n");
    pending_out = NULL;
}

static void sync_end(enum ask_outcome outcome, const char *told)
{
    say(client, "CTR.SYNC all\r\n");
    assert_int_equal(sync_out->key.n, 0);
    sync_out->outcome = outcome;
    sync_out->text = "ERR this and\r\nthat";
    sync_out->rows = 12;
    sync_out->done(sync_out);
    conn_flush(client);
    heard(client, told);
}

TEST(sync_answers_rows_or_why_not)
{
    sync_end(ASK_DONE, ":12\r\n");
    sync_end(ASK_TRY_AGAIN, "-TRYAGAIN not all is merged yet; ask again to go on waiting\r\n");
    sync_end(ASK_MYSQL_DOWN,
             "-ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back\r\n");
    sync_end(ASK_REDIS_DOWN, "-MASTERDOWN Redis is away\r\n");
    sync_end(ASK_HELD, "-ERR merging is held until an operator has looked: the log of tallyd says why\r\n");
    sync_end(ASK_FAILED, "-ERR this and  that\r\n");
    say(client, "CTR.SYNC s1:views\r\n");
    assert_slice(sync_out->key, "s1:views");
    sync_out->done(sync_out);
    conn_flush(client);
    heard(client, ":0\r\n");
}

TEST(an_ask_may_be_answered_at_once)
{
    answer_inside = true;
    talk(client, "PING\r\nCTR.SYNC ALL\r\nCTR.SYNC ALL\r\nPING\r\n", "+PONG\r\n:77\r\n:77\r\n+PONG\r\n");
    assert_false(client->paused);
}

TEST(recover_tells_what_it_did)
{
    say(client, "CTR.RECOVER\r\n");
    assert_false(recover_out->dry_run);
    recover_out->adopted = 1;
    recover_out->rows_merged = 2;
    recover_out->rows_already = 3;
    recover_out->done(recover_out);
    conn_flush(client);
    heard(client, "*3\r\n:1\r\n:2\r\n:3\r\n");
    say(client, "CTR.RECOVER dryrun\r\n");
    assert_true(recover_out->dry_run);
    const struct slice lines[] = {SLICE("batch 12")};
    recover_out->lines = lines;
    recover_out->lines_n = 1;
    recover_out->done(recover_out);
    conn_flush(client);
    heard(client, "*1\r\n$8\r\nbatch 12\r\n");
    talk(client, "CTR.RECOVER wet\r\nCTR.RECOVER dryrun x\r\n", "-ERR syntax error\r\n-ERR syntax error\r\n");
}

TEST(a_client_may_leave_while_its_request_is_out)
{
    struct conn *other = conn_open();
    say(other, "CLIENT SETNAME me\r\nCTR.SYNC s1:views\r\n");
    struct sync_request *r = sync_out;
    on_drop(other);
    assert_int_equal(other->holds, 1);
    assert_slice(r->key, "s1:views"); /* still there */
    r->done(r);
    assert_int_equal(other->outlet.out.n, 0);
    conn_close(other);
}

TEST(a_client_may_leave_while_answers_are_owed)
{
    struct conn *other = conn_open();
    say(other, HIT(1) "CTR.SYNC ALL\r\n");
    sync_out = NULL;
    on_drop(other);
    frame_answered();
    assert_null(sync_out); /* what was not begun is not begun any more */
    conn_close(other);
}

/* ---- ends ---- */

TEST(quit_is_the_last_word)
{
    say(client, HIT(1) "QUIT\r\nPING\r\n");
    assert_true(client->finished);
    assert_int_equal(client->kept.n, 0);
    frame_heard(client, ":1\r\n+OK\r\n");
}

TEST(quit_without_room_is_still_the_last_word)
{
    fake.room = 1;
    say(client, HIT(1) "QUIT\r\nPING\r\n");
    assert_false(client->finished);
    frame_answered();
    assert_true(client->finished);
    heard(client, ":1\r\n+OK\r\n");
}

TEST(malformed_bytes_are_answered_after_all_else)
{
    say(client, HIT(1) "*x\r\nPING\r\n");
    assert_true(client->finished);
    assert_int_equal(client->kept.n, 0);
    frame_heard(client, ":1\r\n-ERR Protocol error: invalid multibulk length\r\n");
}

TEST(a_browser_is_dropped_without_a_word)
{
    say(client, "POST / HTTP/1.1\r\nHost: x\r\nPING\r\n");
    assert_true(client->dropped);
    heard(client, "");
}

/* Its answer would be taken for that to the first command. */
TEST(a_proxy_header_is_dropped_without_a_word)
{
    say(client, "PROXY TCP4 10.0.0.7 10.0.0.1 56324 7370\r\nPING\r\n");
    assert_true(client->dropped);
    heard(client, "");
}

TEST(a_proxy_header_of_bytes_is_dropped)
{
    static const char bytes[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    buf_put(&client->kept, bytes, sizeof bytes - 1);
    conn_take(client);
    assert_true(client->dropped);
    heard(client, "");
}

TEST(a_full_outlet_takes_nothing_more)
{
    for (int i = 0; i < 1000; i++)
        BUF_LIT(&client->kept, "INFO\r\n");
    size_t before = client->kept.n;
    conn_take(client);
    assert_true(client->outlet.out.n >= OUTLET_FULL && client->outlet.out.n < 2 * OUTLET_FULL);
    assert_true(client->kept.n > before / 2);
    conn_flush(client);
    conn_take(client);
    assert_true(client->outlet.out.n >= OUTLET_FULL);
}

/* ---- splits and chance ---- */

static const char long_pipeline[] =
    "PING\r\n" HIT(1) "*4\r\n$7\r\nHINCRBY\r\n$8\r\ns1:views\r\n$1\r\n7\r\n$1\r\n2\r\nMULTI\r\n" HIT(
        3) "ECHO x\r\nEXEC\r\n"
           "CTR.SYNC ALL\r\nHELLO 3\r\nCLIENT GETNAME\r\n\r\n*0\r\n*-1\r\nhincrby k f "
           "v\r\nMULTI\r\nfoo\r\nEXEC\r\n*2\r\n$4\r\necho\r\n"
           "$3\r\na\r\n\r\nCTR.SYNC s1:views\r\n" HIT(4) "QUIT\r\nPING\r\n";

static struct buf told_in_pieces(size_t cut)
{
    struct conn *c = conn_open();
    struct slice in = {long_pipeline, sizeof(long_pipeline) - 1};
    c->session.id = 1; /* HELLO tells it */
    say_slice(c, slice_of(in.p, cut));
    say_slice(c, slice_of(in.p + cut, in.n - cut));
    while (fake.n > 0)
        frame_answered();
    struct buf said = c->said;
    c->said = (struct buf){0};
    conn_close(c);
    return said;
}

TEST(split_does_not_matter)
{
    answer_inside = true;
    struct buf whole = told_in_pieces(0);
    assert_true(whole.n > 200);
    for (size_t cut = 1; cut < sizeof(long_pipeline); cut++) {
        struct buf said = told_in_pieces(cut);
        assert_true(slice_eq(buf_slice(&said), buf_slice(&whole)));
        buf_free(&said);
    }
    buf_free(&whole);
}

/* Writes one random request into `in`, and the reply it must get into `told`. */
static void any_request(struct dice *d, struct buf *in, struct buf *told)
{
    int n = (int)dice_below(d, 1000);
    switch (dice_below(d, 6)) {
    case 0:
    case 1:
        buf_printf(in, "HINCRBY s1:views %d %d\r\n", n, n);
        reply_int(told, n);
        return;
    case 2:
        buf_printf(in, "ECHO %d\r\n", n);
        reply_bulk_int(told, n);
        return;
    case 3:
        BUF_LIT(in, "CTR.SYNC ALL\r\n");
        reply_int(told, 77);
        return;
    case 4:
        buf_printf(in, "MULTI\r\nECHO %d\r\nHINCRBY s1:views 7 %d\r\nPING\r\nEXEC\r\n", n, n);
        BUF_LIT(told, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n");
        reply_bulk_int(told, n);
        reply_int(told, n);
        BUF_LIT(told, "+PONG\r\n");
        return;
    default:
        BUF_LIT(in, "HINCRBY nobody 7 7\r\n");
        BUF_LIT(told, "-ERR no counter is configured for key 'nobody'\r\n");
    }
}

static void anything_happens(struct dice *d, struct conn *c)
{
    switch (dice_below(d, 4)) {
    case 0:
        answers_come(fake.n == 0 ? 0 : (uint32_t)dice_below(d, fake.n + 1));
        return;
    case 1:
        frame_has_room((uint32_t)dice_below(d, 8));
        return;
    case 2:
        if (sync_out == NULL) return;
        sync_out->rows = 77;
        struct sync_request *r = sync_out;
        sync_out = NULL;
        r->done(r);
        conn_take(c);
        conn_flush(c);
        return;
    default:
        conn_take(c);
        conn_flush(c);
    }
}

static void one_random_life(struct dice *d)
{
    struct conn *c = conn_open();
    struct buf in = {0}, told = {0};
    for (size_t n = 1 + dice_below(d, 30); n > 0; n--)
        any_request(d, &in, &told);
    for (size_t at = 0; at < in.n;) {
        size_t n = 1 + dice_below(d, in.n - at);
        say_slice(c, slice_of(in.p + at, n));
        at += n;
        for (size_t k = dice_below(d, 5); k > 0; k--)
            anything_happens(d, c);
    }
    fake.room = 100;
    for (int k = 0; k < 2000 && (c->said.n < told.n || c->kept.n > 0); k++) {
        anything_happens(d, c);
        frame_has_room(100);
    }
    assert_true(slice_eq(buf_slice(&c->said), buf_slice(&told)));
    buf_free(&in);
    buf_free(&told);
    conn_close(c);
}

TEST(any_order_of_events_keeps_the_order_of_replies)
{
    struct dice d = dice_new("any_order");
    for (int i = 0; i < 3000; i++)
        one_random_life(&d);
}

TEST(random_bytes_do_no_harm)
{
    static const char *const words[] = {
        "*3\r\n",  "$4\r\n",    "PING",     "\r\n",      "CLIENT ", "SETNAME ",      "HELLO ",        "3 ",
        "AUTH ",   "MULTI\r\n", "EXEC\r\n", HIT(1),      "\"",      "CONFIG GET * ", "COMMAND DOCS ", "INFO ",
        "SELECT ", "*-1\r\n",   "\\x00",    "RESET\r\n", "TIME\r\n"};
    struct dice d = dice_new("random_bytes");
    for (int round = 0; round < 5000; round++) {
        struct conn *c = conn_open();
        for (size_t n = 1 + dice_below(&d, 20); n > 0; n--) {
            char byte = (char)dice_below(&d, 256);
            if (dice_below(&d, 8) == 0)
                say_slice(c, slice_of(&byte, 1));
            else
                say_slice(c, slice_str(words[dice_below(&d, sizeof(words) / sizeof(words[0]))]));
        }
        frame_answered();
        conn_close(c);
    }
}
