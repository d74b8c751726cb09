/* Connections over real sockets: pieces, pauses, ends, slow readers, bounds. */
#include "lib/child.h"
#include "unit/listen/world.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct listen_limits limits;
static char dir[64], socket_url[128], tcp_url[128];
static size_t heap_live; /* bytes */

static void answer_owed(struct conn *c, const char *text)
{
    struct outlet *o = conn_outlet(c);
    o->waiting--;
    if (!o->gone) buf_put_slice(&o->out, slice_str(text));
    conn_answered(c);
}

/* ---- the world ---- */

static enum err listen_at(const char *url, struct error *e)
{
    struct address a;
    assert_null(address_parse(slice_str(url), &a));
    enum err code = listen_add(set, &a, &handler, e);
    address_free(&a);
    return code;
}

static int world_open_for(uint32_t linger_ms)
{
    struct error e;
    snprintf(dir, sizeof(dir), "/tmp/tallyd-listen-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(socket_url, sizeof(socket_url), "unix://%s/s", dir);
    limits = listen_limits_default;
    limits.clients_max = 20;
    limits.unread = 1 << 18;
    limits.stall_ms = 30000;
    limits.linger_ms = linger_ms;
    world_begin(&limits);
    char text[] = "tcp://127.0.0.1:0", host[] = "127.0.0.1";
    assert_int_equal(listen_add(set, &(struct address){.text = text, .host = host}, &handler, &e), ERR_NONE);
    assert_int_equal(listen_at(socket_url, &e), ERR_NONE);
    snprintf(tcp_url, sizeof(tcp_url), "%s", listen_url(set, 0));
    return 0;
}

static int world_open(void **state)
{
    return world_open_for(600000);
}

static int world_open_brief(void **state)
{
    return world_open_for(100);
}

static void some_turns(void)
{
    for (int i = 0; i < 20; i++)
        turn(UINT64_MAX);
}

static int world_close(void **state)
{
    char path[128];
    world_end();
    snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(access(path, F_OK), -1); /* removed at stop */
    assert_int_equal(rmdir(dir), 0);
    return 0;
}

/* ---- clients ---- */

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", dir, name);
    return sun;
}

