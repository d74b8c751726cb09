/* Realms and the number of lanes of their Redis, on a real MariaDB. */
#include "shop.h"

#include "mysql/ledger.h"

#include <pthread.h>

static struct error e;

#define assert_fine(call)                                                                                    \
    do {                                                                                                     \
        if ((call) != ERR_NONE) fail_msg("%s", e.text);                                                      \
    } while (0)
#define REALMS                                                                                               \
    "SELECT GROUP_CONCAT(CONCAT(lanes, '*', n) ORDER BY lanes) FROM (SELECT lanes, COUNT(*) n FROM "         \
    "tally_realms GROUP BY lanes) t"

static int no_realm(void **state)
{
    sql("DELETE FROM tally_realms");
    return 0;
}

static struct history_read redis_of(uint8_t realm, const char *run_id)
{
    struct history_read r = {.fenced = true};
    if (realm != 0) r.realm = shop_id(realm);
    snprintf(r.run_id, sizeof r.run_id, "%s", run_id);
    snprintf(r.replid, sizeof r.replid, "history of %s", run_id);
    return r;
}

static struct realm_look look(const struct history_read *redis, const char *lane, uint32_t lanes)
{
    const struct realm_asker asker = {.instance = SLICE("me"), .lane = slice_str(lane), .lanes = lanes};
    struct realm_look out;
    assert_fine(realm_look(server.db, &shop, redis, &asker, &out, &e));
    return out;
}

#define TEST(name) UNIT_IN(name, no_realm, NULL)

TEST(first_realms)
{
    sql("INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by)"
        " VALUES (REPEAT(x'01', 16), REPEAT(x'00', 16), '', '', NOW(3), '')"); /* as sql/002 makes it */
    for (int i = 0; i < 2; i++) {                                              /* safe to repeat */
        assert_fine(realms_first(server.db, 4, &e));
        assert_sql("4*4", REALMS);
    }
    assert_fine(realms_free_make(server.db, 2, 2, &e));
    assert_sql("2*2,4*4", REALMS);
    struct history_read redis = redis_of(0, "a");
    assert_int_equal(look(&redis, "lane 0", 4).outcome, REALM_GIVEN);
    assert_fine(realms_first(server.db, 8, &e)); /* not the first any more */
    assert_sql("2*2,4*4", REALMS);
}

TEST(a_free_realm_is_of_as_many_lanes)
{
    assert_fine(realms_free_make(server.db, 2, 2, &e));
    struct history_read redis = redis_of(0, "a");
    assert_int_equal(look(&redis, "lane 0", 3).outcome, REALM_STRANGER);
    struct realm_look first = look(&redis, "lane 0", 2), second = look(&redis, "lane 1", 2);
    assert_int_equal(first.outcome, REALM_GIVEN);
    assert_int_equal(second.outcome, REALM_GIVEN);
    assert_memory_not_equal(&first.epoch.realm, &second.epoch.realm, sizeof first.epoch.realm);
    assert_int_equal(look(&redis, "lane 2", 2).outcome, REALM_STRANGER);
}

/* From version 1: its one realm has a ledger, so it is not the cluster's, whose configuration migrate was given. */
TEST(the_realm_of_an_older_redis_stays_its_own)
{
    sql("INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by)"
        " VALUES (REPEAT(x'01', 16), REPEAT(x'00', 16), '', '', NOW(3), '')");
    sql("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key,"
        " digest, rows_merged, total, merged_at) VALUES (REPEAT(x'01', 16), REPEAT(x'09', 16), 0, 1,"
        " 'visitors', 7, '', '', REPEAT(x'00', 16), 1, 1, NOW(3))");
    for (int i = 0; i < 2; i++) {
        assert_fine(realms_first(server.db, 4, &e));
        assert_sql("0*1,4*4", REALMS);
    }
    struct history_read redis = redis_of(0, "old");
    redis.gen = 7;
    struct batch_id one = shop_id(1);
    struct realm_look its = look(&redis, "", 1);
    assert_int_equal(its.outcome, REALM_GIVEN);
    assert_memory_equal(&its.epoch.realm, &one, sizeof one);
    sql("DELETE FROM tally_ledger");
}

#define LANES 16

static struct lane { /* on a connection of its own, as a writer thread */
    uint32_t no;
    pthread_t thread;
    struct realm_look look;
} lanes[LANES];
static pthread_barrier_t all_here;

