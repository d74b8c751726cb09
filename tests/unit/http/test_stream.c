/* A stream that is not read: what it keeps for its reader is bounded, and all that was kept comes once the client reads. It runs in
 * a daemon of libmicrohttpd, on one end of a socketpair. */
#include "lib/unit.h"

#include "base/clock.h"
#include "http/stream.h"

#include <microhttpd.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOLD 200
#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

static const struct counters none;

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body, size_t *body_n,
                                  void **held)
{
    (void)path, (void)method, (void)version, (void)body, (void)body_n;
    if (*held == NULL) {
        *held = arg;
        return MHD_YES;
    }
    struct MHD_Response *r = stream_response(stream_open(arg, true, slice_of(NULL, 0), NULL), connection);
    enum MHD_Result queued = MHD_queue_response(connection, 200, r);
    MHD_destroy_response(r);
    return queued;
}

static struct MHD_Daemon *daemon_of(struct hub *h, int *client)
{
    int ends[2], small = 4096;
    struct sockaddr nobody = {.sa_family = AF_UNIX};
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET | MHD_USE_INTERNAL_POLLING_THREAD |
                                                MHD_USE_EPOLL | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME,
                                            0, NULL, NULL, on_request, h, MHD_OPTION_END);
    assert_non_null(d);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    assert_int_equal(MHD_add_connection(d, ends[1], &nobody, sizeof nobody), MHD_YES);
    *client = ends[0];
    return d;
}

/* How many of the texts come before the end. */
static int texts_read(int client)
{
    struct buf said = {0};
    char piece[4096];
    struct pollfd ready = {.fd = client, .events = POLLIN};
    for (ssize_t n = 1; n > 0;) {
        assert_int_equal(poll(&ready, 1, 20000), 1);
        n = read(client, piece, sizeof piece);
        if (n > 0) buf_put(&said, piece, (size_t)n);
    }
    buf_put_char(&said, '\0');
    int texts = 0;
    for (const char *at = said.p; (at = strstr(at, "event: status")) != NULL; at++)
        texts++;
    buf_free(&said);
    return texts;
}

/* How many texts of 200 KiB reach a client that begins to read after all were sent. */
static int kept_of(size_t unread_most)
{
    struct hub h;
    int client;
    char text[1024];
    memset(text, 'x', sizeof text);
    hub_init(&h, &none, NULL, 1, unread_most);
    struct MHD_Daemon *d = daemon_of(&h, &client);
    assert_int_equal(write(client, REQUEST, strlen(REQUEST)), strlen(REQUEST));
    for (uint64_t until_ms = mono_ms() + 20000; hub_empty(&h) && mono_ms() < until_ms;)
        poll(NULL, 0, 1);
    assert_false(hub_empty(&h));
    for (int i = 0; i < TOLD; i++)
        hub_tell(&h, slice_of(text, sizeof text));
    hub_stop(&h);
    int kept = texts_read(client);
    close(client);
    MHD_stop_daemon(d);
    hub_close(&h);
    return kept;
}

static void what_is_unread_is_bounded(void **state)
{
    (void)state;
    int few = kept_of(10000);
    assert_true(few >= 9 && few < TOLD / 2);
    assert_int_equal(kept_of(1 << 20), TOLD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_unread_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