static int client_of(const char *name)
{
    struct sockaddr_un sun = address_of(name);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int client_unix(void)
{
    return client_of("s");
}

static int client_tcp(void)
{
    return client_at(tcp_url);
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* All input so far; -1: the connection has ended, and there was no more input. */
static ssize_t got_now(int fd, char *into, size_t size)
{
    ssize_t n = recv(fd, into, size, 0);
    if (n == 0) return -1;
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    return n;
}

static void expect(int fd, const char *text)
{
    char have[256];
    size_t n = 0;
    while (n < strlen(text)) {
        ssize_t more;
        until((more = got_now(fd, have + n, strlen(text) - n)) != 0);
        assert_true(more > 0);
        n += (size_t)more;
    }
    assert_memory_equal(have, text, n);
}

static void served(int fd, const char *text)
{
    char line[32];
    snprintf(line, sizeof(line), "say %s\n", text);
    put(fd, line);
    expect(fd, text);
}

static void expect_end(int fd)
{
    char byte;
    ssize_t n;
    until((n = got_now(fd, &byte, 1)) != 0);
    assert_int_equal(n, -1);
}

static size_t read_all(int fd, size_t n)
{
    static char into[1 << 16];
    size_t have = 0;
    while (have < n) {
        ssize_t more;
        until((more = got_now(fd, into, sizeof(into))) != 0);
        if (more < 0) break;
        have += (size_t)more;
    }
    return have;
}

#define TEST(f) UNIT_IN(f, world_open, world_close)

/* ---- tests ---- */

TEST(serves_both_at_once)
{
    char peer[64];
    int a = client_tcp(), b = client_unix();
    served(a, "tcp");
    served(b, "unix");
    conn_peer(last, peer, sizeof(peer));
    assert_true(strlen(peer) > 4);
    struct conn_info info;
    conn_info(last, &info);
    assert_string_equal(info.peer, peer);
    assert_string_equal(info.local, peer); /* a unix socket has one name */
    assert_true(info.is_unix && info.reads && info.fd > 2 && info.memory > 0);
    assert_int_equal(info.kept_bytes + info.unsent_bytes, 0);
    assert_string_equal(listen_url(set, 1), socket_url);
    close(a);
    close(b);
    until(closed_n == 2);
}

TEST(keeps_what_is_left)
{
    int fd = client_tcp();
    const char *text = "say hello\nsay wor";
    for (size_t i = 0; i < strlen(text); i++) {
        put(fd, (char[]){text[i], '\0'});
        until(recv(fd, (char[1]){0}, 1, MSG_PEEK) != 0); /* some turns */
        turn(UINT64_MAX);
    }
    expect(fd, "hello");
    put(fd, "ld\nsay !\n");
    expect(fd, "world!");
    close(fd);
}

/* More than fits before the shared area: appended to what is kept. */
TEST(keeps_much)
{
    int fd = client_unix();
    char *line = heap_alloc(20001);
    memset(line, 'y', 20000);
    memcpy(line, "say ", 4);
    line[20000] = '\0';
    for (int i = 0; i < 3; i++) {
        put(fd, line + (i == 0 ? 0 : 4));
        until(last != NULL);
        for (int k = 0; k < 5; k++)
            turn(UINT64_MAX);
    }
    put(fd, "\nsay z\n");
    assert_int_equal(read_all(fd, 20000 - 4 + 2 * 19996 + 1), 59989);
    heap_free(line);
    close(fd);
}

#define GREEDY 4
#define GREEDY_LINES 40000

/* However much one sends, in a turn it is read from once, and several share what is read in a turn. */
TEST(one_read_a_turn)
{
    static char much[5 * GREEDY_LINES];
    int fds[GREEDY], size = sizeof(much) * 2;
    struct toy *toys[GREEDY];
    for (size_t i = 0; i < sizeof(much); i += 5)
        memcpy(much + i, "say \n", 5);
    for (int i = 0; i < GREEDY; i++) {
        fds[i] = client_unix();
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        served(fds[i], "a");
        toys[i] = conn_session(last);
        assert_true(write(fds[i], much, sizeof(much)) > 2 * 65536);
    }
    for (int t = 0; t < 2; t++) {
        size_t before = 0, after = 0;
        for (int i = 0; i < GREEDY; i++)
            before += toys[i]->lines;
        turn(UINT64_MAX);
        for (int i = 0; i < GREEDY; i++)
            after += toys[i]->lines;
        assert_in_range(after - before, 1, GREEDY * (t == 0 ? 65536 : 32768) / 5 + GREEDY);
    }
    for (int i = 0; i < GREEDY; i++)
        close(fds[i]);
}

TEST(paused_is_not_read_from)
{
    int fd = client_unix();
    put(fd, "say a\nwait\nsay b\n");
    expect(fd, "a");
    struct conn *c = last;
    struct toy *t = conn_session(c);
    put(fd, "say c\n");
    some_turns();
    assert_int_equal(t->lines, 2);
    toy_resume(c);
    assert_int_equal(t->lines, 2); /* not from inside */
    expect(fd, "bc");
    put(fd, "wait\nsay d\nwait\nsay e\n");
    until(t->paused);
    toy_resume(c);
    conn_offer(c); /* at once */
    assert_int_equal(t->lines, 7);
    toy_resume(c);
    expect(fd, "de");
    close(fd);
}

TEST(half_a_close_still_gets_its_answer)
{
    int fd = client_tcp();
    put(fd, "owe\nsay a\n");
    shutdown(fd, SHUT_WR);
    expect(fd, "a");
    some_turns(); /* the end of file is seen */
    answer_owed(last, "b");
    expect(fd, "b");
    expect_end(fd);
    close(fd);
    until(closed_n == 1);
}

TEST(half_a_close_behind_much)
{
    int fd = client_unix();
    put(fd, "big 70000\nsay a\nbig 70000\nwait\nsay b\nsay without an end");
    shutdown(fd, SHUT_WR);
    assert_int_equal(read_all(fd, 140001), 140001);
    struct toy *t = conn_session(last);
    until(t->paused);
    toy_resume(last);
    expect(fd, "b");
    expect_end(fd);
    close(fd);
}

TEST(finish_lets_all_out)
{
    int fd = client_tcp();
    put(fd, "owe\nfinish\nsay never\n");
    until(last != NULL && conn_outlet(last)->waiting == 1);
    some_turns();
    assert_int_equal(closed_n, 0);
    answer_owed(last, "b");
    expect(fd, "b");
    expect_end(fd);
    close(fd);
    fd = client_unix();
    put(fd, "say a\nsay b\ndrop\nsay c\n");
    expect_end(fd);
    close(fd);
}

/* ---- a client that still sends when its connection ends ---- */

/* Until n bytes are written or the connection breaks; returns how many were. */
static size_t pour(int fd, size_t n)
{
    static const char noise[1 << 16];
    size_t sent = 0;
    uint64_t until_ms = mono_ms() + 60000;
    while (sent < n) {
        ssize_t now = write(fd, noise, n - sent < sizeof(noise) ? n - sent : sizeof(noise));
        if (now < 0 && errno != EAGAIN) break;
        sent += now > 0 ? (size_t)now : 0;
        assert_true(turn(until_ms));
    }
    return sent;
}

/* Not a reset, which expect_end() would take, too. */
static void expect_eof(int fd)
{
    char byte;
    ssize_t n;
    until((n = recv(fd, &byte, 1, 0)) >= 0 || errno != EAGAIN);
    assert_int_equal(n, 0);
}

TEST(the_last_word_reaches_one_that_sends_on)
{
    int fds[] = {client_tcp(), client_unix()};
    for (int i = 0; i < 2; i++) {
        put(fds[i], "say the last word\nfinish\n");
        assert_int_equal(pour(fds[i], 8 << 20), 8 << 20);
        expect(fds[i], "the last word");
        expect_eof(fds[i]);
        assert_int_equal(closed_n, i);
        close(fds[i]);
        until(closed_n == (unsigned)i + 1);
    }
}

TEST(one_that_sends_for_ever_is_closed)
{
    int fd = client_tcp();
    put(fd, "finish\n");
    assert_in_range(pour(fd, 1 << 30), 1 << 20, 64 << 20);
    until(closed_n == 1);
    close(fd);
}

UNIT_IN(one_that_never_closes_is_closed, world_open_brief, world_close)
{
    int fd = client_tcp();
    put(fd, "finish\n");
    expect_eof(fd);
    until(closed_n == 1);
    close(fd);
}

/* They are clients until they are closed, but no newcomer is refused for them. */
TEST(those_that_linger_make_room)
{
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = client_unix();
        put(fds[i], "finish\n");
        expect_eof(fds[i]);
    }
    assert_int_equal(closed_n, 0);
    int more = client_tcp();
    served(more, "in");
    assert_int_equal(closed_n, 1);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
    close(more);
}

TEST(stop_waits_for_none_that_lingers)
{
    int fd = client_tcp();
    put(fd, "finish\n");
    expect_eof(fd);
    assert_int_equal(closed_n, 0);
    listen_stop(set, on_stopped, &stopped);
    until(stopped);
    close(fd);
}

/* ---- memory ---- */

static void *counting_realloc(void *arg, void *p, size_t size)
{
    size_t *block = p == NULL ? NULL : (size_t *)p - 2;
    size_t before = block == NULL ? 0 : block[0];
    block = realloc(block, size + 2 * sizeof(size_t));
    heap_live = heap_live - before + size;
    block[0] = size;
    return block + 2;
}

static void counting_free(void *arg, void *p)
{
    if (p == NULL) return;
    size_t *block = (size_t *)p - 2;
    heap_live -= block[0];
    free(block);
}

TEST(memory_stays_while_somebody_needs_it)
{
    size_t before = heap_live;
    int fd = client_unix();
    put(fd, "owe\nhold\nsay a\n");
    expect(fd, "a");
    struct conn *c = last;
    put(fd, "drop\n");
    until(closed_n == 1);
    expect_end(fd);
    some_turns();
    assert_true(conn_outlet(c)->gone);
    conn_release(c);
    assert_true(heap_live > before); /* an answer is still owed */
    answer_owed(c, "never");
    assert_int_equal(heap_live, before);
    close(fd);
    fd = client_unix();
    put(fd, "owe\nhold\ndrop\n");
    until(closed_n == 2);
    some_turns();
    c = last;
    answer_owed(c, "never");
    assert_true(heap_live > before); /* still held */
    conn_release(c);
    assert_int_equal(heap_live, before);
    close(fd);
}

TEST(an_idle_connection_is_small)
{
    int fds[16];
    char much[3000] = "";
    size_t before = heap_live;
    memset(much, 'y', sizeof(much) - 1);
    for (int i = 0; i < 16; i++) {
        fds[i] = i % 2 == 0 ? client_tcp() : client_unix();
        put(fds[i], "say a\nbig 5000\nsay ");
        assert_int_equal(read_all(fds[i], 5001), 5001);
        put(fds[i], much);
        some_turns(); /* it is kept */
        put(fds[i], "\n");
        assert_int_equal(read_all(fds[i], strlen(much)), strlen(much));
    }
    assert_true((heap_live - before) / 16 < 2048);
    for (int i = 0; i < 16; i++)
        close(fds[i]);
    until(closed_n == 16);
    some_turns();
    assert_int_equal(heap_live, before);
}

/* ---- slow readers ---- */

TEST(a_slow_reader_is_not_read_from)
{
    int slow = client_unix(), other = client_tcp();
    served(other, "o");
    char line[16];
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof(line), "big %d\n", 100000);
        put(slow, line);
    }
    until(opened == 2);
    for (int i = 0; i < 300; i++)
        turn(UINT64_MAX);
    struct toy *t = conn_session(last);
    assert_true(t->lines > 0 && t->lines < 20);
    size_t lines = t->lines;
    for (int i = 0; i < 100; i++)
        served(other, "fast");
    assert_int_equal(t->lines, lines);
    assert_int_equal(read_all(slow, 100 * 100000), 100 * 100000);
    assert_int_equal(t->lines, 100);
    served(slow, "end");
    close(slow);
    close(other);
}

