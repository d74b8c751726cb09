/* admin/dev.c - `tallyd dev`: starts redis-server, mariadbd and tallyd under one directory, watches them, and
 * stops them in the order in which hits flow, so that nothing is lost: tallyd, mariadbd, redis-server.
 *   DIR/redis/, DIR/mysql/      data
 *   DIR/tallyd.yaml             what tallyd runs with, also for `tallyd verify -c`
 *   DIR/NAME.sock               unix sockets
 *   DIR/NAME.log                what the three say
 *   DIR/NAME.pid, DIR/dev.lock  who runs, so that the next dev finds what a killed one left
 * One thread. Signals are blocked and waited for, so a wait ends at a child's end, at Ctrl-C or at its time. */
#include "admin/dev.h"

#include "admin/child.h"
#include "admin/verbs.h"
#include "base/clock.h"
#include "mysql/database.h"
#include "mysql/schema.h"
#include "status/service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* mariadb-install-db is a shell script that quotes little; these also need no escapes in URLs. */
#define DIR_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,="
#define PORT_WANTED 7370
#define HTTP_PORT_WANTED 7371
#define FREE_MIB_LEAST 300 /* a fresh MariaDB takes about half of it */
#define START_MS 120000
#define STOP_MS 120000
#define POLL_MS 50
#define EXAMPLES_MOST 5 /* counters */
#define STORE_EXAMPLE SLICE("12345")

