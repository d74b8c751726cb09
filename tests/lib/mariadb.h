/* lib/mariadb.h - a private mariadbd on a unix socket in a fresh directory, with an empty database `shop`,
 * ended with the test. Header only: a test is one program. What a test asks of it goes over a struct db of
 * its own. */
#ifndef LIB_MARIADB_H
#define LIB_MARIADB_H

#include "base/clock.h"
#include "base/slice.h"
#include "mysql/db.h"
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct mariadb {
    char dir[64], socket[80];
    pid_t pid;               /* 0: not running */
    const char *args[8];     /* more options, NULL at the end; set before start or back */
    struct db_config config; /* of the database shop; a test may lower its times before it makes a db of it */
    struct db_config own;
    struct db *db;      /* the test's own connection */
    char text[1 << 16]; /* what mariadb_ask answers */
};

static inline const char *mariadb_user(void)
{
    struct passwd *p = getpwuid(getuid());
    return p != NULL ? p->pw_name : "root";
}

/* A copy of what TALLYD_MARIADB names, if that is given: it costs a tenth of making one. */
static inline void mariadb_install(struct mariadb *m)
{
    char command[600];
    const char *made = getenv("TALLYD_MARIADB");
    snprintf(m->dir, sizeof m->dir, "/tmp/tallyd-mariadb-XXXXXX");
    if (mkdtemp(m->dir) == NULL) abort();
    snprintf(m->socket, sizeof m->socket, "%s/s", m->dir);
    if (made != NULL)
        snprintf(command, sizeof command, "cp -r --sparse=always '%s' %s/data", made, m->dir);
    else
        snprintf(command, sizeof command,
                 "TMPDIR=%s mariadb-install-db --no-defaults --force --datadir=%s/data --user=%s "
                 "--auth-root-authentication-method=normal"
                 " --skip-test-db --innodb-log-file-size=8M > %s/install.log 2>&1",
                 m->dir, m->dir, mariadb_user(), m->dir);
    if (system(command) != 0) abort();
}

/* nosync: the operating system lives on when a test kills the server, so nothing is lost by it. */
static inline void mariadb_exec(struct mariadb *m)
{
    char data[100], socket[100], user[100], log[100], tmp[100];
    snprintf(data, sizeof data, "--datadir=%s/data", m->dir);
    snprintf(socket, sizeof socket, "--socket=%s", m->socket);
    snprintf(user, sizeof user, "--user=%s", mariadb_user());
    snprintf(log, sizeof log, "--log-error=%s/log", m->dir);
    snprintf(tmp, sizeof tmp, "--tmpdir=%s", m->dir);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes leaves no server */
    if (freopen("/dev/null", "w", stderr) == NULL) _exit(126);
    const char *args[32] = {"mariadbd",
                            "--no-defaults",
                            data,
                            socket,
                            user,
                            log,
                            tmp,
                            "--skip-networking",
                            "--innodb-flush-method=nosync",
                            "--innodb-log-file-size=8M",
                            "--innodb-buffer-pool-size=32M"};
    for (int n = 11, i = 0; m->args[i] != NULL; i++)
        args[n++] = m->args[i];
    execvp(args[0], (char *const *)(void *)args);
    _exit(127);
}

/* Starts it (again, over the same files) and waits until it answers. */
static inline void mariadb_run(struct mariadb *m)
{
    uint64_t until_ms = mono_ms() + 60000;
    fflush(NULL);
    m->pid = fork();
    if (m->pid < 0) abort();
    if (m->pid == 0) mariadb_exec(m);
    while (db_open(m->db) != CODE_OK) {
        if (mono_ms() > until_ms || waitpid(m->pid, NULL, WNOHANG) != 0) abort();
        usleep(20000);
    }
}

static inline void mariadb_config(struct mariadb *m, const char *database, struct db_config *out)
{
    char url[200];
    struct error e;
    db_config_init(out);
    snprintf(url, sizeof url, "mysql://root@localhost/%s?socket=%s", database, m->socket);
    if (db_config_parse(slice_str(url), out, &e) != ERR_NONE) abort();
}

static inline void mariadb_start(struct mariadb *m)
{
    db_library_init();
    mariadb_install(m);
    mariadb_config(m, "mysql", &m->own);
    m->own.idle_s = 28800;
    m->own.read_timeout_s = 60;
    m->db = db_create(&m->own);
    mariadb_run(m);
    if (DB_EXEC(m->db, "CREATE DATABASE shop CHARACTER SET utf8mb4") != CODE_OK) abort();
    if (DB_EXEC(m->db, "USE shop") != CODE_OK) abort();
    mariadb_config(m, "shop", &m->config);
}

static inline void mariadb_kill(struct mariadb *m)
{
    if (m->pid == 0) return;
    db_close(m->db);
    kill(m->pid, SIGKILL);
    waitpid(m->pid, NULL, 0);
    m->pid = 0;
}

static inline void mariadb_back(struct mariadb *m) /* after mariadb_kill */
{
    mariadb_run(m);
    if (DB_EXEC(m->db, "USE shop") != CODE_OK) abort();
}

static inline void mariadb_stop(struct mariadb *m)
{
    char command[128];
    mariadb_kill(m);
    db_destroy(&m->db);
    db_config_close(&m->config);
    db_config_close(&m->own);
    snprintf(command, sizeof command, "rm -rf '%s'", m->dir);
    if (system(command) != 0) abort();
}

/* Runs one statement; the test fails with MySQL's text when it does. */
static inline void mariadb_do(struct mariadb *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void mariadb_do(struct mariadb *m, const char *format, ...)
{
    char sql[4000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(sql, sizeof sql, format, ap);
    va_end(ap);
    if (db_exec(m->db, slice_str(sql)) == CODE_OK) return;
    fprintf(stderr, "%s\n%s\n", sql, db_text(m->db));
    abort();
}

/* The answer to a SELECT of one column: its cells as words, NULL as nil. Good until the next call. */
static inline const char *mariadb_ask(struct mariadb *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline const char *mariadb_ask(struct mariadb *m, const char *format, ...)
{
    char sql[4000];
    struct slice cell;
    size_t n = 0;
    va_list ap;
    va_start(ap, format);
    vsnprintf(sql, sizeof sql, format, ap);
    va_end(ap);
    m->text[0] = '\0';
    if (db_query(m->db, slice_str(sql)) != CODE_OK) {
        fprintf(stderr, "%s\n%s\n", sql, db_text(m->db));
        abort();
    }
    while (n < sizeof m->text && db_row(m->db, &cell, 1))
        n += (size_t)snprintf(m->text + n, sizeof m->text - n, "%s%.*s", n > 0 ? " " : "",
                              cell.p == NULL ? 3 : (int)cell.n, cell.p == NULL ? "nil" : cell.p);
    return m->text;
}

#define assert_mariadb(m, expected, ...) assert_string_equal(mariadb_ask((m), __VA_ARGS__), (expected))

/* Waits until the SELECT says so; for what another thread or session brings about. The pause, also before the
 * first time: INNODB_TRX shows what it showed before to a query again within 0.1 s. */
#define await_mariadb(m, expected, ...)                                                                      \
    do {                                                                                                     \
        uint64_t until_ms_ = mono_ms() + 20000;                                                              \
        do                                                                                                   \
            usleep(120000);                                                                                  \
        while (strcmp(mariadb_ask((m), __VA_ARGS__), (expected)) != 0 && mono_ms() < until_ms_);             \
        assert_string_equal((m)->text, (expected)); /* not asked again: it may be over by now */             \
    } while (0)

#endif
