/* mysql/db.c - the only file that holds a MYSQL *. It does not set MYSQL_OPT_RECONNECT: that is off by default in both
 * client libraries, and Oracle's prints a warning when it is set at all. */
#include "mysql/db.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"

#include <fcntl.h>
#include <mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* TLS by whichever client library this is. Off unless mysql.tls.use is on: what libraries call
 * "preferred" encrypts and proves nothing, and requiring TLS by default would break connections that work. On means
 * verified. */
static void db_tls_set(const struct db_config *c, MYSQL *mysql); /* before it connects */
const char *db_tls_advice(const char *said); /* what a person does about an error 2026 of this text */

struct db {
    const struct db_config *config;
    MYSQL *mysql;      /* NULL: closed */
    MYSQL_RES *result; /* of the last db_query, NULL: none */
    bool open_failed, left;
    uint64_t opened, affected;
    unsigned code;
    char text[600];
    uint64_t packet_bytes;
    bool read_only, mariadb;
    char version[80], server[240];
    char look[300];      /* the SQL that asks whether it takes writes */
    int preferred, host; /* of the config's; preferred -1: none is */
    char known[240];     /* db_server() of the preferred one; empty: any will do */
    bool elsewhere;      /* the last open found another */
    enum db_dialect dialect;
    pthread_mutex_t cut_lock; /* guards cut_fd */
    int cut_fd; /* a duplicate of the connection's socket for db_interrupt; the library closes only its own */
    atomic_bool interrupted; /* for good */
};

void db_library_init(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (mysql_library_init(0, NULL, NULL) != 0) {
        fputs("tallyd: the MySQL client library does not start\n", stderr);
        exit(1);
    }
}

void db_thread_begin(void)
{
    mysql_thread_init();
}

void db_thread_end(void)
{
    mysql_thread_end();
}

bool db_thread_stops(pthread_mutex_t *lock, pthread_cond_t *changed, const bool *stopping, uint64_t ms)
{
    uint64_t until_ms = mono_ms() + ms;
    struct timespec until = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
    pthread_mutex_lock(lock);
    int over = 0;
    while (!*stopping && over == 0)
        over = pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
    bool stops = *stopping;
    pthread_mutex_unlock(lock);
    return stops;
}

struct db *db_create(const struct db_config *c)
{
    struct db *db = heap_zalloc(sizeof *db);
    db->config = c;
    db->cut_fd = db->preferred = -1;
    pthread_mutex_init(&db->cut_lock, NULL);
    return db;
}

void db_destroy(struct db **db)
{
    if (*db == NULL) return;
    db_close(*db);
    pthread_mutex_destroy(&(*db)->cut_lock);
    heap_free(*db);
    *db = NULL;
}

static void result_free(struct db *db)
{
    if (db->result != NULL) mysql_free_result(db->result);
    db->result = NULL;
}

static void cut_fd_set(struct db *db, int fd)
{
    pthread_mutex_lock(&db->cut_lock);
    if (db->cut_fd >= 0) close(db->cut_fd);
    db->cut_fd = fd;
    pthread_mutex_unlock(&db->cut_lock);
}

void db_close(struct db *db)
{
    result_free(db);
    if (db->mysql != NULL) mysql_close(db->mysql);
    db->mysql = NULL;
    cut_fd_set(db, -1);
}

void db_interrupt(struct db *db)
{
    atomic_store(&db->interrupted, true);
    pthread_mutex_lock(&db->cut_lock);
    if (db->cut_fd >= 0) shutdown(db->cut_fd, SHUT_RDWR);
    pthread_mutex_unlock(&db->cut_lock);
}

/* What an operator can do about codes that do not explain themselves. */
static const char *advice(unsigned code)
{
    switch (code) {
    case 1044:
    case 1142:
    case 1143:
        return "; grant it to tallyd's user";
    case 1045:
    case 1698:
        return "; check the user of mysql.url, and mysql.password_file";
    case 1049:
        return "; create the database, then run tallyd migrate";
    case 1054:
    case 1146:
        return "; run tallyd check, it says what mends it";
    case 1153:
        return "; raise max_allowed_packet";
    case 1290:
    case 1836:
        return "; the server is read-only: is this the primary?";
    case 1047:
        return "; this node is not part of its Galera cluster";
    case 3:
    case 20:
    case 1021:
    case 1114:
        return "; make room on MySQL's disk";
    case 2002:
    case 2003:
    case 2005:
        return "; is MySQL running, and is the URL right?";
    default:
        return "";
    }
}