struct dev {
    const struct call *call;
    char dir[PATH_MAX]; /* absolute */
    char conf_path[PATH_MAX], control[PATH_MAX];
    int lock, port, http_port;
    struct conf conf;
    struct setup setup;
    struct child redis, mysql, tallyd;
    bool stop; /* told to, by Ctrl-C or a signal */
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* --- the directory --- */

enum err dev_dir_check(const char *dir, struct error *e)
{
    const size_t name = sizeof("/control.sock") - 1, n = strlen(dir);
    size_t plain = strspn(dir, DIR_BYTES);
    if (plain < n)
        return error_set(
            e, ERR_USAGE,
            "the path of the directory has a byte (the %zuth) that mariadb-install-db cannot take: choose "
            "one of letters, digits and / . _ - + @ : , = with --dir",
            plain + 1);
    if (n + name <= UNIX_PATH_BYTES_MAX) return ERR_NONE;
    return error_set(
        e, ERR_USAGE,
        "%s is %zu bytes long, but the unix sockets in it may have %d with their name: choose a directory "
        "of at most %zu bytes with --dir",
        dir, n, UNIX_PATH_BYTES_MAX, UNIX_PATH_BYTES_MAX - name);
}

static enum err dir_failed(const char *path, struct error *e)
{
    int why = errno;
    const char *next = why == EACCES || why == EPERM || why == EROFS
                           ? "choose one that you may write with --dir"
                       : why == ENOSPC || why == EDQUOT ? "free some space, or choose another with --dir"
                                                        : "choose another with --dir";
    return error_set(e, ERR_FAILED, "cannot use %s: %s; %s", path, strerror(why), next);
}

/* With those above it. *stood: how many bytes of the path were there already. */
static enum err dirs_make(const char *wanted, size_t *stood, struct error *e)
{
    char path[PATH_MAX];
    size_t n = strlen(wanted);
    bool made = false;
    *stood = n;
    errno = ENAMETOOLONG;
    if (n >= sizeof(path)) return dir_failed(wanted, e);
    *stood = 0;
    for (size_t i = 1; i <= n; i++) {
        if (wanted[i] != '/' && i < n) continue;
        snprintf(path, sizeof(path), "%.*s", (int)i, wanted);
        if (mkdir(path, 0700) == 0)
            made = true;
        else if (errno != EEXIST)
            return dir_failed(path, e);
        if (!made) *stood = i;
    }
    return ERR_NONE;
}

static void dirs_remove(const char *wanted, size_t stood)
{
    char path[PATH_MAX];
    for (size_t i = strlen(wanted); i > stood; i--) {
        if (wanted[i] != '/' && wanted[i] != '\0') continue;
        snprintf(path, sizeof(path), "%.*s", (int)i, wanted);
        rmdir(path);
    }
}

static enum err dir_open(struct dev *d, struct error *e)
{
    struct statvfs space;
    const char *wanted = d->call->dir;
    size_t stood;
    enum err code = dirs_make(wanted, &stood, e);
    if (code == ERR_NONE && realpath(wanted, d->dir) == NULL) code = dir_failed(wanted, e);
    if (code == ERR_NONE) code = dev_dir_check(d->dir, e);
    if (code != ERR_NONE) dirs_remove(wanted, stood);
    if (code != ERR_NONE) return code;
    if (access(d->dir, W_OK | X_OK) != 0) return dir_failed(d->dir, e);
    if (statvfs(d->dir, &space) != 0) return dir_failed(d->dir, e);
    unsigned long long free_mib = (unsigned long long)space.f_bavail * space.f_frsize >> 20;
    if (free_mib >= FREE_MIB_LEAST) return ERR_NONE;
    return error_set(e, ERR_FAILED,
                     "only %llu MiB are free in %s, %d are needed: free some, or choose another with --dir",
                     free_mib, d->dir, FREE_MIB_LEAST);
}

static void path_in(const struct dev *d, const char *name, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/%s", d->dir, name);
    INVARIANT(n > 0 && n < PATH_MAX); /* dir_open bounded dir */
}

static enum err lock_take(struct dev *d, struct error *e)
{
    char path[PATH_MAX], holder[24] = "?";
    path_in(d, "dev.lock", path);
    d->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock < 0) return dir_failed(path, e);
    if (flock(d->lock, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(d->lock, holder, sizeof(holder) - 1, 0);
        holder[n > 0 ? n : 0] = '\0';
        return error_set(
            e, ERR_FAILED,
            "a `tallyd dev` runs in %s already (pid %.*s): use it, stop it, or choose another with --dir",
            d->dir, (int)strcspn(holder, "\n"), holder);
    }
    int n = snprintf(holder, sizeof(holder), "%ld\n", (long)getpid());
    if (ftruncate(d->lock, 0) != 0 || pwrite(d->lock, holder, (size_t)n, 0) != n) return dir_failed(path, e);
    return ERR_NONE;
}

/* --- waiting --- */

static void signals_block(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Until a signal comes or the time is up; ms < 0: for ever. */
static void rest(struct dev *d, int64_t ms)
{
    sigset_t set;
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    int got = ms < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &time);
    if (got > 0 && got != SIGCHLD) d->stop = true;
}

static enum err ended(const struct child *c, struct error *e)
{
    char how[80];
    child_log_tail(c);
    return error_set(
        e, ERR_FAILED,
        "%s %s; above are the last lines of %s. What was answered is on disk: `tallyd dev` with the "
        "same --dir goes on from there",
        c->name, child_ending(c, how, sizeof(how)), c->log);
}

/* Until ready says so, or dev is told to stop. */
static enum err child_wait(struct dev *d, struct child *c, bool (*ready)(struct dev *d), struct error *e)
{
    uint64_t until_ms = mono_ms() + START_MS;
    while (!d->stop && !ready(d)) {
        if (child_reap(c)) return ended(c, e);
        if (mono_ms() > until_ms)
            return error_set(e, ERR_FAILED, "%s is not ready after %d s; its log is %s", c->name,
                             START_MS / 1000, c->log);
        rest(d, POLL_MS);
    }
    return ERR_NONE;
}

/* --- redis-server --- */

static bool redis_ready(struct dev *d)
{
    char path[PATH_MAX];
    path_in(d, "redis.sock", path);
    return service_answers(path);
}

static enum err redis_start(struct dev *d, struct error *e)
{
    char socket[PATH_MAX], data[PATH_MAX];
    path_in(d, "redis.sock", socket);
    path_in(d, "redis", data);
    if (mkdir(data, 0700) != 0 && errno != EEXIST) return dir_failed(data, e);
    char *argv[] = {"redis-server",
                    "--port",
                    "0",
                    "--unixsocket",
                    socket,
                    "--unixsocketperm",
                    "700",
                    "--dir",
                    data,
                    "--appendonly",
                    "yes",
                    "--appendfsync",
                    "everysec",
                    "--maxmemory-policy",
                    "noeviction",
                    "--save",
                    "",
                    "--daemonize",
                    "no",
                    "--set-proc-title",
                    "no",
                    NULL};
    say("starting redis-server");
    enum err code = child_start(&d->redis, argv, e);
    return code != ERR_NONE ? code : child_wait(d, &d->redis, redis_ready, e);
}

/* --- mariadbd --- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static bool mysql_ready(struct dev *d)
{
    struct error e;
    return database_create(&d->setup.mysql, &e) == ERR_NONE;
}

/* Into a directory of another name first: one that was interrupted is not taken for a database. */
static enum err mysql_install(struct dev *d, const char *data, struct error *e)
{
    char fresh[PATH_MAX], option[PATH_MAX + 16];
    struct child install;
    path_in(d, "mysql.new", fresh);
    snprintf(option, sizeof(option), "--datadir=%s", fresh);
    nftw(fresh, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    /* A starting mariadbd removes the temporary tables that it finds in its tmpdir; in the default one these may be a
     * living server's, which then crashes. So neither this nor the server below may share it. */
    setenv("TMPDIR", d->dir, 1);
    child_init(&install, "mariadb-install-db", "mariadb-server", d->dir, "mysql");
    char *argv[] = {"mariadb-install-db",
                    "--no-defaults",
                    option,
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--force", /* where the host's own name cannot be looked up, too */
                    geteuid() == 0 ? "--user=root" : NULL,
                    NULL};
    say("making a database, once (some seconds)");
    enum err code = child_start(&install, argv, e);
    if (code != ERR_NONE) return code;
    while (!child_reap(&install)) {
        rest(d, POLL_MS);
        if (d->stop) child_signal(&install, SIGTERM);
    }
    if (d->stop) return ERR_NONE;
    if (install.status != 0) return ended(&install, e);
    return rename(fresh, data) == 0 ? ERR_NONE : dir_failed(data, e);
}

static enum err mysql_start(struct dev *d, struct error *e)
{
    char socket[PATH_MAX], data[PATH_MAX], at[PATH_MAX + 16], on[PATH_MAX + 16], tmp[PATH_MAX + 16];
    path_in(d, "mysql.sock", socket);
    path_in(d, "mysql", data);
    snprintf(at, sizeof(at), "--datadir=%s", data);
    snprintf(on, sizeof(on), "--socket=%s", socket);
    enum err code = access(data, F_OK) == 0 ? ERR_NONE : mysql_install(d, data, e);
    if (code != ERR_NONE || d->stop) return code;
    snprintf(tmp, sizeof(tmp), "--tmpdir=%s", d->dir);
    char *argv[] = {"mariadbd",
                    "--no-defaults",
                    at,
                    tmp,
                    on,
                    "--skip-networking",
                    "--skip-log-bin",
                    "--pid-file=dev.pid",
                    "--innodb-buffer-pool-size=64M",
                    "--performance-schema=OFF",
                    geteuid() == 0 ? "--user=root" : NULL,
                    NULL};
    say("starting mariadbd");
    code = child_start(&d->mysql, argv, e);
    return code != ERR_NONE ? code : child_wait(d, &d->mysql, mysql_ready, e);
}

static enum err migrate(struct dev *d, struct error *e)
{
    uint32_t from, to, made;
    struct db *db = db_create(&d->setup.mysql);
    enum err code = db_open(db) == CODE_OK ? ERR_NONE : db_error(db, e);
    if (code == ERR_NONE) code = schema_migrate(db, false, &from, &to, e);
    if (code == ERR_NONE) code = schema_migrate_tables(db, &d->setup.counters, &made, e);
    db_destroy(&db);
    return code;
}

/* --- the configuration --- */

/* A free TCP port on 127.0.0.1: the wanted one, or any (0). 0: there is none, or it is taken. */
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

/* Of a file of one's own these are passed over: dev sets them, with the instance. */
static const char *const groups_of_dev[] = {"listen", "http", "redis", "mysql", NULL};

static enum err conf_adapt(struct dev *d, struct error *e)
{
    struct buf redis = {0}, mysql = {0}, tcp = {0}, local = {0}, control = {0},
               http = {0}; /* each terminated */
    static const char *const name = "dev";
    d->port = port_free(PORT_WANTED);
    if (d->port == 0) d->port = port_free(0);
    d->http_port = port_free(HTTP_PORT_WANTED);
    if (d->http_port == 0) d->http_port = port_free(0);
    if (d->port == 0 || d->http_port == 0)
        return error_set(e, ERR_FAILED, "no TCP port is free on 127.0.0.1: close some connections");
    path_in(d, "control.sock", d->control);
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
    path_in(d, "tallyd.yaml", d->conf_path);
    BUF_LIT(
        &text,
        "# Written by `tallyd dev` at each start; changes here are lost. Give it counters with -c FILE.\n");
    conf_write(&d->conf, &text);
    FILE *f = fopen(d->conf_path, "we");
    bool saved = f != NULL && fwrite(text.p, 1, text.n, f) == text.n;
    saved = f != NULL && fclose(f) == 0 && saved;
    buf_free(&text);
    return saved ? ERR_NONE : dir_failed(d->conf_path, e);
}

static enum err conf_make(struct dev *d, struct error *e)
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
        say("taking %s, but for listen, http, redis, mysql and instance: dev sets these itself",
            d->call->conf_path);
    if (code == ERR_NONE) code = conf_adapt(d, e);
    if (code == ERR_NONE && !setup_init(&d->setup, &d->conf, &problems))
        code = error_set(e, ERR_CONFIG, "%.*s", (int)strcspn(problems.p, "\n"), problems.p);
    buf_free(&problems);
    return code == ERR_NONE ? conf_save(d, e) : code;
}

/* --- tallyd --- */

/* On the operator's socket: on the others nobody answers to a stranger where there are users. */
static bool tallyd_ready(struct dev *d)
{
    return service_answers(d->control);
}

static enum err tallyd_start(struct dev *d, struct error *e)
{
    char *argv[] = {"/proc/self/exe", "run", "-c", d->conf_path, NULL};
    say("starting tallyd");
    enum err code = child_start(&d->tallyd, argv, e);
    return code != ERR_NONE ? code : child_wait(d, &d->tallyd, tallyd_ready, e);
}

/* --- the whole --- */

/* Servers of a dev that was killed: the kernel told them to stop, but they may still be at it. */
static enum err left_over_stop(struct dev *d, struct child *c, struct error *e)
{
    uint64_t until_ms = mono_ms() + STOP_MS;
    pid_t pid = child_left_over(c, d->dir);
    if (pid == 0) return ERR_NONE;
    say("stopping the %s that an earlier `tallyd dev` left (pid %ld)", c->name, (long)pid);
    kill(pid, SIGTERM);
    while (!d->stop && child_left_over(c, d->dir) == pid) {
        if (mono_ms() > until_ms)
            return error_set(e, ERR_FAILED,
                             "%s of an earlier `tallyd dev` does not stop: end it with kill %ld", c->name,
                             (long)pid);
        rest(d, POLL_MS);
    }
    return ERR_NONE;
}

static enum err prepare(struct dev *d, struct error *e)
{
    enum err code = dir_open(d, e);
    if (code == ERR_NONE) code = lock_take(d, e);
    if (code != ERR_NONE) return code;
    child_init(&d->redis, "redis-server", "redis-server", d->dir, "redis");
    child_init(&d->mysql, "mariadbd", "mariadb-server", d->dir, "mysql");
    child_init(&d->tallyd, "tallyd", NULL, d->dir, "tallyd");
    struct child *order[] = {&d->tallyd, &d->mysql, &d->redis};
    for (size_t i = 0; i < 3 && code == ERR_NONE; i++)
        code = left_over_stop(d, order[i], e);
    return code == ERR_NONE ? conf_make(d, e) : code;
}

static enum err start(struct dev *d, struct error *e)
{
    enum err (*const steps[])(struct dev *, struct error *) = {redis_start, mysql_start, migrate,
                                                               tallyd_start};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !d->stop; i++) {
        enum err code = steps[i](d, e);
        if (code != ERR_NONE) return code;
    }
    return ERR_NONE;
}

