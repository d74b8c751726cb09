/* The link: up and down once each, pending requests answered once, whatever the server does. */
#include "base/heap.h"
#include "lib/child.h"
#include "lib/redis_fake.h"
#include <netdb.h>

struct asked { /* what became of a request */
    int answers, nulls;
    int64_t last;
};

static void on_answer(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    if (r == NULL)
        a->nulls++;
    else
        a->answers++;
    if (answer_is(r, REDIS_INTEGER)) a->last = r->integer;
}

static void ask(struct redis_link *l, struct asked *a, const char *words)
{
    request_words(redis_link_begin(l), words);
    redis_link_expect(l, 1, on_answer, a);
    redis_link_flush(l);
}

WORLD_TEST(test_up)
{
    struct asked a = {0};
    int major, minor, patch;
    const char *version = strstr(redis_do("INFO server"), "redis_version:");
    assert_non_null(version);
    assert_int_equal(sscanf(version, "redis_version:%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(world->link.facts.version, major * 10000 + minor * 100 + patch);
    assert_int_equal(strlen(world->link.facts.run_id), 40);
    assert_true(world->link.facts.master && world->link.facts.aof_on && !world->link.facts.loading);
    assert_string_equal(world->link.facts.policy, "noeviction");
    assert_string_equal(world->link.facts.appendfsync, "everysec");
    assert_true(llabs(redis_time_ms(&world->link) - wall_ms()) < 1000);
    ask(&world->link, &a, "CLIENT ID");
    WAIT_UNTIL(world, a.answers == 1);
    assert_int_equal(a.last, world->link.client_id);
    assert_non_null(strstr(redis_do("CLIENT LIST"), "name=tallyd:shop:"));
    assert_non_null(strstr(redis_do("CLIENT LIST"), world->life.id));
}

WORLD_TEST(test_order_and_many_replies)
{
    struct asked a[300] = {{0}}, many = {0};
    for (int i = 0; i < 300; i++)
        ask(&world->link, &a[i], "INCR n");
    for (int i = 0; i < 5; i++)
        request_words(redis_link_begin(&world->link), "INCR n");
    redis_link_expect(&world->link, 5, on_answer, &many);
    redis_link_flush(&world->link);
    WAIT_UNTIL(world, many.answers == 5);
    for (int i = 0; i < 300; i++)
        assert_int_equal(a[i].last, i + 1);
    assert_int_equal(many.last, 305);
}

UNIT(test_refused_then_there)
{
    struct world *w = world_empty();
    struct asked a = {0};
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    assert_int_equal(w->downs, 0); /* never from inside the call */
    WAIT_UNTIL(w, w->downs == 1);
    assert_string_equal(w->why, "MASTERDOWN Redis cannot be reached (no such file or directory)");
    ask(&w->link, &a, "PING");
    assert_int_equal(a.nulls, 0);
    WAIT_UNTIL(w, a.nulls == 1);
    redis_server_run(&w->server);
    WAIT_UNTIL(w, w->ups == 1);
    assert_int_equal(a.nulls, 1);
    world_close(w);
}

/* A name, so that it is looked up; a bare chroot knows none. */
static char *loopback_host(void)
{
    struct addrinfo *found;
    if (getaddrinfo("localhost", NULL, NULL, &found) != 0) return "127.0.0.1";
    freeaddrinfo(found);
    return "localhost";
}

UNIT(test_tcp_refused)
{
    struct world *w = world_empty();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n),
                     0); /* bound, not listening: no other program gets it */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    w->url = (struct redis_url){.hosts = {{loopback_host(), ntohs(address.sin_port)}}, .hosts_n = 1};
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs == 3); /* reported each time, tried again */
    assert_string_equal(w->why, "MASTERDOWN Redis cannot be reached (connection refused)");
    assert_int_equal(w->ups, 0);
    close(fd);
    world_close(w);
}