static enum code_class db_fail(struct db *db, unsigned code, const char *said)
{
    db->code = code;
    snprintf(db->text, sizeof db->text, "MySQL error %u: %s%s", code, said,
             code == 2026 ? db_tls_advice(said) : advice(code));
    return code_class(code);
}

/* The library's own error. On CODE_LINK the session is gone or in an unknown state, on CODE_AWAY of no use: closed. */
static enum code_class db_failed(struct db *db)
{
    unsigned code = mysql_errno(db->mysql);
    enum code_class class = db_fail(db, code == 0 ? 2000 : code, mysql_error(db->mysql));
    if (class == CODE_LINK || class == CODE_AWAY) db_close(db);
    db->left = class == CODE_AWAY;
    return class;
}

static enum code_class connect_server(struct db *db)
{
    const struct db_config *c = db->config;
    const struct db_host *h = &c->hosts[db->host];
    db->mysql = mysql_init(NULL);
    if (db->mysql == NULL) return db_fail(db, 2008, "out of memory");
    MYSQL *mysql = db->mysql;
    unsigned connect_s = c->connect_timeout_s, read_s = c->read_timeout_s, write_s = c->write_timeout_s,
             no = 0;
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &read_s);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &write_s);
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no); /* else the server may ask for files of this machine */
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    db_tls_set(c, mysql);
    const char *host =
        c->socket != NULL ? "localhost" : h->name; /* else the library looks for a pipe or TCP */
    if (mysql_real_connect(db->mysql, host, c->user, c->password, c->database, h->port, c->socket, 0) == NULL)
        return db_failed(db);
    if (c->tls != DB_TLS_NONE && mysql_get_ssl_cipher(db->mysql) == NULL)
        return db_close(db), db_fail(db, 2026, "the connection has no TLS");
    cut_fd_set(db, fcntl((int)db->mysql->net.fd, F_DUPFD_CLOEXEC, 0));
    return CODE_OK;
}