/* A word of a command line: in '' where a shell may take it for something else. */
static void word_put(struct slice word, struct buf *out)
{
    bool plain = true;
    for (size_t i = 0; i < word.n; i++)
        plain = plain && strchr(DIR_BYTES, word.p[i]) != NULL;
    if (!plain) buf_put_char(out, '\'');
    for (size_t i = 0; i < word.n; i++)
        word.p[i] == '\'' ? BUF_LIT(out, "'\\''") : buf_put_char(out, word.p[i]);
    if (!plain) buf_put_char(out, '\'');
}

static const char *field_example(const struct counter *c)
{
    static const char *const of[] = {[FIELD_DATE] = "20140920",
                                     [FIELD_HOUR] = "2014092013",
                                     [FIELD_INTEGER] = "42",
                                     [FIELD_TEXT] = "shoes"};
    return of[c->field];
}

/* The start of each example: with users somebody must say who he is. */
static void client_put(const struct dev *d, struct buf *out)
{
    buf_printf(out, "\n    redis-cli -p %d", d->port);
    if (d->conf.users_n > 0) buf_printf(out, " --user %s --askpass", d->conf.users[0].name);
}

static void hit_put(const struct dev *d, const struct counter *c, struct buf *out)
{
    struct buf key = {0};
    pattern_put(&c->key, STORE_EXAMPLE, &key);
    client_put(d, out);
    BUF_LIT(out, " HINCRBY ");
    word_put(buf_slice(&key), out);
    buf_printf(out, " %s 1", field_example(c));
    buf_free(&key);
}

