/* mysql/db_config.c - where MySQL is: the mysql:// URL and its parts. An URL may hold a password, so no error
 * quotes it. */
#include "mysql/db.h"

#include "base/heap.h"
#include "base/percent.h"
#include "base/url.h"

#include <stdio.h>
#include <string.h>

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
    wipe_free(&c->host);
    wipe_free(&c->socket);
    wipe_free(&c->user);
    wipe_free(&c->password);
    wipe_free(&c->database);
    wipe_free(&c->tls_ca);
    wipe_free(&c->tls_cert);
    wipe_free(&c->tls_key);
    c->tls = DB_TLS_NONE;
    c->port = 0;
}

/* The client libraries take "localhost" for their default socket. */
bool db_config_is_socket(const struct db_config *c)
{
    return c->socket != NULL || c->host == NULL || strcmp(c->host, "localhost") == 0;
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
    c->port = (uint16_t)port;
    return u->host.n == 0 || text_read(u->host, &c->host);
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
    return expected == NULL && host_read(&u, c) ? NULL : "host or port is wrong";
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
