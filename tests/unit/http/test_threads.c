/* HTTP's threads together, on a socket, without the loop: a thread of the test answers as the service would. When the service
 * begins and ends during requests, each request is answered or dropped, and no reply speaks of a service that was not asked yet. */
#include "lib/unit.h"
#include "lib/zones.h"

#include "base/clock.h"
#include "http/inside.h"
#include "series/op.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define INFO "tallyd_version:1\r\nredis_up:1\r\nmysql_up:1\r\n"
#define CONNECTIONS_MOST 4096
#define CLIENTS 3
#define WAITING 60

static char dir[] = "/tmp/tly-http-XXXXXX";
static char http_path[64];
static struct conf conf;
static struct counter views = {.name = SLICE("views"),
                               .field = FIELD_INTEGER,
                               .table = SLICE("views"),
                               .column_store = SLICE("s"),
                               .column_field = SLICE("f"),
                               .column_count = SLICE("n")};
static struct op_limits limits = {.timebox_width_s = 60};
static struct counters counters = {.all = &views, .n = 1, .ops = &limits};
static struct redis_url redis;
static struct db_config mysql;
static struct http *http;
static sem_t stopped;

/* --- the service --- */

static atomic_int info_after_ms;
static atomic_bool info_held;
static atomic_bool answers; /* anything but INFO: that there is nothing */
static pthread_t services[CONNECTIONS_MOST];
static atomic_int services_n, infos, early; /* early: asked for more before the first INFO was answered */

static void pause_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char asked[65536], info[128];
    int info_n = snprintf(info, sizeof info, "$%zu\r\n%s\r\n", strlen(INFO), INFO);
    for (ssize_t n; (n = recv(fd, asked, sizeof asked, 0)) > 0;) {
        bool is_info = memmem(asked, (size_t)n, "INFO", 4) != NULL;
        if (is_info) pause_ms(info_after_ms);
        while (is_info && info_held)
            pause_ms(1);
        infos += is_info;
        early += infos == 0;
        while (!is_info && !answers)
            pause_ms(1);
        if (send(fd, is_info ? info : "*0\r\n", is_info ? (size_t)info_n : 4, MSG_NOSIGNAL) < 0) break;
    }
    close(fd);
    return NULL;
}

static int on_connect(void *arg)
{
    int ends[2], i = services_n++;
    if (i >= CONNECTIONS_MOST || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
    if (pthread_create(&services[i], NULL, serve, (void *)(intptr_t)ends[1]) != 0) abort();
    return ends[0];
}

static void on_stopped(void *arg)
{
    sem_post(&stopped);
}

/* --- begin and end --- */

static int files_make(void **state)
{
    struct buf text = {0}, problems = {0};
    struct error e;
    signal(SIGPIPE, SIG_IGN);
    db_library_init();
    sem_init(&stopped, 0, 0);
    if (mkdtemp(dir) == NULL) return -1;
    snprintf(http_path, sizeof http_path, "%s/http", dir);
    buf_printf(&text,
               "redis: unix:///nowhere\nmysql: mysql://u@localhost/d?socket=/nowhere\nlisten: { http: "
               "\"unix://%s\" }\n",
               http_path);
    BUF_LIT(&text, "counters:\n  views: { key: \"s<store>:views\", field: integer, table: views, "
                   "columns: { store: s, field: f, count: n } }\n");
    if (!conf_parse("t.yaml", buf_slice(&text), NULL, &conf, &problems))
        fail_msg("%.*s", SLICE_ARG(buf_slice(&problems)));
    buf_free(&text);
    buf_free(&problems);
    if (pattern_parse(SLICE("s<store>:views"), &views.key, &e) != ERR_NONE) return -1;
    db_config_init(&mysql);
    if (db_config_parse(SLICE("mysql://u@localhost/d?socket=/nowhere"), &mysql, &e) != ERR_NONE) return -1;
    return redis_url_parse(SLICE("unix:///nowhere"), &redis, &e) == ERR_NONE ? 0 : -1;
}

static int files_remove(void **state)
{
    conf_free(&conf);
    db_config_close(&mysql);
    redis_url_close(&redis);
    return rmdir(dir);
}

static void begin(int after_ms, bool all)
{
    const struct http_ports ports = {.connect = on_connect, .stopped = on_stopped, .zones = zones_utc()->of};
    static struct source where;
    struct error e;
    where = (struct source){.conf = &conf, .counters = &counters, .redis = &redis, .mysql = &mysql};
    info_after_ms = after_ms;
    infos = early = 0;
    answers = all;
    http = http_create(&where, &ports);
    http->status_cache.at_ms = mono_ms(); /* one at servers that are not there takes a second and more */
    http->status_cache.took_ms = 3600000;
    http->history.due_ms = UINT64_MAX; /* its point would take a worker for a moment */
    if (http_start(http, &e) != ERR_NONE) fail_msg("%s", e.text);
}

static void end(void)
{
    sem_wait(&stopped);
    http_destroy(&http);
    for (int n = services_n; n > 0; n--)
        pthread_join(services[n - 1], NULL);
    services_n = 0;
}

/* --- clients --- */

static int ask(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char text[200];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", http_path);
    int n =
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 && send(fd, text, (size_t)n, MSG_NOSIGNAL) == n)
        return fd;
    close(fd);
    return -1;
}