/* The client goes on sending: its bytes stay in the kernel, until that takes no more; nothing is kept here without end. */
TEST(a_slow_reader_that_goes_on_sending)
{
    int slow = client_unix();
    char line[4096];
    size_t lines = 0;
    memset(line, 'y', sizeof(line));
    memcpy(line, "say ", 4);
    line[sizeof(line) - 1] = '\n';
    put(slow, "big 1000000\n");
    for (int refused = 0; refused < 50; turn(UINT64_MAX)) {
        ssize_t n = write(slow, line, sizeof(line));
        assert_true(n == sizeof(line) || (n < 0 && errno == EAGAIN));
        refused = n < 0 ? refused + 1 : 0;
        lines += n > 0;
        assert_true(lines < 1000);
    }
    size_t all = 1000000 + lines * (sizeof(line) - 5);
    assert_int_equal(read_all(slow, all), all);
    close(slow);
}

/* One answer may be longer than the limit of unread bytes: the client is not cut, and is served again when it has read. */
TEST(one_long_answer_ends_nothing)
{
    int fd = client_unix();
    put(fd, "big 17000000\nsay a\n");
    some_turns();
    struct toy *t = conn_session(last);
    assert_int_equal(t->lines, 1);
    assert_int_equal(read_all(fd, 17000001), 17000001);
    close(fd);
}

