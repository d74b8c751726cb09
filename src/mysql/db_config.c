/* mysql/db_config.c - where MySQL is: the mysql:// URL and its parts. A URL may hold a password, so no error quotes
 * it. */
#include "mysql/db.h"

#include "base/heap.h"
#include "base/url.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_PORT 3306

void db_config_init(struct db_config *c)
{
    *c = (struct db_config){
        .connect_timeout_s = 3, .read_timeout_s = 10, .write_timeout_s = 10, .lock_wait_s = 3, .idle_s = 60};
}

static void wipe_free(char **text)
{
    if (*text != NULL) explicit_bzero(*text, strlen(*text));
    heap_free(*text);
    *text = NULL;
}

void db_config_close(struct db_config *c)
{
    for (size_t i = 0; i < c->hosts_n; i++)
        heap_free(c->hosts[i].name);
    heap_free(c->hosts);
    c->hosts = NULL;
    c->hosts_n = 0;
    wipe_free(&c->socket);
    wipe_free(&c->user);
    wipe_free(&c->password);
    wipe_free(&c->database);
    wipe_free(&c->time_zone);
    wipe_free(&c->tls_ca);
    wipe_free(&c->tls_cert);
    wipe_free(&c->tls_key);
    c->tls = DB_TLS_NONE;
}

bool db_host_is_local(const struct db_host *h)
{
    return h->name == NULL || strcmp(h->name, "localhost") == 0;
}

bool db_config_is_socket(const struct db_config *c)
{
    bool local = c->socket != NULL;
    for (size_t i = 0; i < c->hosts_n; i++)
        local |= db_host_is_local(&c->hosts[i]);
    return local;
}

void db_host_text(const struct db_config *c, size_t host, char *out, size_t size)
{
    const struct db_host *h = &c->hosts[host];
    if (c->socket != NULL || db_host_is_local(h))
        snprintf(out, size, "%s", c->socket != NULL ? c->socket : "localhost");
    else
        snprintf(out, size, "%s:%u", h->name, h->port == 0 ? DEFAULT_PORT : h->port);
}

void db_config_set_password(struct db_config *c, struct slice password)
{
    wipe_free(&c->password);
    c->password = heap_strndup(password.p, password.n);
}

/* False: it cannot be decoded. */
static bool text_read(struct slice s, char **out)
{
    return s.p == NULL || (*out = percent_string(s)) != NULL;
}

static bool host_read(const struct url *u, struct db_config *c)
{
    int port = 0;
    if (u->port.p != NULL && !url_port(u->port, &port)) return false;
    c->hosts = heap_realloc(c->hosts, (c->hosts_n + 1) * sizeof *c->hosts);
    struct db_host *h = &c->hosts[c->hosts_n++];
    *h = (struct db_host){.port = (uint16_t)port};
    return u->host.n == 0 || text_read(u->host, &h->name);
}

static bool hosts_read(struct url *u, struct db_config *c)
{
    bool several = u->more.p != NULL, good = host_read(u, c) && !(several && c->socket != NULL);
    while (good && u->more.p != NULL)
        good = url_host_next(u) == NULL && host_read(u, c);
    for (size_t i = 0; several && i < c->hosts_n; i++)
        good &= c->hosts[i].name != NULL;
    return good;
}

static const char *url_read(struct slice text, struct db_config *c)
{
    const struct slice socket = SLICE("socket=");
    struct url u;
    const char *expected = url_split(text, &u);
    if (!slice_eq(u.scheme, SLICE("mysql"))) return "it does not begin with mysql://";
    if (u.query.p != NULL && (!slice_starts(u.query, socket) || u.query.n == socket.n ||
                              !text_read(slice_of(u.query.p + socket.n, u.query.n - socket.n), &c->socket)))
        return "after the question mark only socket=/path is known";
    if (u.path.n < 2 || memchr(u.path.p + 1, '/', u.path.n - 1) != NULL)
        return "the name of the database is expected after one slash";
    if (!text_read(slice_of(u.path.p + 1, u.path.n - 1), &c->database))
        return "the name of the database has a bad percent escape";
    if (!text_read(u.user, &c->user) || !text_read(u.password, &c->password))
        return "user or password has a bad percent escape";
    return expected == NULL && hosts_read(&u, c) ? NULL : "host or port is wrong";
}

enum err db_config_parse(struct slice url, struct db_config *c, struct error *e)
{
    const char *wrong = url_read(url, c);
    if (wrong == NULL) return ERR_NONE;
    db_config_close(c);
    return error_set(e, ERR_CONFIG,
                     "the MySQL URL is wrong: %s; write mysql://user@host:port/database or "
                     "mysql://user@localhost/database?socket=/path",
                     wrong);
}
