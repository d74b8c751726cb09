/* Which server is Redis: one server for all links, whichever comes up where, and what an answer says of it. */
#include "lib/redis_world.h"

#include "redis/link_in.h"
#include "redis/reader.h"

static int moves, doubts, holds;
static struct redis_move last_move;

static void on_moved(struct redis_place *p, const struct redis_move *m)
{
    moves++;
    last_move = *m;
}

static void on_doubted(struct redis_place *p, const char *why)
{
    doubts++;
}

static void on_held(struct redis_place *p, bool hold)
{
    holds += hold ? 1 : -1;
}

static struct redis_link second;

/* Two links on one server. */
static struct world *two_links(void)
{
    struct world *w = world_open();
    moves = doubts = 0;
    w->place.moved = on_moved;
    w->place.doubted = on_doubted;
    world_link(w, &second, "sync");
    return w;
}

static void two_end(struct world *w)
{
    world_link_close(w, &second);
    world_close(w);
}

UNIT(the_next_host_at_each_try)
{
    struct world *w = world_empty();
    w->url = (struct redis_url){.hosts = {{"a", 1}, {"b", 2}, {"c", 3}}, .hosts_n = 3};
    world_link(w, &w->link, "frame");
    w->place.home = 1;
    static const struct {
        const char *host;
        int port;
        bool over; /* of the round, before this try */
    } tries[] = {{"b", 2, true}, {"c", 3, false}, {"a", 1, false}, {"b", 2, true}};
    for (unsigned i = 0; i < 4; i++) {
        w->link.tries = i;
        assert_int_equal(place_round_is_over(&w->place, &w->link), tries[i].over);
        assert_true(place_target(&w->place, &w->link));
        assert_string_equal(w->link.target.host, tries[i].host);
        assert_int_equal(w->link.target.port, tries[i].port);
    }
    place_move(&w->place, &(struct redis_target){"c", 3}, "MASTERDOWN moved");
    assert_int_equal(w->link.tries, 0);
    assert_true(place_target(&w->place, &w->link));
    assert_string_equal(w->link.target.host, "c");
    world_close(w);
}

UNIT(told_only_it_waits_until_it_is_told)
{
    struct world *w = world_empty();
    w->place.told_only = true;
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs == 1);
    assert_string_equal(w->why, "MASTERDOWN Redis cannot be reached (no sentinel or node has named it yet)");
    redis_server_run(&w->server);
    struct redis_target target = {.port = 0};
    snprintf(target.host, sizeof target.host, "%s", w->server.socket);
    place_move(&w->place, &target, "MASTERDOWN moved");
    WAIT_UNTIL(w, w->ups == 1);
    place_move(&w->place, &target, "MASTERDOWN moved"); /* it is there */
    assert_true(redis_link_is_up(&w->link));
    snprintf(target.host, sizeof target.host, "%s.not", w->server.socket);
    place_move(&w->place, &target, "MASTERDOWN moved again");
    assert_false(redis_link_is_up(&w->link));
    WAIT_UNTIL(w, strcmp(w->why, "MASTERDOWN moved again") == 0);
    world_close(w);
}

/* The second link finds another server: it is cut until the first one leaves the old one, which was demoted. */
UNIT(links_are_up_on_one_server)
{
    struct redis_server other;
    struct world *w = two_links();
    redis_server_place(&other);
    redis_server_run(&other);
    w->url.path = other.socket;
    redis_link_start(&second);
    WAIT_UNTIL(w, w->downs >= 1);
    assert_string_equal(w->why, "MASTERDOWN this is another Redis server than on tallyd's other links");
    assert_true(redis_link_is_up(&w->link) && !redis_link_is_up(&second));
    redis_do("REPLICAOF 127.0.0.1 1");
    WAIT_UNTIL(w, redis_link_is_up(&w->link) && redis_link_is_up(&second));
    assert_string_equal(w->link.facts.run_id, second.facts.run_id);
    assert_int_equal(moves, 1);
    assert_string_equal(last_move.from, w->server.socket);
    assert_string_equal(last_move.to, other.socket);
    assert_string_equal(last_move.to_run_id, second.facts.run_id);
    two_end(w);
    redis_server_stop(&other);
}

