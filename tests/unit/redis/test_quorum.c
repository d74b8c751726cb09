/* Decisions from what sentinels say, with the test's own clock. */
#include "lib/unit.h"
#include "redis/seek.h"
#include <stdio.h>

#define A "10.0.0.1"
#define B "10.0.0.2"
#define C "10.0.0.3"

static struct quorum q;
static uint64_t now;
static char at[64], looked[64]; /* where we are; the server being looked at */
static bool held;
static int moves;

static void moved(void *arg, const struct redis_target *to, const char *why)
{
    snprintf(at, sizeof at, "%.40s:%d", to->host, to->port);
    moves++;
}

static void hold_told(void *arg, bool on, const char *why)
{
    assert_true(held != on);
    held = on;
}

static void look_told(void *arg, const struct redis_target *whom)
{
    looked[0] = '\0';
    if (whom != NULL) snprintf(looked, sizeof looked, "%.40s", whom->host);
}

static struct redis_target server(const char *host)
{
    struct redis_target s;
    assert_true(target_parse(slice_str(host), SLICE("6379"), &s));
    return s;
}

static void names(uint32_t i, const char *host)
{
    struct redis_target s = server(host);
    quorum_named(&q, i, &s, now);
}

static void all_name(const char *host)
{
    for (uint32_t i = 0; i < 3; i++)
        names(i, host);
}

static void hears(uint32_t i, const char *channel, const char *text)
{
    quorum_heard(&q, i, slice_str(channel), slice_str(text), now);
}

static void passes(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 100, now += 100)
        quorum_tick(&q, now);
}

static struct replication says(bool master, const char *id, const char *id2)
{
    struct replication r = {.master = master};
    snprintf(r.replid, sizeof r.replid, "%s", id);
    snprintf(r.replid2, sizeof r.replid2, "%s", id2);
    return r;
}

/* The primary with its replicas B and C. */
static void primary_answers(void)
{
    struct replication r = says(true, "history", "0");
    r.replicas[0] = server(B), r.replicas[1] = server(C);
    r.replicas_n = 2;
    quorum_primary(&q, &r);
}

static void candidate_answers(bool master, const char *id2)
{
    struct replication r = says(master, "new", id2);
    quorum_looked(&q, &r, now);
}

/* Three sentinels that all name A, whose primary has answered. */
static int begin(void **state)
{
    now = 1000;
    held = false;
    moves = 0;
    at[0] = looked[0] = '\0';
    quorum_init(&q, &(struct quorum_ports){.move = moved, .hold = hold_told, .look = look_told}, "shop", 3,
                now);
    char id[2] = "a";
    for (uint32_t i = 0; i < 3; i++, id[0]++)
        quorum_id(&q, i, slice_str(id));
    return 0;
}

static void settle(void)
{
    all_name(A);
    assert_string_equal(at, A ":6379");
    primary_answers();
    quorum_up(&q, now);
    assert_int_equal(moves, 1);
}

#define EVENT_MASTER "master shop " A " 6379"
#define EVENT_B "slave " B ":6379 " B " 6379 @ shop " A " 6379"

#define TEST(name) UNIT_IN(name, begin, NULL)

TEST(majority_moves)
{
    settle();
    names(0, C);
    passes(1000);
    assert_int_equal(moves, 1);
    names(1, C);
    assert_string_equal(at, C ":6379");
}

/* The first choice: a majority at once, or after half a second the servers that are there. */
TEST(first_choice)
{
    names(0, B);
    passes(400);
    assert_int_equal(moves, 0);
    names(1, A);
    names(2, A);
    assert_string_equal(at, A ":6379");
    begin(state);
    names(1, C);
    passes(400);
    assert_int_equal(moves, 0);
    passes(300);
    assert_string_equal(at, C ":6379");
}

/* Two of three sentinels are dead: the third is believed at the start, and later not without a proof. */
TEST(one_is_left)
{
    names(2, A);
    passes(600);
    assert_string_equal(at, A ":6379");
    primary_answers();
    names(2, B);
    passes(1000);
    assert_int_equal(moves, 1);
    assert_string_equal(looked, B);
    candidate_answers(true, "history");
    assert_string_equal(at, B ":6379");
}

TEST(word_grows_old)
{
    settle();
    names(0, C);
    passes(QUORUM_FRESH_MS + 200);
    names(1, C); /* the first one's word is no longer one */
    assert_int_equal(moves, 1);
    names(0, C);
    assert_string_equal(at, C ":6379");
}

/* The leader's events: frames wait from the first, we move at the promotion, and go on when links are up. */
TEST(planned)
{
    settle();
    hears(1, "+failover-state-select-slave", EVENT_MASTER);
    assert_true(held);
    hears(1, "+selected-slave", EVENT_B);
    assert_string_equal(looked, B);
    candidate_answers(false, "0");
    passes(100);
    assert_int_equal(moves, 1);
    candidate_answers(true, "history");
    assert_string_equal(at, B ":6379");
    assert_string_equal(looked, "");
    assert_true(held);
    quorum_up(&q, now);
    assert_false(held);
    passes(900);
    all_name(A); /* what they name before they know of it is no reason to go back */
    assert_int_equal(moves, 2);
    hears(1, "+promoted-slave", EVENT_B); /* about the primary that we left */
    assert_false(held);
    all_name(B);
    assert_int_equal(moves, 2);
}

/* The promotion was never announced: most of them name the old one for ten seconds. */
TEST(promotion_was_nothing)
{
    settle();
    hears(0, "+selected-slave", EVENT_B);
    candidate_answers(true, "history");
    assert_int_equal(moves, 2);
    for (int i = 0; i < 9; i++, passes(1000))
        all_name(A);
    assert_string_equal(at, B ":6379");
    passes(1100);
    all_name(A);
    assert_string_equal(at, A ":6379");
}

