/* app/wire_http.c - connects http/ to the loop: it gets connections to the RESP door, whatever listen.resp says, and
 * the loop waits for it at the end. Its threads call http_connect and http_stopped; the rest is the loop's. */
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "http/http.h"

#include <sys/socket.h>
#include <unistd.h>

/* Any thread: one end is theirs, the other is adopted at the loop's next turn. */
static int http_connect(void *arg)
{
    struct http_side *web = &((struct service *)arg)->web;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    uv_mutex_lock(&web->lock);
    web->wanted = heap_realloc(web->wanted, (web->wanted_n + 1) * sizeof *web->wanted);
    web->wanted[web->wanted_n++] = ends[1];
    uv_mutex_unlock(&web->lock);
    uv_async_send(&web->news);
    return ends[0];
}

static void http_stopped(void *arg)
{
    struct http_side *web = &((struct service *)arg)->web;
    uv_mutex_lock(&web->lock);
    web->ended = true;
    uv_mutex_unlock(&web->lock);
    uv_async_send(&web->news);
}

static void on_news(uv_async_t *news)
{
    struct service *s = news->data;
    struct http_side *web = &s->web;
    struct listen_handler handler = wire_inside_handler(s);
    uv_mutex_lock(&web->lock);
    int *wanted = web->wanted;
    size_t n = web->wanted_n;
    bool ended = web->ended;
    web->wanted = NULL;
    web->wanted_n = 0;
    uv_mutex_unlock(&web->lock);
    for (size_t i = 0; i < n; i++)
        if (s->listen == NULL || !listen_adopt(s->listen, wanted[i], &handler)) close(wanted[i]);
    heap_free(wanted);
    if (ended && web->http != NULL) http_destroy(&web->http);
}

void wire_http_init(struct service *s)
{
    int rc = uv_mutex_init(&s->web.lock);
    INVARIANT(rc == 0);
    rc = uv_async_init(&s->loop, &s->web.news, on_news);
    INVARIANT(rc == 0);
    s->web.news.data = s;
}

enum err wire_http_begin(struct service *s, struct error *e)
{
    struct http_ports ports = {.arg = s,
                               .connect = http_connect,
                               .stopped = http_stopped,
                               .tls = s->settings->setup.doors,
                               .zones = &s->zones};
    if (!s->serves || s->settings->conf->listen_http.n == 0) return ERR_NONE;
    s->web.where = setup_source(&s->settings->setup);
    s->web.http = http_create(&s->web.where, &ports);
    if (http_start(s->web.http, e) == ERR_NONE) return ERR_NONE;
    http_destroy(&s->web.http);
    return e->code;
}

void wire_http_reload(struct service *s, struct conf *wanted)
{
    struct error e;
    if (s->web.http == NULL) return;
    http_bearers(s->web.http, &wanted->bearers);
    if (http_certificates(s->web.http, &e) != ERR_NONE)
        log_event(LOG_ERROR, "certificates", "of=listen.http outcome=kept error=%s", LOGQ(e.text));
}

void wire_http_stop(struct service *s)
{
    if (s->web.http != NULL) http_stop(s->web.http);
}

bool wire_http_over(const struct service *s)
{
    return s->web.http == NULL;
}

void wire_http_close(struct service *s)
{
    PRE(s->web.http == NULL);
    for (size_t i = 0; i < s->web.wanted_n; i++)
        close(s->web.wanted[i]);
    heap_free(s->web.wanted);
    uv_mutex_destroy(&s->web.lock);
}