UNIT(test_name_unknown)
{
    struct world *w = world_empty();
    w->url = (struct redis_url){.hosts = {{"tallyd-test.invalid", 1}}, .hosts_n = 1};
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs >= 1);
    assert_true(strncmp(w->why, "MASTERDOWN Redis cannot be reached (", 36) == 0);
    world_close(w);
}

WORLD_TEST(test_killed_and_back)
{
    struct asked a[50] = {{0}};
    char run_id[RUN_ID_BYTES];
    memcpy(run_id, world->link.facts.run_id, sizeof run_id);
    child_pause(world->server.pid); /* so that nothing is answered before the kill */
    for (int i = 0; i < 50; i++)
        ask(&world->link, &a[i], "INCR n");
    redis_server_kill(&world->server);
    WAIT_UNTIL(world, world->downs == 1);
    for (int i = 0; i < 50; i++)
        assert_int_equal(a[i].nulls + a[i].answers, 1);
    redis_server_run(&world->server);
    WAIT_UNTIL(world, world->ups == 2);
    assert_string_not_equal(run_id, world->link.facts.run_id);
    for (int i = 0; i < 50; i++)
        assert_int_equal(a[i].nulls + a[i].answers, 1);
}

WORLD_TEST(test_stopped_server)
{
    struct asked a = {0};
    uint64_t from_ms = mono_ms();
    world->link.config.answer_ms = 2000;
    child_pause(world->server.pid);
    ask(&world->link, &a, "PING");
    WAIT_UNTIL(world, world->downs == 1);
    assert_int_equal(a.nulls, 1);
    assert_true(mono_ms() - from_ms >= 2000);
    assert_non_null(strstr(world->why, "no answer for 2000 ms"));
    kill(world->server.pid, SIGCONT);
    WAIT_UNTIL(world, world->ups == 2);
}

/* Our own loop was blocked for longer than the limit: the answer is there, unread. That is no cut. */
WORLD_TEST(test_own_stall)
{
    struct asked a = {0};
    world->link.config.answer_ms = 2000;
    ask(&world->link, &a, "PING");
    usleep(2300 * 1000);
    WAIT_UNTIL(world, a.answers + a.nulls == 1);
    assert_int_equal(a.answers, 1);
    assert_int_equal(world->downs, 0);
}

WORLD_TEST(test_idle_is_no_timeout)
{
    uint64_t until_ms = mono_ms() + 2500;
    world->link.config.answer_ms = 2000;
    WAIT_UNTIL(world, mono_ms() > until_ms);
    assert_int_equal(world->downs, 0);
}

WORLD_TEST(test_cut_by_client_kill)
{
    int64_t first = world->link.client_id;
    redis_do("CLIENT KILL ID %lld", (long long)first);
    WAIT_UNTIL(world, world->ups == 2);
    assert_int_equal(world->downs, 1);
    assert_true(world->link.client_id > first);
}

/* Nor when its place moves. What is asked then was never sent. */
WORLD_TEST(test_once)
{
    struct asked a = {0};
    world->link.config.once = true;
    redis_do("CLIENT KILL ID %lld", (long long)world->link.client_id);
    WAIT_UNTIL(world, world->downs == 1);
    place_move(&world->place, &world->link.target, "");
    ask(&world->link, &a, "SET late 1");
    WAIT_UNTIL(world, a.nulls == 1);
    uint64_t until_ms = mono_ms() + 200; /* a link that is made again is there in 50 */
    WAIT_UNTIL(world, mono_ms() >= until_ms);
    assert_int_equal(world->ups, 1);
    redis_has("0", "EXISTS late");
}

UNIT(test_password)
{
    struct world *w = world_with_server(NULL);
    redis_do("ACL SETUSER shop on >right ~* &* +@all");
    w->url.user = "shop";
    w->url.password = "wrong";
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs == 1);
    assert_non_null(strstr(w->why, "MASTERDOWN Redis refused tallyd's link (WRONGPASS"));
    w->url.password = "right";
    WAIT_UNTIL(w, w->ups == 1);
    redis_do("ACL SETUSER shop -multi");
    redis_do("CLIENT KILL ID %lld", (long long)w->link.client_id);
    WAIT_UNTIL(w, w->downs >= 3);
    assert_non_null(strstr(w->why, "NOPERM"));
    assert_int_equal(w->ups, 1);
    world_close(w);
}