/* The time zone is for what the shop's columns hold: tallyd's own times are UTC_TIMESTAMP. */
static enum code_class session_set(struct db *db)
{
    struct buf sql = {0};
    const char *zone = db->config->time_zone;
    buf_printf(&sql,
               "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,"
               "NO_AUTO_VALUE_ON_ZERO',"
               " time_zone = %s%s%s, autocommit = 1, innodb_lock_wait_timeout = %u, lock_wait_timeout = %u,"
               " wait_timeout = %u",
               zone == NULL ? "" : "'", zone == NULL ? "@@GLOBAL.time_zone" : zone, zone == NULL ? "" : "'",
               (unsigned)db->config->lock_wait_s, (unsigned)db->config->lock_wait_s,
               (unsigned)db->config->idle_s);
    enum code_class class = db_exec_free(db, &sql);
    if (class != CODE_OK) return class;
    return DB_EXEC(db, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
}

static enum code_class server_read(struct db *db)
{
    struct slice cells[3];
    enum code_class class = DB_QUERY(db, "SELECT @@max_allowed_packet, @@version, @@version_comment");
    if (class != CODE_OK) return class;
    if (!db_row(db, cells, 3)) return db_fail(db, 2000, "it does not show its settings");
    uint64_t v = 0;
    db->packet_bytes = cells[0].p != NULL && num_parse_u64(cells[0], &v) ? v : 0;
    snprintf(db->version, sizeof db->version, SLICE_FMT, SLICE_ARG(cells[1]));
    db->mariadb = memmem(cells[1].p, cells[1].n, "MariaDB", 7) != NULL ||
                  (cells[2].p != NULL && memmem(cells[2].p, cells[2].n, "MariaDB", 7) != NULL);
    return CODE_OK;
}

/* What the server that gets the writes calls itself. */
static enum code_class server_name(struct db *db)
{
    char host[120];
    struct slice cells[2];
    enum code_class class = DB_QUERY(db, "SELECT @@global.hostname, @@global.port FOR UPDATE");
    if (class != CODE_OK) return class;
    if (!db_row(db, cells, 2)) return db_fail(db, 2000, "it does not show its settings");
    db_host_text(db->config, (size_t)db->host, host, sizeof host);
    snprintf(db->server, sizeof db->server, "%s (" SLICE_FMT ":" SLICE_FMT ")", host, SLICE_ARG(cells[0]),
             SLICE_ARG(cells[1]));
    return CODE_OK;
}

/* What only some servers have. */
static enum code_class variables_read(struct db *db)
{
    bool innodb = false, galera = false;
    enum code_class class =
        DB_QUERY(db, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_read_only', 'wsrep_on')");
    for (struct slice cells[2]; class == CODE_OK && db_row(db, cells, 2);) {
        innodb |= slice_ieq(cells[0], SLICE("innodb_read_only"));
        galera |= slice_ieq(cells[0], SLICE("wsrep_on")) && slice_ieq(cells[1], SLICE("ON"));
    }
    static const char wsrep[] =
        "(SELECT VARIABLE_VALUE FROM %s.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_ready')";
    char ready[sizeof wsrep + 20] = "'ON'";
    if (galera && db->mariadb) snprintf(ready, sizeof ready, wsrep, "information_schema");
    if (galera && !db->mariadb) snprintf(ready, sizeof ready, wsrep, "performance_schema");
    /* FOR UPDATE: a proxy that splits reads from writes then asks the server that gets the writes. */
    snprintf(db->look, sizeof db->look, "SELECT @@global.read_only, %s, %s FOR UPDATE",
             innodb ? "@@global.innodb_read_only" : "0", ready);
    return class;
}

static bool is_off(struct slice cell)
{
    return cell.p == NULL || slice_eq(cell, SLICE("0")) || slice_ieq(cell, SLICE("OFF"));
}

static enum code_class look(struct db *db)
{
    struct slice cells[3];
    enum code_class class = db_query(db, slice_str(db->look));
    if (class != CODE_OK) return class;
    if (!db_row(db, cells, 3)) return db_fail(db, 2000, "it does not show its settings");
    const char *why = !is_off(cells[0])   ? "read_only is on"
                      : !is_off(cells[1]) ? "innodb_read_only is on"
                      : is_off(cells[2])  ? "this node is not part of its Galera cluster"
                                          : NULL;
    db->read_only = why != NULL;
    if (why == NULL) return CODE_OK;
    db->code = 1290;
    snprintf(db->text, sizeof db->text, "%s takes no writes: %s", db->server, why);
    return CODE_AWAY;
}

enum code_class db_look(struct db *db)
{
    enum code_class class = look(db);
    if (class == CODE_AWAY) db_close(db);
    db->left = class == CODE_AWAY;
    return class;
}

enum db_dialect db_dialect_of(const char *version, bool mariadb)
{
    unsigned major = 0, minor = 0, patch = 0;
    sscanf(version, "%u.%u.%u", &major, &minor, &patch);
    bool alias = major > 8 || (major == 8 && (minor > 0 || patch >= 20));
    return !mariadb && alias ? DB_ROW_ALIAS : DB_VALUES;
}

/* PREPARE parses and runs nothing. A missing table is found after parsing, so that error means yes. */
bool db_probe_row_alias(struct db *db)
{
    enum code_class class = DB_EXEC(
        db,
        "PREPARE tallyd_probe FROM 'INSERT INTO tally_schema (version, applied_at) VALUES (0, NOW()) AS fresh"
        " ON DUPLICATE KEY UPDATE applied_at = fresh.applied_at'");
    unsigned code = db->code;
    if (class == CODE_OK) class = DB_EXEC(db, "DEALLOCATE PREPARE tallyd_probe");
    return class == CODE_OK || code == 1146;
}

/* CODE_AWAY with the session open: all is well, except that it takes no writes. */
static enum code_class db_session_begin(struct db *db, int host)
{
    db->host = host;
    enum code_class class = connect_server(db);
    if (class == CODE_OK) class = session_set(db);
    if (class == CODE_OK) class = server_read(db);
    if (class == CODE_OK) class = server_name(db);
    if (class == CODE_OK) class = variables_read(db);
    if (class != CODE_OK) return class;
    db->dialect = db_dialect_of(db->version, db->mariadb);
    /* Forks and proxies may report any version. */
    if (db->dialect == DB_ROW_ALIAS && !db_probe_row_alias(db)) db->dialect = DB_VALUES;
    return db->mysql == NULL ? CODE_LINK : look(db);
}

/* Tries the preferred host first, then all in their order. */
static int host_at(const struct db *db, int i)
{
    if (db->preferred < 0) return i;
    return i == 0 ? db->preferred : i <= db->preferred ? i - 1 : i;
}

static enum code_class hosts_try(struct db *db)
{
    struct buf said = {0};
    char host[120];
    unsigned code = 0;
    int standby = -1;
    for (int i = 0; i < (int)db->config->hosts_n; i++) {
        enum code_class class = db_session_begin(db, host_at(db, i));
        if (class == CODE_OK) return buf_free(&said), CODE_OK;
        if (class == CODE_AWAY && db->mysql != NULL && standby < 0) standby = db->host;
        db_close(db);
        db_host_text(db->config, (size_t)db->host, host, sizeof host);
        if (i > 0) BUF_LIT(&said, "; ");
        if (class != CODE_AWAY && db->config->hosts_n > 1) buf_printf(&said, "%s: ", host);
        buf_put_slice(&said, slice_str(db->text));
        if (i == 0 || class != CODE_OPERATOR) code = db->code;
    }
    /* Why no host could be used. The code is one that may pass, if any is. */
    PRE(said.p != NULL); /* there are hosts */
    bool one = db->config->hosts_n == 1;
    db->code = code;
    if (one && code_class(code) == CODE_AWAY)
        buf_printf(&said, "; name the primary in mysql.url, or all: mysql://user@host1,host2/database");
    snprintf(db->text, sizeof db->text, "%s" SLICE_FMT,
             one ? "" : "no host of mysql.url takes writes: ", SLICE_ARG(buf_slice(&said)));
    enum code_class class = code_class(code);
    buf_free(&said);
    if (standby < 0 || !db->config->reads) return class;
    class = db_session_begin(db, standby);
    return class == CODE_AWAY && db->mysql != NULL ? CODE_OK : class;
}

enum code_class db_open(struct db *db)
{
    db_close(db);
    db->open_failed = true;
    if (atomic_load(&db->interrupted)) return db_fail(db, 2006, "tallyd is stopping");
    enum code_class class = hosts_try(db);
    if (class != CODE_OK) return db_close(db), class;
    db->opened++;
    db->open_failed = db->left = false;
    db->elsewhere = db->known[0] != '\0' && strcmp(db->known, db->server) != 0;
    db->code = 0;
    return CODE_OK;
}

void db_prefer(struct db *db, int host, const char *server, bool any)
{
    db->preferred = host;
    snprintf(db->known, sizeof db->known, "%s", any ? "" : server);
    if (strcmp(server, db->server) == 0) db->elsewhere = false;
}

int db_host(const struct db *db)
{
    return db->host;
}

bool db_moved(const struct db *db)
{
    return db->preferred >= 0 && (db->preferred != db->host || db->elsewhere);
}

const char *db_server(const struct db *db)
{
    return db->server;
}

bool db_is_open(const struct db *db)
{
    return db->mysql != NULL;
}

bool db_left(const struct db *db)
{
    return db->left;
}

bool db_open_failed(const struct db *db)
{
    return db->open_failed;
}

uint64_t db_opened(const struct db *db)
{
    return db->opened;
}

uint64_t db_affected(const struct db *db)
{
    return db->affected;
}

static enum code_class sql_send(struct db *db, struct slice sql)
{
    result_free(db);
    db->code = 0;
    if (db->mysql == NULL || atomic_load(&db->interrupted)) {
        db_close(db);
        return db_fail(db, 2006, "the connection is closed");
    }
    return mysql_real_query(db->mysql, sql.p, (unsigned long)sql.n) == 0 ? CODE_OK : db_failed(db);
}

enum code_class db_exec(struct db *db, struct slice sql)
{
    enum code_class class = sql_send(db, sql);
    if (class != CODE_OK) return class;
    if (mysql_field_count(db->mysql) > 0) { /* an unexpected result must still be read off the wire */
        db->result = mysql_store_result(db->mysql);
        result_free(db);
    }
    db->affected = (uint64_t)mysql_affected_rows(db->mysql);
    return CODE_OK;
}

enum code_class db_query(struct db *db, struct slice sql)
{
    enum code_class class = sql_send(db, sql);
    if (class != CODE_OK) return class;
    db->result = mysql_store_result(db->mysql);
    if (db->result == NULL && mysql_errno(db->mysql) != 0) return db_failed(db);
    return CODE_OK;
}

bool db_row(struct db *db, struct slice *cells, unsigned cells_n)
{
    if (db->result == NULL) return false;
    PRE(mysql_num_fields(db->result) == cells_n);
    MYSQL_ROW row = mysql_fetch_row(db->result);
    if (row == NULL) return false;
    const unsigned long *lengths = mysql_fetch_lengths(db->result);
    for (unsigned i = 0; i < cells_n; i++)
        cells[i] = slice_of(row[i], row[i] == NULL ? 0 : (size_t)lengths[i]);
    return true;
}

unsigned db_code(const struct db *db)
{
    return db->code;
}

const char *db_text(const struct db *db)
{
    return db->text;
}

enum err db_error(const struct db *db, struct error *e)
{
    switch (code_class(db->code)) {
    case CODE_OK:
        return ERR_NONE;
    case CODE_LINK:
    case CODE_WAIT:
    case CODE_AWAY:
    case CODE_FOREIGN:
        return error_set(e, ERR_UNAVAILABLE, "%s", db->text);
    case CODE_OPERATOR:
        return error_set(e, ERR_CONFIG, "%s", db->text);
    case CODE_AGAIN:
    case CODE_DUPLICATE:
    case CODE_POISON:
    case CODE_SIZE:
        break;
    }
    return error_set(e, ERR_FAILED, "%s", db->text);
}

unsigned long db_thread_id(const struct db *db)
{
    return mysql_thread_id(db->mysql);
}

uint64_t db_packet_bytes(const struct db *db)
{
    return db->packet_bytes;
}

bool db_read_only(const struct db *db)
{
    return db->read_only;
}

bool db_is_mariadb(const struct db *db)
{
    return db->mariadb;
}

const char *db_version(const struct db *db)
{
    return db->version;
}

enum db_dialect db_dialect(const struct db *db)
{
    return db->dialect;
}

const struct db_config *db_config(const struct db *db)
{
    return db->config;
}

/* Oracle's library has MYSQL_OPT_SSL_MODE, Connector/C has two options instead. With either, a server without TLS gets
 * no connection, never a plain one. */

static void db_tls_set(const struct db_config *c, MYSQL *mysql)
{
#ifdef MARIADB_PACKAGE_VERSION_ID
    my_bool on = 1, verify = c->tls == DB_TLS_VERIFIED;
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify); /* always: 3.4 would begin with on */
#endif
    if (c->tls == DB_TLS_NONE) return;
    if (c->tls_ca != NULL) mysql_options(mysql, MYSQL_OPT_SSL_CA, c->tls_ca);
    if (c->tls_cert != NULL) mysql_options(mysql, MYSQL_OPT_SSL_CERT, c->tls_cert);
    if (c->tls_key != NULL) mysql_options(mysql, MYSQL_OPT_SSL_KEY, c->tls_key);
    mysql_options(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
#ifdef MARIADB_PACKAGE_VERSION_ID
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
#else
    unsigned mode = c->tls == DB_TLS_VERIFIED ? SSL_MODE_VERIFY_IDENTITY : SSL_MODE_REQUIRED;
    mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
#endif
}

/* The first text is all that Connector/C says about a wrong name, the second is Oracle's. Texts of OpenSSL below them
 * are passed on. */
const char *db_tls_advice(const char *said)
{
    if (strstr(said, "Validation of SSL server certificate failed") != NULL ||
        strstr(said, "matching functions") != NULL || strstr(said, "hostname mismatch") != NULL ||
        strstr(said, "Hostname verification") != NULL || strstr(said, "IP address mismatch") != NULL)
        return ": its certificate does not name the host of mysql.url; connect by a name that it has, or get "
               "a certificate for this name";
    if (strstr(said, " alert ") != NULL)
        return ": MySQL refused tallyd's certificate; check mysql.tls.cert and MySQL's ssl_ca";
    if (strstr(said, "expired") != NULL) return "; renew MySQL's certificate";
    if (strstr(said, "support it") != NULL || strstr(said, "no TLS") != NULL)
        return "; give MySQL a certificate (ssl_cert, ssl_key), or leave mysql.tls out";
    if (strstr(said, "certificate verify failed") != NULL)
        return "; either mysql.tls.ca is not the authority of MySQL's certificate, or that certificate has "
               "expired, or it does not name the host of mysql.url";
    if (strstr(said, "certificate") != NULL)
        return "; name the file of the authority that signed MySQL's certificate in mysql.tls.ca";
    return "; check which TLS versions MySQL accepts: tallyd needs 1.2 or 1.3";
}
