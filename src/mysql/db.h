/* mysql/db.h - one blocking connection, with the session that tallyd needs: strict, UTC, READ COMMITTED, short lock waits.
 * One thread at a time. It never reconnects by itself: that would autocommit the second half of a transaction. After
 * CODE_LINK and CODE_AWAY the connection is closed, and the caller decides whether db_open() comes next. */
#ifndef MYSQL_DB_H
#define MYSQL_DB_H

#include "base/log.h"
#include "base/slice.h"

#include <pthread.h>
#include <stdbool.h>

/* What a MySQL error code means for a merge: one table, code -> class. The codes of both servers and of both client
 * libraries share one number space (1000-1999 and 3000-4999 server, 2000-2999 client). 8000-9999 are TiDB's, 9001-9006
 * ProxySQL's too. */

enum code_class {
    CODE_OK,    /* 0 */
    CODE_AGAIN, /* ROLLBACK, then the whole transaction again, ledger row first */
    CODE_LINK,  /* the connection is lost; a COMMIT under way is in doubt: the ledger row decides */
    CODE_WAIT,  /* the server cannot take writes now: keep everything, back off */
    CODE_AWAY, /* writes belong to another server, or will: leave this one, look for the one that takes them */
    CODE_DUPLICATE, /* 1062: on the ledger row: this chunk is merged already; anywhere else our bug */
    CODE_POISON,    /* this row's value will never fit: bisect to it */
    CODE_SIZE,      /* the statement is too big: halve it */
    CODE_OPERATOR, /* schema, rights or our SQL: a person must look. Also each from 1000 to 8999 that no class names. */
    CODE_FOREIGN, /* of a proxy or a trigger, unknown: passes as CODE_AGAIN does, or one row is refused for it */
};

enum code_class code_class(unsigned code);
/* May another row have another answer? Only one row alone tells. */
static inline bool code_refuses(enum code_class class)
{
    return class == CODE_POISON || class == CODE_OPERATOR || class == CODE_DUPLICATE || class == CODE_FOREIGN;
}

enum db_tls {
    DB_TLS_NONE,
    DB_TLS_VERIFIED, /* TLS or no connection; chain and name must be right */
    DB_TLS_ANYBODY,  /* TLS or no connection; nothing is verified */
};

struct db_host {
    char *name;    /* NULL: localhost */
    uint16_t port; /* 0: the client library's default */
};

/* All strings are heap memory of the config, NULL when not given; db_config_close frees them. */
struct db_config {
    struct db_host *hosts; /* a connection is to the first that takes writes */
    size_t hosts_n;        /* 1 or more */
    bool reads;            /* where none takes writes, to the first that answers */
    char *socket;          /* path, of one host; goes before its name and port */
    char *user, *password, *database;
    char *time_zone; /* of [A-Za-z0-9_/+:-]; NULL: the server's */
    enum db_tls tls;
    /* PEM files, read at each connect; cert and key together or not at all */
    char *tls_ca, *tls_cert, *tls_key;
    uint32_t connect_timeout_s, read_timeout_s, write_timeout_s; /* 3, 10, 10: what a hung server costs */
    /* innodb_lock_wait_timeout, 3; below read_timeout_s, or lock waits look like lost links */
    uint32_t lock_wait_s;
    uint32_t idle_s; /* wait_timeout, 60: a half-open session keeps its row locks that long */
};

void db_config_init(struct db_config *c); /* nothing given, default times */
/* mysql://[user[:password]@][host[:port][,host[:port]...]]/database[?socket=/path], each part percent-decoded. The
 * config is empty (init) before the call; on an error it is empty again, and e->text quotes nothing that may be a
 * password. */
enum err db_config_parse(struct slice url, struct db_config *c, struct error *e) MUST_CHECK;
void db_config_set_password(struct db_config *c, struct slice password); /* from a file or the environment */
bool db_config_is_socket(const struct db_config *c);                     /* a host is reached without TCP */
void db_host_text(const struct db_config *c, size_t host, char *out,
                  size_t size);            /* "db1:3306", or the socket */
void db_config_close(struct db_config *c); /* wipes the password */

