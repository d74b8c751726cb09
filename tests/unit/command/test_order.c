/* One client over three lanes, each of which answers when it may: replies in the order of requests, whatever it is that waits. */
#define LANES 3
#include "world.h"

#include "command/inside.h"
#include "lib/dice.h"
#include "series/names.h"

#define SEEDS 4000
#define STEPS 60

/* A store of each lane. */
static const char *stores[LANES];

static void stores_find(void)
{
    static char texts[LANES][4];
    for (unsigned i = 0; i < 1000; i++) {
        char text[4];
        int n = snprintf(text, sizeof text, "%u", i);
        unsigned lane = lane_of_store(slice_of(text, (size_t)n), LANES);
        if (stores[lane] != NULL) continue;
        memcpy(texts[lane], text, sizeof text);
        stores[lane] = texts[lane];
    }
}

/* The lane's store replaces "%". */
static void say_of(struct conn *c, unsigned lane, const char *text)
{
    struct buf b = {0};
    for (; *text != '\0'; text++)
        if (*text == '%')
            buf_printf(&b, "%s", stores[lane]);
        else
            buf_put_char(&b, *text);
    say_slice(c, buf_slice(&b));
    buf_free(&b);
}

static void hit(struct conn *c, unsigned lane, unsigned n)
{
    char text[64];
    snprintf(text, sizeof text, "*4\r\n$7\r\nHINCRBY\r\n$%zu\r\ns%%:views\r\n$1\r\n7\r\n$1\r\n%u\r\n",
             7 + strlen(stores[lane]), n);
    say_of(c, lane, text);
}

static void lane_answers(unsigned lane)
{
    fake_answers(&fakes[lane], fakes[lane].n);
}

static int world_of_lanes(void **state)
{
    stores_find();
    return open_world(state);
}

#undef TEST

#define TEST(f) UNIT_IN(f, world_of_lanes, close_world)

TEST(each_store_goes_to_its_lane)
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        hit(client, lane, 1);
        say_of(client, lane, "CTR.INCRBY s%:views 7 1\r\nCTR.INCRBY s%:views 7 1 TOKEN x\r\n");
        assert_int_equal(fakes[lane].adds, 3);
    }
    assert_int_equal(client->outlet.waiting, 9);
    for (unsigned lane = 0; lane < LANES; lane++)
        lane_answers(lane);
    assert_int_equal(client->outlet.waiting, 0);
    buf_reset(&client->said);
}

TEST(replies_keep_the_order_of_requests)
{
    hit(client, 0, 1);
    hit(client, 1, 2);
    hit(client, 1, 3);
    say(client, "PING\r\n");
    hit(client, 0, 4);
    hit(client, 2, 5);
    lane_answers(2);
    lane_answers(1);
    heard(client, "");
    lane_answers(0);
    heard(client, ":1\r\n:2\r\n:3\r\n+PONG\r\n:4\r\n:5\r\n");
    assert_int_equal(client->outlet.waiting, 0);
    talk(client, "PING\r\n", "+PONG\r\n");
}

TEST(what_is_complete_at_the_head_goes_out)
{
    for (unsigned i = 1; i <= 6; i++)
        hit(client, i % 2, i);
    fake_answers(&fakes[1], 2); /* 1 and 3 */
    heard(client, ":1\r\n");
    fake_answers(&fakes[0], 1);
    heard(client, ":2\r\n:3\r\n");
    lane_answers(1);
    heard(client, "");
    lane_answers(0);
    heard(client, ":4\r\n:5\r\n:6\r\n");
}

TEST(a_bulk_reply_is_one_reply)
{
    fakes[lane_of_store(SLICE(""), LANES)].bulk = SLICE("$12\r\na\nbc\r\n:1\r\nx\r\r\n");
    unsigned lane = lane_of_store(SLICE(""), LANES), other = (lane + 1) % LANES;
    hit(client, other, 1);
    say(client, "EVENT.ADD x y ID z\r\n");
    hit(client, other, 2);
    say(client, "EVENT.ADD x y ID z\r\nEVENT.ADD x y\r\n");
    lane_answers(lane);
    heard(client, "");
    lane_answers(other);
    heard(client, ":1\r\n$12\r\na\nbc\r\n:1\r\nx\r\r\n:2\r\n$12\r\na\nbc\r\n:1\r\nx\r\r\n:9\r\n");
}