/* Back to the server we came from, within ten seconds: that is news from those that had named the other meanwhile, and the server
 * is known, whatever replicas the new primary has. */
TEST(there_and_back)
{
    struct replication alone = says(true, "new", "history");
    settle();
    hears(1, "+selected-slave", EVENT_B);
    candidate_answers(true, "history");
    quorum_primary(&q, &alone);
    quorum_up(&q, now);
    passes(1000);
    all_name(B);
    hears(0, "+selected-slave", "slave " A ":6379 " A " 6379 @ shop " B " 6379");
    assert_string_equal(looked, A);
    passes(1000);
    names(0, A);
    assert_string_equal(at, B ":6379");
    names(1, A);
    assert_string_equal(at, A ":6379");
}

TEST(called_off)
{
    settle();
    hears(0, "+failover-state-select-slave", EVENT_MASTER);
    passes(200);
    hears(1, "-failover-abort-no-good-slave", EVENT_MASTER); /* another one cannot end it */
    assert_true(held);
    hears(0, "-failover-abort-no-good-slave", EVENT_MASTER);
    assert_false(held);
    assert_int_equal(moves, 1);
}

/* A sentinel that holds without reason: for three seconds, and then not again for a minute; the others may. */
TEST(hold_is_bounded)
{
    settle();
    hears(2, "+failover-state-wait-promotion", EVENT_B);
    passes(QUORUM_HOLD_MS - 100);
    assert_true(held);
    passes(200);
    assert_false(held);
    for (int i = 0; i < 58; i++, passes(1000)) {
        hears(2, "+selected-slave", EVENT_B);
        assert_false(held);
    }
    hears(1, "+selected-slave", EVENT_B);
    assert_true(held);
    hears(1, "-failover-abort-slave-timeout", EVENT_MASTER);
    passes(3000);
    hears(2, "+selected-slave", EVENT_B);
    assert_true(held);
}

/* A lying sentinel: it names a server of its own, which is not asked, or a replica that was not promoted, or one that was promoted
 * out of another history. */
TEST(liar)
{
    settle();
    names(0, "6.6.6.6");
    hears(0, "+switch-master", "shop " A " 6379 6.6.6.6 6379");
    hears(0, "+promoted-slave", "slave 6.6.6.6:6379 6.6.6.6 6379 @ shop " A " 6379");
    assert_string_equal(looked, "");
    hears(0, "+switch-master", "shop " A " 6379 " B " 6379");
    assert_string_equal(looked, B);
    candidate_answers(false, "history");
    candidate_answers(true, "another");
    passes(5000);
    assert_int_equal(moves, 1);
    assert_string_equal(looked, "");
}

/* A sentinel lists twenty others: they are not asked, and the majority stays that of the real ones. */
TEST(liar_with_friends)
{
    uint64_t friends[SENTINELS_MAX], others[2] = {101, 102};
    settle();
    for (uint32_t i = 0; i < SENTINELS_MAX; i++)
        friends[i] = 1000 + i;
    quorum_others(&q, 0, friends, SENTINELS_MAX);
    quorum_others(&q, 1, others, 2);
    quorum_others(&q, 2, others, 2);
    assert_false(quorum_believes(&q, 1000, now));
    assert_true(quorum_believes(&q, 101, now));
    assert_int_equal(quorum_size(&q, now), 3);
    assert_int_equal(quorum_majority(&q, now), 2);
}

/* Found ones count, but the same one only once, under whatever addresses it is known. */
TEST(found)
{
    uint64_t others[4] = {1, 2, 3, 4};
    settle();
    for (uint32_t i = 0; i < 3; i++)
        quorum_others(&q, i, others, 4);
    uint32_t d = quorum_add(&q), e = quorum_add(&q);
    quorum_others(&q, d, others, 4);
    quorum_others(&q, e, others, 4);
    quorum_id(&q, d, SLICE("d"));
    quorum_id(&q, e, SLICE("a")); /* the first one's */
    assert_int_equal(quorum_majority(&q, now), 3);
    names(0, C);
    names(e, C);
    names(1, C);
    assert_int_equal(moves, 1);
    names(d, C);
    assert_string_equal(at, C ":6379");
}

/* Of another primary, of a server where we are not, and no event at all. */
TEST(not_ours)
{
    settle();
    hears(0, "+failover-state-select-slave", "master cart " A " 6379");
    hears(0, "+failover-state-select-slave", "master shop " C " 6379");
    hears(0, "+failover-state-select-slave", "master shop " A);
    hears(0, "+selected-slave", "slave " B ":6379 " B " x @ shop " A " 6379");
    hears(0, "+sdown", EVENT_MASTER);
    hears(0, "+switch-master", "cart " A " 6379 " B " 6379");
    hears(0, "+switch-master", "");
    passes(1000);
    assert_false(held);
    assert_int_equal(moves, 1);
    assert_string_equal(looked, "");
}

/* A primary that was cut off has no replicas any more; those it had may still be promoted. */
TEST(replicas_are_remembered)
{
    settle();
    struct replication alone = says(true, "history", "0");
    quorum_primary(&q, &alone);
    hears(0, "+selected-slave", EVENT_B);
    assert_string_equal(looked, B);
    struct replication demoted = says(false, "else", "0"); /* a demoted primary tells nothing */
    quorum_primary(&q, &demoted);
    candidate_answers(true, "history");
    assert_string_equal(at, B ":6379");
}