static int lines_taken_of(int fd, int lines, int bytes)
{
    char line[16];
    served(fd, "o");
    struct toy *t = conn_session(last);
    for (int i = 0; i < lines; i++) {
        snprintf(line, sizeof(line), "big %d\n", bytes);
        put(fd, line);
    }
    some_turns();
    return (int)t->lines - 1;
}

TEST(a_stranger_may_leave_little_unread)
{
    int fd = client_unix();
    served(fd, "a");
    conn_outlet(last)->stranger = true;
    assert_in_range(lines_taken_of(fd, 100, 1 << 17), 2, 5); /* its socket has the first ones */
    close(fd);
}

static struct listen *first;

/* Another set, with these limits, at the socket s2. */
static void second_set(const struct listen_limits *other)
{
    struct error e;
    char url[160];
    first = set;
    set = listen_create(&loop, other);
    snprintf(url, sizeof(url), "%s2", socket_url);
    assert_int_equal(listen_at(url, &e), ERR_NONE);
}

static void second_set_ends(void)
{
    listen_stop(set, on_stopped, &stopped);
    until(stopped);
    listen_destroy(&set);
    set = first;
    stopped = false;
}

/* listen_limits.unread_all is shared out: the first has half of it, the next half of the rest. */
TEST(those_who_read_nothing_share_the_limit)
{
    struct listen_limits few = limits;
    few.unread = few.unread_all = 4 << 20;
    second_set(&few);
    int fds[3], taken[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_of("s2");
        taken[i] = lines_taken_of(fds[i], 100, 100000);
    }
    assert_in_range(taken[0], 20, 26);
    assert_in_range(taken[1], 10, 16);
    assert_in_range(taken[2], 5, 11);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_all(fds[i], 100 * 100000), 100 * 100000);
        close(fds[i]);
    }
    second_set_ends();
}