static bool comes_up_on(struct world *w, const char *run_id)
{
    snprintf(w->link.facts.run_id, sizeof w->link.facts.run_id, "%s", run_id);
    return place_agrees(&w->place, &w->link);
}

/* What was answered before was answered on another server, what comes after is on this one. */
UNIT(it_moved_when_the_first_link_came_up)
{
    struct world *w = world_empty();
    world_link(w, &w->link, "frame");
    assert_true(comes_up_on(w, "a"));
    assert_int_equal(w->place.moved_ms, 0); /* it was nowhere before */
    uint64_t before_ms = mono_ms();
    assert_true(comes_up_on(w, "b"));
    uint64_t moved_ms = w->place.moved_ms;
    assert_in_range(moved_ms, before_ms, mono_ms());
    assert_true(comes_up_on(w, "b"));
    place_link_up(&w->place);
    assert_int_equal(w->place.moved_ms, moved_ms);
    world_close(w);
}

/* Both are primaries. */
UNIT(a_name_that_moved_is_followed)
{
    struct redis_server other;
    struct world *w = two_links();
    redis_server_place(&other);
    redis_server_run(&other);
    w->url.path = other.socket;
    redis_link_start(&second);
    WAIT_UNTIL(w, redis_link_is_up(&w->link) && redis_link_is_up(&second));
    assert_string_equal(w->link.facts.run_id, second.facts.run_id);
    assert_string_equal(last_move.to, other.socket);
    two_end(w);
    redis_server_stop(&other);
}

WORLD_TEST(an_idle_link_leaves_a_demoted_server)
{
    redis_do("REPLICAOF 127.0.0.1 1");
    WAIT_UNTIL(world, world->downs > 0);
    assert_string_equal(world->why, "READONLY this Redis is a replica, tallyd needs the primary");
}

WORLD_TEST(the_role_is_kept)
{
    WAIT_UNTIL(world, world->place.role.at_ms != 0);
    assert_int_equal(world->place.role.replicas_n, 0);
    redis_do("ACL SETUSER default -role");
    WAIT_UNTIL(world, world->link.no_role);
    uint64_t before_ms = world->place.role.at_ms;
    WAIT_UNTIL(world, world->place.role.at_ms > before_ms);
    assert_int_equal(world->downs, 0);
}

static void answer_ignored(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    ++*(int *)arg;
}

static void script(struct redis_link *l, const char *text, int *told)
{
    struct buf *out = redis_link_begin(l);
    request_array(out, 3);
    REQUEST_LIT(out, "EVAL");
    request_text(out, text);
    REQUEST_LIT(out, "0");
    redis_link_expect(l, 1, answer_ignored, told);
    redis_link_flush(l);
}

/* At any depth, on any link: all links leave, and the asker was told. */
UNIT(an_answer_that_says_elsewhere_dooms_all_links)
{
    static const char *const words[] = {"MOVED 1 a:1", "ASK 1 a:1",   "CLUSTERDOWN down", "REDIRECT a:1",
                                        "LOADING it",  "READONLY it", "MASTERDOWN it"};
    struct world *w = two_links();
    redis_link_start(&second);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        WAIT_UNTIL(w, redis_link_is_up(&w->link) && redis_link_is_up(&second));
        int told = 0, downs = w->downs;
        char text[100];
        snprintf(text, sizeof text, "return {1, {redis.error_reply('%s')}}", words[i]);
        script(&second, text, &told);
        WAIT_UNTIL(w, w->downs == downs + 2);
        assert_int_equal(told, 1);
        assert_string_equal(w->why, words[i]);
    }
    WAIT_UNTIL(w, redis_link_is_up(&w->link) && redis_link_is_up(&second));
    two_end(w);
}