static void *lane_begins(void *arg)
{
    struct lane *l = arg;
    struct db *db = db_create(&server.config);
    struct error why;
    char name[16];
    struct history_read redis = redis_of(0, "a");
    snprintf(name, sizeof name, "lane %u", l->no);
    const struct realm_asker asker = {.instance = SLICE("me"), .lane = slice_str(name), .lanes = LANES};
    db_thread_begin();
    bool open = db_open(db) == CODE_OK;
    pthread_barrier_wait(&all_here);
    if (!open || realm_look(db, &shop, &redis, &asker, &l->look, &why) != ERR_NONE) abort();
    db_destroy(&db);
    db_thread_end();
    return NULL;
}

static void lanes_begin_at_once(void)
{
    sql("DELETE FROM tally_realms");
    assert_fine(realms_free_make(server.db, LANES, LANES, &e));
    pthread_barrier_init(&all_here, NULL, LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i].no = i;
        assert_int_equal(pthread_create(&lanes[i].thread, NULL, lane_begins, &lanes[i]), 0);
    }
    for (uint32_t i = 0; i < LANES; i++)
        pthread_join(lanes[i].thread, NULL);
    pthread_barrier_destroy(&all_here);
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(lanes[i].look.outcome, REALM_GIVEN);
    assert_sql("16", "SELECT COUNT(DISTINCT taken_by) FROM tally_realms");
}

TEST(lanes_that_begin_at_once_get_one_each)
{
    for (int i = 0; i < 10; i++)
        lanes_begin_at_once();
}

TEST(a_realm_keeps_its_number)
{
    sql("INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by)"
        " VALUES (REPEAT(x'05', 16), REPEAT(x'06', 16), 'a', 'history of a', NOW(3), 'before')");
    struct history_read redis = redis_of(5, "a");
    struct realm_look joined = look(&redis, "lane 0", 4);
    assert_int_equal(joined.outcome, REALM_OURS);
    assert_false(joined.taken);
    assert_sql("4 before", "SELECT CONCAT(lanes, ' ', taken_by) FROM tally_realms");
    struct realm_look other = look(&redis, "lane 0", 16);
    assert_int_equal(other.outcome, REALM_OTHER_LANES);
    assert_int_equal(other.lanes, 4);
    assert_sql("4", "SELECT lanes FROM tally_realms");
}

/* --- a copy of a Redis --- */

#define ASKED "SELECT CONCAT_WS(' ', asked_at IS NULL, IF(alive_at IS NULL, NULL, 1)) FROM tally_realms"

static struct realm_look look_of(const char *run_id, uint8_t had, bool take_over)
{
    struct history_read redis = redis_of(5, run_id);
    struct realm_asker asker = {.instance = SLICE("me"), .lanes = 1, .take_over = take_over};
    struct realm_look out;
    if (had != 0) asker.had = shop_id(had);
    assert_fine(realm_look(server.db, &shop, &redis, &asker, &out, &e));
    return out;
}

static void merged_for_a(void)
{
    sql("DELETE FROM tally_realms");
    sql("INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by, lanes)"
        " VALUES (REPEAT(x'05', 16), REPEAT(x'06', 16), 'a', 'history of a', NOW(3), 'before', 1)");
}

static void seconds_pass(void)
{
    sql("UPDATE tally_realms SET asked_at = asked_at - INTERVAL 6 SECOND,"
        " alive_at = alive_at - INTERVAL 6 SECOND");
}

TEST(a_copy_waits_for_who_has_the_epoch)
{
    const struct epoch epoch = {.realm = shop_id(5), .id = shop_id(6)},
                       over = {.realm = shop_id(5), .id = shop_id(7)};
    merged_for_a();
    assert_fine(realm_answer(server.db, &epoch, &e)); /* nobody asks */
    assert_sql("1", ASKED);
    for (int i = 0; i < 2; i++)
        assert_int_equal(look_of("b", 0, false).outcome, REALM_ASKED);
    assert_fine(realm_answer(server.db, &over, &e));
    assert_sql("0", ASKED);
    for (int i = 0; i < 3; i++) { /* each look asks anew */
        assert_fine(realm_answer(server.db, &epoch, &e));
        assert_sql("0 1", ASKED);
        struct realm_look lives = look_of("b", 8, false);
        assert_int_equal(lives.outcome, REALM_LIVES);
        assert_string_equal(lives.by, "before");
    }
    assert_int_equal(look_of("b", 0, false).outcome, REALM_ASKED);
    seconds_pass();
    struct realm_look taken = look_of("b", 0, false);
    assert_int_equal(taken.outcome, REALM_OURS);
    assert_true(taken.taken);
    assert_sql("1", ASKED); /* of the new epoch nobody has asked */
}