/* All that is answered; NUL-terminated. */
static const char *hear(int fd, char *out, size_t size)
{
    size_t n = 0;
    for (ssize_t got; n < size - 1 && (got = recv(fd, out + n, size - 1 - n, 0)) > 0;)
        n += (size_t)got;
    out[n] = '\0';
    close(fd);
    return out;
}

/* --- tests --- */

UNIT(nobody_hears_of_a_service_that_was_not_asked)
{
    static char text[262144];
    begin(100, true);
    hear(ask("/api/stores/1/counters/views"), text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    assert_int_equal(early, 0);
    http_stop(http);
    end();
}

static void starts_with(const char *path, const char *line, const char *body)
{
    static char text[4096];
    hear(ask(path), text, sizeof text);
    assert_memory_equal(text, line, strlen(line));
    if (strstr(text, body) == NULL) fail_msg("%s", text);
}

/* A supervisor that asks at once is not told that the loop hangs, and sends no traffic yet. */
UNIT(health_before_the_service_was_asked)
{
    info_held = true;
    begin(0, true);
    starts_with("/healthz", "HTTP/1.1 200", "ok\n");
    starts_with("/readyz", "HTTP/1.1 503", "tallyd has just started");
    info_held = false;
    hear(ask("/api/stores/1/counters/views"), (char[4096]){0}, 4096); /* waits for the first answer */
    starts_with("/readyz", "HTTP/1.1 200", "ready\n");
    http_stop(http);
    end();
}

static size_t under_way(void)
{
    pthread_mutex_lock(&http->lock);
    size_t n = http->exchanges;
    pthread_mutex_unlock(&http->lock);
    return n;
}

static size_t workers_busy(void)
{
    pthread_mutex_lock(&http->pool.lock);
    size_t n = 0;
    for (size_t i = 0; i < POOL_WORKERS; i++)
        n += http->pool.workers[i].busy;
    pthread_mutex_unlock(&http->pool.lock);
    return n;
}

static bool stops(void)
{
    pthread_mutex_lock(&http->pool.lock);
    bool is = http->pool.stopping;
    pthread_mutex_unlock(&http->pool.lock);
    return is;
}

/* When the service is blocked, the end waits only for requests that have a worker. */
UNIT(who_waits_for_a_worker_is_refused_at_the_end)
{
    static char text[65536];
    int fds[POOL_OF_ONE + WAITING], refused = 0;
    begin(0, false);
    for (size_t i = 0; i < POOL_OF_ONE + WAITING; i++)
        fds[i] = ask("/api/boxes/none");
    while (workers_busy() < POOL_OF_ONE || under_way() < POOL_OF_ONE + WAITING)
        pause_ms(1);
    http_stop(http);
    while (!stops())
        pause_ms(1);
    answers = true;
    for (size_t i = 0; i < POOL_OF_ONE + WAITING; i++)
        refused += strstr(hear(fds[i], text, sizeof text), "tallyd is stopping") != NULL;
    assert_int_equal(refused, WAITING);
    end();
}

static atomic_bool asking;

static void *client(void *arg)
{
    static const char *const paths[] = {"/metrics", "/api/pulse", "/healthz", "/api/boxes/none",
                                        "/api/pulse?store=1"};
    unsigned turn = (unsigned)(intptr_t)arg;
    char *text = malloc(65536);
    for (; asking; turn++) {
        int fd = ask(paths[turn % 5]);
        if (fd < 0) continue;
        if (turn % 3 == 0)
            close(fd);
        else if (strncmp(hear(fd, text, turn % 5 % 2 == 1 ? 20 : 65536), "HTTP/1.1", 8) != 0 &&
                 text[0] != '\0')
            abort();
    }
    free(text);
    return NULL;
}

UNIT(begins_and_ends_beside_requests)
{
    pthread_t clients[CLIENTS];
    for (int i = 0; i < 60; i++) {
        begin(i % 3, true);
        asking = true;
        for (int j = 0; j < CLIENTS; j++)
            if (pthread_create(&clients[j], NULL, client, (void *)(intptr_t)(i + j)) != 0) abort();
        usleep((useconds_t)(i % 20) * 1000);
        http_stop(http);
        end();
        asking = false;
        for (int j = 0; j < CLIENTS; j++)
            pthread_join(clients[j], NULL);
    }
}

UNITS_IN(files_make, files_remove)