/* A right that an operator forgot, and a managed service that has no CLIENT: neither ends by itself. */
UNIT(test_no_client)
{
    struct world *w = world_with_server(NULL);
    struct error e;
    redis_do("ACL SETUSER shop on >right ~* &* +@all -client");
    w->url.user = "shop";
    w->url.password = "right";
    world_link(w, &w->link, "frame");
    assert_int_equal(redis_link_connect(&w->link, 5000, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "Redis refuses CLIENT (NOPERM"));
    redis_do("ACL SETUSER shop +client");
    WAIT_UNTIL(w, w->ups == 1);
    assert_int_equal(w->link.refusal.code, ERR_NONE);
    world_close(w);
}

UNIT(test_replica_and_database)
{
    struct world *w = world_with_server(NULL);
    struct asked a = {0};
    w->url.db = 3;
    redis_do("REPLICAOF 127.0.0.1 1");
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs == 2);
    assert_true(strncmp(w->why, "READONLY ", 9) == 0);
    redis_do("REPLICAOF NO ONE");
    WAIT_UNTIL(w, w->ups == 1);
    ask(&w->link, &a, "INCR n");
    WAIT_UNTIL(w, a.answers == 1);
    redis_do("SELECT 3");
    redis_has("1", "GET n");
    world_close(w);
}

/* One answer of a strange server: the link must end it, and live. */
static void strange(const char *hello, const char *say, size_t say_n, const char *why)
{
    struct world *w = world_empty();
    struct fake f = {.hello = hello, .say = {say}, .say_n = say_n};
    struct asked a = {0};
    fake_start(w, &f);
    world_link(w, &w->link, "frame");
    redis_link_start(&w->link);
    if (hello == NULL) {
        WAIT_UNTIL(w, w->ups == 1);
        ask(&w->link, &a, "PING");
    }
    WAIT_UNTIL(w, w->downs >= 1);
    if (hello == NULL) assert_int_equal(a.nulls + a.answers, 1);
    if (strstr(w->why, why) == NULL) fail_msg("%s is not in: %s", why, w->why);
    WAIT_UNTIL(w, f.accepts >= 2); /* it tries again */
    fake_stop(&f);
    world_close(w);
}

UNIT(test_garbage)
{
    strange(NULL, "HTTP/1.1 400 Bad Request\r\n\r\n", 0, "it answered garbage");
    strange(NULL, "\0\0\0\0\r\n", 6, "it answered garbage");
    strange(NULL, "$-5\r\n", 0, "it answered garbage");
    strange(NULL, ":12x\r\n", 0, "it answered garbage");
    strange(NULL, "*2147483647\r\n", 0, "it answered garbage");
    strange(NULL, "*4194305\r\n", 0, "it answered garbage");
    strange(NULL, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 0,
            "it answered garbage");
    strange(NULL, "%1\r\n+a\r\n+b\r\n", 0, "it answered garbage");
    strange(NULL, ">2\r\n+a\r\n+b\r\n", 0, "it answered garbage");
    strange(NULL, "+PONG\r\n+MORE\r\n", 0, "it sent an answer without a request");
    strange("-ERR max number of clients reached\r\n", NULL, 0, "(ERR max number of clients reached)");
    strange("-LOADING Redis is loading the dataset in memory\r\n", NULL, 0, "LOADING Redis is loading");
    strange("+OK\r\n:0\r\n", NULL, 0, "MASTERDOWN Redis refused tallyd's link"); /* no id of a client */
    strange(FAKE_NAME_ID "$3\r\nabc\r\n", NULL, 0, "MASTERDOWN Redis refused tallyd's link");
}

