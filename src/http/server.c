/* http/server.c - addresses, libmicrohttpd, and the life of an exchange:
 *   headers are here -> exchange_begin: what is asked, by which client, may it? -> the body, if any, is thrown away ->
 *   answered at once, or: suspended -> a worker runs the route -> resumed -> answered -> freed
 * An exchange belongs to the thread of its address, and while it is suspended to the worker alone. A worker asks
 * libmicrohttpd for nothing: what it needs was copied before. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "http/inside.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024
#define CONNECTIONS_LEAST 64 /* where descriptors lack */
#define FILES_BESIDE 128     /* descriptors for everything but connections */
/* No option changes these: a panel and a scraper need far less, and their sum stays small beside limits.memory. */
#define CONNECTIONS_MOST 1024 /* of each address; 16 MiB for their heads */
#define HEAD_BYTES                                                                                           \
    (16 << 10) /* of a connection: request line and headers, which must fit, and pieces of the answer */
#define BODY_BYTES (64 << 10) /* is read and not used: no route wants one */
/* What the kernel keeps of answers for a client that reads slowly. By itself it keeps megabytes, and says that there is room only when
 * a third is read: that may take a slow client longer than IDLE_TIMEOUT_S, in which nothing seems to move. */
#define SEND_BYTES (128 << 10)
#define LAST_WORDS_MS 1000 /* for answers that are made and not yet sent, at the end */

/* --- what is asked --- */

static const char *header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

struct reading { /* the query */
    struct target *target;
    const char *fault;
};

static enum MHD_Result arg_take(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_n,
                                const char *value, size_t value_n)
{
    struct reading *r = arg;
    (void)kind;
    r->fault =
        target_add_arg(r->target, slice_of(name, name_n), slice_of(value, value == NULL ? 0 : value_n));
    return r->fault == NULL ? MHD_YES : MHD_NO;
}

/* The page ignores its query: people and mail programs append parameters of their own. */
static bool target_read(struct exchange *x, const char *path)
{
    struct reading r = {&x->target, target_read_path(&x->target, slice_str(path))};
    const char *what = "the path";
    if (r.fault == NULL && x->target.segments_n > 0) {
        what = "the query";
        MHD_get_connection_values_n(x->connection, MHD_GET_ARGUMENT_KIND, arg_take, &r);
    }
    if (r.fault != NULL) exchange_refuse(x, 400, "correct the address", "%s %s", what, r.fault);
    return r.fault == NULL;
}

static bool route_read(struct exchange *x, const char *method)
{
    x->route = route_find(method, &x->target, &x->allow);
    if (x->route != NULL) {
        x->allow = NULL;
        return true;
    }
    if (x->allow[0] != '\0')
        return exchange_refuse(x, 405, "ask with a method that the header Allow names",
                               "this path has no method %s", SLICE_SHOW(slice_str(method), 30));
    x->allow = NULL;
    return exchange_refuse(x, 404, "see /api/openapi.yaml, which lists the paths",
                           "there is nothing at this path");
}

static bool args_known(struct exchange *x)
{
    for (size_t i = 0; i < x->target.args_n; i++) {
        struct slice name = target_arg_name(&x->target, i);
        if (route_knows(x->route, name)) continue;
        return exchange_refuse(x, 400, "leave it out", "\"%s\" is no parameter of this path; it has: %s",
                               SLICE_SHOW(name, 50), x->route->args[0] == '\0' ? "none" : x->route->args);
    }
    return true;
}

/* --- the client --- */

static const struct sockaddr *peer_of(const struct exchange *x)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    return info == NULL || info->client_addr == NULL ? &nobody : info->client_addr;
}

static enum MHD_Result forwarded_look(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind, (void)value;
    if (!header_is_of_a_proxy(name)) return MHD_YES;
    *(bool *)arg = true;
    return MHD_NO;
}

static bool is_allowed(struct exchange *x, const char *version)
{
    struct who_asks q = {.peer = peer_of(x),
                         .host = header(x, "Host"),
                         .authorization = header(x, "Authorization"),
                         .forwarded = strcmp(version, MHD_HTTP_VERSION_1_0) == 0,
                         .local_token = x->http->where->conf->http_local == CONF_LOCAL_TOKEN};
    if (x->route->access == ACCESS_ANYBODY) return true;
    if (is_cross_origin(header(x, "Sec-Fetch-Site"), header(x, "Origin"), q.host))
        return exchange_refuse(x, 403, "ask from the panel, or with a program",
                               "a page of another site sent this");
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, forwarded_look, &q.forwarded);
    x->who = who_asks(&q, bearers_now(&x->http->bearers));
    if (!x->who.known)
        return exchange_refuse(
            x, 401, "send Authorization: Bearer <token>; the option http.tokens names the file of tokens",
            q.authorization == NULL ? "this address needs a token" : "that token is not known");
    if (x->route->access == ACCESS_KNOWN || who_store(&x->who).p == NULL) return true;
    return exchange_refuse(x, 403, "ask with a token that is bound to no store",
                           "this token sees one store only");
}