/* How the upsert names the new row: MySQL from 8.0.20 warns about VALUES(), MariaDB does not know the row alias. */
enum db_dialect { DB_VALUES, DB_ROW_ALIAS };

struct db;
struct db *db_create(const struct db_config *c); /* borrows c for life */
void db_destroy(struct db **db);

/* Connects, sets the session, reads the server's limits, and checks that it takes writes; else CODE_AWAY. Names are
 * resolved again each time. */
enum code_class db_open(struct db *db) MUST_CHECK;
bool db_is_open(const struct db *db);
bool db_open_failed(const struct db *db); /* the last thing tried was to connect, in vain */
void db_close(struct db *db);
/* How often db_open succeeded: caches of the server's state are good for one. */
uint64_t db_opened(const struct db *db);
/* Asks the server of an open connection whether it still takes writes. CODE_AWAY: no; the connection is closed. */
enum code_class db_look(struct db *db) MUST_CHECK;
bool db_left(const struct db *db); /* the connection was closed by a CODE_AWAY */
/* For several users of one server: db_open begins with this host of the config. -1, as from the start: with the
 * first. server: what db_server() said there; any: another one behind the same host will do. */
void db_prefer(struct db *db, int host, const char *server, bool any);
int db_host(const struct db *db);           /* of the connection, or of the last */
bool db_moved(const struct db *db);         /* db_open found another host or server than the preferred one */
const char *db_server(const struct db *db); /* "db1:3306 (name:port, as the server itself says)" */

/* One statement without a result. Any CODE_LINK or CODE_AWAY closes the connection. */
enum code_class db_exec(struct db *db, struct slice sql) MUST_CHECK;
uint64_t db_affected(const struct db *db); /* rows of the last db_exec */

/* One statement with a result, which is read whole; db_row walks its rows until it returns false or until the next call
 * on db. A NULL cell is a slice with p = NULL. */
enum code_class db_query(struct db *db, struct slice sql) MUST_CHECK;
bool db_row(struct db *db, struct slice *cells, unsigned cells_n); /* cells_n: the columns asked for */

/* The same with a text that they free. */
static inline enum code_class db_exec_free(struct db *db, struct buf *sql)
{
    enum code_class class = db_exec(db, buf_slice(sql));
    buf_free(sql);
    return class;
}
static inline enum code_class db_query_free(struct db *db, struct buf *sql)
{
    enum code_class class = db_query(db, buf_slice(sql));
    buf_free(sql);
    return class;
}
#define DB_EXEC(db, literal) db_exec((db), SLICE(literal))
#define DB_QUERY(db, literal) db_query((db), SLICE(literal))

/* Of the last call. The text is the server's or the library's, with what to do next; never a secret. */
unsigned db_code(const struct db *db);
const char *db_text(const struct db *db);
/* The same as an error: ERR_UNAVAILABLE for CODE_LINK, CODE_WAIT and CODE_AWAY, ERR_CONFIG for CODE_OPERATOR, else
 * ERR_FAILED. */
enum err db_error(const struct db *db, struct error *e);

/* Of the connected server, read by db_open. */
unsigned long db_thread_id(const struct db *db); /* of an open connection, there */
uint64_t db_packet_bytes(const struct db *db);   /* max_allowed_packet of this session */
bool db_read_only(const struct db *db);
bool db_is_mariadb(const struct db *db);
const char *db_version(const struct db *db);
enum db_dialect db_dialect(const struct db *db);
const struct db_config *db_config(const struct db *db);

enum db_dialect db_dialect_of(const char *version, bool mariadb); /* by version alone */
bool db_probe_row_alias(struct db *db); /* does the server parse it? Writes nothing. */

/* The one call for other threads: whatever blocks in db now fails with CODE_LINK. A connect under way still takes its
 * own timeout. */
void db_interrupt(struct db *db);

void db_library_init(void); /* once, before any thread uses a db; SIGPIPE is ignored from here on */
void db_thread_begin(void); /* first and last thing of a thread that uses a db, other than the main thread */
void db_thread_end(void);
/* Waits for ms, or until *stopping is set, which lock guards and changed tells; returns it. */
bool db_thread_stops(pthread_mutex_t *lock, pthread_cond_t *changed, const bool *stopping, uint64_t ms);

#endif
