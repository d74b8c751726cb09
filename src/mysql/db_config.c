/* mysql/db_config.c - where MySQL is: the mysql:// URL and its parts. A URL may hold a password, so no error quotes
 * it. */
#include "base/heap.h"
#include "base/url.h"
#include "mysql/db.h"

#include <stddef.h>
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

/* The client libraries take it for their default socket */
static bool db_host_is_local(const struct db_host *h)
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
static bool part_copy(struct slice s, char **out)
{
    return s.p == NULL || (*out = percent_string(s)) != NULL;
}

static bool db_host_read(const struct url *u, struct db_config *c)
{
    int port = 0;
    if (u->port.p != NULL && !url_port(u->port, &port)) return false;
    c->hosts = heap_realloc(c->hosts, (c->hosts_n + 1) * sizeof *c->hosts);
    struct db_host *h = &c->hosts[c->hosts_n++];
    *h = (struct db_host){.port = (uint16_t)port};
    return u->host.n == 0 || part_copy(u->host, &h->name);
}

static bool hosts_read(struct url *u, struct db_config *c)
{
    bool several = u->more.p != NULL, good = db_host_read(u, c) && !(several && c->socket != NULL);
    while (good && u->more.p != NULL)
        good = url_host_next(u) == NULL && db_host_read(u, c);
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
                              !part_copy(slice_of(u.query.p + socket.n, u.query.n - socket.n), &c->socket)))
        return "after the question mark only socket=/path is known";
    if (u.path.n < 2 || memchr(u.path.p + 1, '/', u.path.n - 1) != NULL)
        return "the name of the database is expected after one slash";
    if (!part_copy(slice_of(u.path.p + 1, u.path.n - 1), &c->database))
        return "the name of the database has a bad percent escape";
    if (!part_copy(u.user, &c->user) || !part_copy(u.password, &c->password))
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

/* Numbers rather than the ER_ names, since each vendor's headers lack the other's codes. */

static const struct {
    unsigned first, last;
    enum code_class class;
} codes[] = {
    {0, 0, CODE_OK},
    {3, 3, CODE_WAIT},            /* error writing a file of its own: its disk is full (MySQL) */
    {20, 20, CODE_WAIT},          /* disk full, likewise */
    {1020, 1020, CODE_AGAIN},     /* record has changed since last read (MariaDB, snapshot isolation) */
    {1021, 1021, CODE_WAIT},      /* disk full (MariaDB) */
    {1030, 1030, CODE_WAIT},      /* error from the storage engine */
    {1036, 1036, CODE_AWAY},      /* table is read only: --innodb-read-only (MariaDB) */
    {1040, 1041, CODE_WAIT},      /* too many connections; server out of memory */
    {1047, 1047, CODE_AWAY},      /* this Galera node is not (yet) part of the cluster */
    {1048, 1048, CODE_POISON},    /* column cannot be null */
    {1053, 1053, CODE_LINK},      /* server shutdown in progress */
    {1062, 1062, CODE_DUPLICATE}, /* duplicate entry */
    {1105, 1105, CODE_FOREIGN},   /* unknown error: what a proxy says */
    {1114, 1114, CODE_WAIT},      /* table is full */
    {1153, 1153, CODE_SIZE},      /* packet bigger than max_allowed_packet */
    {1158, 1161, CODE_LINK},      /* network read, write and timeout errors */
    {1180, 1180, CODE_AGAIN},     /* error during COMMIT */
    {1197, 1197, CODE_SIZE},      /* transaction bigger than max_binlog_cache_size */
    {1203, 1203, CODE_WAIT},      /* too many connections of this user */
    {1205, 1206, CODE_AGAIN},     /* lock wait timeout; lock table full */
    {1213, 1213, CODE_AGAIN},     /* deadlock */
    {1226, 1226, CODE_WAIT},      /* resource limit of this user */
    {1264, 1264, CODE_POISON},    /* out of range for the column */
    {1267, 1267, CODE_POISON},    /* a text that the column's character set does not have */
    {1290, 1290, CODE_AWAY},      /* --read-only and its like */
    {1292, 1292, CODE_POISON},    /* truncated incorrect value */
    {1300, 1300, CODE_POISON},    /* a text that is not UTF-8 */
    {1317, 1317, CODE_AGAIN},     /* query interrupted (KILL QUERY) */
    {1366, 1366, CODE_POISON},    /* incorrect value for the column */
    {1406, 1406, CODE_POISON},    /* data too long */
    {1412, 1412, CODE_AGAIN},     /* table definition changed */
    {1452, 1452, CODE_POISON},    /* foreign key fails */
    {1526, 1526, CODE_POISON},    /* no partition for the value */
    {1614, 1615, CODE_AGAIN},     /* deferred rollback; prepared statement needs another prepare */
    {1644, 1644, CODE_POISON},    /* SIGNAL of a trigger */
    {1690, 1690, CODE_POISON},    /* n + VALUES(n) is out of range */
    {1792, 1792, CODE_AWAY},      /* read only transaction */
    {1836, 1836, CODE_AWAY},      /* read only mode */
    {1874, 1874, CODE_AWAY},      /* InnoDB is in read only mode */
    {1916, 1916, CODE_POISON},    /* a sum of rows does not fit (MariaDB) */
    {1927, 1927, CODE_LINK},      /* connection was killed (MariaDB) */
    {1969, 1969, CODE_AGAIN},     /* max_statement_time (MariaDB) */
    {2002, 2003, CODE_LINK},      /* cannot connect */
    {2005, 2005, CODE_WAIT},      /* unknown host: the resolver may come back */
    {2006, 2006, CODE_LINK},      /* server has gone away */
    {2008, 2008, CODE_WAIT},      /* client out of memory */
    {2012, 2014, CODE_LINK},      /* handshake cut; lost connection; commands out of sync */
    {2026, 2027, CODE_LINK},      /* TLS; malformed packet */
    {2055, 2055, CODE_LINK},      /* lost connection, extended */
    {3024, 3024, CODE_AGAIN},     /* max_execution_time (MySQL) */
    {3032, 3032, CODE_AWAY},      /* offline mode */
    {3100, 3100, CODE_WAIT},      /* replication hook refused */
    {3101, 3101, CODE_AGAIN},     /* transaction rolled back by the group */
    {3169, 3169, CODE_LINK},      /* session was killed (MySQL) */
    {3572, 3572, CODE_AGAIN},     /* NOWAIT */
    {3819, 3819, CODE_POISON},    /* CHECK (MySQL) */
    {4025, 4025, CODE_POISON},    /* CHECK (MariaDB) */
    {4031, 4031, CODE_LINK},      /* disconnected for inactivity (MySQL) */
    {8002, 8002, CODE_AGAIN},     /* TiDB: a locked row was written meanwhile */
    {8005, 8005, CODE_AGAIN},     /* TiDB: write conflict */
    {8022, 8022, CODE_AGAIN},     /* TiDB: COMMIT failed and was rolled back */
    {8028, 8028, CODE_AGAIN},     /* TiDB: the table was altered meanwhile */
    {9001, 9005, CODE_AWAY},      /* ProxySQL: no backend; TiDB: PD, TiKV or a region is away */
    {9007, 9007, CODE_AGAIN},     /* TiDB: write conflict */
};

enum code_class code_class(unsigned code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (code >= codes[i].first && code <= codes[i].last) return codes[i].class;
    return code < 1000 || code >= 9000 ? CODE_FOREIGN : CODE_OPERATOR;
}
