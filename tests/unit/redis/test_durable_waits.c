/* Clients' WAITs on their own link: they share a write, each ends at its own time, none is satisfied while a failover is under way,
 * another server satisfies none, and no fence takes what they write for its own. */
#include "lib/redis_world.h"
#include "redis/durable.h"

static struct world *w;
static struct redis_link wait_link;
static struct redis_waits waits;
static struct redis_durable all[3];
static int ends;
static bool everybody_left;

COUNTS(on_durable, redis_durable)

static bool on_left(struct redis_durable *d)
{
    return everybody_left;
}

static void waits_ended(struct redis_waits *ws)
{
    ends++;
}

static void link_ended(struct redis_link *l)
{
    redis_waits_close(l->arg, waits_ended);
}

static int begin(void **state)
{
    w = world_open(); /* its link says where the server is */
    world_link(w, &wait_link, "wait");
    redis_waits_init(&waits, &wait_link, &w->life, false);
    ends = 0;
    everybody_left = false;
    for (int i = 0; i < 3; i++)
        all[i] = (struct redis_durable){.left = on_left, .done = on_durable};
    return 0;
}

static int end(void **state)
{
    redis_link_close(&wait_link, link_ended);
    WAIT_UNTIL(w, ends == 1);
    world_close(w);
    return 0;
}

static void ask(int at, int64_t replicas, uint64_t timeout_ms)
{
    all[at].replicas = replicas;
    all[at].timeout_ms = timeout_ms;
    redis_wait_for(&waits, &all[at]);
}

#define TEST(f) UNIT_IN(f, begin, end)

TEST(each_at_its_own_time_behind_one_write)
{
    uint64_t from_ms = mono_ms();
    ask(0, 1, 900);
    ask(1, 1, 300);
    ask(2, 0, 0);
    assert_int_equal(answers, 0);
    WAIT_UNTIL(w, answers == 1);
    assert_false(list_linked(&all[2].link)); /* none is wanted: at once */
    WAIT_UNTIL(w, answers == 2);
    assert_in_range(mono_ms() - from_ms, 300, 800);
    assert_false(list_linked(&all[1].link));
    WAIT_UNTIL(w, answers == 3);
    assert_in_range(mono_ms() - from_ms, 900, 1500);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(all[i].text, "");
        assert_int_equal(all[i].got_replicas, 0);
    }
    assert_redis(&w->server, "1", "GET tally:wait:shop:%s", w->life.id);
}

TEST(none_is_enough_while_a_failover_is_under_way)
{
    place_hold(&w->place, true);
    uint64_t from_ms = mono_ms();
    ask(0, 0, 0);
    WAIT_UNTIL(w, mono_ms() > from_ms + 300);
    assert_int_equal(answers, 0);
    place_hold(&w->place, false);
    WAIT_UNTIL(w, answers == 1);
}

TEST(another_server_answers_none)
{
    ask(0, 1, 0);
    WAIT_UNTIL(w, list_linked(&waits.written));
    w->place.run_id[0] ^= 1;
    WAIT_UNTIL(w, answers == 1);
    assert_string_equal(all[0].text, REDIS_UNBLOCKED);
    w->place.run_id[0] ^= 1;
}

/* A client that is told now would be told again when the links are up on another one. */
TEST(a_server_that_is_demoted_is_not_another_one_yet)
{
    ask(0, 1, 0);
    WAIT_UNTIL(w, waits.busy && list_linked(&waits.written));
    redis_ask(&w->server, "REPLICAOF 127.0.0.1 1"); /* it ends a WAIT with UNBLOCKED, and its link */
    WAIT_UNTIL(w, !redis_link_is_up(&wait_link) && !waits.busy);
    assert_int_equal(answers, 0);
    redis_ask(&w->server, "REPLICAOF NO ONE");
    WAIT_UNTIL(w, redis_link_is_up(&wait_link) && list_linked(&waits.written));
    w->place.run_id[0] ^= 1;
    WAIT_UNTIL(w, answers == 1);
    assert_string_equal(all[0].text, REDIS_UNBLOCKED);
    w->place.run_id[0] ^= 1;
}