/* What the first counter feeds that has a series, in steps of a minute where there are any. */
static void series_put(const struct dev *d, struct buf *out)
{
    const struct op_limits *ops = &d->setup.ops;
    const struct counter *c = d->setup.counters.all, *end = c + d->setup.counters.n;
    uint32_t step = ops->precisions[0];
    struct buf name = {0};
    while (c < end && !counter_feeds(c, FEED_SERIES))
        c++;
    if (c == end) return;
    for (uint32_t i = 0; i < ops->precisions_n; i++)
        if (ops->precisions[i] == 60) step = 60;
    pattern_put(&c->feeds[FEED_SERIES], STORE_EXAMPLE, &name);
    buf_printf(out, "\nA hit on " SLICE_FMT " also moves a time series; its hits in steps of %u s:",
               SLICE_ARG(c->name), step);
    client_put(d, out);
    BUF_LIT(out, " SERIES.GET ");
    word_put(buf_slice(&name), out);
    buf_printf(out, " %u", step);
    buf_free(&name);
}

static void examples_print(const struct dev *d)
{
    struct buf text = {0};
    for (size_t i = 0; i < d->setup.counters.n && i < EXAMPLES_MOST; i++)
        hit_put(d, &d->setup.counters.all[i], &text);
    series_put(d, &text);
    say("\ntallyd runs. Send it hits, with any Redis client (or with -s %s/tallyd.sock):%.*s", d->dir,
        (int)text.n, text.p);
    buf_free(&text);
}