TEST(one_that_reads_nothing_is_closed)
{
    struct listen_limits few = limits;
    few.stall_ms = 50;
    second_set(&few);
    int fd = client_of("s2");
    put(fd, "big 3000000\n");
    until(closed_n == 1);
    close(fd);
    second_set_ends();
}

/* ---- too many ---- */

TEST(too_many_clients_are_told)
{
    int fds[20];
    for (int i = 0; i < 20; i++)
        fds[i] = client_unix();
    until(opened == 20);
    int more = client_tcp();
    assert_int_equal(pour(more, 1 << 20), 1 << 20);
    expect(more, "too many\n");
    expect_eof(more);
    close(more);
    close(fds[0]);
    until(closed_n == 1);
    fds[0] = client_tcp();
    served(fds[0], "in");
    for (int i = 0; i < 20; i++)
        close(fds[i]);
}

static int64_t came(void)
{
    return STAT_GET(connections_accepted) + STAT_GET(connections_refused);
}

/* However many connections come, a turn of the loop serves the others too. */
TEST(a_crowd_comes_in_over_turns)
{
    int fds[80];
    int64_t before = came(), seen = before;
    for (int i = 0; i < 80; i += 2) {
        fds[i] = client_tcp();
        fds[i + 1] = client_unix();
    }
    while (seen < before + 80) {
        turn(UINT64_MAX);
        int64_t now = came();
        assert_in_range(now - seen, 0, 16 + 2); /* and one at each address that was held */
        seen = now;
    }
    served(fds[0], "in");
    for (int i = 0; i < 80; i++)
        close(fds[i]);
}

/* A connection that is still held when all ends has no owner. */
TEST(stops_with_a_crowd_outside)
{
    int fds[40];
    for (int i = 0; i < 40; i++)
        fds[i] = client_tcp();
    turn(UINT64_MAX);
    assert_in_range(opened, 1, 20);
    listen_stop(set, on_stopped, &stopped);
    for (int i = 0; i < 40; i++)
        expect_end(fds[i]);
    until(stopped);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
}

/* More wait at a port than are accepted in a turn: all are served, and new ones go to the other who has the port. */
TEST(leaves_a_shared_port)
{
    struct error e;
    char text[] = "tcp://127.0.0.1:0", host[] = "127.0.0.1";
    struct address a = {.text = text, .host = host, .shared = true};
    assert_false(listen_hand_over(set));
    assert_int_equal(listen_add(set, &a, &handler, &e), ERR_NONE);
    snprintf(tcp_url, sizeof(tcp_url), "%s", listen_url(set, 2));
    int fds[20];
    for (int i = 0; i < 20; i++)
        fds[i] = client_tcp();
    turn(UINT64_MAX);
    assert_in_range(opened, 1, 19);
    a.port = atoi(strrchr(tcp_url, ':') + 1);
    int other = address_listen(&a, 20, &e);
    assert_true(other >= 0);
    assert_true(listen_hand_over(set));
    assert_int_equal(opened, 20);
    for (int i = 0; i < 20; i++) {
        served(fds[i], "served");
        close(fds[i]);
    }
    for (int i = 0; i < 20; i++)
        fds[i] = client_tcp();
    for (int i = 0; i < 20; i++) {
        int accepted = accept(other, NULL, NULL);
        assert_true(accepted >= 0);
        close(accepted);
        close(fds[i]);
    }
    assert_false(listen_hand_over(set));
    assert_int_equal(opened, 20);
    close(other);
    int unix_fd = client_unix();
    served(unix_fd, "still");
    close(unix_fd);
}

static bool enough;
static void on_enough(uv_timer_t *timer)
{
    enough = true;
}

/* No descriptor is left: clients inside are served, those outside are refused, and the loop sleeps. */
TEST(no_descriptors_left)
{
    int inside = client_unix(), outside[3];
    served(inside, "a");
    for (int i = 0; i < 3; i++)
        outside[i] = socket(AF_UNIX, SOCK_STREAM, 0);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = (rlim_t)outside[2] + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct sockaddr_un sun = address_of("s");
    for (int i = 0; i < 3; i++)
        assert_int_equal(connect(outside[i], (struct sockaddr *)&sun, sizeof(sun)), 0);
    served(inside, "b");
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_enough, 200, 0);
    int count = 0;
    for (; !enough; count++)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(count < 100);
    assert_int_equal(opened, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    int late = client_unix();
    served(late, "in");
    uv_close((uv_handle_t *)&timer, NULL);
    for (int i = 0; i < 3; i++)
        close(outside[i]);
    close(inside);
    close(late);
    turn(UINT64_MAX);
}

