/* admin/dev_conf.c - the configuration that `tallyd dev` runs tallyd with: FILE's, or two default counters, with dev's
 * own addresses, servers and instance. */
#include "admin/dev_in.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_WANTED 7370
#define HTTP_PORT_WANTED 7371

/* A free TCP port on 127.0.0.1: the wanted one, or any (0). Returns 0 when none is free, or the wanted one is taken. */
static int port_free(int wanted)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)wanted)};
    socklen_t n = sizeof(at);
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes,
               sizeof(yes)); /* as tallyd will: TIME_WAIT is no obstacle */
    bool got = bind(fd, (struct sockaddr *)&at, n) == 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0;
    close(fd);
    return got ? ntohs(at.sin_port) : 0;
}

int dev_port(int wanted)
{
    int port = port_free(wanted);
    return port != 0 ? port : port_free(0);
}

/* In a file of the user's these groups are ignored: dev sets them, with the instance. */
static const char *const groups_of_dev[] = {"listen", "http", "redis", "mysql", NULL};

static enum err conf_adapt(struct dev *d, struct error *e)
{
    struct buf redis = {0}, mysql = {0}, tcp = {0}, local = {0}, control = {0},
               http = {0}; /* each terminated */
    static const char *const name = "dev";
    const char *const replicas = d->call->cluster != 0 ? "1" : "0";
    d->port = dev_port(PORT_WANTED);
    d->http_port = dev_port(HTTP_PORT_WANTED);
    if (d->port == 0 || d->http_port == 0)
        return error_set(e, ERR_FAILED, "no TCP port is free on 127.0.0.1: close some connections");
    dev_path(d, "control.sock", d->control);
    if (d->call->cluster != 0)
        dev_cluster_url(d, &redis);
    else
        buf_printf(&redis, "unix://%s/redis.sock%c", d->dir, '\0');
    buf_printf(&mysql, "mysql://root@localhost/tally?socket=%s/mysql.sock%c", d->dir, '\0');
    buf_printf(&tcp, "tcp://127.0.0.1:%d%c", d->port, '\0');
    buf_printf(&local, "unix://%s/tallyd.sock%c", d->dir, '\0');
    buf_printf(&control, "unix://%s%c", d->control, '\0');
    buf_printf(&http, "tcp://127.0.0.1:%d%c", d->http_port, '\0');
    const char *const addresses[] = {tcp.p, local.p}, *const redis_url = redis.p, *const mysql_url = mysql.p,
                      *const operator= control.p, *const panel = http.p;
    bool set = conf_set(&d->conf, CONF_LISTEN_RESP, addresses, 2) &&
               conf_set(&d->conf, CONF_LISTEN_CONTROL, &operator, 1) &&
               conf_set(&d->conf, CONF_LISTEN_HTTP, &panel, 1) &&
               conf_set(&d->conf, CONF_INSTANCE, &name, 1) &&
               conf_set(&d->conf, CONF_REDIS_URL, &redis_url, 1) &&
               conf_set(&d->conf, CONF_REDIS_REPLICAS, &replicas, 1) &&
               conf_set(&d->conf, CONF_MYSQL_URL, &mysql_url, 1);
    INVARIANT(set);
    buf_free(&redis);
    buf_free(&mysql);
    buf_free(&tcp);
    buf_free(&local);
    buf_free(&control);
    buf_free(&http);
    return ERR_NONE;
}

static enum err conf_save(struct dev *d, struct error *e)
{
    struct buf text = {0};
    dev_path(d, "tallyd.yaml", d->conf_path);
    BUF_LIT(
        &text,
        "# Written by `tallyd dev` at each start; changes here are lost. Give it counters with -c FILE.\n");
    conf_write(&d->conf, &text);
    FILE *f = fopen(d->conf_path, "we");
    bool saved = f != NULL && fwrite(text.p, 1, text.n, f) == text.n;
    saved = f != NULL && fclose(f) == 0 && saved;
    buf_free(&text);
    return saved ? ERR_NONE : dev_dir_failed(d->conf_path, e);
}

enum err dev_conf_make(struct dev *d, struct error *e)
{
    struct buf problems = {0};
    unsetenv("TALLYD_REDIS_PASSWORD"); /* the private servers have none */
    unsetenv("TALLYD_MYSQL_PASSWORD");
    enum err code = ERR_NONE;
    if (d->call->conf_path == NULL)
        conf_default(&d->conf);
    else
        code = conf_load(d->call->conf_path, groups_of_dev, &d->conf, e);
    if (code == ERR_NONE && d->call->conf_path != NULL)
        dev_say("using %s, except for listen, http, redis, mysql and instance: dev sets these itself",
                d->call->conf_path);
    if (code == ERR_NONE) code = conf_adapt(d, e);
    if (code == ERR_NONE && !setup_init(&d->setup, &d->conf, &problems))
        code = error_set(e, ERR_CONFIG, "%.*s", (int)strcspn(problems.p, "\n"), problems.p);
    buf_free(&problems);
    return code == ERR_NONE ? conf_save(d, e) : code;
}