/* A page of another origin can send a POST, but cannot add a header to it. */
static bool is_meant(struct exchange *x)
{
    const char *same = header(x, "X-Tallyd");
    if (strcmp(x->route->method, "GET") == 0 || (same != NULL && strcmp(same, "1") == 0)) return true;
    return exchange_refuse(x, 400, "send the header X-Tallyd: 1",
                           "a request that changes something needs the header X-Tallyd");
}

/* --- its life --- */

static void stopping_refuse(struct exchange *x)
{
    exchange_refuse(x, 503, "ask again in some seconds", "tallyd is stopping");
}

static void exchange_work(struct job *job, struct worker *w)
{
    struct exchange *x = CONTAINER_OF(job, struct exchange, job);
    pulse_await(&x->http->pulse);
    if (w != NULL)
        x->route->run(x, w);
    else
        stopping_refuse(x);
    MHD_resume_connection(x->connection); /* x is the other thread's again */
}

static struct exchange *exchange_begin(struct http *h, struct MHD_Connection *connection, const char *path,
                                       const char *method, const char *version)
{
    struct exchange *x = heap_zalloc(sizeof *x);
    pthread_mutex_lock(&h->lock);
    h->exchanges++;
    pthread_mutex_unlock(&h->lock);
    x->http = h;
    x->connection = connection;
    x->job.run = exchange_work;
    const char *match = header(x, "If-None-Match");
    if (match != NULL) x->if_none_match = heap_strdup(match);
    if (target_read(x, path) && route_read(x, method) && is_allowed(x, version) && is_meant(x))
        (void)args_known(x);
    return x;
}

static void request_completed(void *arg, struct MHD_Connection *connection, void **held,
                              enum MHD_RequestTerminationCode why)
{
    struct exchange *x = *held;
    (void)arg, (void)why;
    if (x != NULL) {
        struct http *h = x->http;
        pthread_mutex_lock(&h->lock);
        if (--h->exchanges == 0) pthread_cond_signal(&h->answered);
        pthread_mutex_unlock(&h->lock);
        target_close(&x->target);
        heap_free(x->if_none_match);
        heap_free(x->file);
        buf_free(&x->body);
        heap_free(x);
    }
    *held = NULL;
    heads_await(connection);
}

/* --- the answer --- */

/* dygraphs sets styles by script, which the policy allows; it forbids everything from elsewhere. */
static void headers_put(const struct exchange *x, struct MHD_Response *r)
{
    MHD_add_response_header(r, "Content-Type", x->type);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(r, "Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                            "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
                            "frame-ancestors 'none'");
    MHD_add_response_header(r, "Cache-Control", x->etag != NULL ? "no-cache" : "no-store");
    if (x->etag != NULL) MHD_add_response_header(r, "ETag", x->etag);
    if (x->file != NULL) {
        char disposition[200];
        snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", x->file);
        MHD_add_response_header(r, "Content-Disposition", disposition);
    }
    if (x->allow != NULL) MHD_add_response_header(r, "Allow", x->allow);
    if (x->status == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer realm=\"tallyd\"");
}

static enum MHD_Result exchange_answer(struct exchange *x)
{
    bool fixed = x->fixed.p != NULL;
    struct MHD_Response *r =
        fixed ? MHD_create_response_from_buffer(x->fixed.n, (void *)(uintptr_t)x->fixed.p,
                                                MHD_RESPMEM_PERSISTENT)
              : MHD_create_response_from_buffer_with_free_callback(x->body.n, x->body.p, heap_free);
    if (r == NULL) return MHD_NO;
    if (!fixed) x->body = (struct buf){0}; /* it is the response's */
    headers_put(x, r);
    enum MHD_Result queued = MHD_queue_response(x->connection, x->status, r);
    MHD_destroy_response(r);
    return queued;
}