UNIT(other_errors_leave_the_link)
{
    struct world *w = two_links();
    int told = 0;
    script(&w->link, "return redis.error_reply('MOVEDON x')", &told);
    script(&w->link, "return redis.error_reply('OOM x')", &told);
    script(&w->link, "return 'MOVED 1 a:1'", &told);
    WAIT_UNTIL(w, told == 3);
    assert_int_equal(doubts, 0);
    script(&w->link, "return redis.error_reply('NOREPLICAS x')", &told);
    WAIT_UNTIL(w, told == 4);
    assert_int_equal(doubts, 1);
    assert_true(redis_link_is_up(&w->link));
    two_end(w);
}

UNIT(a_hold_lets_go_by_itself)
{
    struct world *w = world_empty();
    w->place.held = on_held;
    holds = 0;
    place_hold(&w->place, true);
    place_hold(&w->place, true);
    assert_int_equal(holds, 1);
    uint64_t now_ms = mono_ms();
    place_tick(&w->place, now_ms + w->place.hold_most_ms - 100);
    assert_int_equal(holds, 1);
    place_tick(&w->place, now_ms + w->place.hold_most_ms);
    assert_int_equal(holds, 0);
    world_link(w, &w->link, "frame");
    world_close(w);
}

UNIT(what_is_on_its_way_holds_no_longer_than_allowed)
{
    struct world *w = world_empty();
    w->place.held = on_held;
    holds = 0;
    place_stray(&w->place);
    assert_int_equal(holds, 1);
    w->place.stray_ms -= w->place.hold_most_ms; /* it is said again and again meanwhile */
    place_tick(&w->place, mono_ms());
    assert_int_equal(holds, 0);
    place_stray(&w->place);
    assert_int_equal(holds, 0);
    place_served(&w->place);
    place_stray(&w->place);
    assert_int_equal(holds, 1);
    world_link(w, &w->link, "frame");
    world_close(w);
}

static struct redis_target redirected;

static void on_redirected(struct redis_place *p, const struct redis_target *to, const char *why)
{
    redirected = *to;
}

static void error_kept(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    if (answer_is(r, REDIS_ERROR)) answer_why(r, arg, 200);
}

/* What a node of a cluster says to a script's client. */
static void node_says(struct world *w, const char *script, char said[200])
{
    said[0] = '\0';
    request_eval(redis_link_begin(&w->link), slice_str(script), 0, 0);
    redis_link_ask(&w->link, 1, error_kept, said);
    WAIT_UNTIL(w, said[0] != '\0');
}

WORLD_TEST(where_a_cluster_sends_us_is_followed_and_not_told)
{
    char said[200];
    world->place.redirected = on_redirected;
    redirected.host[0] = '\0';
    redis_reader_of_cluster(world->link.reader); /* as each new connection of such a place is */
    node_says(world, "return redis.error_reply('ASK 8192 b:7001')", said);
    assert_true(strncmp(said, "TRYAGAIN ", 9) == 0);
    assert_string_equal(redirected.host, "");
    assert_true(redis_link_is_up(&world->link));
    node_says(world, "return redis.error_reply('TRYAGAIN Multiple keys request during rehashing of slot')",
              said);
    assert_true(strncmp(said, "TRYAGAIN the slot", 17) == 0);
    node_says(world,
              "return redis.error_reply('ERR Script attempted to access a non local key in a cluster node')",
              said);
    assert_true(strncmp(said, "TRYAGAIN ", 9) == 0);
    node_says(world, "return redis.error_reply('MOVED 8192 ?:7001')", said);
    WAIT_UNTIL(world, world->ups == 2);
    assert_string_equal(redirected.host, "");
    redis_reader_of_cluster(world->link.reader);
    node_says(world, "return redis.error_reply('MOVED 8192 b:7001')", said);
    assert_true(strncmp(said, "TRYAGAIN ", 9) == 0);
    WAIT_UNTIL(world, redirected.port == 7001);
    assert_string_equal(redirected.host, "b");
    assert_true(place_is_held(&world->place));
}
