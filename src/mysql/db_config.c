/* mysql/db_config.c - where MySQL is: the mysql:// URL and its parts. An URL may hold a password, so no error
 * quotes it. */
#include "mysql/db.h"

#include "base/heap.h"
#include "base/num.h"
#include "base/percent.h"

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
    return (*out = percent_string(s)) != NULL;
}

/* Cuts s at the first (or last) c: *head is what stands before it, s what stands behind. False: no c. */
static bool cut(struct slice *s, char c, bool last, struct slice *head)
{
    const char *at = s->n == 0 ? NULL : last ? memrchr(s->p, c, s->n) : memchr(s->p, c, s->n);
    if (at == NULL) return false;
    *head = slice_of(s->p, (size_t)(at - s->p));
    *s = slice_of(at + 1, s->n - head->n - 1);
    return true;
}

static bool parse_user(struct slice s, struct db_config *c)
{
    struct slice user = s;
    if (cut(&s, ':', false, &user) && !text_read(s, &c->password)) return false;
    return text_read(user, &c->user);
}

static bool parse_port(struct slice s, struct db_config *c)
{
    int64_t port;
    if (!num_parse(s, &port) || port < 1 || port > 65535) return false;
    c->port = (uint16_t)port;
    return true;
}

static bool parse_host(struct slice s, struct db_config *c)
{
    struct slice host = s;
    if (s.n > 0 && s.p[0] == '[') { /* [::1]:3306 */
        s = slice_of(s.p + 1, s.n - 1);
        if (!cut(&s, ']', false, &host)) return false;
        if (s.n > 0 && (s.p[0] != ':' || !parse_port(slice_of(s.p + 1, s.n - 1), c))) return false;
    } else if (cut(&s, ':', true, &host) && !parse_port(s, c)) {
        return false;
    }
    return host.n == 0 || text_read(host, &c->host);
}

static bool parse_options(struct slice s, struct db_config *c)
{
    const struct slice socket = SLICE("socket=");
    return slice_starts(s, socket) && s.n > socket.n &&
           text_read(slice_of(s.p + socket.n, s.n - socket.n), &c->socket);
}

static const char *parse(struct slice s, struct db_config *c)
{
    const struct slice scheme = SLICE("mysql://");
    if (!slice_starts(s, scheme)) return "it does not begin with mysql://";
    s = slice_of(s.p + scheme.n, s.n - scheme.n);
    struct slice head, path = s;
    if (cut(&path, '?', false, &head)) {
        if (!parse_options(path, c)) return "after the question mark only socket=/path is known";
        s = head;
    }
    if (!cut(&s, '/', false, &head) || s.n == 0 || memchr(s.p, '/', s.n) != NULL)
        return "the name of the database is expected after one slash";
    if (!text_read(s, &c->database)) return "the name of the database has a bad percent escape";
    s = head;
    if (cut(&s, '@', true, &head) && !parse_user(head, c)) return "user or password has a bad percent escape";
    return parse_host(s, c) ? NULL : "host or port is wrong";
}

enum err db_config_parse(struct slice url, struct db_config *c, struct error *e)
{
    const char *wrong = parse(url, c);
    if (wrong == NULL) return ERR_NONE;
    db_config_close(c);
    return error_set(e, ERR_CONFIG,
                     "the MySQL URL is wrong: %s; write mysql://user@host:port/database or "
                     "mysql://user@localhost/database?socket=/path",
                     wrong);
}