/* Called when the headers are here, for each piece of a body, at its end, and after each resume. */
static enum MHD_Result request_take(void *arg, struct MHD_Connection *connection, const char *path,
                                    const char *method, const char *version, const char *body, size_t *body_n,
                                    void **held)
{
    struct exchange *x = *held;
    (void)body;
    if (x == NULL) {
        *held = exchange_begin(arg, connection, path, method, version);
        return MHD_YES;
    }
    if (*body_n > 0) {
        x->taken_bytes += *body_n;
        *body_n = 0;
        return x->taken_bytes <= BODY_BYTES ? MHD_YES : MHD_NO;
    }
    heads_got(connection);
    if (x->answered) return exchange_answer(x);
    if (x->route->waits) {
        MHD_suspend_connection(x->connection);
        x->job.turn.who = x->who.bearer;
        if (pool_submit(&x->http->pool, &x->job)) return MHD_YES;
        stopping_refuse(x);
        MHD_resume_connection(x->connection);
        return MHD_YES;
    }
    x->route->run(x, NULL);
    PRE(x->answered);
    return exchange_answer(x);
}

/* Paths and queries are decoded by exchange.c, which keeps %2F and refuses %00. */
static size_t as_it_is(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg, (void)connection;
    return strlen(text);
}

/* --- addresses --- */

static void daemon_log(void *arg, const char *fmt, va_list args)
{
    static struct log_seldom line;
    unsigned times;
    char text[300];
    (void)arg;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\r\n")] = '\0';
    if (strstr(text, "connection limit") != NULL && log_seldom(&line, &times))
        log_event(LOG_WARN, "http_closed", "times=%u why=%s", times,
                  LOGQ("a client's IP address has as many connections as it may, or all are in use"));
    else
        log_event(LOG_DEBUG, "http", "text=%s", LOGQ(text));
}

/* Of one address. Descriptors beyond those that the RESP door may need; raises the limit when that is possible. */
static unsigned connections_most(const struct conf *conf)
{
    struct rlimit files;
    rlim_t n = conf->listen_http.n, door = (rlim_t)conf->limits_clients + FILES_BESIDE,
           most = CONNECTIONS_MOST;
    rlim_t want = door + n * most;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return CONNECTIONS_LEAST;
    struct rlimit more = {files.rlim_max < want ? files.rlim_max : want, files.rlim_max};
    if (files.rlim_cur < more.rlim_cur && setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
    if (files.rlim_cur >= want) return (unsigned)most;
    rlim_t each = files.rlim_cur > door ? (files.rlim_cur - door) / n : 0;
    return each > CONNECTIONS_LEAST ? (unsigned)each : CONNECTIONS_LEAST;
}

static struct MHD_Daemon *daemon_start(struct http *h, struct heads *heads, int fd, unsigned most)
{
    struct MHD_OptionItem secure[] = {{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, https_no_certificate()},
                                      {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HTTPS_PRIORITIES},
                                      {MHD_OPTION_END, 0, NULL}};
    bool tls = heads->https != NULL;
    return MHD_start_daemon(
        (tls ? MHD_USE_TLS : MHD_NO_FLAG) | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC |
            MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        0, NULL, NULL, request_take, h, MHD_OPTION_EXTERNAL_LOGGER, daemon_log, NULL, MHD_OPTION_ARRAY,
        tls ? secure : &secure[2], MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, most,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, most / 4 * 3, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
        request_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, heads_notify, heads,
        MHD_OPTION_UNESCAPE_CALLBACK, as_it_is, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

static enum err address_serve(struct http *h, const struct address *a, unsigned most, struct error *e)
{
    int fd = address_listen(a, BACKLOG, e), kept = SEND_BYTES;
    if (fd < 0) return e->code;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kept, sizeof kept);
    struct heads *heads = &h->heads[h->daemons_n];
    heads_init(heads, most / 2, a->text, a->tls ? &h->https : NULL);
    struct MHD_Daemon *d = daemon_start(h, heads, fd, most);
    if (d == NULL) {
        address_unlink(a);
        close(fd);
        return error_set(e, ERR_FAILED, "%s: HTTP cannot start here: out of memory, threads or descriptors?",
                         a->text);
    }
    h->daemons[h->daemons_n++] = d;
    log_event(LOG_INFO, "listening", "url=%s protocol=http", a->text);
    return ERR_NONE;
}

static enum err addresses_serve(struct http *h, struct error *e)
{
    const struct conf_addresses *all = &h->where->conf->listen_http;
    unsigned most = connections_most(h->where->conf);
    h->daemons = heap_zalloc(all->n * sizeof(struct MHD_Daemon *));
    h->heads = heap_zalloc(all->n * sizeof(struct heads));
    h->sockets = heap_zalloc(all->n * sizeof(int));
    for (size_t i = 0; i < all->n; i++)
        if (address_serve(h, &all->all[i], most, e) != ERR_NONE) return e->code;
    return ERR_NONE;
}

/* --- begin and end --- */

struct http *http_create(const struct source *where, const struct http_ports *ports)
{
    struct http *h = heap_zalloc(sizeof *h);
    h->where = where;
    h->ports = *ports;
    pool_init(&h->pool, &h->ports, where);
    pulse_init(&h->pulse, h);
    pthread_mutex_init(&h->history.lock, NULL);
    status_cache_init(&h->status_cache, where);
    answer_cache_init(&h->answer_cache);
    label_cache_init(&h->label_cache);
    h->stores.name = SLICE("stores:"); /* as no counter is called */
    if (where->store_names != NULL) h->stores.labels = *where->store_names;
    h->bearers.now = &where->conf->bearers;
    h->https = (struct https){.c = ports->tls, .handshake_ms = (uint32_t)where->conf->limits_auth_timeout_ms};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->answered, NULL);
    return h;
}

/* In this order: no new connections, no pulse, no jobs that wait, all answers sent. Only then are the
 * daemons stopped: they send nothing more. */
static void all_end(struct http *h)
{
    const struct conf_addresses *all = &h->where->conf->listen_http;
    __atomic_store_n(&h->https.over, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < h->daemons_n; i++) {
        h->sockets[i] = MHD_quiesce_daemon(h->daemons[i]);
        if (h->sockets[i] < 0) continue;
        address_unlink(&all->all[i]);
        shutdown(h->sockets[i], SHUT_RDWR);
    }
    pulse_stop(&h->pulse);
    pool_stop(&h->pool);
    uint64_t until_ms = mono_ms() + LAST_WORDS_MS;
    struct timespec until = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
    pthread_mutex_lock(&h->lock);
    while (h->exchanges > 0 && pthread_cond_clockwait(&h->answered, &h->lock, CLOCK_MONOTONIC, &until) == 0)
        continue;
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < h->daemons_n; i++) {
        MHD_stop_daemon(h->daemons[i]); /* its thread may have looked at the socket until here */
        if (h->sockets[i] >= 0) close(h->sockets[i]);
    }
    for (size_t i = 0; i < h->daemons_n; i++)
        pthread_mutex_destroy(&h->heads[i].lock);
    h->daemons_n = 0;
}