UNIT(test_loading)
{
    struct fake f;
    char hello[600];
    fake_hello(&f, "redis_version:7.2.4\r\nrun_id:a\r\nrole:master\r\nloading:1\r\n");
    memcpy(hello, f.info, sizeof hello);
    strange(hello, NULL, 0, "LOADING Redis is loading the dataset in memory");
}

static void plain(const char *hello, enum err refused)
{
    struct world *w = world_empty();
    struct fake f = {.hello = hello};
    fake_start(w, &f);
    world_link(w, &w->link, "cluster");
    w->link.config.plain = true;
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs >= 1);
    assert_int_equal(w->link.refusal.code, refused);
    fake_stop(&f);
    WAIT_UNTIL(w, strstr(w->why, "cannot be reached") != NULL);
    assert_int_equal(w->link.refusal.code, ERR_NONE);
    world_close(w);
}

/* It comes by itself, so a start without it is worth another try. */
UNIT(test_a_node_is_not_ready)
{
    plain("-LOADING Redis is loading the dataset in memory\r\n", ERR_NONE);
    plain("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", ERR_NONE);
    plain("-NOAUTH Authentication required.\r\n", ERR_CONFIG);
}

UNIT(test_silent_handshake)
{
    struct world *w = world_empty();
    struct fake f = {.hello = ""};
    fake_start(w, &f);
    world_link(w, &w->link, "frame");
    w->link.config.connect_ms = 300;
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->downs == 2);
    assert_non_null(strstr(w->why, "no answer to the handshake"));
    fake_stop(&f);
    world_close(w);
}

/* A reply that comes byte by byte, with nested arrays over several reads, is the same reply. */
static void on_nested(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    assert_true(answer_is_array(r, 3));
    assert_slice(r->elements[0].str, "zero");
    assert_true(answer_is_array(&r->elements[1], 2));
    assert_int_equal(r->elements[1].elements[0].integer, 42);
    assert_slice(r->elements[1].elements[1].str, "deep");
    assert_int_equal(r->elements[2].type, REDIS_NIL);
    *(bool *)arg = true;
}

UNIT(test_dribble)
{
    static const char text[] = "*3\r\n$4\r\nzero\r\n*2\r\n:42\r\n$4\r\ndeep\r\n$-1\r\n";
    struct world *w = world_empty();
    struct fake f = {0};
    bool seen = false;
    fake_start(w, &f);
    world_link_up(w, "frame");
    request_words(redis_link_begin(&w->link), "PING");
    redis_link_expect(&w->link, 1, on_nested, &seen);
    redis_link_flush(&w->link);
    WAIT_UNTIL(w, f.reads == 2);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        fake_say(&f, text + i, 1);
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    WAIT_UNTIL(w, seen);
    fake_stop(&f);
    world_close(w);
}

WORLD_TEST(test_bounds)
{
    struct asked a = {0};
    child_pause(world->server.pid);
    world->link.config.pending_max = 100;
    for (int i = 0; i < 200; i++)
        ask(&world->link, &a, "PING");
    assert_int_equal(world->downs, 0);
    WAIT_UNTIL(world, a.nulls == 200);
    assert_int_equal(world->downs, 1);
    assert_non_null(strstr(world->why, "too many requests are pending"));
    kill(world->server.pid, SIGCONT);
    WAIT_UNTIL(world, world->ups == 2);
    world->link.config.write_max = 1 << 20;
    child_pause(world->server.pid);
    char *big = heap_zalloc(1 << 20);
    memset(big, 'x', (1 << 20) - 1);
    for (int i = 0; i < 20; i++) {
        struct buf *out = redis_link_begin(&world->link);
        request_array(out, 2);
        REQUEST_LIT(out, "ECHO");
        request_text(out, big);
        redis_link_expect(&world->link, 1, on_answer, &a);
        redis_link_flush(&world->link);
    }
    WAIT_UNTIL(world, a.nulls == 220);
    assert_non_null(strstr(world->why, "it does not read what tallyd sends"));
    kill(world->server.pid, SIGCONT);
    heap_free(big);
}