TEST(who_had_the_epoch_waits_for_nobody)
{
    merged_for_a();
    assert_true(look_of("b", 6, false).taken);
    merged_for_a();
    assert_true(look_of("b", 0, true).taken); /* an operator said so */
    merged_for_a();
    sql("UPDATE tally_realms SET asked_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR");
    assert_int_equal(look_of("b", 0, false).outcome, REALM_ASKED); /* by a clock that was put back */
    assert_sql("1", "SELECT asked_at <= UTC_TIMESTAMP(3) FROM tally_realms");
}

/* What was answered by a clock that was put back since is no answer to a later question. */
TEST(an_answer_from_the_future_is_none)
{
    merged_for_a();
    sql("UPDATE tally_realms SET asked_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR, alive_at = asked_at");
    for (int i = 0; i < 2; i++)
        assert_int_equal(look_of("b", 0, false).outcome, REALM_ASKED);
    seconds_pass();
    assert_int_equal(look_of("b", 0, false).outcome, REALM_OURS);
}

TEST(who_joins_answers)
{
    merged_for_a();
    assert_int_equal(look_of("b", 0, false).outcome, REALM_ASKED);
    seconds_pass();
    struct realm_look joined = look_of("a", 0, false);
    assert_int_equal(joined.outcome, REALM_OURS);
    assert_false(joined.taken);
    assert_int_equal(look_of("b", 0, false).outcome, REALM_LIVES);
}

TEST(who_is_behind_asks_nobody)
{
    merged_for_a();
    sql("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key,"
        " digest, rows_merged, total, merged_at) VALUES (REPEAT(x'05', 16), REPEAT(x'09', 16), 0, 1,"
        " 'visitors', 7, '', '', REPEAT(x'00', 16), 1, 1, NOW(3))");
    assert_int_equal(look_of("b", 0, false).outcome, REALM_BEHIND);
    assert_sql("1", ASKED);
    sql("DELETE FROM tally_ledger");
}

TEST(an_accepted_redis_gets_one_of_as_many_lanes)
{
    struct batch_id nothing = {{0}}, realm;
    uint64_t highest;
    sql("INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by, lanes)"
        " VALUES (REPEAT(x'05', 16), REPEAT(x'06', 16), 'a', 'b', NOW(3), 'me', 1),"
        " (REPEAT(x'07', 16), REPEAT(x'06', 16), 'a', 'b', NOW(3), 'me', 2),"
        " (REPEAT(x'08', 16), REPEAT(x'06', 16), 'a', 'b', NOW(3), 'me', 2)");
    struct batch_id five = shop_id(5), nine = shop_id(9);
    assert_fine(realm_accept(server.db, &nothing, 1, &realm, &highest, &e));
    assert_memory_equal(&realm, &five, sizeof realm);
    assert_int_equal(realm_accept(server.db, &nothing, 2, &realm, &highest, &e),
                     ERR_CONFIG); /* of two none is right */
    assert_fine(realm_accept(server.db, &nine, 2, &realm, &highest, &e));
    assert_sql("1*1,2*3", REALMS);
}

TEST(a_number_that_no_realm_has)
{
    const struct schema_rules rules = {.lanes = 4};
    static const struct {
        const char *lanes;
        bool refused;
    } cases[] = {{"16", true}, {"4", false}, {"0", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schema_report r = {0};
        sql("DELETE FROM tally_realms");
        sql("INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by, lanes) VALUES"
            " (REPEAT(x'05', 16), REPEAT(x'06', 16), 'a', 'b', NOW(3), 'me', %s),"
            " (REPEAT(x'06', 16), REPEAT(x'06', 16), 'a', 'b', NOW(3), 'me', 16)",
            cases[i].lanes);
        assert_fine(schema_check(server.db, &shop, &rules, &r, &e));
        assert_int_equal(schema_refused(&r, NULL), cases[i].refused);
        if (cases[i].refused)
            assert_non_null(strstr(r.all[r.n - 1].reason, "redis.lanes: 16. Is it one more?"));
        schema_report_close(&r);
    }
}

UNITS_IN(shop_start, shop_stop)