enum err http_start(struct http *h, struct error *e)
{
    enum err code = http_certificates(h, e);
    if (code == ERR_NONE) code = addresses_serve(h, e);
    if (code == ERR_NONE && (!pool_start(&h->pool) || !pulse_start(&h->pulse)))
        code = error_set(e, ERR_FAILED, "HTTP cannot start: no more threads");
    h->running = code == ERR_NONE;
    if (code != ERR_NONE) all_end(h);
    return code;
}

static void *ender_main(void *arg)
{
    struct http *h = arg;
    all_end(h);
    h->ports.stopped(h->ports.arg);
    return NULL;
}

enum err http_certificates(struct http *h, struct error *e)
{
    return h->https.c == NULL ? ERR_NONE : https_read(&h->https, e);
}

void http_bearers(struct http *h, struct conf_bearers *tokens)
{
    bearers_take(&h->bearers, tokens);
}

void http_stop(struct http *h)
{
    PRE(h->running && !h->ending);
    h->ending = true;
    int rc = pthread_create(&h->ender, NULL, ender_main, h);
    INVARIANT(rc == 0);
}

void http_destroy(struct http **h)
{
    if ((*h)->ending) pthread_join((*h)->ender, NULL);
    pthread_mutex_destroy(&(*h)->history.lock);
    pulse_close(&(*h)->pulse);
    pool_close(&(*h)->pool);
    status_cache_close(&(*h)->status_cache);
    answer_cache_close(&(*h)->answer_cache);
    label_cache_close(&(*h)->label_cache);
    bearers_close(&(*h)->bearers);
    https_close(&(*h)->https);
    pthread_cond_destroy(&(*h)->answered);
    pthread_mutex_destroy(&(*h)->lock);
    heap_free((*h)->daemons);
    heap_free((*h)->heads);
    heap_free((*h)->sockets);
    heap_free(*h);
    *h = NULL;
}