/* A request bigger than the socket takes at once, and an answer bigger than one read. */
WORLD_TEST(test_big)
{
    struct asked a = {0}, set = {0};
    size_t n = 20 << 20;
    char *big = heap_zalloc(n + 1);
    memset(big, 'x', n);
    struct buf *out = redis_link_begin(&world->link);
    request_array(out, 3);
    REQUEST_LIT(out, "SET");
    REQUEST_LIT(out, "big");
    request_text(out, big);
    redis_link_expect(&world->link, 1, on_answer, &set);
    redis_link_flush(&world->link);
    ask(&world->link, &a, "STRLEN big");
    WAIT_UNTIL(world, a.answers == 1);
    assert_int_equal(a.last, n);
    ask(&world->link, &a, "GET big");
    WAIT_UNTIL(world, a.answers == 2);
    heap_free(big);
}

static void ask_in_callback(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    on_answer(l, a, r, at);
    if (a->answers + a->nulls < 20) {
        request_words(redis_link_begin(l), "PING");
        redis_link_expect(l, 1, ask_in_callback, a);
        redis_link_flush(l);
    }
}

/* Closed at the n-th turn of its loop: always answered, always closed, nothing leaks (the sanitizer looks).
 * */
UNIT(test_close_at_each_turn)
{
    struct world *w = world_with_server(NULL);
    for (int turns = 0; turns < 25; turns++) {
        struct redis_link l;
        struct asked a = {0};
        int before = w->closed;
        world_link(w, &l, "frame");
        redis_link_start(&l);
        for (int i = 0; i < turns; i++)
            uv_run(&w->loop, UV_RUN_NOWAIT);
        request_words(redis_link_begin(&l), "PING");
        redis_link_expect(&l, 1, ask_in_callback, &a);
        redis_link_flush(&l);
        redis_link_close(&l, world_closed);
        WAIT_UNTIL(w, w->closed == before + 1);
        assert_int_equal(a.answers + a.nulls, 20);
    }
    world_end(w);
}

UNIT(test_close_unstarted_and_waiting)
{
    struct world *w = world_empty();
    struct redis_link l;
    world_link(w, &l, "frame");
    world_link_close(w, &l);
    world_link(w, &l, "frame");
    redis_link_start(&l);
    WAIT_UNTIL(w, w->downs == 1);
    world_link_close(w, &l);
    assert_int_equal(w->downs, 1);
    world_end(w);
}

static void cut_in_callback(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    on_answer(l, arg, r, at);
    redis_link_cut(l, "READONLY for the test");
}

WORLD_TEST(test_cut_in_callback)
{
    struct asked first = {0}, second = {0};
    request_words(redis_link_begin(&world->link), "PING");
    redis_link_expect(&world->link, 1, cut_in_callback, &first);
    ask(&world->link, &second, "PING");
    WAIT_UNTIL(world, world->downs == 1);
    assert_int_equal(first.answers, 1);
    assert_int_equal(second.answers + second.nulls, 1);
    assert_string_equal(world->why, "READONLY for the test");
    WAIT_UNTIL(world, world->ups == 2);
}

UNIT(test_connect_for_verbs)
{
    struct world *w = world_empty();
    struct error e = {0};
    world_link(w, &w->link, "cli");
    w->link.config.check = true;
    assert_int_equal(redis_link_connect(&w->link, 0, &e), ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, "Redis cannot be reached"));
    redis_server_run(&w->server);
    redis_do("CONFIG SET maxmemory-policy allkeys-lru");
    assert_int_equal(redis_link_connect(&w->link, 5000, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "CONFIG SET maxmemory-policy noeviction"));
    redis_do("CONFIG SET maxmemory-policy noeviction");
    WAIT_UNTIL(w, w->ups == 1);
    assert_int_equal(redis_link_connect(&w->link, 0, &e), ERR_NONE);
    world_close(w);
}