static void with_few_files(void *arg)
{
    struct rlimit few = {200, 200};
    struct listen_limits many = listen_limits_default;
    setrlimit(RLIMIT_NOFILE, &few);
    listen_create(&loop, &many);
}

TEST(clients_fit_the_files)
{
    struct child_end end = child_run(with_few_files, NULL);
    assert_true(child_exited(&end));
    assert_non_null(strstr(end.stderr_, "event=clients_limited wanted=10000 now=136 "));
}

/* ---- sockets of others ---- */

static enum err add(const char *name, struct error *e)
{
    char url[160];
    snprintf(url, sizeof(url), "unix://%s/%s", dir, name);
    return listen_at(url, e);
}

TEST(unix_sockets_of_others)
{
    struct error e;
    struct stat st;
    char path[128];
    assert_int_equal(add("s", &e), ERR_CONFIG); /* served: by ourselves */
    assert_non_null(strstr(e.text, "another process serves this socket"));
    snprintf(path, sizeof(path), "%s/dead", dir);
    struct sockaddr_un sun = address_of("dead");
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)&sun, sizeof(sun)), 0);
    close(dead);
    assert_int_equal(add("dead", &e), ERR_NONE);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    snprintf(path, sizeof(path), "%s/file", dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(add("file", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "is no socket"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(add("no/such/place", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "directory"));
    assert_int_equal(listen_at(tcp_url, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "another process"));
}

/* ---- stop ---- */

TEST(stop_waits_for_answers)
{
    int a = client_unix(), b = client_tcp();
    served(b, "b");
    put(a, "owe\nhold\nsay a\n");
    expect(a, "a");
    struct conn *owed = conn_outlet(last)->waiting > 0 ? last : NULL;
    until(opened == 2);
    if (owed == NULL) owed = last;
    listen_stop(set, on_stopped, &stopped);
    expect_end(b);
    assert_false(stopped);
    char path[128];
    snprintf(path, sizeof(path), "%s/s", dir);
    until(access(path, F_OK) != 0);
    put(a, "say never\n");
    answer_owed(owed, "late");
    expect(a, "late");
    some_turns();
    assert_int_equal(closed_n, 1); /* still held */
    conn_release(owed);
    expect_end(a);
    until(stopped);
    close(a);
    close(b);
}

TEST(stop_ends_when_told)
{
    int a = client_unix();
    put(a, "owe\nhold\nsay a\n");
    expect(a, "a");
    listen_stop(set, on_stopped, &stopped);
    listen_drop_all(set);
    until(stopped);
    expect_end(a);
    close(a); /* what was owed and held goes with listen_destroy */
}

TEST(adopts_over_the_limit_and_stops_with_the_rest)
{
    int ends[2], clients[20];
    for (int i = 0; i < 20; i++)
        clients[i] = client_unix();
    until(opened == 20);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    assert_true(listen_adopt(set, ends[1], &handler));
    served(ends[0], "inside");
    listen_stop(set, on_stopped, &stopped);
    assert_false(listen_adopt(set, ends[0], &handler));
    expect_end(ends[0]);
    until(stopped);
    close(ends[0]);
    for (int i = 0; i < 20; i++)
        close(clients[i]);
}

/* Nothing of it stays: no socket without a reader. */
TEST(session_may_drop_as_it_opens)
{
    unwelcome = true;
    int tcp = client_tcp(), local = client_unix(), ends[2];
    until(opened == 2);
    expect_end(tcp);
    expect_end(local);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_false(listen_adopt(set, ends[1], &handler));
    close(ends[0]);
    close(ends[1]);
    unwelcome = false;
    until(closed_n == 3);
    close(tcp);
    close(local);
    tcp = client_tcp();
    served(tcp, "welcome");
    close(tcp);
}

static int counted(void **state)
{
    static const struct heap heap = {counting_realloc, counting_free, NULL};
    signal(SIGPIPE, SIG_IGN);
    heap_replace(&heap);
    return 0;
}

UNITS_IN(counted, NULL)
