/* The relay over real sockets: what the far end says comes out at the near end and the other way round, an end of stream travels as
 * it came, and once the relay is quiet it hands over no connection, however far its handshake is. */
#include "lib/certificates.h"
#include "lib/tls.h"

#include "base/clock.h"
#include "tls/relay.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[] = "/tmp/tly-relay-XXXXXX";
static struct certificate ca, pair;
static struct tls_context *door_context, *trust;
static struct relay *relay;
static struct sockaddr_in at;
static atomic_int given_fd, given_n;

static int files_make(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(dir) == NULL) return -1;
    ca = certificate_make(dir, "ca", NULL, 30, NULL);
    pair = certificate_make(dir, "server", &ca, 30, "DNS:shop.example");
    door_context = context_of(TLS_SERVER, &(struct tls_files){.cert = pair.cert_path, .key = pair.key_path});
    trust = context_of(TLS_CLIENT, &(struct tls_files){.ca = ca.cert_path});
    return 0;
}

static int files_remove(void **state)
{
    (void)state;
    struct certificate *const all[] = {&ca, &pair};
    tls_context_destroy(&door_context);
    tls_context_destroy(&trust);
    for (int i = 0; i < 2; i++) {
        remove(all[i]->cert_path);
        remove(all[i]->key_path);
        certificate_free(all[i]);
    }
    return rmdir(dir);
}

static void on_given(void *arg, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    assert_ptr_equal(arg, &given_n);
    assert_int_equal(peer->sa_family, AF_INET);
    assert_int_equal(peer_n, sizeof(struct sockaddr_in));
    atomic_store(&given_fd, fd);
    atomic_fetch_add(&given_n, 1);
}

static int relay_open(void **state)
{
    (void)state;
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    const struct relay_door door = {.url = "tls://here",
                                    .c = door_context,
                                    .fd = fd,
                                    .most = 3,
                                    .greeting_ms = 20000,
                                    .given = on_given,
                                    .arg = &given_n};
    given_fd = -1;
    given_n = 0;
    relay = relay_start(&door);
    assert_non_null(relay);
    return 0;
}

static int relay_close(void **state)
{
    (void)state;
    relay_destroy(&relay);
    if (given_fd >= 0) close(given_fd);
    return 0;
}

/* --- a client --- */

struct client {
    int fd;
    struct tls_session *tls;
    struct buf text;
    bool at_end;
};

static struct client client_open(void)
{
    struct client c = {.fd = socket(AF_INET, SOCK_STREAM, 0),
                       .tls = tls_session_create(trust, "shop.example")};
    assert_int_equal(connect(c.fd, (struct sockaddr *)&at, sizeof at), 0);
    return c;
}

static void client_close(struct client *c)
{
    close(c->fd);
    tls_session_destroy(&c->tls);
    buf_free(&c->text);
}

static void client_send(struct client *c)
{
    struct buf *out = tls_session_out(c->tls);
    assert_int_equal(send(c->fd, out->p, out->n, 0), (ssize_t)out->n);
    buf_reset(out);
}

/* What comes within 20 s, once. */
static void client_hear(struct client *c)
{
    char bytes[4096];
    struct pollfd in = {.fd = c->fd, .events = POLLIN};
    assert_int_equal(poll(&in, 1, 20000), 1);
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    c->at_end = n <= 0;
    if (n > 0)
        c->text.n +=
            tls_session_take(c->tls, bytes, (size_t)n, buf_reserve(&c->text, (size_t)n + TLS_HELD_MAX));
}

static void client_greet(struct client *c)
{
    while (tls_session_state(c->tls) == TLS_GREETING) {
        client_send(c);
        client_hear(c);
    }
    assert_int_equal(tls_session_state(c->tls), TLS_READY);
}

static void until_given(int n)
{
    for (uint64_t end_ms = mono_ms() + 20000; atomic_load(&given_n) < n;) {
        assert_true(mono_ms() < end_ms);
        usleep(1000);
    }
}

/* --- tests --- */

static void passes_on_both_ways(void **state)
{
    (void)state;
    char bytes[20];
    struct client c = client_open();
    client_greet(&c);
    tls_session_put(c.tls, SLICE("question"));
    client_send(&c);
    until_given(1);
    assert_int_equal(recv(given_fd, bytes, 8, MSG_WAITALL), 8);
    assert_memory_equal(bytes, "question", 8);
    assert_int_equal(send(given_fd, "answer", 6, 0), 6);
    close(given_fd);
    given_fd = -1;
    while (!c.at_end)
        client_hear(&c);
    assert_slice(buf_slice(&c.text), "answer");
    assert_int_equal(tls_session_state(c.tls), TLS_ENDED); /* not cut */
    client_close(&c);
}

/* The receiver of its connections may be gone by then. */
static void gives_nobody_once_it_is_quiet(void **state)
{
    (void)state;
    struct client c = client_open();
    client_send(&c);
    client_hear(&c); /* so the relay has it, and waits for the last word of its handshake */
    relay_quiet(relay);
    while (!c.at_end) {
        client_send(&c);
        client_hear(&c);
    }
    assert_int_equal(given_n, 0);
    client_close(&c);
}

/* A connection ends by itself just as the relay is told to end: each of the two closes a part, and must not count on the other. */
static void ends_while_a_connection_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        relay_open(NULL);
        struct client c = client_open();
        client_send(&c);
        client_hear(&c);
        client_close(&c);
        for (uint64_t until_us = mono_us() + (uint64_t)(i % 100); mono_us() < until_us;)
            continue;
        relay_close(NULL);
    }
}

int main(void)
{
#define test(f) cmocka_unit_test_setup_teardown(f, relay_open, relay_close)
    const struct CMUnitTest tests[] = {
        test(passes_on_both_ways),
        test(gives_nobody_once_it_is_quiet),
        cmocka_unit_test(ends_while_a_connection_ends),
    };
    return cmocka_run_group_tests(tests, files_make, files_remove);
}
