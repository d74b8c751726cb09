/* Connections with TLS over real sockets: the same promises about pieces, pauses, slow readers and ends. */
#include "lib/certificates.h"
#include "lib/tls.h"
#include "unit/listen/world.h"

#include <poll.h>

static char dir[] = "/tmp/tly-secure-XXXXXX";
static struct certificate ca, pair;
static struct tls_context *door, *trust;

/* --- the world --- */

static int files_make(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(dir) == NULL) return -1;
    ca = certificate_make(dir, "ca", NULL, 30, NULL);
    pair = certificate_make(dir, "server", &ca, 30, "DNS:shop.example");
    door = context_of(TLS_SERVER, &(struct tls_files){.cert = pair.cert_path, .key = pair.key_path});
    trust = context_of(TLS_CLIENT, &(struct tls_files){.ca = ca.cert_path});
    return 0;
}

static int files_remove(void **state)
{
    tls_context_destroy(&door);
    tls_context_destroy(&trust);
    struct certificate *const all[] = {&ca, &pair};
    for (int i = 0; i < 2; i++) {
        remove(all[i]->cert_path);
        remove(all[i]->key_path);
        certificate_free(all[i]);
    }
    return rmdir(dir);
}

#define MANY 60 /* their handshakes, in a hundredth of the time, take longer than one may */

static int world_open_for(uint32_t greeting_ms, uint32_t handshakes_percent)
{
    struct listen_limits limits = listen_limits_default;
    struct error e;
    limits.greeting_ms = greeting_ms;
    limits.handshakes_percent = handshakes_percent;
    limits.stall_ms = greeting_ms < 10000 ? 200 : 30000;
    limits.linger_ms = 600000; /* however slowly a client here goes on to write */
    limits.clients_max = handshakes_percent == 1 ? MANY + 5 : 20;
    world_begin(&limits);
    listen_secure(set, door);
    char text[] = "tls://127.0.0.1:0", host[] = "127.0.0.1";
    const struct address any = {.text = text, .host = host, .tls = true};
    if (listen_add(set, &any, &handler, &e) != ERR_NONE) fail_msg("%s", e.text);
    return 0;
}

static int world_open(void **state)
{
    return world_open_for(10000, 25);
}

static int world_open_hasty(void **state)
{
    return world_open_for(300, 25);
}

static int world_open_tight(void **state)
{
    return world_open_for(1000, 1);
}

static int world_close(void **state)
{
    world_end();
    return 0;
}

/* --- a client --- */

struct client {
    int fd;
    bool at_end;
    struct tls_session *tls;
    struct buf text; /* what came */
};

static int socket_open(void)
{
    return client_at(listen_url(set, 0));
}

static void client_send(struct client *c, size_t most)
{
    struct buf *out = tls_session_out(c->tls);
    ssize_t n = write(c->fd, out->p, out->n < most ? out->n : most);
    if (n > 0) buf_drop(out, (size_t)n);
}

static bool client_hear(struct client *c)
{
    char bytes[20000];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    c->at_end = n == 0 || (n < 0 && errno != EAGAIN);
    if (n > 0)
        c->text.n +=
            tls_session_take(c->tls, bytes, (size_t)n, buf_reserve(&c->text, (size_t)n + TLS_HELD_MAX));
    return n > 0;
}

static bool client_step(struct client *c)
{
    if (tls_session_out(c->tls)->n > 0) client_send(c, SIZE_MAX);
    client_hear(c);
    return true;
}

static struct client client_open(void)
{
    struct client c = {.fd = socket_open(), .tls = tls_session_create(trust, "shop.example")};
    until(client_step(&c) && tls_session_state(c.tls) == TLS_READY && tls_session_out(c.tls)->n == 0);
    return c;
}

static void client_close(struct client *c)
{
    close(c->fd);
    tls_session_destroy(&c->tls);
    buf_free(&c->text);
}

static void say(struct client *c, const char *text)
{
    tls_session_put(c->tls, slice_str(text));
}

static void expect(struct client *c, const char *text)
{
    until(client_step(c) && c->text.n >= strlen(text));
    assert_slice(buf_slice(&c->text), text);
    buf_reset(&c->text);
}

#define IN(name, world) UNIT_IN(name, world, world_close)

/* --- tests --- */

