/* mysql/db.c - the only file that holds a MYSQL *. MYSQL_OPT_RECONNECT is not touched: it is off by default
 * in both client libraries, and Oracle's prints a warning when it is set at all. */
#include "mysql/db.h"
#include "mysql/db_tls.h"

#include "base/heap.h"
#include "base/num.h"

#include <fcntl.h>
#include <mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct db {
    const struct db_config *config;
    MYSQL *mysql;      /* NULL: closed */
    MYSQL_RES *result; /* of the last db_query, NULL: none */
    bool open_failed;
    uint64_t opened, affected;
    unsigned code;
    char text[600];
    uint64_t packet_bytes;
    bool read_only, mariadb;
    char version[80];
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

struct db *db_create(const struct db_config *c)
{
    struct db *db = heap_zalloc(sizeof *db);
    db->config = c;
    db->cut_fd = -1;
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

/* What a person does about codes that do not explain themselves. */
static const char *advice(unsigned code)
{
    switch (code) {
    case 1044:
    case 1142:
    case 1143:
        return "; grant it to tallyd's user";
    case 1045:
    case 1698:
        return "; check user and password of the MySQL URL";
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

static enum code_class fail(struct db *db, unsigned code, const char *said)
{
    db->code = code;
    snprintf(db->text, sizeof db->text, "MySQL error %u: %s%s", code, said,
             code == 2026 ? db_tls_advice(said) : advice(code));
    return code_class(code);
}

/* The library's own error. On CODE_LINK the session is gone or in an unknown state, so it is closed. */
static enum code_class failed(struct db *db)
{
    unsigned code = mysql_errno(db->mysql);
    enum code_class class = fail(db, code == 0 ? 2000 : code, mysql_error(db->mysql));
    if (class == CODE_LINK) db_close(db);
    return class;
}

static void options_set(const struct db_config *c, MYSQL *mysql)
{
    unsigned connect_s = c->connect_timeout_s, read_s = c->read_timeout_s, write_s = c->write_timeout_s,
             no = 0;
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &read_s);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &write_s);
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no); /* else the server may ask for files of this machine */
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    db_tls_set(c, mysql);
}

static enum code_class connect_server(struct db *db)
{
    const struct db_config *c = db->config;
    db->mysql = mysql_init(NULL);
    if (db->mysql == NULL) return fail(db, 2008, "out of memory");
    options_set(c, db->mysql);
    const char *host =
        c->socket != NULL ? "localhost" : c->host; /* else the library looks for a pipe or TCP */
    if (mysql_real_connect(db->mysql, host, c->user, c->password, c->database, c->port, c->socket, 0) == NULL)
        return failed(db);
    if (c->tls != DB_TLS_NONE && !db_tls_is_on(db->mysql))
        return db_close(db), fail(db, 2026, "the connection has no TLS");
    cut_fd_set(db, fcntl((int)db->mysql->net.fd, F_DUPFD_CLOEXEC, 0));
    return CODE_OK;
}

static enum code_class session_set(struct db *db)
{
    struct buf sql = {0};
    buf_printf(&sql,
               "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',"
               " time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = %u, lock_wait_timeout = %u,"
               " wait_timeout = %u",
               (unsigned)db->config->lock_wait_s, (unsigned)db->config->lock_wait_s,
               (unsigned)db->config->idle_s);
    enum code_class class = db_exec_free(db, &sql);
    if (class != CODE_OK) return class;
    return DB_EXEC(db, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
}

static uint64_t cell_u64(struct slice cell)
{
    uint64_t v = 0;
    return cell.p != NULL && num_parse_u64(cell, &v) ? v : 0;
}

static enum code_class server_read(struct db *db)
{
    struct slice cells[4];
    enum code_class class =
        DB_QUERY(db, "SELECT @@max_allowed_packet, @@global.read_only, @@version, @@version_comment");
    if (class != CODE_OK) return class;
    if (!db_row(db, cells, 4)) return fail(db, 2000, "it does not tell its settings");
    db->packet_bytes = cell_u64(cells[0]);
    db->read_only = cell_u64(cells[1]) != 0;
    snprintf(db->version, sizeof db->version, SLICE_FMT, SLICE_ARG(cells[2]));
    db->mariadb = memmem(cells[2].p, cells[2].n, "MariaDB", 7) != NULL ||
                  (cells[3].p != NULL && memmem(cells[3].p, cells[3].n, "MariaDB", 7) != NULL);
    return CODE_OK;
}

enum db_dialect db_dialect_of(const char *version, bool mariadb)
{
    unsigned major = 0, minor = 0, patch = 0;
    sscanf(version, "%u.%u.%u", &major, &minor, &patch);
    bool alias = major > 8 || (major == 8 && (minor > 0 || patch >= 20));
    return !mariadb && alias ? DB_ROW_ALIAS : DB_VALUES;
}

/* PREPARE parses and runs nothing. A missing table is found behind the parser, so it says yes. */
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

static enum code_class session_begin(struct db *db)
{
    enum code_class class = connect_server(db);
    if (class == CODE_OK) class = session_set(db);
    if (class == CODE_OK) class = server_read(db);
    if (class != CODE_OK) return class;
    db->dialect = db_dialect_of(db->version, db->mariadb);
    /* Forks and proxies say what version they like. */
    if (db->dialect == DB_ROW_ALIAS && !db_probe_row_alias(db)) db->dialect = DB_VALUES;
    return db->mysql == NULL ? CODE_LINK : CODE_OK;
}

enum code_class db_open(struct db *db)
{
    db_close(db);
    db->open_failed = true;
    if (atomic_load(&db->interrupted)) return fail(db, 2006, "tallyd is stopping");
    enum code_class class = session_begin(db);
    if (class != CODE_OK) return db_close(db), class;
    db->opened++;
    db->open_failed = false;
    db->code = 0;
    return CODE_OK;
}

bool db_is_open(const struct db *db)
{
    return db->mysql != NULL;
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
        return fail(db, 2006, "the connection is closed");
    }
    return mysql_real_query(db->mysql, sql.p, (unsigned long)sql.n) == 0 ? CODE_OK : failed(db);
}

enum code_class db_exec(struct db *db, struct slice sql)
{
    enum code_class class = sql_send(db, sql);
    if (class != CODE_OK) return class;
    if (mysql_field_count(db->mysql) > 0) { /* a result nobody asked for must still be read off the wire */
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
    if (db->result == NULL && mysql_errno(db->mysql) != 0) return failed(db);
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