/* The same server: what was answered there is still there, so it is asked again. */
TEST(a_cut_link_begins_anew)
{
    ask(0, 1, 2000);
    WAIT_UNTIL(w, list_linked(&waits.written));
    redis_link_cut(&wait_link, "for the test");
    WAIT_UNTIL(w, list_linked(&waits.fresh));
    WAIT_UNTIL(w, list_linked(&waits.written));
    assert_redis(&w->server, "2", "GET tally:wait:shop:%s", w->life.id);
    WAIT_UNTIL(w, answers == 1);
    assert_string_equal(all[0].text, "");
}

TEST(a_stop_waits_a_second)
{
    uint64_t from_ms = mono_ms();
    ask(0, 1, 0);
    redis_waits_stop(&waits);
    WAIT_UNTIL(w, answers == 1);
    assert_in_range(mono_ms() - from_ms, 1000, 1800);
    assert_string_equal(all[0].text, "");
}

TEST(one_that_left_is_waited_for_no_longer)
{
    ask(0, 1, 0);
    ask(1, 1, 500);
    WAIT_UNTIL(w, answers == 1);
    assert_false(list_linked(&all[1].link)); /* the other one waits on */
    everybody_left = true;
    WAIT_UNTIL(w, answers == 2);
    assert_string_equal(all[0].text, "");
}

UNIT_IN(what_still_waits_hears_that_all_is_closed, begin, NULL)
{
    ask(0, 1, 0);
    redis_link_close(&wait_link, link_ended);
    WAIT_UNTIL(w, ends == 1);
    assert_int_equal(answers, 1);
    assert_string_equal(all[0].text, "ERR tallyd is stopping");
    world_close(w);
}

/* The hits that its client has answers for may be lost with the rest. */
TEST(no_count_on_other_data)
{
    redis_ask(&w->server, "SET tally:seq:shop:%s 7", w->life.id);
    redis_link_numbered(&w->link, 8);
    ask(0, 0, 0);
    ask(1, 1, 5000);
    WAIT_UNTIL(w, answers == 2);
    assert_int_equal(all[1].got_replicas, 0);
    assert_true(all[1].text[0] != '\0');
}

/* --- beside the fences of merging --- */

static struct redis_fences fences;
static struct aof_watch watch;
static struct fence fence;
static int fenced, fences_gone;

static void on_fence(struct fence *f)
{
    fenced++;
}

static void fences_closed(struct redis_fences *fs)
{
    fences_gone++;
}

static int begin_fences(void **state)
{
    begin(state);
    world_timed(w);
    watch = (struct aof_watch){0};
    redis_fences_init(&fences, &w->link, &w->life, &watch, 0);
    fence = (struct fence){.done = on_fence};
    fenced = fences_gone = 0;
    return 0;
}

static int end_fences(void **state)
{
    world_link_close(w, &w->link);
    redis_fences_close(&fences, fences_closed);
    redis_link_close(&wait_link, link_ended);
    WAIT_UNTIL(w, fences_gone == 1 && ends == 1);
    world_end(w);
    return 0;
}

static void a_round(void)
{
    ANSWERED(ask(0, 0, 0));
}

/* Its write is done, and no look is under way. */
static void fence_begin(void)
{
    redis_fence(&fences, &fence);
    WAIT_UNTIL(w, fence.sync.looked && fences.look_n == 0);
}

UNIT_IN(a_fence_passes_beside_fewer_waits, begin_fences, end_fences)
{
    fences.mark.n = 8;
    fence_begin();
    a_round();
    WAIT_UNTIL(w, fenced == 1);
    assert_string_equal(fence.text, "");
    assert_true(fence.passed);
}

/* The server takes over data that lack what the fence wrote, and a WAIT writes more than that. */
UNIT_IN(no_fence_passes_on_other_data_with_more_waits, begin_fences, end_fences)
{
    a_round();
    a_round();
    fence_begin();
    redis_ask(&w->server, "DEL tally:fence:shop:%s", w->life.id);
    a_round(); /* its timer comes before the next look */
    WAIT_UNTIL(w, fenced == 1);
    assert_false(fence.passed);
    assert_non_null(strstr(fence.text, "another server's data"));
}