IN(serves, world_open)
{
    char peer[64];
    struct client a = client_open(), b = client_open();
    say(&a, "say hel\nsay lo\nsay wor");
    expect(&a, "hello");
    say(&b, "say other\n");
    expect(&b, "other");
    say(&a, "ld\n");
    expect(&a, "world");
    conn_peer(last, peer, sizeof peer);
    assert_memory_equal(peer, "127.0.0.1:", 10);
    assert_memory_equal(listen_url(set, 0), "tls://127.0.0.1:", 16);
    client_close(&a);
    client_close(&b);
    until(closed_n == 2);
}

IN(serves_who_sends_byte_by_byte, world_open)
{
    struct client c = {.fd = socket_open(), .tls = tls_session_create(trust, "shop.example")};
    until((client_send(&c, 1), client_hear(&c), tls_session_state(c.tls) == TLS_READY));
    say(&c, "say one\nsay two\n");
    until((client_send(&c, 1), client_hear(&c), c.text.n == 6));
    client_close(&c);
}

/* What tallyd sends waits for the client, and then comes whole. */
IN(waits_for_a_slow_reader, world_open)
{
    struct client c = client_open();
    for (int i = 0; i < 40; i++)
        say(&c, "big 300000\n");
    say(&c, "say end\n");
    client_send(&c, SIZE_MAX);
    for (int i = 0; i < 200; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(conn_outlet(last)->out.n < 3000000); /* it was not asked for all at once */
    until(client_step(&c) && c.text.n >= 40 * 300000 + 3);
    assert_int_equal(c.text.n, 40 * 300000 + 3);
    assert_memory_equal(c.text.p + c.text.n - 4, "xend", 4);
    client_close(&c);
}

IN(keeps_what_comes_in_a_pause, world_open)
{
    struct client c = client_open();
    say(&c, "say a\nwait\nsay b\n");
    expect(&c, "a");
    say(&c, "say c\n");
    client_step(&c);
    for (int i = 0; i < 50; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    client_step(&c);
    assert_int_equal(c.text.n, 0);
    toy_resume(last);
    expect(&c, "bc");
    client_close(&c);
}

IN(ends_are_said, world_open)
{
    static char junk[100001];
    memset(junk, 'x', sizeof junk - 1);
    struct client c = client_open();
    say(&c, "say last\nfinish\n");
    until(client_step(&c) && c.at_end);
    assert_slice(buf_slice(&c.text), "last");
    assert_int_equal(tls_session_state(c.tls), TLS_ENDED); /* not cut */
    client_close(&c);
    c = client_open();
    say(&c, "say last\nfinish\n");
    for (int i = 0; i < 100; i++)
        say(&c, junk);
    until((client_send(&c, 1 << 16), tls_session_out(c.tls)->n == 0)); /* it reads late */
    until(client_step(&c) && c.at_end);
    assert_slice(buf_slice(&c.text), "last");
    assert_int_equal(tls_session_state(c.tls), TLS_ENDED);
    client_close(&c);
    c = client_open();
    say(&c, "say answered\n");
    tls_session_end(c.tls);
    until(client_step(&c) && c.at_end);
    assert_slice(buf_slice(&c.text), "answered");
    client_close(&c);
    c = client_open();
    say(&c, "say never\ndrop\n");
    until(client_step(&c) && c.at_end);
    assert_int_equal(c.text.n, 0);
    client_close(&c);
    until(closed_n == 4);
}

/* A cut within a record: what was whole is taken, what was not is not. */
IN(half_a_record_is_nothing, world_open)
{
    struct client c = client_open();
    say(&c, "say whole\n");
    size_t whole = tls_session_out(c.tls)->n;
    say(&c, "drop\n");
    client_send(&c, whole + 9);
    until((client_hear(&c), c.text.n == 5));
    close(c.fd);
    until(closed_n == 1);
    c.fd = socket_open();
    client_close(&c);
}

IN(no_tls_no_service, world_open)
{
    char bytes[100];
    ssize_t n;
    int64_t before = STAT_GET(tls_refused);
    int fd = socket_open();
    assert_int_equal(write(fd, "say plain\nsay plain\n", 20), 20);
    until(STAT_GET(tls_refused) > before);
    assert_int_equal(write(fd, "say plain\nsay plain\n", 20), 20);
    do {
        until((n = recv(fd, bytes, sizeof bytes, 0)) >= 0 || errno != EAGAIN);
        if (n > 0) assert_int_equal(bytes[0], 21); /* an alert */
    } while (n > 0);
    assert_int_equal(n, 0); /* not a reset */
    close(fd);
    until(closed_n == 1);
    assert_int_equal(STAT_GET(tls_refused), before + 1);
    fd = socket_open(); /* a client that only checks whether the port is open does not count */
    until(opened == 2);
    close(fd);
    until(closed_n == 2);
    assert_int_equal(STAT_GET(tls_refused), before + 1);
}

IN(handshakes_have_an_end, world_open_hasty)
{
    int silent = socket_open(), dribbling = socket_open();
    assert_int_equal(write(dribbling, "\x16\x03", 2), 2);
    until(opened == 2);
    until(closed_n == 2);
    close(silent);
    close(dribbling);
    struct client c = client_open(); /* and what is through has none */
    uint64_t later_ms = mono_ms() + 500;
    until(mono_ms() > later_ms);
    say(&c, "say here\n");
    expect(&c, "here");
    client_close(&c);
}

/* --- too many at once --- */

static void flood_open(struct client *all)
{
    for (int i = 0; i < MANY; i++) {
        all[i] = (struct client){.fd = socket_open(), .tls = tls_session_create(trust, "shop.example")};
        client_send(&all[i], SIZE_MAX);
    }
}

/* How many are through. It waits a moment for the server's answers, which are mostly put off. */
static int flood_step(struct client *all)
{
    struct pollfd any[MANY];
    int through = 0;
    for (int i = 0; i < MANY; i++)
        any[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
    (void)poll(any, MANY, 1);
    for (int i = 0; i < MANY; i++) {
        client_step(&all[i]);
        assert_false(all[i].at_end);
        through += tls_session_state(all[i].tls) == TLS_READY;
    }
    return through;
}

/* A client with a finished handshake does not wait for the others; and all finish, though together they take longer than one
 * handshake may. */
IN(handshakes_wait_for_their_turn, world_open_tight)
{
    struct client c = client_open(), all[MANY];
    int64_t before = STAT_GET(tls_put_off);
    flood_open(all);
    until(STAT_GET(tls_put_off) > before + MANY / 2);
    say(&c, "say here\n");
    expect(&c, "here");
    until(flood_step(all) == MANY);
    for (int i = 0; i < MANY; i++) {
        say(&all[i], "say there\n");
        expect(&all[i], "there");
        client_close(&all[i]);
    }
    client_close(&c);
}

/* A client that leaves before its hello is answered costs no handshake. */
IN(who_leaves_is_not_waited_for, world_open_tight)
{
    struct client all[MANY];
    int64_t before = STAT_GET(tls_put_off), failed = STAT_GET(tls_refused);
    flood_open(all);
    until(STAT_GET(tls_put_off) > before + MANY / 2);
    for (int i = 0; i < MANY; i++)
        client_close(&all[i]);
    struct client c = client_open();
    until(closed_n == MANY);
    assert_true(STAT_GET(tls_refused) - failed < MANY / 2);
    client_close(&c);
}

IN(stops_in_the_middle_of_handshakes, world_open)
{
    int silent = socket_open();
    struct client c = client_open();
    say(&c, "say here\n");
    expect(&c, "here");
    until(opened == 2);
    listen_stop(set, on_stopped, &stopped);
    until(client_step(&c) && stopped);
    until(client_step(&c) && c.at_end);
    assert_int_equal(tls_session_state(c.tls), TLS_ENDED);
    client_close(&c);
    close(silent);
}

IN(one_too_many_is_closed, world_open)
{
    int fds[21];
    char byte;
    for (int i = 0; i < 20; i++)
        fds[i] = socket_open();
    until(opened == 20);
    fds[20] = socket_open();
    ssize_t n;
    until((n = recv(fds[20], &byte, 1, 0)) >= 0 || errno != EAGAIN);
    assert_true(n <= 0); /* nothing plain on a port of TLS */
    for (int i = 0; i < 21; i++)
        close(fds[i]);
    until(closed_n == 20);
}

UNITS_IN(files_make, files_remove)