/* More than the table of lanes has room for at first, twice. */
TEST(many_names_keep_their_lanes)
{
    uint32_t wanted[LANES] = {0};
    for (unsigned i = 0; i < 200000; i++) {
        char store[8], text[80];
        int n = snprintf(store, sizeof store, "%u", i % 100000);
        snprintf(text, sizeof text, "*4\r\n$7\r\nHINCRBY\r\n$%d\r\ns%s:views\r\n$1\r\n7\r\n$1\r\n1\r\n",
                 n + 7, store);
        wanted[lane_of_store(slice_of(store, (size_t)n), LANES)]++;
        say_slice(client, slice_str(text));
        for (unsigned lane = 0; lane < LANES && i % 1000 == 999; lane++)
            lane_answers(lane);
        buf_reset(&client->said);
    }
    assert_true(command->codes.mask + 1 > 1 << 16);
    for (unsigned lane = 0; lane < LANES; lane++)
        assert_int_equal(fakes[lane].adds, wanted[lane]);
}

/* ---- MULTI ---- */

TEST(a_transaction_is_of_one_lane)
{
    hit(client, 0, 1);
    say(client, "MULTI\r\n");
    say_of(client, 1, "HINCRBY s%:views 7 2\r\nPING\r\nHINCRBY s%:views 7 3\r\nEXEC\r\n");
    hit(client, 0, 4);
    lane_answers(1);
    heard(client, "");
    lane_answers(0);
    heard(client, ":1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:2\r\n+PONG\r\n:3\r\n:4\r\n");
}

TEST(a_transaction_over_lanes_is_refused)
{
    say(client, "MULTI\r\n");
    say_of(client, 1, "HINCRBY s%:views 7 2\r\n");
    say_of(client, 2, "HINCRBY s%:views 7 2\r\nEXEC\r\n");
    heard(client, "+OK\r\n+QUEUED\r\n-CROSSSLOT Keys in request don't hash to the same slot\r\n"
                  "-EXECABORT Transaction discarded because of previous errors.\r\n");
    say(client, "MULTI\r\n");
    say_of(client, 2, "SERIES.INCRBY s%:views 1\r\n"); /* no counter feeds it: it belongs to no store */
    say_of(client, (lane_of_store(SLICE(""), LANES) + 1) % LANES, "HINCRBY s%:views 7 2\r\nDISCARD\r\n");
    heard(client, "+OK\r\n+QUEUED\r\n-CROSSSLOT Keys in request don't hash to the same slot\r\n+OK\r\n");
    assert_int_equal(fakes[0].adds + fakes[1].adds + fakes[2].adds, 0);
}