static void print_how(const struct dev *d)
{
    const char *at = d->dir;
    uint32_t every_s = 0;
    for (size_t i = 0; i < d->setup.counters.n; i++)
        if (d->setup.counters.all[i].every_s > every_s) every_s = d->setup.counters.all[i].every_s;
    examples_print(d);
    say("The panel, for a browser on this machine:\n    http://127.0.0.1:%d/", d->http_port);
    say("See what MariaDB has of them (after %u s, or at once after CTR.SYNC ALL), and what Redis keeps till "
        "then:\n"
        "    redis-cli -s %s/control.sock CTR.SYNC ALL\n"
        "    mariadb -u root -S %s/mysql.sock tally\n"
        "    redis-cli -s %s/redis.sock",
        every_s, at, at, at);
    say("Prove that the books balance:\n"
        "    tallyd verify -c %s/tallyd.yaml\n"
        "Logs: %s/tallyd.log, redis.log, mysql.log. Ctrl-C stops all three, nothing is lost.",
        at, at);
}

/* Until dev is told to stop, or one of the three ends by itself. */
static enum err watch(struct dev *d, struct error *e)
{
    struct child *all[] = {&d->tallyd, &d->mysql, &d->redis};
    while (!d->stop) {
        for (size_t i = 0; i < 3; i++)
            if (child_reap(all[i])) return ended(all[i], e);
        rest(d, -1);
    }
    return ERR_NONE;
}

static void child_stop(struct dev *d, struct child *c)
{
    uint64_t until_ms = mono_ms() + STOP_MS;
    char how[80];
    if (!c->running || child_reap(c)) return;
    say("stopping %s", c->name);
    child_signal(c, SIGTERM);
    while (!child_reap(c)) {
        rest(d, POLL_MS);
        if (mono_ms() <= until_ms) continue;
        fprintf(stderr, "tallyd: %s does not stop; it is killed. What it answered for is on disk\n", c->name);
        child_signal(c, SIGKILL);
        until_ms = UINT64_MAX;
    }
    if (c->status != 0)
        fprintf(stderr, "tallyd: %s %s; its log is %s\n", c->name, child_ending(c, how, sizeof(how)), c->log);
}

enum err verb_dev(const struct call *call)
{
    struct dev d = {.call = call, .lock = -1};
    struct error e;
    signals_block();
    enum err code = prepare(&d, &e);
    if (code == ERR_NONE) code = start(&d, &e);
    if (code == ERR_NONE && !d.stop) {
        print_how(&d);
        code = watch(&d, &e);
    }
    if (code != ERR_NONE) call_failed(&e);
    child_stop(&d, &d.tallyd);
    child_stop(&d, &d.mysql);
    child_stop(&d, &d.redis);
    setup_close(&d.setup);
    conf_free(&d.conf);
    if (d.lock >= 0) close(d.lock);
    return code;
}
