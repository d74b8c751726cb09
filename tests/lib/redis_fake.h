/* lib/redis_fake.h - a server that answers what the test says: a unix socket on the test's own loop. It
 * answers the handshake as a fit master (or as told), then the next of its lines at each further read. */
#ifndef LIB_REDIS_FAKE_H
#define LIB_REDIS_FAKE_H

#include "lib/redis_world.h"

#define FAKE_NAME_ID "+OK\r\n:7\r\n"
#define FAKE_REST                                                                                            \
    "*2\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n+OK\r\n*0\r\n"

struct fake {
    uv_pipe_t server, client;
    bool client_open;
    int reads, accepts, say_at;
    const char *hello;  /* the answer to the handshake */
    const char *say[8]; /* then these, one a read; NULL: silence */
    size_t say_n;       /* of say[0], when it holds NUL bytes */
    char inbox[65536], info[600];
};

static inline const char *fake_hello(struct fake *f, const char *info)
{
    snprintf(f->info, sizeof f->info, FAKE_NAME_ID "$%zu\r\n%s\r\n" FAKE_REST, strlen(info), info);
    return f->info;
}

#define FAKE_INFO                                                                                            \
    "redis_version:8.0.0\r\nrun_id:aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd\r\nrole:master\r\nloading:0\r\n" \
    "aof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"

static inline void fake_room(uv_handle_t *h, size_t n, uv_buf_t *buf)
{
    struct fake *f = h->data;
    (void)n;
    *buf = uv_buf_init(f->inbox, sizeof f->inbox);
}

static inline void fake_client_closed(uv_handle_t *h)
{
    ((struct fake *)h->data)->client_open = false;
}

static inline void fake_cut(struct fake *f)
{
    if (!uv_is_closing((uv_handle_t *)&f->client)) uv_close((uv_handle_t *)&f->client, fake_client_closed);
}

static inline void fake_say(struct fake *f, const char *text, size_t n)
{
    uv_buf_t buf = uv_buf_init((char *)(void *)text, (unsigned)n);
    while (buf.len > 0) {
        int done = uv_try_write((uv_stream_t *)&f->client, &buf, 1);
        if (done < 0) return;
        buf.base += done;
        buf.len -= (size_t)done;
    }
}

static inline void fake_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct fake *f = s->data;
    (void)buf;
    if (n < 0) {
        fake_cut(f);
        return;
    }
    if (f->reads++ == 0) {
        fake_say(f, f->hello, strlen(f->hello));
    } else if (f->say[f->say_at] != NULL) {
        const char *text = f->say[f->say_at];
        fake_say(f, text, f->say_at == 0 && f->say_n > 0 ? f->say_n : strlen(text));
        f->say_at++;
    }
}

static inline void fake_accept(uv_stream_t *server, int status)
{
    struct fake *f = server->data;
    assert_int_equal(status, 0);
    if (f->client_open) return; /* comes again later */
    uv_pipe_init(server->loop, &f->client, 0);
    f->client.data = f;
    f->client_open = true;
    f->reads = 0;
    f->accepts++;
    assert_int_equal(uv_accept(server, (uv_stream_t *)&f->client), 0);
    uv_read_start((uv_stream_t *)&f->client, fake_room, fake_read);
}

static inline void fake_start_at(struct world *w, struct fake *f, const char *socket)
{
    uv_pipe_init(&w->loop, &f->server, 0);
    f->server.data = f;
    if (f->hello == NULL) f->hello = fake_hello(f, FAKE_INFO);
    assert_int_equal(uv_pipe_bind(&f->server, socket), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&f->server, 8, fake_accept), 0);
}

static inline void fake_start(struct world *w, struct fake *f)
{
    fake_start_at(w, f, w->server.socket);
}

static inline void fake_stop(struct fake *f)
{
    uv_close((uv_handle_t *)&f->server, NULL);
    if (f->client_open) fake_cut(f);
}

#endif