TEST(a_transaction_waits_for_room_in_its_lane)
{
    fakes[1].room = 1;
    say(client, "MULTI\r\n");
    say_of(client, 1, "HINCRBY s%:views 7 2\r\nHINCRBY s%:views 7 3\r\nEXEC\r\nPING\r\n");
    heard(client, "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    assert_int_equal(fakes[1].parked_n, 1);
    fake_room(&fakes[0], 100);
    assert_int_equal(fakes[1].adds, 0);
    fake_room(&fakes[1], 100);
    lane_answers(1);
    heard(client, "*2\r\n:2\r\n:3\r\n+PONG\r\n");
}

/* ---- CLIENT REPLY ---- */

TEST(quiet_answers_say_nothing_and_keep_their_place)
{
    hit(client, 0, 1);
    say(client, "CLIENT REPLY SKIP\r\n");
    hit(client, 0, 2);
    hit(client, 1, 3);
    say(client, "CLIENT REPLY OFF\r\n");
    for (unsigned i = 0; i < 4; i++)
        hit(client, i % 2, i);
    say(client, "PING\r\nCLIENT REPLY ON\r\n");
    hit(client, 1, 5);
    lane_answers(1);
    heard(client, "");
    lane_answers(0);
    heard(client, ":1\r\n:3\r\n+OK\r\n:5\r\n");
    assert_int_equal(client->outlet.waiting, 0);
}

TEST(a_quiet_transaction_says_nothing)
{
    hit(client, 2, 1);
    say(client, "MULTI\r\n");
    say_of(client, 2, "HINCRBY s%:views 7 2\r\nHINCRBY s%:views 7 3\r\nCLIENT REPLY SKIP\r\n");
    say(client, "DISCARD\r\nMULTI\r\n");
    buf_reset(&client->said);
    say_of(client, 2,
           "HINCRBY s%:views 7 2\r\nHINCRBY s%:views 7 3\r\nEXEC\r\nCLIENT REPLY OFF\r\nMULTI\r\n");
    say_of(client, 2, "HINCRBY s%:views 7 4\r\nPING\r\nEXEC\r\n");
    lane_answers(2);
    buf_put_char(&client->said, '\0');
    assert_null(strstr(client->said.p, ":4\r\n"));
    assert_null(strstr(client->said.p, "PONG"));
    buf_reset(&client->said);
    assert_int_equal(client->outlet.waiting, 0);
}

/* ---- waiting ---- */

TEST(a_hit_without_room_waits_for_its_lane)
{
    fakes[1].room = 1;
    hit(client, 1, 1);
    hit(client, 1, 2);
    hit(client, 0, 3);
    assert_true(client->paused);
    assert_int_equal(fakes[1].parked_n, 1);
    lane_answers(1);
    fake_room(&fakes[1], 10);
    assert_false(client->paused);
    lane_answers(0);
    heard(client, ":1\r\n");
    lane_answers(1);
    heard(client, ":2\r\n:3\r\n");
}

TEST(who_leaves_is_parked_nowhere)
{
    struct conn *other = conn_open();
    fakes[1].room = 1;
    hit(other, 0, 1);
    hit(other, 1, 1);
    hit(other, 1, 2);
    assert_int_equal(fakes[1].parked_n, 1);
    on_drop(other);
    assert_int_equal(fakes[1].parked_n, 0);
    assert_int_equal(other->outlet.waiting, 2); /* so its memory stays */
    lane_answers(1);
    assert_int_equal(other->outlet.waiting, 1);
    assert_int_equal(other->session.order->ways[1].outlet.out.n, 0);
    lane_answers(0);
    assert_int_equal(other->outlet.waiting, 0);
    assert_null(other->session.order);
    conn_close(other);
}

TEST(each_lane_refuses_for_itself)
{
    fakes[1].down = true;
    fakes[2].room = 0;
    fakes[2].busy = true;
    hit(client, 0, 1);
    hit(client, 1, 2);
    hit(client, 2, 3);
    hit(client, 0, 4);
    lane_answers(0);
    heard(client, ":1\r\n-MASTERDOWN Redis is away; nothing was counted\r\n"
                  "-BUSY Redis does not keep up; nothing was counted, try again\r\n:4\r\n");
}

TEST(a_barrier_waits_for_all_lanes)
{
    hit(client, 0, 1);
    hit(client, 1, 2);
    say_of(client, 1, "CTR.PENDING s%:views\r\n");
    pending_out = NULL;
    lane_answers(1);
    assert_null(pending_out);
    lane_answers(0);
    assert_non_null(pending_out);
    assert_int_equal(asked_lane, 1);
    pending_out->outcome = ASK_REDIS_DOWN;
    pending_out->done(pending_out);
    conn_take(client);
    conn_flush(client);
    heard(client, ":1\r\n:2\r\n-MASTERDOWN Redis is away\r\n");
}

/* After 64 KiB of answers that wait for an earlier one, no more input is taken until that one comes. */
TEST(answers_ahead_are_bounded)
{
    size_t hits = 0;
    hit(client, 0, 1);
    while (!client->paused && hits < 100000) {
        for (unsigned i = 0; i < 1000; i++, hits++)
            hit(client, 1, 2);
        lane_answers(1);
    }
    assert_in_range(hits, OUTLET_FULL / OUTLET_VALUE, OUTLET_FULL / OUTLET_VALUE + 3000);
    assert_int_equal(client->session.state, SESSION_AHEAD);
    say(client, "PING\r\n");
    lane_answers(0);
    assert_false(client->paused);
    conn_take(client);
    lane_answers(1);
    conn_flush(client);
    assert_int_equal(client->said.n, 4 * (hits + 1) + 7);
    buf_reset(&client->said);
    assert_int_equal(client->outlet.waiting, 0);
}

#define PING_BYTES (7 + sizeof(struct outlet_text) + OUTLET_VALUE)

/* Not by hits alone: what is answered here takes memory there, too. */
TEST(local_replies_ahead_are_bounded)
{
    hit(client, 0, 1);
    unsigned pings = 0;
    while (!client->paused && pings < 100000) {
        say(client, "PING\r\n");
        pings++;
    }
    assert_in_range(pings, OUTLET_FULL / PING_BYTES, OUTLET_FULL / PING_BYTES + 2);
    lane_answers(0);
    conn_take(client);
    conn_flush(client);
    assert_int_equal(client->said.n, 4 + 7 * pings);
    buf_reset(&client->said);
}

static void one_of_each(unsigned late, unsigned values)
{
    hit(client, late, 1);
    hit(client, values, 2);
    say(client, "PING\r\nEVENT.ADD x y ID z\r\n");
}

TEST(what_was_taken_is_dropped_from_what_never_empties)
{
    unsigned texts = lane_of_store(SLICE(""), LANES), late = (texts + 1) % LANES,
             values = (texts + 2) % LANES;
    fakes[texts].bulk = SLICE("$3\r\nabc\r\n");
    one_of_each(late, values);
    for (unsigned i = 0; i < 5000; i++) {
        one_of_each(late, values);
        lane_answers(values);
        lane_answers(texts);
        heard(client, "");
        fake_answers(&fakes[late], 1); /* what follows the next one remains */
        heard(client, ":1\r\n:2\r\n+PONG\r\n$3\r\nabc\r\n");
    }
    const struct order *o = client->session.order;
    const struct outlet *way = &o->ways[values].outlet;
    assert_in_range(way->out.n, OUTLET_VALUE, 10000);
    assert_in_range(o->ways[texts].outlet.texts->n, 1, 10000);
    assert_in_range(o->ways[LANES].outlet.out.n, OUTLET_VALUE, 10000);
    assert_in_range(o->ways[LANES].outlet.texts->n, 1, 10000);
    lane_answers(late);
    heard(client, ":1\r\n:2\r\n+PONG\r\n$3\r\nabc\r\n");
    assert_int_equal(way->out.n, way->taken);
}

TEST(quit_is_the_last_reply)
{
    hit(client, 0, 1);
    hit(client, 1, 2);
    say(client, "QUIT\r\nPING\r\n");
    assert_true(client->finished);
    lane_answers(1);
    lane_answers(0);
    heard(client, ":1\r\n:2\r\n+OK\r\n");
}

/* ---- what is asked of all lanes ---- */

TEST(sync_all_sums_up)
{
    say(client, "CTR.SYNC ALL\r\n");
    for (unsigned lane = 0; lane < LANES; lane++) {
        heard(client, "");
        sync_outs[lane]->rows = 10 + lane;
        sync_outs[lane]->done(sync_outs[lane]);
        conn_flush(client);
    }
    heard(client, ":33\r\n");
    answer_inside = true;
    talk(client, "CTR.SYNC ALL\r\n", ":231\r\n");
    say_of(client, 2, "CTR.SYNC s%:views\r\n");
    heard(client, ":77\r\n");
    assert_int_equal(asked_lane, 2);
}

TEST(a_lane_that_is_away_is_told)
{
    static const enum ask_outcome outcomes[LANES] = {ASK_DONE, ASK_FAILED, ASK_REDIS_DOWN};
    for (unsigned i = 0; i < 2 * LANES; i++) { /* the first lane's, whichever answers first */
        unsigned lane = i < LANES ? i : 2 * LANES - 1 - i;
        char why[] = "WHY gone after the call";
        if (i % LANES == 0) say(client, "CTR.SYNC ALL\r\n");
        sync_outs[lane]->outcome = outcomes[lane];
        sync_outs[lane]->text = why;
        sync_outs[lane]->done(sync_outs[lane]);
        memset(why, 'x', sizeof why);
    }
    conn_flush(client);
#define TOLD "-WHY gone after the call (lane 1 and 1 more of 3; the other lanes: 0 rows merged)\r\n"
    heard(client, TOLD TOLD);
}

TEST(a_lane_that_is_held_hides_no_other)
{
    say(client, "CTR.SYNC ALL\r\n");
    for (unsigned lane = 0; lane < LANES; lane++) {
        sync_outs[lane]->outcome = lane == 1 ? ASK_HELD : ASK_DONE;
        sync_outs[lane]->rows = 10 + lane;
        sync_outs[lane]->done(sync_outs[lane]);
    }
    conn_flush(client);
    heard(client,
          "-ERR merging is held until an operator has looked: the log of tallyd says why (lane 1 of 3; the "
          "other lanes: 22 rows merged)\r\n");
    say(client, "CTR.SYNC ALL\r\n");
    for (unsigned lane = 0; lane < LANES; lane++) {
        sync_outs[lane]->outcome = ASK_TRY_AGAIN;
        sync_outs[lane]->done(sync_outs[lane]);
    }
    conn_flush(client);
    heard(client, "-TRYAGAIN not all is merged yet; ask again to go on waiting (lane 0 and 2 more of 3)\r\n");
}

static void recover_begins(unsigned dry)
{
    if (dry == 1)
        say(client, "CTR.RECOVER DRYRUN\r\n");
    else
        say(client, "CTR.RECOVER\r\n");
}

static void recovered(struct recover_request *v, unsigned adopted, struct slice *line, unsigned dry)
{
    v->adopted = adopted;
    v->rows_merged = 10;
    v->rows_already = 2;
    v->lines = line;
    v->lines_n = dry;
    v->done(v);
}

TEST(a_recovery_that_fails_hides_no_other)
{
    struct slice line = SLICE("batch 0");
    for (unsigned dry = 0; dry < 2; dry++) {
        recover_begins(dry);
        for (unsigned lane = 0; lane < LANES; lane++) {
            struct recover_request *v = recover_outs[lane];
            v->outcome = lane == 2 ? ASK_FAILED : ASK_DONE;
            v->text = "ERR why";
            recovered(v, 1, &line, dry);
        }
        conn_flush(client);
    }
    heard(client,
          "-ERR why (lane 2 of 3; the other lanes: 2 batches taken over, 20 rows merged, 4 merged before)\r\n"
          "-ERR why (lane 2 of 3; the other lanes: 2 findings)\r\n");
}

TEST(recoveries_are_summed)
{
    for (unsigned dry = 0; dry < 2; dry++) {
        recover_begins(dry);
        for (unsigned lane = 0; lane < LANES; lane++) {
            char text[] = "batch 0";
            text[6] = (char)('0' + lane);
            struct slice line = slice_str(text);
            struct recover_request *v = recover_outs[lane];
            assert_int_equal(v->dry_run, dry);
            recovered(v, lane, &line, dry);
        }
        conn_flush(client);
    }
    heard(client, "*3\r\n:3\r\n:30\r\n:6\r\n*3\r\n$7\r\nbatch 0\r\n$7\r\nbatch 1\r\n$7\r\nbatch 2\r\n");
}

TEST(names_are_of_all_lanes_in_order)
{
    say(client, "SERIES.LIST\r\n");
    static const char *const names[LANES][2] = {{"1:b", "60:b"}, {"18000:a", "1:a"}, {"5:a", "5:c"}};
    for (unsigned lane = 0; lane < LANES; lane++) {
        struct query_answer a = {0};
        query_put_text(&a, slice_str(names[lane][0]));
        query_put_text(&a, slice_str(names[lane][1]));
        read_outs[lane]->answer = &a;
        read_outs[lane]->done(read_outs[lane]);
        query_answer_free(&a);
    }
    conn_flush(client);
    heard(client,
          "*6\r\n$7\r\n18000:a\r\n$3\r\n1:a\r\n$3\r\n1:b\r\n$3\r\n5:a\r\n$3\r\n5:c\r\n$4\r\n60:b\r\n");
}

TEST(wait_asks_the_lanes_with_hits)
{
    hit(client, 0, 1);
    hit(client, 2, 2);
    lane_answers(0);
    lane_answers(2);
    say(client, "WAIT 2 0\r\n");
    assert_null(wait_outs[1]);
    wait_outs[0]->replicas = 2;
    wait_outs[2]->replicas = 1;
    assert_false(wait_outs[0]->left(wait_outs[0]));
    wait_outs[2]->done(wait_outs[2]);
    wait_outs[0]->done(wait_outs[0]);
    conn_flush(client);
    heard(client, ":1\r\n:2\r\n:1\r\n");
    struct conn *idle = conn_open();
    say(idle, "WAITAOF 1 0 0\r\n");
    for (unsigned lane = 0; lane < LANES; lane++) {
        wait_outs[lane]->local = lane != 1;
        wait_outs[lane]->done(wait_outs[lane]);
    }
    conn_flush(idle);
    heard(idle, "*2\r\n:0\r\n:0\r\n");
    conn_close(idle);
}

static void wait_answers(unsigned lane, enum ask_outcome outcome)
{
    char why[] = "UNBLOCKED gone after the call";
    wait_outs[lane]->outcome = outcome;
    wait_outs[lane]->text = why;
    wait_outs[lane]->done(wait_outs[lane]);
    memset(why, 'x', sizeof why);
    conn_flush(client);
}

/* It is told once, so no other refusal may hide it. */
TEST(unblocked_of_any_lane_is_told)
{
    for (unsigned i = 0; i < 2 * LANES; i++) { /* whichever answers first */
        static const enum ask_outcome outcomes[LANES] = {ASK_REDIS_DOWN, ASK_UNBLOCKED, ASK_REDIS_DOWN};
        unsigned lane = i < LANES ? i : 2 * LANES - 1 - i;
        if (i % LANES == 0) say(client, "WAIT 1 0\r\n");
        wait_answers(lane, outcomes[lane]);
    }
    heard(client, "-UNBLOCKED gone after the call\r\n-UNBLOCKED gone after the call\r\n");
}

/* With a timeout of 0 it waited for ever for replicas that the other lanes lack. */
TEST(a_wait_that_a_lane_refused_waits_for_no_other)
{
    say(client, "WAIT 1 0\r\n");
    wait_answers(1, ASK_DONE);
    assert_false(wait_outs[0]->left(wait_outs[0]));
    wait_answers(2, ASK_REDIS_DOWN);
    assert_true(wait_outs[0]->left(wait_outs[0]));
    wait_answers(0, ASK_DONE);
    heard(client, "-MASTERDOWN Redis is away\r\n");
}

TEST(who_left_meanwhile_is_not_answered)
{
    struct conn *other = conn_open();
    say(other, "CTR.SYNC ALL\r\n");
    on_drop(other);
    assert_int_equal(other->holds, 1);
    for (unsigned lane = 0; lane < LANES; lane++)
        sync_outs[lane]->done(sync_outs[lane]);
    assert_int_equal(other->holds, 0);
    conn_close(other);
}

/* ---- any order of answers ---- */

struct round {
    struct dice *dice;
    struct conn *conn;
    struct buf wanted; /* all that it will be told */
    unsigned serial;
};

static void hit_wanted(struct round *r)
{
    char text[100];
    const char *store = stores[dice_below(r->dice, LANES)];
    unsigned serial = ++r->serial, digits = (unsigned)snprintf(text, sizeof text, "%u", serial);
    snprintf(text, sizeof text, "*4\r\n$7\r\nHINCRBY\r\n$%zu\r\ns%s:views\r\n$1\r\n7\r\n$%u\r\n%u\r\n",
             7 + strlen(store), store, digits, serial);
    buf_put_slice(&r->conn->kept, slice_str(text));
    buf_printf(&r->wanted, ":%u\r\n", serial);
}

static void multi_wanted(struct round *r)
{
    const char *store = stores[dice_below(r->dice, LANES)];
    unsigned n = (unsigned)dice_below(r->dice, 4);
    buf_printf(&r->conn->kept, "MULTI\r\n");
    buf_printf(&r->wanted, "+OK\r\n");
    for (unsigned i = 0; i < n; i++) {
        buf_printf(&r->conn->kept, "HINCRBY s%s:views 7 %u\r\nECHO %u\r\n", store, r->serial + i, i);
        buf_printf(&r->wanted, "+QUEUED\r\n+QUEUED\r\n");
    }
    buf_printf(&r->conn->kept, "EXEC\r\n");
    buf_printf(&r->wanted, "*%u\r\n", 2 * n);
    for (unsigned i = 0; i < n; i++)
        buf_printf(&r->wanted, ":%u\r\n$1\r\n%u\r\n", r->serial++, i);
}

static void request_wanted(struct round *r)
{
    const char *store = stores[dice_below(r->dice, LANES)];
    switch (dice_below(r->dice, 12)) {
    case 0:
        buf_printf(&r->conn->kept, "PING\r\n");
        buf_printf(&r->wanted, "+PONG\r\n");
        return;
    case 1:
        buf_printf(&r->conn->kept, "CLIENT REPLY SKIP\r\nHINCRBY s%s:views 7 1\r\n", store);
        return;
    case 2:
        multi_wanted(r);
        return;
    case 3:
        buf_printf(&r->conn->kept, "EVENT.ADD %s v ID x\r\n", store);
        buf_printf(&r->wanted, "$4\r\na\n:1\r\n");
        return;
    case 4:
        buf_printf(&r->conn->kept, "CLIENT REPLY SKIP\r\nPING\r\nHINCRBY s%s:views 7 nan\r\n", store);
        buf_printf(&r->wanted, "-ERR value is not an integer or out of range\r\n");
        return;
    case 5:
        buf_printf(&r->conn->kept, "CTR.SYNC s%s:views\r\n", store);
        buf_printf(&r->wanted, ":77\r\n");
        return;
    default:
        hit_wanted(r);
    }
}

static void said_so_far(const struct round *r)
{
    const struct buf *said = &r->conn->said;
    assert_true(said->n <= r->wanted.n);
    assert_memory_equal(said->p == NULL ? "" : said->p, r->wanted.p == NULL ? "" : r->wanted.p, said->n);
}

static void one_step(struct round *r)
{
    struct coalesce *lane = &fakes[dice_below(r->dice, LANES)];
    switch (dice_below(r->dice, 4)) {
    case 0:
        for (size_t n = dice_below(r->dice, 20); n > 0; n--)
            request_wanted(r);
        conn_take(r->conn);
        conn_flush(r->conn);
        break;
    case 1:
        fake_room(lane, (uint32_t)dice_below(r->dice, 30));
        break;
    default:
        fake_answers(lane, (uint32_t)dice_below(r->dice, lane->n + 1));
    }
    conn_take(r->conn);
    conn_flush(r->conn);
    said_so_far(r);
}

static void all_answer(struct round *r)
{
    while (r->conn->kept.n > 0 || r->conn->outlet.waiting > 0)
        for (unsigned lane = 0; lane < LANES; lane++) {
            fake_room(&fakes[lane], 100);
            fake_answers(&fakes[lane], fakes[lane].n);
            conn_take(r->conn);
            conn_flush(r->conn);
        }
    said_so_far(r);
    assert_int_equal(r->conn->said.n, r->wanted.n);
}

TEST(any_order_of_answers_gives_one_order_of_replies)
{
    struct dice dice = dice_new("order");
    answer_inside = true;
    for (unsigned lane = 0; lane < LANES; lane++)
        fakes[lane].bulk = SLICE("$4\r\na\n:1\r\n");
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        struct round r = {.dice = &dice, .conn = conn_open()};
        for (unsigned i = 0; i < STEPS; i++)
            one_step(&r);
        if (seed % 2 == 0) all_answer(&r);
        on_drop(r.conn); /* every other one with answers still owed */
        for (unsigned lane = 0; lane < LANES; lane++) {
            fakes[lane].parked_n = 0;
            fakes[lane].room = ANSWERS_MAX;
            lane_answers(lane);
        }
        assert_int_equal(r.conn->outlet.waiting, 0);
        assert_null(r.conn->session.order);
        conn_close(r.conn);
        buf_free(&r.wanted);
    }
}
